"""The jobs of a study: shards, trunks and stages, models, cells, tables; with their commands and what each takes.

Everything comes from `pretraining.plan.study_plan` and `benchmarks.protocol`; nothing is listed here a second time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.costs import runs_at_a_time, tuning_hours
from benchmarks.protocol import DATASETS, format_lr
from benchmarks.runs import RESULTS, RunKey
from common.errors import UserError, nearest
from common.files import write_text
from common.settings import assignments, read_settings
from pretraining.models import FIGURE_MODELS, MODELS, TABLES, Model
from pretraining.plan.config import TrainingConfig
from pretraining.plan.devices import DEVICES
from pretraining.plan.study_plan import Plan, PlannedStage, Study, load_study, plan_of
from workflow.jobs import (
    JOB_KINDS,
    Command,
    Job,
    JobKind,
    Workflow,
    by_marker,
    marker,
    queue_name,
)
from workflow.study_settings import StudySettings

_ROW_BYTES = 200_000
_SHARD_BYTES = 33.5e6
"""What a shard of 4,096 records is."""
_CHECKPOINT_FILES = 12
"""Files of a checkpoint, or of an exported model with its log, on the high side."""
_TOKENS_PER_CORE_HOUR = 1.5e9
"""Tokens that one core of the shard writer turns out in an hour, on the low side."""


def models_of(target: str, study: Study) -> tuple[Model, ...]:
    """Return the models of `figureN`, `tableN`, `all` or a model's name.

    Raises:
        UserError: none of these; the nearest is named.
    """
    if target == "all":
        if not study.models:
            raise UserError(
                f"the study {study.name!r} lists no models; add `models = [...]` to its file"
            )
        return tuple(study.models.values())
    paper = {f"figure{number}": names for number, names in FIGURE_MODELS.items()}
    paper |= {f"table{number}": names for number, names in TABLES.items()}
    if target in paper:
        if not paper[target]:
            raise UserError(
                f"{target} shows no models; choose another figure or table of the paper"
            )
        if study.models is not MODELS:
            raise UserError(
                f"{target} is the paper's, but the study is {study.name!r}; use `all` or a model"
            )
        return tuple(study.model(name) for name in paper[target])
    try:
        return (study.model(target),)
    except UserError:
        near = nearest(target, (*paper, "all", *study.models))
        raise UserError(
            f"unknown target {target!r}; targets are figure1 to figure{max(FIGURE_MODELS)}, "
            f"table2 to table{max(TABLES)}, all and names of models{near}"
        ) from None


def study_of(settings: StudySettings) -> Study:
    """Return the study that the settings name, trained as they say; `UserError` for a setting that is none."""
    study = load_study(Path(settings.study) if settings.study else None)
    changes = assignments(settings.pretraining_settings)
    config = read_settings(
        TrainingConfig, changes, "pretraining_settings", base=study.config, typed=False
    )
    return replace(study, config=config)


def place_stand_ins(settings: StudySettings, folder: Path, target: str) -> None:
    """Copy the `stand_ins.json` beside the study's file to where the runs table will be, where tables look for it."""
    # Its module's home, analysis, brings pandas, which a login node need not have.
    name = "stand_ins.json"
    beside = Path(settings.study).parent / name
    if settings.study and beside.is_file():
        write_text(folder / "analysis" / target / name, beside.read_text("utf-8"))


def cell_runs(name: str, settings: StudySettings) -> list[RunKey]:
    """Return the runs of a cell's job, `model/dataset`: those of every dataset that shares its fine-tunings.

    Those of the job `model` are all of the model's.
    """
    model, _, trained_on = name.partition("/")
    return [
        RunKey(model=model, dataset=dataset, lr=lr, seed=seed)
        for dataset in settings.datasets
        if trained_on in ("", DATASETS[dataset].trained_on)
        for lr in settings.learning_rates
        for seed in settings.seeds
    ]


