"""A study as data, and its plan: a graph of trunks, stages and decays in which shared work is done, and counted, once.

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

Models that no name says, with a start, other data or decays of their own, have a table each
(`pretraining.plan.model_tables`).

A stage is one run of the optimiser with one objective and one phase: the trunk `610m-clm`, the stage
`610m-clm-10k-mlm40` that branches off it at step 10,000, and that stage's decay `610m-clm-10k-mlm40-42k`.
Models that need the same steps share them; the checkpoints at which others branch off are kept. Another masking ratio,
split or budget needs only another name (`pretraining.models`).
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


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study: what is pretrained and how."""

    name: str
    """`paper`, or the stem of the study file."""
    design: Design
    """Names: sizes, prefix, length of the decay."""
    shapes: dict[str, Shape]
    """Architectures by size, prefix included (`Model.size`)."""
    models: dict[str, Model]
    """The study's models by name."""
    config: TrainingConfig = field(default_factory=TrainingConfig)
    """Settings of every run."""

    def model(self, name: str, *, stages: Iterable[str] = ()) -> Model:
        """Return the model of that name, one of the study's or another in its scheme.

        Raises:
            UserError: the name is not in the scheme; the nearest of the study's names and of `stages` is given.
        """
        if name in self.models:
            return self.models[name]
        arm, seed = arm_of(name)
        if arm in self.models and seed:
            return self.models[arm].again(seed)
        try:
            return self.design.parse(name)
        except UserError as error:
            # The scheme suggests only names of its own, no stage and no model of the study file: replaced below.
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
        """Refuse names that could lead out of a folder, and what no study can be."""
        if self.prefix and not _PREFIX.fullmatch(self.prefix):
            raise UserError(
                f"prefix must be at most 60 letters, digits, dots, hyphens and underscores, starting with a letter or "
                f"digit, not {self.prefix!r:.60}"
            )
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
    """Return the study that a TOML file describes, the paper's when there is none.

    Raises:
        UserError: the file cannot be read, a key is unknown, a name is not in the file's own scheme.
    """
    return PAPER_STUDY if path is None else read_study(read_toml(path), path)


def read_study(content: Mapping[str, Any], path: Path) -> Study:
    """Return the study that a file's content defines; errors as in `load_study`, with the path."""
    file = read_settings(_File, content, str(path), base=_File())
    tables = file.models
    if not isinstance(tables, dict):
        tables = {name: {} for name in tables}
    # A model with a start has the start's size, and needs none of the file's.
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
    settings = file.settings
    refuse_code(settings, f"{path} [settings]")
    # Before `loss_group` was a setting, `microbatch` also decided how the loss is weighed.
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
    """Return each model followed by its other pretrainings."""
    repeated: dict[str, Model] = {}
    for name, model in models.items():
        arm, seed = arm_of(name)
        if seed:
            raise UserError(
                f"{path}: pretrainings = {pretrainings} repeats each model; list {arm} alone, not {name}"
            )
        repeated[name] = model
        for seed in range(1, pretrainings):
            again = model.again(seed)
            repeated[again.name] = again
    return repeated


