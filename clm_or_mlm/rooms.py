"""Every command of the package: the room it belongs to, its function, a line of help."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cyclopts import App

from clm_or_mlm.examples import epilogue
from clm_or_mlm.version import version_line
from common.cli import call, command_name, program
from common.errors import UserError
from common.registry import Registry

__all__ = ["ROOMS", "Room", "main_of"]


@dataclass(frozen=True, kw_only=True)
class Room:
    """A room that `python -m NAME` runs; its functions are named as `module:function` in `clm_or_mlm.commands`."""

    name: str
    """Its folder."""
    description: str
    """A sentence above its commands."""
    commands: Mapping[str, str] = field(default_factory=dict)
    """For each function, imported when its command is called, a line of help; the command has the function's name."""
    default: str = ""
    """The function of a room that needs no command."""
    examples: str = ""
    """Shown in its help as they are."""
    prepare: str = ""
    """The function that changes the words first, for a command that passes words on to another program."""

    def program(self, prefix: str = "python -m") -> App:
        """Return the room's command line; `prefix` and the room's name are how it is started."""
        commands = {f"clm_or_mlm.commands.{path}": line for path, line in self.commands.items()}
        below = {path: epilogue(f"{self.name} {command_name(path)}", prefix) or None for path in commands}
        default = _function(self.default) if self.default else None
        return program(
            f"{prefix} {self.name}",
            self.description,
            commands,
            examples=self.examples,
            default=default,
            epilogues=below,
        )


def _function(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(f"clm_or_mlm.commands.{module}"), name)


ROOMS: Registry[Room] = Registry(
    "room",
    [
        Room(
            name="pretraining",
            description="Pretrain the study's models.",
            commands={
                "pretraining:plan": "what has to be trained for the study, a figure or a model",
                "pretraining:settings": "every setting of `train`, its value and its meaning",
                "pretraining:shards": "write documents as training shards, or check shards: shards verify DIR",
                "pretraining:tokenizer": "write a Hugging Face tokenizer folder: converted, or trained",
                "pretraining:train": "pretrain a model of the study, or one stage of the plan",
                "pretraining:export": "write a checkpoint as a Hugging Face folder",
            },
            examples="""\
examples:
  python -m pretraining plan --figure 3
  python -m pretraining settings --set global_batch=96
  python -m pretraining shards --source documents/ --tokenizer tokenizer/ --out data/
  python -m pretraining train 610m-clm-10k-mlm40-42k --data data/ --out build/pretraining
""",
        ),
        Room(
            name="benchmarks",
            description="Measure encoders on the paper's twelve datasets.",
            commands={
                "benchmarks.datasets:fetch": "download datasets from their hubs into data/ (needs network)",
                "benchmarks.datasets:import_": "make a dataset from original distribution files (no network)",
                "benchmarks.datasets:synthetic": "write small made-up datasets for smoke tests",
                "benchmarks.datasets:datasets": "list, show or verify the datasets in data/",
                "benchmarks.runs:run": "fine-tune and evaluate a model; resumes where it stopped",
                "benchmarks.runs:status": "what is done, missing or failed, and the time left",
                "benchmarks.runs:validate": "check model, data and settings; estimate time and memory",
            },
        ),
        Room(
            name="analysis",
            description="From runs, or from the paper's printed cells, to tables, claims, the audit and the report.",
            commands={
                "analysis.store:ingest": "read a run store into a runs table",
                "analysis.store:fetch_released": "bring the authors' result files into the cache",
                "analysis.tables:scores": "mean and interval of every model and dataset",
                "analysis.tables:table": "one of the paper's Tables 1 to 17, or all",
                "analysis.tables:audit": "every published cell against its runs, and the paper's own arithmetic",
                "analysis.store:provenance": "whether a table's runs were made with the same things",
                "analysis.claims:claims": "which findings of the paper survive a test",
                "analysis.comparisons:compare": "two models or more: differences, intervals, P(A > B), a ranking",
                "analysis.comparisons:best": "how likely each split, ratio, objective or model is the best",
                "analysis.sensitivity:sensitivity": "what would overturn each verdict",
                "analysis.precision:coverage": "true coverage of each nominal 95 % interval, by simulation",
                "analysis.precision:power": "how many seeds a difference needs, by dataset",
                "analysis.tables:report": "one self-contained page of everything",
                "analysis.tables:reproduce": "all that a source allows: scores, tables, audit, claims, figures",
                "caches:clean": "remove cached shards, stores and releases, and say what that freed",
            },
            examples="""\
examples:
  python -m analysis table 10
  python -m analysis claims --id F8 --explain
  python -m analysis audit --source released
  python -m analysis audit --letter --format html --out letter.html
  python -m analysis compare 610m-mlm40-42k 610m-clm-42k
  python -m analysis best split
  python -m analysis sensitivity
  python -m analysis compare my-model '610m-*-42k' --source results/ --add-model my-model
  python -m analysis reproduce --source results/ --out build""",
        ),
        Room(
            name="paper_figures",
            description="The paper's figures as PDF, PNG and SVG, each with its numbers and its alt text.",
            default="paper_figures:draw",
        ),
        Room(
            name="container",
            description="Build, run and check the Apptainer images; check a site.",
            commands={
                "container:build": "build an image into build/",
                "container:run": "run a room in an image",
                "container:test": "run an image's own test: imports, a figure, training",
                "container:verify": "compare an image with its record, the locks and the commit",
                "container:doctor": "find wrong site settings before a job is submitted",
            },
            prepare="container:pass_on",
        ),
        Room(
            name="workflow",
            description="Run a study: shards, pretraining, cells, tables and figures, each job once.",
            commands={
                "workflow:status": "how far a study is, also while it runs",
                "workflow:detach": "run a study so that it survives logout",
                "workflow:cancel": "end a study's jobs on Slurm",
                "workflow:archive": "make a finished study an RO-Crate",
            },
            default="workflow:study",
            prepare="workflow:pass_on",
        ),
        Room(
            name="miniature",
            description="The whole study at toy scale, from text to claims; the same call resumes a killed one.",
            commands={
                "miniature:run": "make it, or resume it",
                "miniature:show": "analyse what has been made so far",
                "miniature:random": "write the middle size with its initial weights, untrained",
                "miniature:sample": "take as many rows of a dataset as a form needs",
            },
        ),
    ],
)
"""All rooms with commands."""


def main_of(name: str, prefix: str = "python -m") -> Callable[[Sequence[str]], int]:
    """Return a room's `main`: words -> exit code; `UserError` for what the user has to correct."""
    room = ROOMS[name]

    def main(argv: Sequence[str]) -> int:
        if list(argv) == ["--version"]:
            sys.stdout.write(f"{version_line()}\n")
            return 0
        try:
            return call(room.program(prefix), _function(room.prepare)(argv) if room.prepare else argv)
        except ModuleNotFoundError as error:
            raise UserError(_missing(error)) from error

    return main


def _missing(error: ModuleNotFoundError) -> str:
    """Return how to install what a command lacks; raise what is no package of others."""
    package = (error.name or "").partition(".")[0]
    if not package or package in {*ROOMS, "clm_or_mlm", "common"}:
        raise error
    return (
        f"this command needs {package}, which is not installed in {sys.prefix}; in the repository use "
        "`make full-env` and .venv/full/bin/python, elsewhere install the package with its extra `full` "
        "(docs/install.md)"
    )
