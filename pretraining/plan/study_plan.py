"""A study as data, and its plan: the stages of all models, in which shared work is done, and counted, only once.

The paper's study is built in, others are TOML files:

    prefix = "mini-"                 # before every name, so that no model can be taken for one of the paper's
    decay_steps = 20
    models = ["mini-s-clm-200", "mini-s-clm-50-mlm40-200"]
    pretrainings = 5                 # of each model, with other seeds: mini-s-clm-200-s1 and so on; left out: 1

    [sizes.s]                        # fields of pretraining.paper_settings.Shape
    hidden = 64
    layers = 2
    heads = 4
    kv_heads = 2
    mlp = 192

    [settings]                       # fields of pretraining.plan.config.TrainingConfig
    global_batch = 16

Models that no name can describe (with a start, with other data, or with decays of their own) have a table each
(`pretraining.plan.model_tables`).

A stage is one run of the optimiser with one objective, in one phase of the learning-rate schedule. The model
`610m-clm-10k-mlm40-42k` has three: the trunk `610m-clm`, the stable steps `610m-clm-10k-mlm40` that branch off it at
step 10,000, and their decay `610m-clm-10k-mlm40-42k`. The plan is a tree of such stages, each the parent of those that
continue one of its checkpoints. Models that need the same steps share them, and the checkpoints at which others branch
off are kept. Another masking ratio, split or budget needs only another name (`pretraining.models`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Interval

from common.errors import UserError, nearest
from common.reading import read_toml
from common.settings import FileSettings, read_settings, refuse_code
from pretraining.models import Design, Model, Stage, arm_of
from pretraining.paper_models import MODELS, PAPER_DESIGN
from pretraining.paper_settings import SHAPES, Shape
from pretraining.plan.config import OPTIMIZER_BYTES, TrainingConfig
from pretraining.plan.devices import H100, Device, gradient_seconds, training_gb
from pretraining.plan.flops import hoffmann_flops_per_token, model_flops_per_token
from pretraining.plan.model_tables import Shapes, models_of_tables

if TYPE_CHECKING:
    from pretraining.starts import Start

_WEIGHT_BYTES, _TOKEN_BYTES = 4, 4
"""Bytes of a weight (float32) and of a token in the shards (int32)."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study: what is pretrained and how."""

    name: str
    """`paper`, or the stem of the study file."""
    design: Design
    """What its names have in common: sizes, prefix, length of the decay."""
    shapes: dict[str, Shape]
    """Shapes by size, the study's prefix included (`Model.size`)."""
    models: dict[str, Model]
    """The study's models by name."""
    config: TrainingConfig = field(default_factory=TrainingConfig)
    """Settings of every run."""

    def model(self, name: str, *, stages: Iterable[str] = ()) -> Model:
        """Return the model of that name: one that the study lists, a repetition of one, or another in its scheme.

        Args:
            name: the model's name.
            stages: names of stages, which an error may suggest besides those of models.

        Raises:
            UserError: the name is not in the scheme; the message suggests the nearest name.
        """
        if name in self.models:
            return self.models[name]
        name_without_seed, seed = arm_of(name)
        if seed and name_without_seed in self.models:
            return self.models[name_without_seed].again(seed)
        try:
            return self.design.parse(name)
        except UserError as error:
            # The design suggests a name of its `known` ones, not a stage or a model of the study file: the suggestion
            # is cut off, and one of all these names is added below.
            message = str(error).partition("; did you mean")[0]
            if self is PAPER_STUDY:
                message += "; a model of your own study needs --study FILE"
            known = [*self.models, *stages]
            raise UserError(f"{message}{nearest(name, known)}") from None


PAPER_STUDY = Study(name="paper", design=PAPER_DESIGN, shapes=SHAPES, models=MODELS)
"""The paper's 51 models in its three sizes, with its settings."""


# A name is also a folder's name, so it must not lead out of the folder that holds it.
_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
_SIZE = re.compile(r"[a-z0-9][a-z0-9.]{0,39}")


