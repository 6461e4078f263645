"""Options that the commands of `python -m benchmarks` share: the grid, and how it is computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from benchmarks.protocol import FINE_TUNING
from benchmarks.sweep.request import Request, dataset_names, learning_rates, model_name, seeds_of, store_of
from common.cli import MANY, shared_options
from common.errors import UserError

__all__ = ["DATA", "GridOptions", "RunOptions"]

_RUNS = "the runs"

DATA = Path("data")
"""Folder of the datasets where none is named."""


@shared_options(_RUNS)
@dataclass(frozen=True, kw_only=True)
class GridOptions:
    """Which runs of a store."""

    dataset: Annotated[tuple[str, ...], MANY, Parameter(metavar="NAME")] = ()
    """datasets or tasks (SC, TC, QA, IR); default: all twelve datasets"""
    lr: Annotated[tuple[float, ...], MANY] = ()
    """default: the paper's six"""
    seed: Annotated[tuple[int, ...], MANY] = ()
    """default: 0 1 2 3 4"""
    out: Path = Path("results")
    """run store: runs go to OUT/results/..., or to OUT itself when it is called results"""

    def grid(self) -> tuple[tuple[str, ...], tuple[float, ...], tuple[int, ...]]:
        """Return the datasets, learning rates and seeds."""
        return dataset_names(self.dataset), learning_rates(self.lr), seeds_of(self.seed)


@shared_options(_RUNS)
@dataclass(frozen=True, kw_only=True)
class RunOptions(GridOptions):
    """Which runs of which model, and how they are computed."""

    model: Annotated[str, Parameter(metavar="PATH_OR_ID")]
    """model folder, or hub id OWNER/NAME"""
    revision: str | None = None
    """branch, tag or commit of a hub id"""
    name: str | None = None
    """the model's name in the store (default: the folder's name)"""
    data: Path = DATA
    """folder of the datasets"""
    steps: int | None = None
    """optimiser steps (default 1000, or the dataset's one epoch)"""
    max_length: int | None = None
    """longest input in tokens (default 2028)"""
    pooling: str = "mean"
    """how a text becomes a vector: mean, first, last or late"""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1"""
    precision: str = "auto"
    """bf16 (the paper's; default on a GPU), mixed, or fp32 (default on a CPU)"""
    positions: int | None = None
    """most token positions of a forward pass; halved when memory runs out"""
    exact_micro_batches: bool = False
    """compute the 8 micro-batches of 4 one by one, as the paper's code does (slower, same gradient)"""
    workers: int | None = None
    """processes: with GPUs one each (default 1), else side by side (default: cores or OMP_NUM_THREADS, by memory)"""
    threads: int = 1
    """threads of each run on a CPU; another number changes rounding"""
    trust_remote_code: bool = False
    """run the code that comes with the model (read it first)"""

    def request(self, *, retry_failed: bool = False) -> Request:
        """Return what these options ask for.

        Raises:
            UserError: an unknown dataset, or a number out of range.
        """
        datasets, lrs, seeds = self.grid()
        given = {"steps": self.steps, "max_length": self.max_length}
        changed: dict[str, Any] = {option: value for option, value in given.items() if value is not None}
        for option, value in changed.items():
            if value < 1:
                raise UserError(f"--{option.replace('_', '-')} {value} must be at least 1")
        return Request(
            model=self.model,
            revision=self.revision,
            trust_remote_code=self.trust_remote_code,
            name=model_name(self.model, self.name),
            datasets=datasets,
            lrs=lrs,
            seeds=seeds,
            data=self.data,
            store=store_of(self.out),
            fine_tuning=replace(FINE_TUNING, **changed),
            pooling=self.pooling,
            device=self.device,
            precision=self.precision,
            positions=self.positions,
            exact_micro_batches=self.exact_micro_batches,
            workers=self.workers,
            threads=self.threads,
            retry_failed=retry_failed,
        )
