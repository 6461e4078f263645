"""What a miniature is done by and kept in: commands of the rooms that wait for each other, and folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Command", "Folders", "Job"]

Command = tuple[str, ...]
"""A room and the words after it: `("benchmarks", "run", "--model", ...)`."""


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
    def timings(self) -> Path:
        """CPU seconds of every command called, a JSON line each."""
        return self.root / "timings.jsonl"

    @property
    def analysed(self) -> Path:
        """Runs table, tables, figures, claims, report."""
        return self.root / "analysed"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One command."""

    name: str
    """Unique."""
    command: Command
    """Room and words."""
    needs: tuple[str, ...] = ()
    """Names of the jobs that must have ended."""
    done: Callable[[], bool] = lambda: False
    """Whether there is nothing left to do, for commands that would do it again."""
