"""The jobs of a study: their commands, what each makes and needs, and the time and space that each takes.

`workflow_of` plans the jobs in the order of a study: datasets and shards, trunks and stages, models, fine-tuning cells,
tables. Which stages and cells there are is defined in `pretraining.plan.study_plan` and `benchmarks.protocol`.

Words:

- a stage is a stretch of a model's pretraining with one objective; a trunk is a stage at whose checkpoints other stages
  begin, and models may share it;
- a model's last stage has the model's name, unless the model is a checkpoint of a stage that goes on;
- a cell is one model on one dataset: its fine-tuning runs with every learning rate and seed. A job of the kind `cell`
  has the cells of a model that share fine-tuned models, or all cells of a model;
- a job's marker is the file that says that the job is done; jobs wait for each other by their markers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.costs import runs_at_a_time, tuning_hours
from benchmarks.protocol import DATASETS, format_lr
from benchmarks.runs import RESULTS, RunKey
from common.errors import UserError, nearest
from common.files import write_text
from common.settings import assignments, read_settings
from pretraining.models import Model
from pretraining.paper_models import FIGURE_MODELS, MODELS, TABLES
from pretraining.plan.config import TrainingConfig
from pretraining.plan.devices import DEVICES
from pretraining.plan.study_plan import (
    Costs,
    Plan,
    PlannedStage,
    Study,
    load_study,
    plan_of,
)
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
"""Bytes of a run's results, on the high side."""
_SHARD_BYTES = 33.5e6
"""Bytes of a shard of 4,096 records."""
_CHECKPOINT_FILES = 12
"""Files of a checkpoint, or of an exported model with its log, on the high side."""
_TOKENS_PER_CORE_HOUR = 1.5e9
"""Tokens that the shard writer writes in an hour on one core, on the low side."""
_EXPORT_HOURS = 0.05
"""Hours of the job that exports a trained model."""
_TABLE_HOURS = 0.2
"""Hours of the job that makes tables, claims and figures."""

_FREE = (
    "--device",
    "--exact-micro-batches",
    "--positions",
    "--retry-failed",
    "--workers",
)
"""Options that change no result; the runs' own records leave them out as well (`benchmarks.sweep.run_jobs`)."""