def workflow_of(target: str, settings: StudySettings, image: str = "") -> Workflow:
    """Return every job of a target.

    Args:
        target: as `models_of` takes it.
        settings: of the study.
        image: the image that jobs run in.

    Raises:
        UserError: an unknown target or a study that cannot be read.
    """
    study = study_of(settings)
    models = models_of(target, study)
    # Ends of shared trunks are the whole study's, since `train TRUNK` trains as far as any model needs it.
    plan = plan_of(
        tuple({m.name: m for m in (*study.models.values(), *models)}.values()), study
    )
    jobs = [_data(settings)] if settings.make_datasets else []
    datasets = tuple(job.marker for job in jobs)
    jobs.append(_shards(plan_of(models, study), settings))
    for model in models:
        jobs += _pretraining(model, plan, study, settings)
    # Cells that share fine-tunings are one job; with several GPUs all of a model's are.
    sources = dict.fromkeys(DATASETS[name].trained_on for name in settings.datasets)
    packs = (
        [tuple(sources)]
        if settings.tuning_gpus > 1
        else [(source,) for source in sources]
    )
    jobs += [
        _cells(model, pack, datasets, study, settings)
        for model in models
        for pack in packs
    ]
    cells = [job for job in jobs if job.kind.name == "cell"]
    return Workflow(
        target=target,
        jobs=by_marker([*jobs, _analysis(target, cells, settings)]),
        image=image,
        binds=(*_outside(settings, models), *settings.binds),
        queues={name: queue.options() for name, queue in settings.jobs.items()},
        gres=settings.gres,
        numa_binding=settings.numa_binding,
        max_jobs=settings.max_jobs,
        restarts=settings.restarts,
        modules=settings.modules,
        environ=settings.variables(),
    )


def _outside(settings: StudySettings, models: Iterable[Model]) -> tuple[str, ...]:
    """Return the folders of files that settings and models name; of a pattern the folder before its first star."""
    words = [settings.study, settings.data, settings.tokenizer, *settings.text]
    words += [
        word
        for model in models
        for word in (model.start, *(stage.data for stage in model.stages))
    ]
    # Other words are names on a hub, addresses, or below the study's folder, which an image shows.
    return tuple(
        sorted(
            {
                word.split("*")[0].rpartition("/")[0] or "/"
                for word in words
                if word[:1] == "/"
            }
        )
    )


def _takes(settings: StudySettings, nodes: int = 1, gpus: int = 0) -> dict[str, Any]:
    """Return the resources of a job, by the fields of `Job`: cores and memory for each GPU, or for one without."""
    return {
        "nodes": nodes,
        "gpus": gpus,
        "cpus": settings.cpus * max(1, gpus),
        "memory_gb": settings.memory_gb * max(1, gpus),
        "limit_hours": settings.hours(queue_name(nodes, gpus)),
    }


_FREE = (
    "--device",
    "--exact-micro-batches",
    "--positions",
    "--retry-failed",
    "--workers",
)
"""Options that decide no result: the runs' own records leave them out too (`benchmarks.sweep.run_jobs`)."""


def _deciding(words: Iterable[str]) -> dict[str, list[str]]:
    """Return the values of the options among words, without those that decide nothing."""
    values_of: dict[str, list[str]] = {}
    option = ""
    for word in words:
        name, equals, value = (
            word.partition("=") if word.startswith("--") else ("", "=", word)
        )
        option = name or option
        values_of.setdefault(option, []).extend([value] if equals else [])
    return {
        option: values for option, values in values_of.items() if option not in _FREE
    }


def _data(settings: StudySettings) -> Job:
    """Return the job that makes datasets up, for trials."""
    words = (
        "synthetic",
        *settings.needed_datasets,
        "--out",
        "data",
        *settings.make_datasets,
    )
    return Job(
        kind=JOB_KINDS["data"],
        name="datasets",
        commands=(words,),
        makes=tuple(f"data/{name}/manifest.json" for name in settings.needed_datasets),
        description={"made up with": _deciding(settings.make_datasets)},
        limit_hours=settings.hours("cpu"),
        memory_gb=min(2.0, settings.memory_gb),
    )


