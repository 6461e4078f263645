"""The miniature's plan: the jobs of `python -m workflow`, each command one of the rooms'.

Every job is a process that first imports torch, longer than some of them last; so what small models share is a job,
and what a model has for itself: its stages and export are one, its fine-tunings another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from benchmarks.runs import RESULTS, cell_keys
from common.errors import UserError
from common.files import write_text
from miniature.data_source import DataSource
from miniature.folders import LIMITS, Folders
from miniature.forms import FAMILIES, RANDOM, Form
from pretraining.data.manifest import MANIFEST
from pretraining.plan.plan import plan_of
from pretraining.plan.study_file import load_study
from workflow.jobs import KINDS, Job, Workflow, by_marker, marker
from workflow.study import model_files, stage_files, train_command

__all__ = ["analysis_job", "plan", "workflow_for"]

_SHARDS = marker("shards", "shards")


def plan(form: Form, source: DataSource, folders: Folders) -> list[Job]:
    """Return every job up to the last fine-tuning, in an order that respects what each needs.

    The study file, samples of original files and made-up text are written first.

    Raises:
        UserError: a file of the data source is missing, or the folder is another miniature's.
    """
    study_file = form.study_toml()
    if not folders.study.is_file():
        write_text(folders.study, study_file)
    elif folders.study.read_text("utf-8") != study_file:
        raise UserError(
            f"{folders.study} is of another version of the form; choose another --out, or remove it all"
        )
    datasets = source.datasets(form, folders)
    needs = tuple(job.marker for job in datasets)
    jobs = [*_text(form, source, folders), *datasets, _untrained(folders), *_pretraining(form, folders)]
    jobs += _pretrained_again(form, folders)
    return [*jobs, *(_tuning(form, folders, name, needs) for name in form.tuned)]


def workflow_for(jobs: Sequence[Job]) -> Workflow:
    """Return the jobs as a workflow, each on one thread so that numbers never depend on it."""
    return Workflow(target="miniature", jobs=by_marker(jobs), environ={"MKL_NUM_THREADS": "1"})


def _text(form: Form, source: DataSource, folders: Folders) -> list[Job]:
    text = source.text(form, folders)
    vocab = next(iter(form.shapes.values())).vocab
    vocab = min(vocab, source.max_vocab or vocab)
    tokenizer = Job(
        kind=KINDS["data"],
        name="tokenizer",
        commands=((
            "pretraining", "tokenizer", "--train", *text, "--vocab", str(vocab),
            "--documents", str(form.tokenizer_documents), "--out", folders.tokenizer.name,
        ),),
        makes=(f"{folders.tokenizer.name}/tokenizer.json",),
        network=source.needs_network,
        **LIMITS,
    )  # fmt: skip
    shards = Job(
        kind=KINDS["shards"],
        name="shards",
        commands=((
            "pretraining", "shards", "--source", *text, "--tokenizer", folders.tokenizer.name,
            "--tokens", str(form.tokens), "--validation-share", "0.05", "--validation-tokens", "100000",
            "--shard-records", "64", "--workers", "1", "--out", folders.shards.name,
        ),),
        makes=(f"{folders.shards.name}/{MANIFEST}",),
        needs=(tokenizer.marker,),
        network=source.needs_network,
        **LIMITS,
    )  # fmt: skip
    return [tokenizer, shards]


def _untrained(folders: Folders) -> Job:
    model = f"{folders.pretrained.name}/models/{RANDOM}"
    words = ("--study", folders.study.name, "--data", folders.shards.name, "--out", model)
    return Job(
        kind=KINDS["model"],
        name=RANDOM,
        commands=(("miniature", "random", *words),),
        makes=(f"{model}/manifest.json",),
        needs=(_SHARDS,),
        **LIMITS,
    )


def _pretraining(form: Form, folders: Folders) -> list[Job]:
    """Return a job for each stage that several models share, and one for each model with what is its own."""
    study = load_study(folders.study)
    uses = Counter(stage.name for model in form.models.values() for stage in model.stages)
    out = folders.pretrained.name

    def training(kind: str, name: str, makes: tuple[str, ...], parents: Iterable[str]) -> Job:
        trained = (marker("model" if stage in form.models else "stage", stage) for stage in parents)
        return Job(
            kind=KINDS[kind],
            name=name,
            commands=(train_command(KINDS[kind], name, "--study", folders.study.name, "--out", out),),
            makes=makes,
            needs=(_SHARDS, *trained),
            checkpoints=f"{out}/stages/{name}/step-*/state.json",
            **LIMITS,
        )

    jobs = []
    for stage in plan_of(tuple(form.models.values()), study).stages:
        if uses[stage.name] > 1 and stage.name not in form.models:
            files = stage_files(out, stage.name, stage.keep)
            jobs.append(training("stage", stage.name, files, filter(None, [stage.parent])))
    for model in sorted(form.models.values(), key=lambda model: len(model.stages)):  # parents first
        shared = [stage.name for stage in model.stages if uses[stage.name] > 1 and stage.name != model.name]
        jobs.append(training("model", model.name, model_files(out, model.name), shared))
    return jobs


def _pretrained_again(form: Form, folders: Folders) -> list[Job]:
    """Return a job for each model and further pretraining seed; its study file differs in the seed alone."""
    jobs = []
    for copy, (name, seed) in form.copies.items():
        study = folders.seeds / f"study-{seed}.toml"
        if not study.is_file():
            write_text(study, form.study_toml(seed))
        out = f"{folders.seeds.name}/{seed}"
        kind = KINDS["model"]
        words = (
            "pretraining", "train", name, "--data", folders.shards.name,
            "--study", f"{folders.seeds.name}/{study.name}", "--out", out,
            "--stop-file", Job(kind=kind, name=copy).stop,
        )  # fmt: skip
        jobs.append(
            Job(
                kind=kind, name=copy, commands=(words,), makes=model_files(out, name), needs=(_SHARDS,),
                checkpoints=f"{out}/stages/{name}/step-*/state.json", **LIMITS,
            )
        )  # fmt: skip
    return jobs


def _exported(form: Form, folders: Folders, model: str) -> str:
    """Return the folder of a model's export."""
    name, seed = form.copies.get(model, (model, None))
    out = folders.pretrained.name if seed is None else f"{folders.seeds.name}/{seed}"
    return f"{out}/models/{name}"