@dataclass(frozen=True, kw_only=True)
class _File(FileSettings):
    """A study file."""

    prefix: str = ""
    """Put before every name."""
    decay_steps: Annotated[int, Interval(ge=1, lt=2**31)] = PAPER_DESIGN.decay_steps
    """Length of the decay that closes every budget."""
    models: Any = ()
    """Names of the study's models, or a table for each."""
    pretrainings: Annotated[int, Interval(ge=1, le=1000)] = 1
    """How often each model is pretrained, NAME, NAME-s1, NAME-s2 ..., with seeds of their own."""
    sizes: dict[str, Shape] = field(default_factory=dict)
    """A table for each size."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings that differ from the paper's."""

    def __post_init__(self) -> None:
        """Refuse a prefix that could lead out of a folder, and models that are not a list of names or a table."""
        if self.prefix and not _PREFIX.fullmatch(self.prefix):
            raise UserError(
                f"prefix must be at most 60 letters, digits, dots, hyphens and underscores, starting with a letter or "
                f"digit, not {self.prefix!r:.60}"
            )

        # A list of the file is read as a tuple, tables [models.NAME] as a dictionary by name.
        if not isinstance(self.models, dict | tuple):
            raise UserError(
                f"models takes a list, not {self.models!r:.60}; give names, or a table [models.NAME] for each"
            )

        for item in self.models:
            if not isinstance(item, str):
                raise UserError(
                    f"models takes a list; each text, not {item!r:.60}; a table is [models.NAME]"
                )


def load_study(path: Path | None) -> Study:
    """Return the study that a TOML file describes; the paper's study if the path is None.

    Raises:
        UserError: the file cannot be read, a key is unknown, or a name is not in the file's scheme.
    """
    return PAPER_STUDY if path is None else read_study(read_toml(path), path)


def read_study(content: Mapping[str, Any], path: Path) -> Study:
    """Return the study that the content of a study file defines.

    Args:
        content: the file's content, as TOML gives it.
        path: the file, whose name the study gets; it is not read here.

    Raises:
        UserError: as for `load_study`; the message names the file.
    """
    # What the file leaves out is as in an empty file (`base`).
    file = read_settings(_File, content, str(path), base=_File())

    # Models and sizes.
    tables = file.models
    # A list of names is short for empty tables.
    if not isinstance(tables, dict):
        tables = {name: {} for name in tables}

    # A model with a start has the start's size. Only other models need a size of the file, so that a file
    # without models needs none.
    has_start = [
        isinstance(item, dict) and item.get("start") for item in tables.values()
    ]
    if not file.sizes and not all(has_start):
        raise UserError(f"{path}: a study needs at least one [sizes.NAME] table")
    for size in file.sizes:
        if not _SIZE.fullmatch(size):
            raise UserError(
                f"{path}: invalid size name {size!r:.60}; use at most 40 lowercase letters, digits and dots, as in "
                f"model names"
            )

    shapes = {f"{file.prefix}{size}": shape for size, shape in file.sizes.items()}
    design = Design(
        sizes=tuple(file.sizes), prefix=file.prefix, decay_steps=file.decay_steps
    )
    models = models_of_tables(design, tables, path)
    if file.pretrainings > 1:
        models = _repeated(models, file.pretrainings, path)

    # Settings.
    settings = file.settings
    # A study file may be another's: it must not name code that would be run.
    refuse_code(settings, f"{path} [settings]")

    # Before `loss_group` was a setting, `microbatch` also decided how the loss is weighed. It still does so in a file
    # without a `loss_group`.
    if settings.get("microbatch"):
        settings = {"loss_group": settings["microbatch"], **settings}
    config = read_settings(TrainingConfig, settings, f"{path} [settings]")
    return Study(
        name=path.stem,
        design=design,
        shapes=Shapes(shapes, models),
        models=models,
        config=config,
    )


