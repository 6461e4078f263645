"""The options that `run` and `validate` share, and the lists of models, datasets, rates and seeds they stand for."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.protocol import (
    DATASETS,
    LEARNING_RATES,
    SEEDS,
    TASKS,
    TUNING,
    Tuning,
    datasets_of,
    get_dataset,
)
from common.errors import UserError, nearest
from common.old_parser import Parser

__all__ = [
    "Request",
    "add_grid_options",
    "add_run_options",
    "dataset_names",
    "grid_of",
    "model_name",
    "read_request",
    "store_of",
]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a command line asks to be measured."""

    model: str
    """Model folder or hub id."""
    name: str
    """The model's name in the store."""
    datasets: tuple[str, ...]
    """Dataset names."""
    lrs: tuple[float, ...]
    """Peak learning rates."""
    seeds: tuple[int, ...]
    """Seeds."""
    data: Path
    """Folder of the local datasets."""
    store: Path
    """The run store."""
    tuning: Tuning
    """Hyper-parameters."""

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.datasets) * len(self.lrs) * len(self.seeds)


def add_run_options(parser: Parser) -> None:
    """Add the options that say what to measure and how."""
    parser.add_argument(
        "--model", required=True, metavar="PATH_OR_ID", help="model folder, or hub id OWNER/NAME"
    )
    parser.add_argument("--revision", help="branch, tag or commit of a hub id")
    parser.add_argument("--name", help="the model's name in the store (default: the folder's name)")
    add_grid_options(parser)
    parser.add_argument(
        "--steps", type=int, help=f"optimiser steps (default {TUNING.steps}, or the dataset's one epoch)"
    )
    parser.add_argument(
        "--max-length", type=int, help=f"longest input in tokens (default {TUNING.max_length})"
    )
    parser.add_argument(
        "--pooling", default="mean", help="mean (default), first, last or late: how a text becomes a vector"
    )
    parser.add_argument("--device", default="auto", help="auto (default), cpu, cuda or cuda:1")
    parser.add_argument(
        "--precision",
        default="auto",
        help="bf16 (the paper's; default on a GPU), mixed, or fp32 (default on a CPU)",
    )
    parser.add_argument(
        "--positions", type=int, help="most token positions of a forward pass; halved when memory runs out"
    )
    parser.add_argument(
        "--exact-micro-batches",
        action="store_true",
        help="compute the 8 micro-batches of 4 one by one, as the paper's code does (slower, same gradient)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="processes; with GPUs each has one of its own and takes other cells (default 1), on a CPU they compute "
        "runs side by side (default: one a core, or OMP_NUM_THREADS, as memory allows)",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        metavar="N",
        help="threads of each run on a CPU (default 1); another number changes rounding",
    )
    parser.add_argument(
        "--trust-remote-code",
        action="store_true",
        help="run the code that comes with the model (read it first)",
    )


def add_grid_options(parser: Parser, *, data: bool = True) -> None:
    """Add the options that choose datasets, learning rates, seeds and folders."""
    parser.add_argument(
        "--dataset",
        nargs="+",
        action="extend",
        metavar="NAME",
        help="datasets or tasks (SC, TC, QA, IR); default: all twelve datasets",
    )
    parser.add_argument(
        "--lr", nargs="+", action="extend", type=float, metavar="LR", help="default: the paper's six"
    )
    parser.add_argument(
        "--seed", nargs="+", action="extend", type=int, metavar="SEED", help="default: 0 1 2 3 4"
    )
    if data:
        parser.add_argument(
            "--data", type=Path, default=Path("data"), help="folder of the datasets (default: data)"
        )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("results"),
        help="run store: runs go to OUT/results/..., or to OUT itself when it is called results (default: results)",
    )


def grid_of(options: argparse.Namespace) -> tuple[tuple[str, ...], tuple[float, ...], tuple[int, ...]]:
    """Return the datasets, learning rates and seeds that parsed options name.

    Raises:
        UserError: an unknown dataset, or a number out of range.
    """
    return dataset_names(options.dataset), _rates(options.lr), _seeds(options.seed)


def read_request(options: argparse.Namespace) -> Request:
    """Return what parsed options ask for.

    Raises:
        UserError: an unknown dataset, or a number out of range.
    """
    tuning = TUNING
    if options.steps is not None:
        tuning = replace(tuning, steps=_positive("--steps", options.steps))
    if options.max_length is not None:
        tuning = replace(tuning, max_length=_positive("--max-length", options.max_length))
    for option in ("positions", "workers", "threads"):
        if (value := getattr(options, option)) is not None:
            _positive(f"--{option}", value)
    datasets, lrs, seeds = grid_of(options)
    return Request(
        model=options.model,
        name=model_name(options.model, options.name),
        datasets=datasets,
        lrs=lrs,
        seeds=seeds,
        data=options.data,
        store=store_of(options.out),
        tuning=tuning,
    )


def store_of(out: Path) -> Path:
    """Return the store that `--out` names: the folder that holds `results/`."""
    return out.parent if out.name == "results" else out


def model_name(model: str, name: str | None) -> str:
    """Return the model's name in the store: as given, or the last part of its path or id."""
    found = name or Path(model).expanduser().resolve().name
    if not _NAME.fullmatch(found):
        raise UserError(
            f"{found!r} cannot be a model's name in the store; --name takes letters, digits, dots, dashes, underscores"
        )
    return found


def dataset_names(words: Sequence[str] | None) -> tuple[str, ...]:
    """Return dataset names for datasets and tasks as given, each once; all twelve for none."""
    found: list[str] = []
    for word in words or DATASETS:
        if word in TASKS:
            found += datasets_of(word)
        elif word in DATASETS:
            found.append(word)
        else:
            close = nearest(word, [*DATASETS, *TASKS])
            raise UserError(f"unknown dataset {word!r}{close}; known are {', '.join([*DATASETS, *TASKS])}")
    return tuple(get_dataset(name).name for name in dict.fromkeys(found))


def _rates(given: Sequence[float] | None) -> tuple[float, ...]:
    for rate in given or ():
        if not (math.isfinite(rate) and 1e-9 <= rate < 1):
            raise UserError(f"--lr {rate} is no learning rate; it must lie between 1e-9 and 1")
    return tuple(dict.fromkeys(given)) if given else LEARNING_RATES


def _seeds(given: Sequence[int] | None) -> tuple[int, ...]:
    for seed in given or ():
        if not 0 <= seed < 2**31:
            raise UserError(f"--seed {seed} is out of range; seeds are whole numbers from 0 to {2**31 - 1}")
    return tuple(dict.fromkeys(given)) if given else SEEDS


def _positive(option: str, value: int) -> int:
    if value < 1:
        raise UserError(f"{option} {value} must be at least 1")
    return value
