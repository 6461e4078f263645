"""The folders of a miniature; its commands use their names, since jobs work in the folder of all of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.datasets.schema import MANIFEST
from workflow.jobs import KINDS, Command, Job

__all__ = ["LIMITS", "Folders", "dataset_job"]

LIMITS: dict[str, Any] = {"gpu_hours": 10.0, "limit_hours": 24.0, "lost": 0}
"""Of every job: no time limit that matters, and no second try, for nodes are not lost here."""


class Folders:
    """Where a miniature keeps what."""

    def __init__(self, *, root: Path) -> None:
        """Name what is below `root`, the folder of one form on one kind of data."""
        self.root = root
        self.raw = root / "raw"
        """Samples of original files, or made-up text."""
        self.study = root / "study.toml"
        """The study file."""
        self.tokenizer = root / "tokenizer"
        self.shards = root / "shards"
        """The text as shards."""
        self.pretrained = root / "pretrained"
        """What `python -m pretraining train` writes: stages and models."""
        self.seeds = root / "pretraining-seeds"
        """For every further pretraining seed its study file and what `train` writes."""
        self.data = root / "data"
        """The datasets in the local form."""
        self.store = root / "store"
        """The run store."""
        self.analysed = root / "analysed"
        """Runs table, tables, figures, claims, report."""
        self.table = self.analysed / "runs.parquet"
        """The runs table."""


def dataset_job(
    name: str, commands: Iterable[Command], datasets: Iterable[str], folders: Folders, **more: Any
) -> Job:
    """Return a job whose commands make datasets; more fields of the job by name."""
    makes = tuple(f"{folders.data.name}/{dataset}/{MANIFEST}" for dataset in datasets)
    return Job(kind=KINDS["data"], name=name, commands=tuple(commands), makes=makes, **LIMITS, **more)