def _repeated(
    models: Mapping[str, Model], pretrainings: int, path: Path
) -> dict[str, Model]:
    """Return each model followed by its repetitions with seeds 1, 2 and so on, all by name.

    Args:
        models: the models that a study file lists, by name.
        pretrainings: how often each is pretrained in all.
        path: the study file, for messages.

    Raises:
        UserError: the file lists a name with a seed, which would be repeated again.
    """
    repeated: dict[str, Model] = {}
    for name, model in models.items():
        name_without_seed, seed = arm_of(name)
        if seed:
            raise UserError(
                f"{path}: pretrainings = {pretrainings} repeats each model; list {name_without_seed} alone, not {name}"
            )

        repeated[name] = model
        for seed in range(1, pretrainings):
            again = model.again(seed)
            repeated[again.name] = again

    return repeated


@dataclass(frozen=True, kw_only=True)
class PlannedStage(Stage):
    """A stage as the plan trains it: only once, and up to the last step that any model of the plan needs."""

    size: str
    """Size of the models, the study's prefix included."""
    keep: tuple[int, ...]
    """Steps whose checkpoints are kept, rising: another stage branches off there, or the checkpoint is a model of the
    plan."""
    models: tuple[str, ...]
    """Names of the models of the plan that the stage is a part of."""


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Costs of a set of stages."""

    steps: int
    """Optimiser steps."""
    tokens: float
    """Expected number of training tokens (lengths of sequences may be random)."""
    flops: dict[str, float]
    """Training FLOPs by both conventions of `pretraining.plan.flops`, under the keys `hoffmann` and `model`."""
    gpu_hours: float
    """Hours of the chosen device, those of several devices added up."""
    memory_gb: float
    """GB of a device's memory that training the largest model takes."""
    checkpoint_bytes: float
    """Bytes of the kept checkpoints with the optimiser's state, float32."""
    model_bytes: float
    """Bytes of the exported models, float32."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Some models of a study and the work they need together."""

    study: Study
    """The study that the models are of."""
    models: tuple[Model, ...]
    """The chosen models."""
    stages: tuple[PlannedStage, ...]
    """All stages of these models, each once and after the stage that it continues (its parent)."""

    @property
    def shapes(self) -> list[Shape]:
        """The shape of each stage's models, in the order of `stages`."""
        return [self.study.shapes[stage.size] for stage in self.stages]

    def costs(
        self,
        stages: Iterable[PlannedStage] | None = None,
        *,
        device: Device = H100,
        processes: int = 1,
        network: float = math.inf,
    ) -> Costs:
        """Return the costs of stages, each counted once.

        Args:
            stages: stages of the plan; all of them when left out.
            device: the device whose hours and memory are estimated.
            processes: number of devices that train together, a process on each.
            network: bytes/s between nodes, of each process; when left out, the time in which processes sum their
                gradients is not counted.
        """
        # What holds for all stages: settings, `length` (the mean length of the sequence that a token is in),
        # and the speed of the network.
        chosen = self.stages if stages is None else tuple(stages)
        config, shapes = self.study.config, self.study.shapes
        length = config.sequences.attended_length
        pass_tokens = config.batches.pass_tokens
        is_compiled = config.machine.compile != "off"

        # `gradient_seconds` counts float32 gradients. In bf16 half the bytes are sent, which takes as long as to send
        # all of them over a network that is twice as fast.
        bandwidth = network
        if config.batches.gradients == "bf16":
            bandwidth = 2 * network

        # Add up the costs of the stages: FLOPs by both conventions, seconds of all devices, bytes of
        # checkpoints. Only the largest memory counts.
        flops = {"hoffmann": 0.0, "model": 0.0}
        checkpoint_bytes = seconds = memory = 0.0
        for item in chosen:
            # `share`: of the positions that pass the head, 1 for CLM.
            shape, share = shapes[item.size], item.predicted_share
            tokens = item.steps * config.tokens_per_step
            flops["hoffmann"] += tokens * hoffmann_flops_per_token(shape, length=length)
            model_flops = model_flops_per_token(shape, length=length, predicted=share)
            flops["model"] += tokens * model_flops
            speed = device.tokens_per_second(
                shape,
                predicted=share,
                length=length,
                pass_tokens=pass_tokens,
                compiled=is_compiled,
            )
            seconds += tokens / speed

            # All devices wait while gradients are summed, and the hours are those of all together.
            waiting = gradient_seconds(shape, device, processes, bandwidth)
            seconds += processes * item.steps * waiting
            memory = max(memory, training_gb(shape, pass_tokens, several=processes > 1))
            parameter_bytes = _WEIGHT_BYTES + OPTIMIZER_BYTES
            one_checkpoint = shape.trained_parameters * parameter_bytes
            checkpoint_bytes += len(item.keep) * one_checkpoint

        # A model is exported at the end of its last stage.
        names = {item.name for item in chosen}
        model_bytes = 0
        for model in self.models:
            if model.stages[-1].name in names:
                model_bytes += shapes[model.size].trained_parameters * _WEIGHT_BYTES

        steps = sum(item.steps for item in chosen)
        return Costs(
            steps=steps,
            tokens=steps * config.tokens_per_step,
            flops=flops,
            gpu_hours=seconds / 3600,
            memory_gb=memory,
            checkpoint_bytes=checkpoint_bytes,
            model_bytes=model_bytes,
        )

    def tokens_of(self, data: str) -> float:
        """Return how many tokens some data must have so that no model is trained on a token twice.

        Args:
            data: folder or address of shards, as `Stage.data` has it; empty for the data of the command.
        """
        most_steps = 0
        for model in self.models:
            stages = [stage for stage in model.stages if stage.data == data]
            most_steps = max(most_steps, sum(stage.steps for stage in stages))
        return most_steps * self.study.config.tokens_per_step

    @property
    def data_tokens(self) -> float:
        """Tokens that the command's data must have so that no model is trained on a token twice."""
        return self.tokens_of("")

    @property
    def data_bytes(self) -> float:
        """Size of those tokens as decompressed shards."""
        return self.data_tokens * _TOKEN_BYTES

    def stage(self, name: str) -> PlannedStage:
        """Return the stage of that name."""
        return next(item for item in self.stages if item.name == name)

    def lineage(self, stage: PlannedStage) -> list[dict[str, object]]:
        """Return all that decides the content of a stage's checkpoints: a record of each stage that leads to it.

        The records are in the order of training, that of the stage itself last. Their end is None for stable steps,
        which may be trained further without a change of the steps before.
        """
        records = []
        for item in self.ancestry(stage):
            # `start` is the name that checkpoints and manifests have for a stage's first step.
            record: dict[str, object] = {"name": item.name, "objective": item.objective}
            record |= {
                "ratio": item.ratio,
                "start": item.first_step,
                "phase": item.phase,
            }

            # In a decay, every step's learning rate depends on where the decay ends.
            record["end"] = item.end if item.phase == "decay" else None
            # Optional fields, such as shards of its own, only where they are not at their defaults.
            records.append(record | item.extras())

        return records

    def ancestry(self, stage: PlannedStage) -> list[PlannedStage]:
        """Return the stages that lead to a stage, in the order of training, and last the stage itself."""
        before = [] if stage.parent is None else self.ancestry(self.stage(stage.parent))
        return [*before, stage]

    def steps_on_its_data(self, stage: PlannedStage) -> tuple[tuple[int, int], ...]:
        """Return the steps [first, end) that lead to the end of a stage and train on the stage's shards.

        There is a pair for each stage that leads to this one and has the same shards.
        """
        line = self.ancestry(stage)
        # An earlier stage counts only up to where the next one branches off: it may be trained further for others.
        ends = [*(later.first_step for later in line[1:]), stage.end]
        spans = []
        for item, end in zip(line, ends, strict=True):
            if item.data == stage.data:
                spans.append((item.first_step, end))
        return tuple(spans)

    def children(self, name: str | None) -> list[PlannedStage]:
        """Return the stages that branch off the stage of that name, in the order of the step at which they do.

        For None they are the stages that begin from random weights or from a start.
        """
        branches = (item for item in self.stages if item.parent == name)
        return sorted(branches, key=lambda item: (item.first_step, item.end, item.name))