def workflow_of(target: str, settings: StudySettings, image: str = "") -> Workflow:
    """Return every job that a target needs.

    Args:
        target: what is made, as `models_of` takes it: `figure3`, `all`, a model's name.
        settings: the study's settings.
        image: the image file that jobs run in; empty: this environment.

    Raises:
        UserError: an unknown target or a study that cannot be read.
    """
    study = study_of(settings)
    models = models_of(target, study)
    planner = _Planner(study=study, settings=settings, models=models)

    # First the datasets and shards, which fine-tuning and pretraining read.
    jobs: list[Job] = []
    if settings.make_datasets:
        jobs.append(planner.datasets())
    jobs.append(planner.shards())

    # Pretraining. A trunk that models share is planned once for each of them, each time with the same marker:
    # `by_marker` below makes one job of these.
    for model in models:
        jobs += planner.pretraining(model)

    # Fine-tuning, then the tables, which need all cells.
    cells = [cell for model in models for cell in planner.cells(model)]
    tables = planner.analysis(target, cells)

    return Workflow(
        target=target,
        jobs=by_marker([*jobs, *cells, tables]),
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


@dataclass(frozen=True, kw_only=True)
class _Planner:
    """Plans the jobs of some models of a study; each method plans one kind of job."""

    study: Study
    settings: StudySettings
    models: tuple[Model, ...]

    @cached_property
    def plan(self) -> Plan:
        """The plan of all stages of the study, and not only of those that `models` need.

        `train TRUNK` trains a trunk as far as any model of the study needs it, so its job is planned as long.
        """
        # A target may be a model that the study's file does not list.
        known = (*self.study.models.values(), *self.models)
        models = {model.name: model for model in known}
        return plan_of(tuple(models.values()), self.study)

    @cached_property
    def stages(self) -> dict[str, PlannedStage]:
        """The plan's stages by name."""
        return {stage.name: stage for stage in self.plan.stages}

    def datasets(self) -> Job:
        """Return the job that writes made-up datasets, for trials."""
        names = self.settings.needed_datasets
        # Words for `synthetic`. Without any, the datasets are the user's, and this job is not planned.
        made_up = self.settings.make_datasets
        return Job(
            kind=JOB_KINDS["data"],
            name="datasets",
            commands=(("synthetic", *names, "--out", "data", *made_up),),
            makes=tuple(f"data/{name}/manifest.json" for name in names),
            # Made up again only where options that change the datasets are others.
            description={"made up with": _deciding(made_up)},
            limit_hours=self.settings.hours("cpu"),
            # 2 GB suffice; a site that refuses --mem has memory_gb = 0, which stays 0.
            memory_gb=min(2.0, self.settings.memory_gb),
        )

    def shards(self) -> Job:
        """Return the job that writes the shards, and before that trains a tokenizer where the settings say so."""
        settings = self.settings
        commands: list[Command] = []
        tokenizer = settings.tokenizer
        if settings.train_tokenizer:
            # The trained tokenizer is a folder in the study's folder.
            tokenizer = "tokenizer"
            words = ("tokenizer", "--train", *settings.text, "--out", tokenizer)
            commands.append((*words, "--vocab", str(settings.train_tokenizer)))

        words = ("shards", "--source", *settings.text, "--tokenizer", tokenizer)
        commands.append((*words, "--out", "shards", *settings.shard_options))
        # Only the models of the target decide how much text is needed, so this is not `self.plan`.
        plan = plan_of(self.models, self.study)
        return Job(
            kind=JOB_KINDS["shards"],
            name="shards",
            commands=tuple(commands),
            makes=("shards/manifest.json",),
            # 0: any number of tokens will do, since training repeats the text.
            tokens=0.0 if settings.repeat_text else plan.data_tokens,
            description={
                "text": settings.text,
                # The size of the trained vocabulary; where none is trained, 0, and so the given tokenizer's path.
                "tokenizer": settings.train_tokenizer or settings.tokenizer,
                "options": _deciding(settings.shard_options),
            },
            network=any(word.startswith("hf:") for word in settings.text),
            # A job without GPUs: these are hours of the whole job.
            gpu_hours=plan.data_tokens / _TOKENS_PER_CORE_HOUR / settings.cpus,
            disk_bytes=plan.data_bytes,
            files=math.ceil(plan.data_bytes / _SHARD_BYTES),
            **self._size(),
        )

    def pretraining(self, model: Model) -> Iterator[Job]:
        """Yield a job for each stage of a model, then the model's own job, which exports the model.

        Jobs of other models that this one continues are among them.
        """
        for stage in model.stages:
            # A last stage with the model's name is trained by the model's own job, below.
            if stage.name == model.name:
                continue
            if stage.name in self.study.models:
                # This stage is the last one of another model, which this model continues.
                yield from self.pretraining(self.study.models[stage.name])
            else:
                planned = self.stages[stage.name]
                yield self._training(JOB_KINDS["stage"], stage.name, planned)

        last = self.stages[model.stages[-1].name]
        yield self._training(JOB_KINDS["model"], model.name, last)

    def _training(self, kind: JobKind, name: str, stage: PlannedStage) -> Job:
        """Return the job that trains a stage, or the job of a model.

        Args:
            kind: `stage`, or `model` for a model's job, which also exports the model.
            name: the stage's or the model's.
            stage: the stage; for a model its last stage. The model's job trains it where it has the model's name. Else
                another job trains it, and the model's job only exports a checkpoint of it.
        """
        settings = self.settings
        trains = stage.name == name
        # The job needs the stage whose checkpoint it continues or exports; None where it continues no stage.
        needed_stage = stage.parent if trains else stage.name
        needs = [marker("shards", "shards")]
        if needed_stage is not None:
            # A stage with a model's name is trained by that model's job.
            is_model = needed_stage in self.study.models
            needs.append(marker("model" if is_model else "stage", needed_stage))

        # The file by which training is asked to stop. Its path follows from the job's kind and name, so this job of no
        # other fields has the same path as the job that is returned.
        stop = Job(kind=kind, name=name).stop
        words = ["train", name, "--data", "shards", "--out", "pretraining"]
        words += ["--stop-file", stop]
        if settings.study:
            words += ["--study", settings.study]
        for assignment in settings.pretraining_settings:
            words += ["--set", assignment]

        # Where nothing is left to train, the job only exports, which takes one GPU of one node. The exported model has
        # about as many files as a checkpoint (`_CHECKPOINT_FILES`), so it counts as one.
        size = self._size(gpus=min(1, settings.gpus_per_node))
        hours, disk_bytes, n_checkpoints = _EXPORT_HOURS, 0.0, 1
        if trains:
            costs = self._costs(stage)
            size = self._size(settings.nodes, settings.gpus_per_node)
            hours, disk_bytes = costs.gpu_hours, costs.checkpoint_bytes
            # One more than are kept: the newest, to resume from, or the exported model.
            n_checkpoints = len(stage.keep) + 1

        if kind.goal:  # a model's job
            folder = f"pretraining/models/{name}"
            file_names = ["manifest.json", "config.json", "model.safetensors"]
            # Exported weights are float32: 4 bytes.
            disk_bytes += self.study.shapes[stage.size].trained_parameters * 4
        else:
            # A stage's job makes the checkpoints at which other stages begin or which models are.
            folder = f"pretraining/stages/{name}"
            file_names = [f"step-{step:08}/state.json" for step in stage.keep]

        # The job is described only by settings that change results: a resumed training may have other values of the
        # rest, such as logging and speed.
        science = self.study.config.science()
        changes = assignments(settings.pretraining_settings)
        deciding = {key: value for key, value in changes.items() if key in science}
        return Job(
            kind=kind,
            name=name,
            commands=(tuple(words),),
            makes=tuple(f"{folder}/{file}" for file in file_names),
            description={"study": settings.study, "settings": deciding},
            needs=tuple(needs),
            # Also set for a job that only exports. Such a job saves no checkpoints there, and by this field is asked to
            # stop by a file, as training is.
            checkpoints=f"pretraining/stages/{name}/step-*/state.json",
            gpu_hours=hours,
            disk_bytes=disk_bytes,
            files=_CHECKPOINT_FILES * n_checkpoints,
            **size,
        )

    def _costs(self, stage: PlannedStage) -> Costs:
        """Return the costs of training a stage, including communication between nodes where its speed is known."""
        settings = self.settings
        device = DEVICES[settings.device]
        # One process a GPU; none where pretraining computes on CPUs.
        processes = settings.nodes * settings.gpus_per_node
        if settings.nodes == 1 or not processes or not settings.network_gb:
            return self.plan.costs([stage], device=device)
        network = 1e9 * settings.network_gb  # bytes a second
        return self.plan.costs(
            [stage], device=device, processes=processes, network=network
        )

    def cells(self, model: Model) -> list[Job]:
        """Return the jobs of a model's fine-tuning.

        A job has the cells of all datasets that are evaluated after training on the same dataset, and so share their
        fine-tuned models. Where a site's jobs have several GPUs, one job takes all cells of a model, so that it
        has work for all of them.
        """
        names = self.settings.datasets
        # The training sets, each once, in the order of the datasets.
        sources = tuple(dict.fromkeys(DATASETS[name].trained_on for name in names))
        if self.settings.tuning_gpus > 1:
            return [self._tuning(model, model.name, sources)]
        return [
            self._tuning(model, f"{model.name}/{source}", (source,))
            for source in sources
        ]

    def _tuning(self, model: Model, name: str, sources: tuple[str, ...]) -> Job:
        """Return the job that fine-tunes a model on some training sets, with several runs at a time on each GPU.

        Args:
            model: the model.
            name: the job's, as `cell_runs` takes it: `model/dataset`, or `model` for all cells.
            sources: names of the training sets.
        """
        settings = self.settings
        keys = cell_runs(name, settings)
        shape = self.study.shapes[model.size]
        device = DEVICES[settings.device]

        # With `gpus_per_node = 0` fine-tuning computes on CPUs, and chooses its number of workers itself.
        gpus = min(settings.tuning_gpus, settings.gpus_per_node)
        runs_per_gpu = 1
        if gpus:
            runs_per_gpu = runs_at_a_time(shape, device, settings.cpus)

        words = ["benchmarks", "run", "--model", f"pretraining/models/{model.name}"]
        words += ["--name", model.name]
        datasets = dict.fromkeys(key.dataset for key in keys)  # each once, in order
        words += ["--dataset", *datasets]
        words += ["--lr", *map(format_lr, settings.learning_rates)]
        words += ["--seed", *map(str, settings.seeds)]
        # Without a folder of the user's, the datasets are those that the study makes up, in its folder.
        words += ["--data", settings.data or "data", "--out", "."]
        workers = gpus * runs_per_gpu
        if workers > 1 and "--workers" not in settings.tuning_options:
            words += ["--workers", str(workers)]
        words += settings.tuning_options

        needs = [marker("model", model.name)]
        if settings.make_datasets:
            needs.append(marker("data", "datasets"))

        # GPU hours of one learning rate and one seed, on all datasets of this job.
        hours = tuning_hours(shape, datasets, device, runs_per_gpu)
        return Job(
            kind=JOB_KINDS["cell"],
            name=name,
            commands=(tuple(words),),
            makes=tuple(f"results/{key.folder}/{RESULTS}" for key in keys),
            needs=tuple(needs),
            description={
                "data": settings.data,
                "options": _deciding(settings.tuning_options),
            },
            gpu_hours=hours * len(settings.learning_rates) * len(settings.seeds),
            disk_bytes=len(keys) * _ROW_BYTES,
            # A run has a folder with results.json, details.json and run.json: four. The runs lie in a folder for each
            # dataset, of which only the training sets are counted.
            files=4 * len(keys) + len(sources),
            **self._size(gpus=gpus),
        )

    def analysis(self, target: str, cells: list[Job]) -> Job:
        """Return the job that makes the runs table of all cells, then tables, claims and figures."""
        out = f"analysis/{target}"
        runs = f"{out}/runs.parquet"
        size = self._size()

        # A site that refuses --mem has memory_gb = 0, and then this job asks for none either.
        if self.settings.memory_gb:
            size["memory_gb"] = 8.0
        return Job(
            kind=JOB_KINDS["analysis"],
            name=target,
            commands=(
                ("ingest", "results", "--out", runs, "--instances", f"{out}/instances"),
                ("reproduce", "--source", runs, "--out", out),
            ),
            makes=(f"{out}/reproduce.json",),
            needs=tuple(job.marker for job in cells),
            gpu_hours=_TABLE_HOURS,
            **size,
        )

    def _size(self, nodes: int = 1, gpus: int = 0) -> dict[str, Any]:
        """Return the resources of a job as values for the fields of `Job`.

        Args:
            nodes: number of nodes.
            gpus: GPUs on each of them; 0 for a job without GPUs.
        """
        # Cores and memory are set for each GPU; a job without GPUs takes those of one.
        factor = max(1, gpus)
        return {
            "nodes": nodes,
            "gpus": gpus,
            "cpus": self.settings.cpus * factor,
            "memory_gb": self.settings.memory_gb * factor,
            "limit_hours": self.settings.hours(queue_name(nodes, gpus)),
        }


def models_of(target: str, study: Study) -> tuple[Model, ...]:
    """Return the models that a target needs.

    Args:
        target: `figureN` or `tableN` of the paper, `all` for the study's models, or a model's name.
        study: the study.

    Raises:
        UserError: none of these, and the nearest name is given; or a figure or table that needs no models, or that is
            not of this study.
    """
    if target == "all":
        if not study.models:
            raise UserError(
                f"the study {study.name!r} lists no models; add `models = [...]` to its file"
            )
        return tuple(study.models.values())

    # The names of the models that each figure and table of the paper shows.
    paper = {f"figure{number}": names for number, names in FIGURE_MODELS.items()}
    paper |= {f"table{number}": names for number, names in TABLES.items()}
    if target not in paper:
        # A model of the study, or any other that its scheme of names describes.
        try:
            return (study.model(target),)
        except UserError:
            near = nearest(target, (*paper, "all", *study.models))
            raise UserError(
                f"unknown target {target!r}; targets are figure1 to figure{max(FIGURE_MODELS)}, "
                f"table2 to table{max(TABLES)}, all and names of models{near}"
            ) from None

    if not paper[target]:
        raise UserError(
            f"{target} shows no models; choose another figure or table of the paper"
        )

    # The models that the paper shows are those of its own study.
    if study.models is not MODELS:
        raise UserError(
            f"{target} is the paper's, but the study is {study.name!r}; use `all` or a model"
        )

    return tuple(study.model(name) for name in paper[target])


def study_of(settings: StudySettings) -> Study:
    """Return the study that the settings name, with their `pretraining_settings` in place of its own.

    Raises:
        UserError: a study that cannot be read, or an unknown setting of pretraining.
    """
    study = load_study(Path(settings.study) if settings.study else None)
    changes = assignments(settings.pretraining_settings)
    # `typed=False`: the values are texts, as on the command line.
    config = read_settings(
        TrainingConfig, changes, "pretraining_settings", base=study.config, typed=False
    )
    return replace(study, config=config)


def cell_runs(name: str, settings: StudySettings) -> list[RunKey]:
    """Return the runs of a fine-tuning job, one for each dataset, learning rate and seed.

    Args:
        name: `model/dataset` has the runs of every dataset that is evaluated after training on this one; `model`, for
            jobs of several GPUs, has all runs of the model.
        settings: have the datasets, learning rates and seeds.
    """
    # Without a dataset in the name, `trained_on` is empty, and every dataset is taken.
    model, _, trained_on = name.partition("/")
    return [
        RunKey(model=model, dataset=dataset, lr=lr, seed=seed)
        for dataset in settings.datasets
        if trained_on in ("", DATASETS[dataset].trained_on)
        for lr in settings.learning_rates
        for seed in settings.seeds
    ]


def _deciding(words: Iterable[str]) -> dict[str, list[str]]:
    """Return the values of each option in a command's words, without the options that change no result.

    `--vocab 512 --workers=4 --flag` gives `{"--vocab": ["512"], "--flag": []}`; words before the first option are
    under `""`.
    """
    values_of: dict[str, list[str]] = {}
    option = ""
    for word in words:
        # A plain word is a value of the option before it; an option may hold its value, as in `--vocab=512`.
        value = word
        has_value = True
        if word.startswith("--"):
            option, equals, value = word.partition("=")
            has_value = bool(equals)

        values = values_of.setdefault(option, [])
        if has_value:
            values.append(value)

    return {
        option: values for option, values in values_of.items() if option not in _FREE
    }


def _outside(settings: StudySettings, models: Iterable[Model]) -> tuple[str, ...]:
    """Return the folders outside the study's with files that settings and models name, for images to show them."""
    words = [settings.study, settings.data, settings.tokenizer, *settings.text]
    for model in models:
        words.append(model.start)
        words += [stage.data for stage in model.stages]

    folders = set()
    for word in words:
        # Other words are names on a hub, addresses, or paths below the study's folder, which an image shows anyway.
        if word.startswith("/"):
            # A pattern such as /data/*/part-*.parquet needs the folder before its first star: /data. A path without a
            # star needs the folder that it lies in. `or`: of what lies in /, that is the empty text.
            before_star = word.partition("*")[0]
            folder = before_star.rpartition("/")[0]
            folders.add(folder or "/")

    return tuple(sorted(folders))


def place_stand_ins(settings: StudySettings, folder: Path, target: str) -> None:
    """Copy the study's `stand_ins.json`, if it has one, next to where the runs table will be.

    It says which models of a small study stand in for the paper's; tables look for it beside the runs table.
    """
    # The name is repeated here: the module that owns it is in analysis, which needs pandas; a login node may lack it.
    name = "stand_ins.json"
    beside = Path(settings.study).parent / name
    if settings.study and beside.is_file():
        write_text(folder / "analysis" / target / name, beside.read_text("utf-8"))
