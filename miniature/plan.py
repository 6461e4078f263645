"""The miniature's jobs: commands of the rooms, each with the jobs it waits for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from common.files import write_text
from miniature.data import Command, dataset_commands, text_sources
from miniature.recipe import FAMILIES, RANDOM, Form

__all__ = ["Folders", "Job", "jobs", "prepare"]

MADE_UP_VOCAB = 512
"""Ids of the made-up text's tokenizer: its few words give no more. The networks' further rows stay unused."""


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
        """What `python -m pretraining train` writes: trajectories and models."""
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


def prepare(form: Form, data: Path | None, folders: Folders) -> tuple[list[str], list[Command]]:
    """Write the study file and the samples; return the text's files and the commands that make the datasets."""
    text = form.study_toml()
    if not folders.study.is_file() or folders.study.read_text("utf-8") != text:
        write_text(folders.study, text)
    return text_sources(form, data, folders.raw), dataset_commands(form, data, folders.raw, folders.data)


def jobs(form: Form, data: Path | None, folders: Folders) -> list[Job]:
    """Return every job up to the last fine-tuning, in an order that respects what each needs."""
    text, datasets = prepare(form, data, folders)
    vocab = next(iter(form.shapes.values())).vocab
    if data is None:
        vocab = min(vocab, MADE_UP_VOCAB)
    found = [
        Job(
            name="tokenizer",
            command=(
                "pretraining", "tokenizer", "--train", *text, "--vocab", str(vocab),
                "--documents", str(form.tokenizer_documents), "--out", str(folders.tokenizer),
            ),
            done=(folders.tokenizer / "tokenizer.json").is_file,
        ),
        Job(
            name="shards",
            command=(
                "pretraining", "shards", "--source", *text, "--tokenizer", str(folders.tokenizer),
                "--tokens", str(form.tokens), "--validation-share", "0.05", "--validation-tokens", "100000",
                "--shard-records", "64", "--workers", "1", "--out", str(folders.shards),
            ),
            needs=("tokenizer",),
        ),
    ]  # fmt: skip
    found += [Job(name=f"dataset {command[2]}", command=command) for command in datasets]
    study = ("--study", str(folders.study), "--data", str(folders.shards), "--out", str(folders.pretrained))
    folder = folders.pretrained / "models" / RANDOM
    found.append(
        Job(
            name=f"draw {RANDOM}",
            command=("miniature", "random", *study[:4], "--out", str(folder)),
            needs=("shards",),
            done=(folder / "manifest.json").is_file,
        )
    )
    for trajectory, parent in _trajectories(form):
        found.append(
            Job(
                name=f"train {trajectory}",
                command=("pretraining", "train", trajectory, *study),
                needs=("shards",) if parent is None else (f"train {parent}",),
            )
        )
    for name, model in form.models.items():
        found.append(
            Job(
                name=f"export {name}",
                command=("pretraining", "train", name, *study),
                needs=tuple(f"train {segment.trajectory}" for segment in model.segments),
                done=(folders.pretrained / "models" / name / "manifest.json").is_file,
            )
        )
    made = tuple(job.name for job in found if job.name.startswith("dataset"))
    for name in form.tuned:
        for dataset in FAMILIES.values():
            ready = f"draw {name}" if name == RANDOM else f"export {name}"
            found.append(
                Job(
                    name=f"tune {name} {dataset}",
                    command=_tuning(form, folders, name, dataset),
                    needs=(ready, *made),
                )
            )
    return found


def _trajectories(form: Form) -> list[tuple[str, str | None]]:
    """Return the trajectories that more than one model uses, or that are not a model's last, with their parents."""
    parents: dict[str, str | None] = {}
    for model in form.models.values():
        for segment in model.segments:
            parents.setdefault(segment.trajectory, segment.parent)
    return list(parents.items())


def _tuning(form: Form, folders: Folders, model: str, dataset: str) -> Command:
    return (
        "benchmarks", "run", "--model", str(folders.pretrained / "models" / model), "--name", model,
        "--dataset", dataset, "--lr", *map(str, form.rates), "--seed", *map(str, form.seeds),
        "--steps", str(form.tuning_steps), "--max-length", str(form.tuning_length),
        "--data", str(folders.data), "--out", str(folders.store),
    )  # fmt: skip
