"""The miniature's plan: its folder, and the jobs of `clm-or-mlm workflow` there, each command one of the rooms'.

Every job is a process that first imports torch, longer than some of them last; so what small models share is a job,
and what a model has for itself: its stages and export are one, its fine-tunings another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.runs import RESULTS, cell_keys
from common.errors import UserError
from common.files import write_text
from common.manifest import MANIFEST
from miniature.data import DATA, DataSource
from miniature.forms import RANDOM, Form
from pretraining.plan.study_plan import plan_of
from workflow.jobs import JOB_KINDS, Command, Job, Workflow, by_marker, marker
from workflow.study import model_files, stage_files, train_command

STUDY, TOKENIZER, SHARDS, STORE = "study.toml", "tokenizer", "shards", "store"
PRETRAINED = "pretrained"
"""What `clm-or-mlm train` writes: stages and models."""
ANALYSED = "analysed"
"""Runs table, tables, figures, claims, report."""
TABLE = f"{ANALYSED}/runs.parquet"
"""The runs table."""
INSTANCES = f"{ANALYSED}/instances"
"""The per-instance scores."""

_SHARDS_DONE, _DATASETS_DONE = marker("shards", "shards"), marker("data", "datasets")


@dataclass(frozen=True, kw_only=True)
class Miniature:
    """A form on a source's data, and the folder where its jobs work; their paths are relative to it."""

    form: Form
    source: DataSource
    root: Path

    @classmethod
    def below(cls, out: Path, form: Form, source: DataSource) -> Miniature:
        """Return the miniature in its own folder below `out`."""
        end = f"-divided-{form.divide}" if form.divide > 1 else ""
        return cls(form=form, source=source, root=out.resolve() / f"{form.name}-{source.folder}{end}")

    def jobs(self) -> list[Job]:
        """Return every job up to the last fine-tuning, in an order that respects what each needs.

        The study file and made-up text are written first.

        Raises:
            UserError: the folder is another version's.
        """
        path, content = self.root / STUDY, self.form.study_text
        if not path.is_file():
            write_text(path, content)
        elif path.read_text("utf-8") != content:
            raise UserError(
                f"{path} differs from this version's study file; choose another --out or delete the folder"
            )
        tuning = (_tuning(self.form, name) for name in self.form.tuned)
        return [*self._data(), *self._pretraining(), *tuning]

    def analysis_job(self, needs: Sequence[str], *, report: bool) -> Job:
        """Return the job from the run store to the runs table, and on to tables, figures, claims and report."""
        # The store's whole path, since the pages name their source.
        source = ("--source", str(self.root / STORE))
        commands: list[Command] = [("ingest", source[1], "--out", TABLE, "--instances", INSTANCES)]
        if report:
            logs = f"{PRETRAINED}/models"
            commands.append(("reproduce", *source, "--logs", logs, "--out", ANALYSED))
        name = "report" if report else "runs"
        return _job("analysis", name, commands, (TABLE,), needs)

    def _data(self) -> Iterator[Job]:
        """Yield the jobs that make the tokenizer, the shards and the datasets."""
        form = self.form
        text = self.source.text(form, self.root)
        vocab = self.source.vocab(next(iter(form.study.shapes.values())).vocab)
        make_tokenizer: Command = (
            "tokenizer", "--train", text, "--vocab", str(vocab),
            "--documents", str(form.tokenizer_documents), "--out", TOKENIZER,
        )  # fmt: skip
        tokenizer = _job("data", "tokenizer", [make_tokenizer], (f"{TOKENIZER}/tokenizer.json",))
        make_shards: Command = (
            "shards", "--source", text, "--tokenizer", TOKENIZER, "--tokens", str(form.tokens),
            *form.shard_options, "--out", SHARDS,
        )  # fmt: skip
        yield tokenizer
        yield _job("shards", "shards", [make_shards], (f"{SHARDS}/{MANIFEST}",), (tokenizer.marker,))
        makes = tuple(f"{DATA}/{name}/{MANIFEST}" for name in form.datasets)
        yield _job("data", "datasets", self.source.commands(form), makes)

    def _pretraining(self) -> Iterator[Job]:
        """Yield the untrained model's job, one for each stage that several models share, and one for each model."""
        out = f"{PRETRAINED}/models/{RANDOM}"
        words = ("miniature", "random", "--study", STUDY, "--data", SHARDS, "--out", out)
        yield _job("model", RANDOM, [words], (f"{out}/manifest.json",), (_SHARDS_DONE,))
        models = self.form.models
        uses = Counter(stage.name for model in models.values() for stage in model.stages)
        for stage in plan_of(tuple(models.values()), self.form.study).stages:
            if uses[stage.name] > 1 and stage.name not in models:
                files = stage_files(PRETRAINED, stage.name, stage.keep)
                yield _training(
                    "stage", stage.name, files, [marker("stage", stage.parent)] if stage.parent else []
                )
        for model in sorted(models.values(), key=lambda item: len(item.stages)):  # parents first
            shared = [item.name for item in model.stages if uses[item.name] > 1 and item.name != model.name]
            parents = [marker("model" if name in models else "stage", name) for name in shared]
            yield _training("model", model.name, model_files(PRETRAINED, model.name), parents)


def workflow_for(jobs: Sequence[Job]) -> Workflow:
    """Return the jobs as a workflow, each on one thread so that numbers never depend on it."""
    return Workflow(target="miniature", jobs=by_marker(jobs), environ={"MKL_NUM_THREADS": "1"})


def _training(kind: str, name: str, makes: tuple[str, ...], parents: Sequence[str]) -> Job:
    """Return the job that trains a stage, or a model with its own stages, once its parents are there."""
    words = train_command(JOB_KINDS[kind], name, "--study", STUDY, "--out", PRETRAINED)
    checkpoints = f"{PRETRAINED}/stages/{name}/step-*/state.json"
    return _job(kind, name, [words], makes, (_SHARDS_DONE, *parents), checkpoints=checkpoints)


def _tuning(form: Form, model: str) -> Job:
    """Return the job of all fine-tunings of a model: every dataset, learning rate and seed of the form."""
    keys = [key for name in form.families.values() for key in cell_keys(model, name, form.rates, form.seeds)]
    words = (
        "benchmarks", "run", "--model", f"{PRETRAINED}/models/{model}", "--name", model,
        "--dataset", *form.families.values(), "--lr", *map(str, form.rates), "--seed", *map(str, form.seeds),
        "--steps", str(form.tuning_steps), "--max-length", str(form.tuning_length),
        "--data", DATA, "--out", STORE,
    )  # fmt: skip
    makes = tuple(f"{STORE}/results/{key.folder}/{RESULTS}" for key in keys)
    return _job("cell", model, [words], makes, (marker("model", model), _DATASETS_DONE))


def _job(
    kind: str,
    name: str,
    commands: Sequence[Command],
    makes: tuple[str, ...],
    needs: Sequence[str] = (),
    **more: Any,
) -> Job:
    """Return a job with no time limit that matters."""
    return Job(
        kind=JOB_KINDS[kind], name=name, commands=tuple(commands), makes=makes, needs=tuple(needs), gpu_hours=10.0,
        limit_hours=24.0, **more,
    )  # fmt: skip