def _shards(plan: Plan, settings: StudySettings) -> Job:
    """Return the job that writes the shards, after it has trained a tokenizer where the settings say so."""
    commands: list[Command] = []
    tokenizer = settings.tokenizer
    if settings.train_tokenizer:
        tokenizer = "tokenizer"
        words = ("tokenizer", "--train", *settings.text, "--out", tokenizer)
        commands.append((*words, "--vocab", str(settings.train_tokenizer)))
    words = (
        "shards",
        "--source",
        *settings.text,
        "--tokenizer",
        tokenizer,
        "--out",
        "shards",
    )
    return Job(
        kind=JOB_KINDS["shards"],
        name="shards",
        commands=(*commands, (*words, *settings.shard_options)),
        makes=("shards/manifest.json",),
        tokens=0.0 if settings.repeat_text else plan.data_tokens,
        description={
            "text": settings.text,
            "tokenizer": settings.train_tokenizer or settings.tokenizer,
            "options": _deciding(settings.shard_options),
        },
        network=any(word.startswith("hf:") for word in settings.text),
        gpu_hours=plan.data_tokens / _TOKENS_PER_CORE_HOUR / settings.cpus,
        disk_bytes=plan.data_bytes,
        files=math.ceil(plan.data_bytes / _SHARD_BYTES),
        **_takes(settings),
    )


def _pretraining(
    model: Model, plan: Plan, study: Study, settings: StudySettings
) -> Iterator[Job]:
    """Yield the jobs of a model's stages and its own, which trains the last stage and exports."""
    by_name = {item.name: item for item in plan.stages}
    for stage in model.stages:
        if stage.name not in (model.name, *study.models):
            yield _training(
                JOB_KINDS["stage"],
                stage.name,
                by_name[stage.name],
                plan,
                study,
                settings,
            )
        elif stage.name != model.name:
            # A decayed model that another continues: its own job trains it.
            yield from _pretraining(study.models[stage.name], plan, study, settings)
    yield _training(
        JOB_KINDS["model"],
        model.name,
        by_name[model.stages[-1].name],
        plan,
        study,
        settings,
    )


def stage_files(out: str, stage: str, steps: Iterable[int]) -> tuple[str, ...]:
    """Return the files below `out` that show a stage to be complete: each checkpoint that others leave from."""
    return tuple(f"{out}/stages/{stage}/step-{step:08}/state.json" for step in steps)


def model_files(out: str, model: str) -> tuple[str, ...]:
    """Return the files of an exported model below `out`."""
    return tuple(
        f"{out}/models/{model}/{file}"
        for file in ("manifest.json", "config.json", "model.safetensors")
    )


def train_command(kind: JobKind, name: str, *options: str) -> Command:
    """Return the command that trains a stage or a model, as a job that can be asked by a file to save and end."""
    stop = Job(kind=kind, name=name).stop
    return ("train", name, "--data", "shards", *options, "--stop-file", stop)


def _training(
    kind: JobKind,
    name: str,
    item: PlannedStage,
    plan: Plan,
    study: Study,
    settings: StudySettings,
) -> Job:
    """Return the job that trains stage `item`, or that of model `name`, which exports the model's last stage, `item`.

    A model's job trains that stage itself where the stage has the model's name; else another job has trained it, and
    this one only exports.
    """
    trains_item = item.name == name
    makes = (
        model_files("pretraining", name)
        if kind.goal
        else stage_files("pretraining", name, item.keep)
    )
    counts_network = (
        settings.nodes > 1 and settings.network_gb > 0 and settings.gpus_per_node > 0
    )
    costs = plan.costs(
        [item],
        device=DEVICES[settings.device],
        processes=settings.nodes * settings.gpus_per_node if counts_network else 1,
        network=1e9 * settings.network_gb if counts_network else math.inf,
    )
    parent = item.parent if trains_item else item.name
    needs = [marker("shards", "shards")]
    if parent is not None:
        needs.append(marker("model" if parent in study.models else "stage", parent))
    words = train_command(kind, name, "--out", "pretraining")
    words += ("--study", settings.study) if settings.study else ()
    for assignment in settings.pretraining_settings:
        words += ("--set", assignment)
    # Only settings that results depend on describe the job; a resumed training may change all others.
    changes, science = (
        assignments(settings.pretraining_settings),
        study.config.science(),
    )
    deciding = {key: value for key, value in changes.items() if key in science}
    # Float32
    exported = study.shapes[item.size].trained_parameters * 4 if kind.goal else 0.0
    # An export alone needs no second node, and one GPU.
    nodes, gpus = (
        (settings.nodes, settings.gpus_per_node)
        if trains_item
        else (1, min(1, settings.gpus_per_node))
    )
    return Job(
        kind=kind,
        name=name,
        commands=(words,),
        makes=makes,
        description={"study": settings.study, "settings": deciding},
        needs=tuple(needs),
        checkpoints=f"pretraining/stages/{name}/step-*/state.json",
        gpu_hours=costs.gpu_hours if trains_item else 0.05,
        disk_bytes=(costs.checkpoint_bytes if trains_item else 0.0) + exported,
        files=_CHECKPOINT_FILES * (len(item.keep) + 1 if trains_item else 1),
        **_takes(settings, nodes, gpus),
    )


