"""The study as a graph of trunks, stages and decays in which shared work is done, and counted, once.

A stage is one run of the optimiser with one objective and one phase: the trunk `610m-clm`, the stage
`610m-clm-10k-mlm40` that branches off it at step 10,000, and that stage's decay `610m-clm-10k-mlm40-42k`.
Models that need the same steps share them; the checkpoints at which others branch off are kept.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from common.errors import UserError, nearest
from pretraining.model_names import Model, Stage
from pretraining.plan.config import OPTIMIZER_BYTES
from pretraining.plan.flops import CONVENTIONS, gpu_hours
from pretraining.plan.study_file import PAPER_STUDY, Study

__all__ = ["Costs", "PaperTotal", "Plan", "PlannedStage", "paper_totals", "plan_of", "targets_of"]

_WEIGHT_BYTES, _TOKEN_BYTES = 4, 4


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
    """What a set of stages takes."""

    steps: int
    """Optimiser steps."""
    tokens: float
    """Expected tokens."""
    flops: dict[str, float]
    """Training FLOPs by each convention of `pretraining.plan.flops`."""
    gpu_hours: float
    """Hours of the chosen device at the chosen utilisation, by the `model` convention."""
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

    def costs(
        self,
        stages: Iterable[PlannedStage] | None = None,
        *,
        device: str = "H100",
        utilisation: float = 0.4,
    ) -> Costs:
        """Return what the stages take (all of the plan's when left out), each counted once."""
        chosen = self.stages if stages is None else tuple(stages)
        config = self.study.config
        flops = dict.fromkeys(CONVENTIONS, 0.0)
        checkpoint_bytes = 0.0
        for item in chosen:
            shape = self.study.shapes[item.size]
            tokens = item.steps * config.tokens_per_step
            for name, rule in CONVENTIONS.items():
                share = item.predicted_share if rule.leaves_out_unpredicted else 1.0
                flops[name] += tokens * rule.per_token(shape, length=config.attended_length, predicted=share)
            checkpoint_bytes += len(item.keep) * shape.trained_parameters * (_WEIGHT_BYTES + OPTIMIZER_BYTES)
        steps = sum(item.steps for item in chosen)
        names = {item.name for item in chosen}
        exported = [model for model in self.models if model.stages[-1].name in names]
        return Costs(
            steps=steps,
            tokens=steps * config.tokens_per_step,
            flops=flops,
            gpu_hours=gpu_hours(flops["model"], utilisation, device),
            checkpoint_bytes=checkpoint_bytes,
            model_bytes=sum(
                self.study.shapes[model.size].trained_parameters * _WEIGHT_BYTES for model in exported
            ),
        )

    @property
    def data_tokens(self) -> float:
        """Unique tokens that every model can be trained on without a second epoch."""
        return max((model.steps for model in self.models), default=0) * self.study.config.tokens_per_step

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
        before = [] if stage.parent is None else self.lineage(self.stage(stage.parent))
        own: dict[str, object] = {
            key: getattr(stage, key) for key in ("name", "objective", "ratio", "start", "phase")
        }
        return [*before, own | {"end": stage.end if stage.phase == "decay" else None}]

    def children(self, name: str | None) -> list[PlannedStage]:
        """Return the stages that branch off the named one, in order of the step; the first ones for None."""
        branches = (item for item in self.stages if item.parent == name)
        return sorted(branches, key=lambda item: (item.start, item.end, item.name))


@dataclass(frozen=True, kw_only=True)
class PaperTotal:
    """A total that the paper states, and ours."""

    what: str
    """What is counted."""
    paper: float
    """The paper's number."""
    ours: float
    """Ours, from the plan."""
    unit: str
    """`steps`, `models` or `tokens`."""
    why: str
    """The difference, named."""


PAPER_GPU_HOURS = {"base": 81_000, "two-stage": 16_000, "continued": 4_000, "fine-tuning": 9_000}
"""MI250X hours the paper states; they sum to its 110k."""


def plan_of(models: Sequence[Model], study: Study = PAPER_STUDY) -> Plan:
    """Return the work of the models, with what they share merged."""
    first: dict[str, tuple[Model, Stage]] = {}
    ends: dict[str, int] = {}
    keep: dict[str, set[int]] = {}
    users: dict[str, dict[str, None]] = {}
    for model in models:
        for stage in model.stages:
            first.setdefault(stage.name, (model, stage))
            ends[stage.name] = max(ends.get(stage.name, 0), stage.end)
            users.setdefault(stage.name, {})[model.name] = None
            keep.setdefault(stage.name, set())
            if stage.parent is not None:
                keep.setdefault(stage.parent, set()).add(stage.start)
        last = model.stages[-1]
        keep[last.name].add(last.end)
    stages = tuple(
        PlannedStage(
            **asdict(stage) | {"end": ends[name]},
            size=model.size,
            keep=tuple(sorted(keep[name])),
            models=tuple(users[name]),
        )
        for name, (model, stage) in first.items()
    )
    return Plan(study=study, models=tuple(models), stages=stages)


@functools.cache
def paper_totals() -> tuple[PaperTotal, ...]:
    """Return totals that the paper states and the plan's, with the differences explained."""
    plan = plan_of(tuple(PAPER_STUDY.models.values()))
    of_kind = {
        kind: [m for m in plan.models if m.kind == kind] for kind in ("base", "two-stage", "continued")
    }
    base_models = [m for m in of_kind["base"] if m.steps == 42_000]
    endpoints = [m for m in of_kind["base"] if m.steps != 42_000]
    two_stage = [m for m in of_kind["two-stage"] if m.size == "610m"] + endpoints
    base_plan = plan_of(base_models)
    base = {item.name for item in base_plan.stages}
    endpoint_decays = sum(m.decay_steps for m in endpoints)

    def new_steps(models: Sequence[Model]) -> int:
        return sum(i.steps for i in plan_of(models).stages if i.name not in base)

    new, per_start = new_steps(two_stage), new_steps([m for m in of_kind["continued"] if "-clm-" in m.name])
    return (
        PaperTotal(
            what="checkpoints of the study",
            paper=38,
            ours=len(plan.models),
            unit="models",
            why="the abstract's 38 leave out the 12 intermediate checkpoints of Figures 4 and 10, which are "
            "steps of base models, and the 1B two-stage model of Figure 11",
        ),
        PaperTotal(
            what="steps of the 15 base models",
            paper=15 * 42_000,
            ours=sum(i.steps for i in base_plan.stages),
            unit="steps",
            why="equal: 15 x 42,000",
        ),
        PaperTotal(
            what="new steps of the 17 two-stage models and their endpoints (610m)",
            paper=120_000,
            ours=new,
            unit="steps",
            why=f"each of the 17 ends in a decay of its own; without the four one-objective endpoints' decays "
            f"({endpoint_decays:,} steps) it is {new - endpoint_decays:,}, which rounds to the paper's number",
        ),
        PaperTotal(
            what="new steps of continued pretraining (610m)",
            paper=26_000,
            ours=new_steps(of_kind["continued"]),
            unit="steps",
            why=f"{per_start:,} for each of the two starting objectives; the text gives one of them as the whole",
        ),
        PaperTotal(
            what="new steps of the 1B two-stage model",
            paper=0,
            ours=new_steps([PAPER_STUDY.models["1b-clm-10k-mlm40-42k"]]),
            unit="steps",
            why="Figure 11 shows the model, the text counts it nowhere",
        ),
        PaperTotal(
            what="expected tokens of one step",
            paper=2_359_296,
            ours=PAPER_STUDY.config.tokens_per_step,
            unit="tokens",
            why="Table 1 leaves out the shortest length: 2,304 x 1,024; the text's 2,373,120 is ours, 2,304 x 1,030",
        ),
    )


def targets_of(name: str, study: Study) -> tuple[Model, Plan, list[tuple[PlannedStage, int]], bool]:
    """Return a model, its plan, the stages to train with the step that each must reach, and whether that is all of it.

    Args:
        name: a model's, or that of a stage such as the trunk `610m-clm`, which is then trained alone.
        study: the study of both.

    Raises:
        UserError: neither; the nearest name is given.
    """
    known = plan_of(tuple(study.models.values()), study)
    alone = next((item for item in known.stages if item.name == name and name not in study.models), None)
    if alone is not None:
        return study.model(alone.models[0]), known, [(alone, alone.end)], False
    try:
        model = study.model(name)
    except UserError as error:
        near = nearest(name, [*study.models, *(item.name for item in known.stages)])
        raise UserError(str(error).split("; did you mean")[0] + near) from None
    plan = plan_of((*study.models.values(), model), study)
    return model, plan, [(plan.stage(item.name), item.end) for item in model.stages], True
