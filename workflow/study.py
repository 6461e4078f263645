"""The jobs of a study: what each makes, what it needs, what it takes. One source for the DAG and its summary.

Everything comes from `pretraining.plan.plan` and `benchmarks.protocol`; nothing is listed here a second time.
Standard library only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.protocol import DATASETS, LEARNING_RATES, SEEDS
from common.errors import UserError, nearest
from pretraining.plan.flops import PEAK_FLOPS, effective_length, model_flops_per_token
from pretraining.plan.plan import PAPER_GPU_HOURS, Plan, PlannedStage, plan_of
from pretraining.plan.study_file import Study, load_study
from pretraining.study import FIGURES, MODELS, TABLES, Model
from workflow.settings import Settings

__all__ = ["Job", "Workflow", "models_of", "tuning_gpu_hours", "workflow_of"]

_FINE_TUNINGS = 50 * len({dataset.trained_on for dataset in DATASETS.values()}) * 30
_MEMORY_SHARE = 1.25
_ROW_BYTES = 200_000


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job of the workflow."""

    kind: str
    """`data`, `shards`, `stage`, `model`, `cell` or `analysis`; the name of its rule."""
    name: str
    """Its name within its kind: a stage, a model, or `model/dataset` of a cell."""
    needs: tuple[str, ...] = ()
    """Markers of the jobs it waits for."""
    nodes: int = 1
    """Nodes it takes."""
    gpus: int = 0
    """GPUs on each of them."""
    cpus: int = 1
    """CPU cores on each node."""
    memory_gb: float = 2.0
    """Memory on each node."""
    gpu_hours: float = 0.0
    """Estimated hours of one GPU; of one job without GPUs."""
    disk_bytes: float = 0.0
    """What it leaves on disk."""
    limit_hours: float = 20.0
    """Longest job the site allows."""

    @property
    def marker(self) -> str:
        """The file that says it is done, relative to the study's folder."""
        return f"done/{self.kind}/{self.name}.json"

    @property
    def hours(self) -> float:
        """Estimated wall time, all parts together."""
        return self.gpu_hours / max(1, self.nodes * self.gpus)

    @property
    def parts(self) -> int:
        """Jobs it takes in a row, each within the limit; every one but the last saves and stops."""
        return max(1, math.ceil(self.hours / self.limit_hours))

    @property
    def minutes(self) -> int:
        """Time to ask for, for one part: a quarter more than estimated, half an hour at least, the limit at most."""
        return max(1, round(60 * min(self.limit_hours, max(0.5, 1.25 * self.hours))))

    @property
    def margin_seconds(self) -> int:
        """How long before its time limit a job is asked to save itself: ten minutes, or a tenth of a short one."""
        return min(600, 6 * self.minutes)

    @property
    def log(self) -> str:
        """What its commands print, relative to the study's folder."""
        return f"logs/{self.kind}/{self.name.replace('/', '__')}.log"

    @property
    def refused(self) -> str:
        """The file that says a user's mistake ended it, so that starting it again would tell the same."""
        return self.log.removesuffix("log") + "refused"

    @property
    def stop(self) -> str:
        """The file that asks a stage to save and end: it reaches every rank, also inside images on other nodes."""
        return self.log.removesuffix("log") + "stop"

    @property
    def saved(self) -> str:
        """The file with a line for every job that met its time limit and left the stage further than it found it."""
        return self.log.removesuffix("log") + "saved"

    @property
    def retries(self) -> int:
        """How often it may be started again: for its parts, and twice for lost nodes."""
        return self.parts + 1


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """A target's jobs."""

    target: str
    """What was asked for."""
    models: tuple[Model, ...]
    """The models it needs."""
    jobs: dict[str, Job]
    """All jobs by marker, those that others wait for first."""
    plan: Plan
    """The pretraining behind it."""

    def of_kind(self, kind: str) -> list[Job]:
        """Return the jobs of one kind."""
        return [job for job in self.jobs.values() if job.kind == kind]


def models_of(target: str, study: Study) -> tuple[Model, ...]:
    """Return the models of `figureN`, `tableN`, `all` or a model's name.

    Raises:
        UserError: none of these; the nearest is named.
    """
    if target == "all":
        if not study.models:
            raise UserError(f"the study {study.name!r} lists no models; add `models = [...]` to its file")
        return tuple(study.models.values())
    match = re.fullmatch(r"(figure|table)(\d+)", target)
    if match is None:
        known = (*(f"figure{n}" for n in FIGURES), *(f"table{n}" for n in TABLES), "all", *study.models)
        near = nearest(target, known)
        try:
            return (study.model(target),)
        except UserError:
            raise UserError(
                f"unknown target {target!r}{near}; targets are figure1 to figure{max(FIGURES)}, "
                f"table1 to table{max(TABLES)}, all, and names of models"
            ) from None
    numbers = FIGURES if match[1] == "figure" else TABLES
    names = numbers.get(int(match[2]), ())
    if not names:
        raise UserError(f"{target} holds no models; take another figure or table of the paper")
    if study.models is not MODELS:
        raise UserError(
            f"{target} is of the paper, the study is {study.name!r}; take `all` or a model's name"
        )
    return tuple(study.model(name) for name in names)