def _tuning(form: Form, folders: Folders, model: str, datasets: tuple[str, ...]) -> Job:
    keys = [key for name in FAMILIES.values() for key in cell_keys(model, name, form.rates, form.seeds)]
    return Job(
        kind=KINDS["cell"],
        name=model,
        commands=((
            "benchmarks", "run", "--model", _exported(form, folders, model), "--name", model,
            "--dataset", *FAMILIES.values(), "--lr", *map(str, form.rates), "--seed", *map(str, form.seeds),
            "--steps", str(form.tuning_steps), "--max-length", str(form.tuning_length),
            "--data", folders.data.name, "--out", folders.store.name,
        ),),
        makes=tuple(f"{folders.store.name}/results/{key.folder}/{RESULTS}" for key in keys),
        needs=(marker("model", model), *datasets),
        **LIMITS,
    )  # fmt: skip


def analysis_job(form: Form, folders: Folders, needs: Sequence[str], *, report: bool) -> Job:
    """Return the job from the run store to the runs table, and on to tables, figures, claims and report."""
    added = [word for name in (*form.models, RANDOM, *form.copies) for word in ("--add-model", name)]
    # The store's whole path, since the pages name their source.
    out, store = folders.analysed.name, str(folders.store)
    commands = [("analysis", "ingest", store, "--out", f"{out}/{folders.table.name}", *added)]
    if report:
        page = f"{out}/report/index.html"
        logs = f"{folders.pretrained.name}/models"
        commands.append(("analysis", "reproduce", "--source", store, "--logs", logs, "--out", out))
        commands.append(
            ("analysis", "report", "--source", store, "--figures", f"{out}/figures", "--out", page)
        )
    return Job(
        kind=KINDS["analysis"],
        name="report" if report else "runs",
        commands=tuple(commands),
        makes=(f"{out}/{folders.table.name}",),
        needs=tuple(needs),
        **LIMITS,
    )