@dataclass(frozen=True, kw_only=True)
class PlannedStage(Stage):
    """A stage as the plan trains it: once, as far as any model needs it."""

    size: str
    """The model size, prefix included."""
    keep: tuple[int, ...]
    """Steps whose checkpoints are kept: others branch off there, or a model of the study is one."""
    models: tuple[str, ...]
    """Models whose steps it holds."""


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Costs of a set of stages."""

    steps: int
    """Optimiser steps."""
    tokens: float
    """Expected tokens."""
    flops: dict[str, float]
    """Training FLOPs by both conventions of `pretraining.plan.flops`, `hoffmann` and `model`."""
    gpu_hours: float
    """Hours of the chosen device."""
    memory_gb: float
    """GB of the device that the largest model takes."""
    checkpoint_bytes: float
    """Kept checkpoints with optimiser state, fp32."""
    model_bytes: float
    """Exported models, fp32."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Some models of a study and the work they need together."""

    study: Study
    """The study."""
    models: tuple[Model, ...]
    """The chosen models."""
    stages: tuple[PlannedStage, ...]
    """Their work, parents before children."""

    @property
    def shapes(self) -> list[Shape]:
        """The shape of each stage's model."""
        return [self.study.shapes[stage.size] for stage in self.stages]

    def costs(
        self,
        stages: Iterable[PlannedStage] | None = None,
        *,
        device: Device = H100,
        processes: int = 1,
        network: float = math.inf,
    ) -> Costs:
        """Return what the stages take (all of the plan's when left out), each counted once, on a device.

        With several processes and a network (bytes/s of each) the hours have the time in which gradients are summed.
        """
        chosen = self.stages if stages is None else tuple(stages)
        config, shapes = self.study.config, self.study.shapes
        length = config.sequences.attended_length
        pass_tokens = config.batches.pass_tokens
        is_compiled = config.machine.compile != "off"
        # `gradient_seconds` counts float32; bf16 sends half the bytes, as over a network twice as fast.
        bandwidth = network
        if config.batches.gradients == "bf16":
            bandwidth = 2 * network
        flops = {"hoffmann": 0.0, "model": 0.0}
        checkpoint_bytes = seconds = memory = 0.0
        for item in chosen:
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
            # Hours of all GPUs together, which wait while gradients are summed.
            waiting = gradient_seconds(shape, device, processes, bandwidth)
            seconds += processes * item.steps * waiting
            memory = max(memory, training_gb(shape, pass_tokens))
            parameter_bytes = _WEIGHT_BYTES + OPTIMIZER_BYTES
            one_checkpoint = shape.trained_parameters * parameter_bytes
            checkpoint_bytes += len(item.keep) * one_checkpoint

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
        """Return the unique tokens of some data that every model can be trained on without a second epoch.

        Args:
            data: as stages name it; empty: the data of the command.
        """
        most = 0
        for model in self.models:
            stages = [stage for stage in model.stages if stage.data == data]
            most = max(most, sum(stage.steps for stage in stages))
        return most * self.study.config.tokens_per_step

    @property
    def data_tokens(self) -> float:
        """Unique tokens of the command's data that every model can be trained on without a second epoch."""
        return self.tokens_of("")

    @property
    def data_bytes(self) -> float:
        """Size of those tokens as decompressed shards."""
        return self.data_tokens * _TOKEN_BYTES

    def stage(self, name: str) -> PlannedStage:
        """Return the stage of that name."""
        return next(item for item in self.stages if item.name == name)

    def lineage(self, stage: PlannedStage) -> list[dict[str, object]]:
        """Return the stages that lead to one, itself last, each with what decides its steps.

        The end decides them only where the rate falls towards it: a trunk may be trained further.
        """
        line = []
        for item in self.ancestry(stage):
            entry: dict[str, object] = {"name": item.name, "objective": item.objective}
            entry |= {
                "ratio": item.ratio,
                "start": item.first_step,
                "phase": item.phase,
            }
            entry["end"] = item.end if item.phase == "decay" else None
            line.append(entry | item.extras())
        return line

    def ancestry(self, stage: PlannedStage) -> list[PlannedStage]:
        """Return the stages that lead to one, itself last."""
        before = [] if stage.parent is None else self.ancestry(self.stage(stage.parent))
        return [*before, stage]

    def steps_on_its_data(self, stage: PlannedStage) -> tuple[tuple[int, int], ...]:
        """Return the steps [first, end) that lead to the end of a stage and are trained on the same shards."""
        line = self.ancestry(stage)
        ends = [*(later.first_step for later in line[1:]), stage.end]
        spans = []
        for item, end in zip(line, ends, strict=True):
            if item.data == stage.data:
                spans.append((item.first_step, end))
        return tuple(spans)

    def children(self, name: str | None) -> list[PlannedStage]:
        """Return the stages that branch off the named one, in order of the step; the first ones for None."""
        branches = (item for item in self.stages if item.parent == name)
        return sorted(branches, key=lambda item: (item.first_step, item.end, item.name))


def plan_of(models: Sequence[Model], study: Study = PAPER_STUDY) -> Plan:
    """Return the work of the models, with what they share merged."""
    uses: dict[str, _StageUse] = {}
    for model in models:
        for stage in model.stages:
            use = uses.setdefault(stage.name, _StageUse(stage=stage, size=model.size))
            use.end = max(use.end, stage.end)
            if model.name not in use.models:
                use.models.append(model.name)
            if stage.parent is not None:
                # The parent may go on for other models, so the checkpoint where this one branches off is kept.
                uses[stage.parent].keep.add(stage.first_step)
        last = model.stages[-1]
        uses[last.name].keep.add(last.end)
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
    """A stage as the models of a plan need it."""

    stage: Stage
    """As the first of them has it."""
    size: str
    """The model size, prefix included."""
    end: int = 0
    """The last end."""
    keep: set[int] = field(default_factory=set)
    """Steps whose checkpoints are kept."""
    models: list[str] = field(default_factory=list)
    """Models whose steps it holds."""


@dataclass(frozen=True, kw_only=True)
class Targets:
    """Work of one call of `train`."""

    model: Model
    """The model, or one that the stage belongs to."""
    plan: Plan
    """The work of the study and of the model."""
    stages: tuple[tuple[PlannedStage, int], ...]
    """The stages to train, each with the step that it must reach."""
    is_model: bool
    """Whether they are a whole model, not only a stage."""
    start: Start | None = None
    """What the model's `start` names, opened: only its weights are taken, the optimizer's state is new."""


def targets_of(name: str, study: Study) -> Targets:
    """Return what to train for a name.

    Args:
        name: a model's, or that of a stage such as the trunk `610m-clm`, of which only that is trained.
        study: the study of both.

    Raises:
        UserError: neither; the nearest name is given.
    """
    by_stage: dict[str, Model] = {}
    # Reversed, so that of several models with one stage the first overwrites the others.
    for candidate in reversed(study.models.values()):
        for stage in candidate.stages:
            by_stage[stage.name] = candidate
    is_model = name in study.models or name not in by_stage
    model = study.model(name, stages=by_stage) if is_model else by_stage[name]
    # The plan has all of the study's models, so that checkpoints from which others continue are kept.
    models = {**study.models, model.name: model}
    plan = plan_of(tuple(models.values()), study)
    if is_model:
        stages = tuple((plan.stage(item.name), item.end) for item in model.stages)
    else:
        stages = ((plan.stage(name), plan.stage(name).end),)
    return Targets(model=model, plan=plan, stages=stages, is_model=is_model)