def tuning_gpu_hours(model: Model, study: Study, device: str) -> float:
    """Return the hours of one fine-tuning and its evaluations, from the paper's 9,000 GPU hours.

    The paper's average is scaled to the model's size by FLOPs and to the device by peak rate. The paper also
    evaluated ten times during each training, so this is an upper bound, good for time limits.
    """
    length = effective_length(study.recipe.min_length, study.recipe.max_length)

    def flops(size: str, shapes: dict[str, object]) -> float:
        return model_flops_per_token(shapes[size], length=length, predicted=0.0)  # type: ignore[arg-type]

    from pretraining.paper_settings import SHAPES

    paper = PAPER_GPU_HOURS["fine-tuning"] / _FINE_TUNINGS
    size = flops(model.size, dict(study.shapes)) / flops("610m", dict(SHAPES))
    return paper * size * PEAK_FLOPS["MI250X"] / PEAK_FLOPS[device]


def workflow_of(target: str, settings: Settings) -> Workflow:
    """Return every job of a target.

    Raises:
        UserError: an unknown target or a study that cannot be read.
    """
    study = load_study(Path(settings.study) if settings.study else None)
    models = models_of(target, study)
    # Ends of shared trunks are the whole study's, since `train TRUNK` trains as far as any model needs it.
    plan = plan_of(tuple({m.name: m for m in (*study.models.values(), *models)}.values()), study)
    jobs: dict[str, Job] = {}

    def add(job: Job) -> str:
        jobs[job.marker] = job
        return job.marker

    data = (
        add(Job(kind="data", name="datasets", limit_hours=settings.limit_hours))
        if settings.make_datasets
        else None
    )
    shards = add(
        Job(
            kind="shards",
            name="shards",
            cpus=settings.cpus,
            memory_gb=settings.memory_gb,
            gpu_hours=plan_of(models, study).data_tokens / _TOKENS_PER_CORE_HOUR / settings.cpus,
            disk_bytes=plan_of(models, study).data_bytes,
            limit_hours=settings.limit_hours,
        )
    )
    for model in models:
        _add_pretraining(model, plan, study, settings, shards, add)
    for model in models:
        for trained_on, names in _cells(settings.datasets).items():
            runs = len(settings.learning_rates) * len(settings.seeds)
            add(
                Job(
                    kind="cell",
                    name=f"{model.name}/{trained_on}",
                    needs=(_marker("model", model.name), *((data,) if data else ())),
                    gpus=min(1, settings.gpus_per_node),
                    cpus=settings.cpus,
                    memory_gb=settings.memory_gb,
                    gpu_hours=runs * tuning_gpu_hours(model, study, settings.device),
                    disk_bytes=runs * len(names) * _ROW_BYTES,
                    limit_hours=settings.limit_hours,
                )
            )
    cells = tuple(job.marker for job in jobs.values() if job.kind == "cell")
    add(Job(kind="analysis", name=target, needs=cells, cpus=settings.cpus, memory_gb=8.0 if cells else 2.0,
            gpu_hours=0.2, limit_hours=settings.limit_hours))  # fmt: skip
    return Workflow(target=target, models=models, jobs=jobs, plan=plan)


_TOKENS_PER_CORE_HOUR = 1.5e9
"""Tokens that one core of the shard writer turns out in an hour, on the low side (docs/performance.md)."""


def _marker(kind: str, name: str) -> str:
    return Job(kind=kind, name=name).marker


def _add_pretraining(
    model: Model, plan: Plan, study: Study, settings: Settings, shards: str, add: object
) -> None:
    assert callable(add)
    by_name = {item.name: item for item in plan.stages}
    for stage in model.stages:
        item = by_name[stage.name]
        # The last stretch belongs to the model's own job, which also exports it.
        alone = item.name != model.name and item.name not in study.models
        if alone:
            add(_stage("stage", item.name, item, plan, study, settings, shards))
        elif item.name != model.name:
            # A decayed model that another continues: its own job trains it.
            _add_pretraining(study.models[item.name], plan, study, settings, shards, add)
    last = by_name[model.stages[-1].name]
    add(_stage("model", model.name, last, plan, study, settings, shards))


def _stage(
    kind: str, name: str, item: PlannedStage, plan: Plan, study: Study, settings: Settings, shards: str
) -> Job:
    own = item.name == name
    costs = plan.costs([item], device=settings.device, utilisation=settings.mfu)
    parent = item.parent if own else item.name
    needs = [shards]
    if parent is not None:
        needs.append(_marker("model" if parent in study.models else "stage", parent))
    per_node = max(1, settings.gpus_per_node)
    shape = study.shapes[item.size]
    return Job(
        kind=kind,
        name=name,
        needs=tuple(needs),
        # An export alone needs no second node.
        nodes=settings.nodes if own else 1,
        gpus=settings.gpus_per_node if own else min(1, settings.gpus_per_node),
        cpus=settings.cpus * (per_node if own else 1),
        memory_gb=settings.memory_gb * (per_node if own else 1),
        gpu_hours=costs.gpu_hours if own else 0.05,
        disk_bytes=(costs.checkpoint_bytes if own else 0.0)
        + (shape.trained_parameters * 4 if kind == "model" else 0.0),
        limit_hours=settings.limit_hours,
    )


def _cells(datasets: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the datasets by what they are trained on: cells that share fine-tunings are one job."""
    groups: dict[str, list[str]] = {}
    for name in datasets:
        groups.setdefault(DATASETS[name].trained_on, []).append(name)
    return {source: tuple(names) for source, names in groups.items()}


assert LEARNING_RATES and SEEDS