def plan_of(models: Sequence[Model], study: Study = PAPER_STUDY) -> Plan:
    """Return the plan of some models of a study: all their stages, each only once."""
    uses: dict[str, _StageUse] = {}
    for model in models:
        for stage in model.stages:
            # The same trunk may have an earlier end in one model and a later one in another.
            use = uses.setdefault(stage.name, _StageUse(stage=stage, size=model.size))
            use.end = max(use.end, stage.end)
            # The name is there already where `models` has the model twice.
            if model.name not in use.models:
                use.models.append(model.name)

            # A model's stages are in order, so the parent of each is in `uses` already.
            if stage.parent is not None:
                # The parent may go on for other models, so the checkpoint where this one branches off is kept.
                uses[stage.parent].keep.add(stage.first_step)

        # The checkpoint of the model itself.
        last = model.stages[-1]
        uses[last.name].keep.add(last.end)

    # In the order in which the stages were found, so that each stands after its parent.
    stages = []
    for use in uses.values():
        fields = asdict(use.stage) | {"end": use.end}
        planned = PlannedStage(
            **fields,
            size=use.size,
            keep=tuple(sorted(use.keep)),
            models=tuple(use.models),
        )
        stages.append(planned)

    return Plan(study=study, models=tuple(models), stages=tuple(stages))


