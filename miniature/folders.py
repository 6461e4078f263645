"""The folders of a miniature; its commands use their names, since jobs work in the folder of all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.datasets.schema import MANIFEST
from workflow.jobs import Command, Job
from workflow.kinds import KINDS

__all__ = ["LIMITS", "Folders", "dataset_job"]

LIMITS: dict[str, Any] = {"gpu_hours": 10.0, "limit_hours": 24.0, "lost": 0}
"""Of every job: no time limit that matters, and no second try, for nodes are not lost here."""


@dataclass(frozen=True, kw_only=True)
class Folders:
    """Where a miniature keeps what."""

    root: Path
    """The folder of one form on one kind of data."""

    @property
    def raw(self) -> Path:
        """Samples of original files, or made-up text."""
        return self.root / "raw"

    @property
    def study(self) -> Path:
        """The study file."""
        return self.root / "study.toml"

    @property
    def tokenizer(self) -> Path:
        """The tokenizer."""
        return self.root / "tokenizer"

    @property
    def shards(self) -> Path:
        """The text as shards."""
        return self.root / "shards"

    @property
    def pretrained(self) -> Path:
        """What `python -m pretraining train` writes: stages and models."""
        return self.root / "pretrained"

    @property
    def data(self) -> Path:
        """The datasets in the local form."""
        return self.root / "data"

    @property
    def store(self) -> Path:
        """The run store."""
        return self.root / "store"

    @property
    def table(self) -> Path:
        """The runs table."""
        return self.analysed / "runs.parquet"

    @property
    def analysed(self) -> Path:
        """Runs table, tables, figures, claims, report."""
        return self.root / "analysed"


def dataset_job(
    name: str, commands: Iterable[Command], datasets: Iterable[str], folders: Folders, **more: Any
) -> Job:
    """Return a job whose commands make datasets; more fields of the job by name."""
    makes = tuple(f"{folders.data.name}/{dataset}/{MANIFEST}" for dataset in datasets)
    return Job(kind=KINDS["data"], name=name, commands=tuple(commands), makes=makes, **LIMITS, **more)