def _cells(
    model: Model,
    sources: tuple[str, ...],
    datasets: tuple[str, ...],
    study: Study,
    settings: StudySettings,
) -> Job:
    """Return the job of a cell, or of all cells of a model, which keep its GPUs busy, several runs on each."""
    packed = settings.tuning_gpus > 1
    name = model.name if packed else f"{model.name}/{sources[0]}"
    keys = cell_runs(name, settings)
    gpus, shape = (
        min(settings.tuning_gpus, settings.gpus_per_node),
        study.shapes[model.size],
    )
    device = DEVICES[settings.device]
    runs_per_gpu = runs_at_a_time(shape, device, settings.cpus) if gpus else 1
    workers = (
        ()
        if "--workers" in settings.tuning_options
        else ("--workers", str(gpus * runs_per_gpu))
    )
    words = (
        *(
            "benchmarks",
            "run",
            "--model",
            f"pretraining/models/{model.name}",
            "--name",
            model.name,
        ),
        *("--dataset", *dict.fromkeys(key.dataset for key in keys)),
        *("--lr", *(format_lr(lr) for lr in settings.learning_rates)),
        *("--seed", *(str(seed) for seed in settings.seeds)),
        *("--data", settings.data or "data", "--out", "."),
        *(workers if gpus * runs_per_gpu > 1 else ()),
        *settings.tuning_options,
    )
    names = (name for name in settings.datasets if DATASETS[name].trained_on in sources)
    hours = tuning_hours(shape, names, device, runs_per_gpu)
    return Job(
        kind=JOB_KINDS["cell"],
        name=name,
        commands=(words,),
        makes=tuple(f"results/{key.folder}/{RESULTS}" for key in keys),
        needs=(marker("model", model.name), *datasets),
        description={
            "data": settings.data,
            "options": _deciding(settings.tuning_options),
        },
        gpu_hours=hours * len(settings.learning_rates) * len(settings.seeds),
        disk_bytes=len(keys) * _ROW_BYTES,
        # results.json, details.json, run.json and their folder; a folder of the cell.
        files=4 * len(keys) + len(sources),
        **_takes(settings, gpus=gpus),
    )


def _analysis(target: str, cells: list[Job], settings: StudySettings) -> Job:
    """Return the job that makes the runs table of all cells, then tables, claims and figures."""
    out = f"analysis/{target}"
    runs = f"{out}/runs.parquet"
    return Job(
        kind=JOB_KINDS["analysis"],
        name=target,
        commands=(
            ("ingest", "results", "--out", runs, "--instances", f"{out}/instances"),
            ("reproduce", "--source", runs, "--out", out),
        ),
        makes=(f"{out}/reproduce.json",),
        needs=tuple(job.marker for job in cells),
        gpu_hours=0.2,
        **_takes(settings) | {"memory_gb": 8.0 if settings.memory_gb else 0.0},
    )