@dataclass(kw_only=True)
class _StageUse:
    """What the models of a plan need of one stage, collected model by model."""

    stage: Stage
    """The stage of the first model that has it; those of the others may differ in their end only."""
    size: str
    """Size of the models, the study's prefix included."""
    end: int = 0
    """The largest end that a model needs."""
    keep: set[int] = field(default_factory=set)
    """Steps whose checkpoints are kept."""
    models: list[str] = field(default_factory=list)
    """Names of the models that the stage is a part of."""


@dataclass(frozen=True, kw_only=True)
class Targets:
    """What one call of `train` is to train: a model or a single stage."""

    model: Model
    """The model; for a single stage, a model that the stage is a part of."""
    plan: Plan
    """The plan of all models that the study lists, and of this one."""
    stages: tuple[tuple[PlannedStage, int], ...]
    """The stages to train, in order, each with the step up to which it is trained."""
    is_model: bool
    """Whether the stages are those of a whole model."""
    start: Start | None = None
    """The start that the model names, opened; None for random weights. Only the start's weights are taken, and the
    optimizer's state begins anew."""


def targets_of(name: str, study: Study) -> Targets:
    """Return what to train for the name of a model or of a stage.

    Args:
        name: name of a model, all of whose stages are trained, or of a single stage such as the trunk `610m-clm`.
        study: the study of the model or stage.

    Raises:
        UserError: the name is neither a model's nor a stage's; the message suggests the nearest name.
    """
    model_by_stage: dict[str, Model] = {}
    # Reversed, so that of several models with one stage the first overwrites the others.
    for candidate in reversed(study.models.values()):
        for stage in candidate.stages:
            model_by_stage[stage.name] = candidate

    # A last stage may have its model's name, which then means the model. A name that the study does not list is taken
    # for a model's, whose name may say how it is trained.
    is_model = name in study.models or name not in model_by_stage
    model = (
        study.model(name, stages=model_by_stage) if is_model else model_by_stage[name]
    )

    # The plan has all of the study's models, so that checkpoints from which others continue are kept.
    models = {**study.models, model.name: model}
    plan = plan_of(tuple(models.values()), study)
    if is_model:
        # A shared stage may be planned further than this model needs, so the end is the model's own.
        stages = tuple((plan.stage(item.name), item.end) for item in model.stages)
    else:
        stages = ((plan.stage(name), plan.stage(name).end),)

    return Targets(model=model, plan=plan, stages=stages, is_model=is_model)
