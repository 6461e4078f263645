"""Models: what each starts from and its stages, and names as one grammar for them.

A model is a start (random weights, or another model) and stages; what kind it is, where it switches and how much of it
is CLM are questions to the stages. A name in the released scheme says everything about a model from random weights:

    610m-mlm40-42k                40k stable steps of MLM at 40 %, then 2k of decay
    610m-clm-10k-mlm40-42k        10k steps of CLM without decay, then MLM at 40 % up to step 42k, decay included
    610m-clm-dec42k-mlm40-64k     the decayed 42k CLM model, then 22k steps of MLM (continued pretraining, CPT)
    610m-mlm40-42k-1000           the undecayed trunk of 610m-mlm40-42k at step 1,000
    610m-mlm40-42k-s1             610m-mlm40-42k pretrained again with another seed, the study's plus 1

Beyond the paper's: more stages (610m-clm-10k-mlm40-32k-clm-42k), and a masking ratio that changes over its stage
(610m-mlm40to15-42k). A study file has names of one's own for what no name says (`pretraining.plan.model_tables`).
The paper's models are in `pretraining.paper_models`.

Standard library only.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from common.errors import UserError, nearest
from common.registry import Registry
from pretraining.paper_settings import TRAINING


@dataclass(frozen=True, kw_only=True)
class Objective:
    """A training objective: how names write it, and where its batches are made ready."""

    name: str
    """Lowercase letters: `clm`."""
    has_ratio: bool = False
    """Whether a masking ratio in percent follows in names: `mlm40`, or `mlm40to15` where it changes."""
    is_causal: bool = False
    """Whether attention looks back only, in training and in the exported model's configuration."""
    shift: int = 0
    """How many tokens before a predicted one its logits are read; exports record it as `PREDICTION_SHIFT`."""
    prepare: str
    """`MODULE:FUNCTION`, imported when a stage is trained: makes an `ObjectiveBatch` of a packed batch and a mask rule,
    which is None without a ratio (`pretraining.training.objectives`)."""


OBJECTIVES = Registry(
    "objective",
    [
        Objective(
            name="clm", is_causal=True, prepare="pretraining.training.objectives:clm"
        ),
        Objective(
            name="mlm", has_ratio=True, prepare="pretraining.training.objectives:mlm"
        ),
        Objective(
            name="mntp",
            has_ratio=True,
            shift=1,
            prepare="pretraining.training.objectives:mntp",
        ),
    ],
)
"""The objectives that names are made of and stages are trained on."""
PREDICTION_SHIFT = "prediction_shift"
"""Field of `config.json`: how many tokens before itself a token is predicted; heads for tokens also read it there."""


class StageObjective(NamedTuple):
    """An objective with its masking ratio, as a name gives them; `str` writes it as the name does: `mlm40`."""

    name: str
    """Name in `OBJECTIVES`."""
    ratio: int | None
    """Masking ratio in percent; None for objectives without one."""
    last_ratio: int | None = None
    """Masking ratio of the stage's last step, where it changes linearly from `ratio` to it."""

    def __str__(self) -> str:
        text = f"{self.name}{self.ratio or ''}"
        if self.last_ratio:
            text += f"to{self.last_ratio}"
        return text

    def label(self) -> str:
        """Return how tables and figures write it: `CLM`, `MLM 40 %`, `MLM 40 to 15 %`."""
        if self.ratio is None:
            return self.name.upper()
        falls = f" to {self.last_ratio}" if self.last_ratio else ""
        return f"{self.name.upper()} {self.ratio}{falls} %"


@dataclass(frozen=True, kw_only=True)
class Decay:
    """How the learning rate falls at the end of a stage."""

    name: str
    """Lowercase letters, as study files write it before its steps: `sqrt`."""
    rate: Callable[[float], float]
    """The rate as a share of the peak after a share of the decay's steps: falls from 1 at 0 to 0 at 1."""


LINEAR = "linear"
"""The paper's decay, in which every budget of a name ends."""
DECAYS = Registry(
    "decay",
    [
        Decay(name=LINEAR, rate=lambda share: 1.0 - share),
        Decay(name="sqrt", rate=lambda share: 1.0 - math.sqrt(share)),
    ],
)
"""The decays that a study file's stages can end in."""
_STEPS = r"\d+k?"
_LONGEST = 120
"""Letters of the longest name of a model."""
_SEED_SUFFIX = re.compile(r"(?P<arm>.+)-s(?P<seed>[1-9]\d{0,3})")
"""The end of a name: pretrained again, with another seed."""


def _objectives() -> str:
    """Return the regular expression of an objective's word, its ratios included: `clm`, `mlm40`, `mlm40to15`."""
    ratios = r"[1-9]\d?(?:to[1-9]\d?)?"
    words = []
    for item in OBJECTIVES.values():
        words.append(item.name + ratios if item.has_ratio else item.name)
    return "|".join(words)


def parse_objective(word: str) -> StageObjective:
    """Return the objective of a word such as `clm`, `mlm40`, `mlm40to15` or, as study files write it, `mlm40-15`.

    Raises:
        UserError: it is not one.
    """
    plain = re.sub(r"(\d)-(?=\d)", r"\1to", word)
    if not re.fullmatch(_objectives(), plain):
        known = []
        for item in OBJECTIVES.values():
            known.append(f"{item.name}40" if item.has_ratio else item.name)
        raise UserError(
            f"unknown objective {word!r:.60}; use one of {', '.join(known)}, with a masking ratio from 1 to 99, or two "
            f"such as mlm40-15 for a ratio that falls{nearest(word, known)}"
        )
    parts = re.fullmatch(r"([a-z]+)(?:(\d+)(?:to(\d+))?)?", plain)
    assert parts is not None, "names of objectives are lowercase letters"
    name, ratio, last = parts.groups()
    if last and last == ratio:
        raise UserError(
            f"the masking ratio of {word!r} does not change; write {name}{ratio}"
        )
    return StageObjective(
        name,
        ratio=int(ratio) if ratio else None,
        last_ratio=int(last) if last else None,
    )


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Consecutive optimiser steps with one objective and one phase of the schedule; the unit of shared work."""

    name: str
    """A trunk's name such as `610m-clm`, that of a second objective such as `610m-clm-10k-mlm40`, or with its last
    step that of its decay. What has the same name is the same work."""
    objective: str
    """Name in `OBJECTIVES`: `clm` or `mlm`."""
    ratio: int | None
    """Masking ratio in percent, the first one where it changes; None for CLM."""
    first_step: int
    """Its first step, counted from random weights or the model's start."""
    end: int
    """Step after its last."""
    phase: str
    """`stable` (warm-up included when it begins at 0) or `decay`."""
    parent: str | None
    """The stage whose checkpoint at `first_step` this one continues; None for random weights, or the model's start."""
    last_ratio: int | None = None
    """The last masking ratio, where it changes."""
    ratio_steps: tuple[int, int] | None = None
    """The steps [first, end) over which it changes, of which these may be a part; None where it does not."""
    curve: str = LINEAR
    """How the rate falls in a decay: one of `DECAYS`."""
    data: str = ""
    """Folder or address of the shards, where they are not those of the command."""

    @property
    def steps(self) -> int:
        """Number of optimiser steps."""
        return self.end - self.first_step

    @property
    def trained_on(self) -> StageObjective:
        """The objective with its ratio or ratios."""
        return StageObjective(self.objective, self.ratio, self.last_ratio)

    @property
    def lasting_ratio(self) -> int | None:
        """Masking ratio of validation, which stays the same: the last one where it changes."""
        return self.last_ratio or self.ratio

    def ratio_at(self, step: int) -> float | None:
        """Return the masking ratio in percent of the update that `step` (counted from 0) makes; None for CLM.

        The first update of the steps over which it changes has `ratio`, the last one exactly `last_ratio`.
        """
        if self.ratio is None or self.last_ratio is None or self.ratio_steps is None:
            return self.ratio
        first, end = self.ratio_steps
        change = self.last_ratio - self.ratio
        # N updates have N - 1 intervals between the first and the last.
        intervals = max(1, end - 1 - first)
        return self.ratio + change * (step - first) / intervals

    @property
    def predicted_share(self) -> float:
        """Share of the positions that pass the head, 0 to 1: the masking ratio, on average; 1 for CLM."""
        total = 0.0
        # A ratio changes linearly, so its mean is the mean of both ends.
        for step in (self.first_step, self.end - 1):
            ratio = self.ratio_at(step)
            total += 100.0 if ratio is None else ratio
        return total / 2 / 100

    def extras(self) -> dict[str, object]:
        """Return the fields that are not at their defaults, which no stage of the paper has."""
        extras: dict[str, object] = {}
        for name in ("last_ratio", "ratio_steps", "data"):
            value = getattr(self, name)
            if value:
                extras[name] = value
        if self.curve != LINEAR:
            extras["curve"] = self.curve
        return extras


@dataclass(frozen=True, kw_only=True)
class StageSpec:
    """A stage as names and study files give it: an objective up to a step, with its decay."""

    objective: StageObjective
    """What it is trained on."""
    end: int
    """Step after its last, counted from the start of pretraining."""
    decay_steps: int = 0
    """Length of the decay at its end; 0 for none."""
    curve: str = LINEAR
    """How the rate falls in it: one of `DECAYS`."""
    data: str = ""
    """Folder or address of the shards, where they are not those of the command."""
    cut: int | None = None
    """Step at which a checkpoint is taken in place of the end; None for the whole stage."""


def make_stages(
    root: str, specs: Iterable[StageSpec], *, usual_decay: int, seed: int = 0
) -> tuple[Stage, ...]:
    """Return all steps that lead to a checkpoint, in order, as stages that other models may share.

    Models share a stage where its name is the same, so a name holds all that the stage's steps depend on.

    Args:
        root: what their names begin with: a size, or the short name of a start.
        specs: at least one, by rising end, each at least as long as its decay.
        usual_decay: length of a linear decay that names do not mention.
        seed: of another pretraining.
    """
    stages: list[Stage] = []
    parent_name, first_step = root, 0

    def add(
        name: str, spec: StageSpec, ratio_span: tuple[int, int], end: int, phase: str
    ) -> None:
        begin, parent = 0, None
        if stages:
            begin, parent = stages[-1].end, stages[-1].name
        if end <= begin:  # a switch where the decay begins leaves no stable steps
            return
        # A stage's name is also a folder's, and most file systems allow 255 bytes.
        if len(name) > 2 * _LONGEST:
            digest = hashlib.sha256(name.encode()).hexdigest()
            name = f"{name[:_LONGEST]}-{digest[:12]}"
        if seed:
            name = f"{name}-s{seed}"
        objective = spec.objective
        stage = Stage(
            name=name,
            objective=objective.name,
            ratio=objective.ratio,
            last_ratio=objective.last_ratio,
            ratio_steps=ratio_span if objective.last_ratio else None,
            first_step=begin,
            end=end,
            phase=phase,
            parent=parent,
            curve=spec.curve if phase == "decay" else LINEAR,
            data=spec.data,
        )
        stages.append(stage)

    for spec in specs:
        last_step = format_steps(spec.end)
        ratio_span = (first_step, spec.end)
        prefix = f"{parent_name}-{spec.objective}"
        if spec.data:
            prefix = f"{prefix}.on.{short_name(spec.data)}"
        trunk = prefix
        if spec.objective.last_ratio:
            # The name has the end, since the ratio changes from the first step towards it: another end is other work.
            trunk = f"{prefix}.by.{last_step}"
        stable_end = spec.cut or spec.end - spec.decay_steps
        add(trunk, spec, ratio_span, stable_end, "stable")
        is_usual_decay = (spec.decay_steps, spec.curve) == (usual_decay, LINEAR)
        decay = ""
        if spec.decay_steps and not is_usual_decay:
            decay = f".{spec.curve}{spec.decay_steps}"
        # A checkpoint that is taken from the stable steps (`cut`) has no decay.
        if spec.cut is None:
            name = f"{prefix}-{last_step}{decay}"
            add(name, spec, ratio_span, spec.end, "decay")
        decayed = "dec" if spec.decay_steps else ""
        parent_name = f"{prefix}-{decayed}{last_step}{decay}"
        first_step = spec.end
    return tuple(stages)


def short_name(text: str) -> str:
    """Return a folder or address as a part of a name, without hyphens: `news`, with a hash for all but a word."""
    last = text.rstrip("/").rpartition("/")[2]
    words = re.sub(r"[^A-Za-z0-9]+", "_", last)
    word = words.strip("_")[:40]
    if word == text:
        return word
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{word}.{digest}".lstrip(".")


@dataclass(frozen=True, kw_only=True)
class Model:
    """One checkpoint of the study: what it starts from, its stages, and what follows from them."""

    name: str
    """Name in the released scheme, or one of a study file's own."""
    size: str
    """`210m`, `610m` or `1b`; of a start its short name."""
    stages: tuple[Stage, ...]
    """All steps that lead to the checkpoint, in order, as stages that other models may share."""
    start: str = ""
    """What it starts from: a folder or hub id of a model; empty: random weights."""
    seed: int = 0
    """Added to the study's seed: weights, masks and order of sequences of another pretraining."""

    def again(self, seed: int) -> Model:
        """Return the model pretrained again with another seed, its stages under names of their own."""
        stages = []
        for stage in self.stages:
            parent = stage.parent and f"{stage.parent}-s{seed}"
            stages.append(replace(stage, name=f"{stage.name}-s{seed}", parent=parent))
        name = f"{self.name}-s{seed}"
        return replace(self, name=name, stages=tuple(stages), seed=seed)

    @property
    def origin(self) -> str:
        """Name of its start, as figures and tables write it; empty for random weights."""
        return self.start.rstrip("/").rpartition("/")[2]

    @property
    def kind(self) -> str:
        """`base` (one objective), `two-stage`, `multi-stage`, `continued` (CPT from a decayed checkpoint), `adapted`
        (from another model's weights) or `intermediate` (before its decay)."""
        if self.start:
            return "adapted"
        if not self.decayed:
            return "intermediate"
        if any(stage.phase == "decay" for stage in self.stages[:-1]):
            return "continued"
        return {1: "base", 2: "two-stage"}.get(len(self._segments), "multi-stage")

    @property
    def steps(self) -> int:
        """Optimiser steps that went into the checkpoint, from random weights or the start on."""
        return self.stages[-1].end

    @property
    def decayed(self) -> bool:
        """Whether the checkpoint ends in a learning-rate decay."""
        return self.stages[-1].phase == "decay"

    @property
    def _segments(self) -> tuple[Stage, ...]:
        """The stages in which something new begins: an objective, a ratio, data, or what follows a decay."""
        segments = [self.stages[0]]
        for before, after in pairwise(self.stages):
            is_same_objective = before.trained_on == after.trained_on
            is_same = is_same_objective and before.data == after.data
            if before.phase == "decay" or not is_same:
                segments.append(after)
        return tuple(segments)

    @property
    def objectives(self) -> tuple[StageObjective, ...]:
        """Its objectives, first to last: one, or several where it switches."""
        return tuple(stage.trained_on for stage in self._segments)

    @property
    def switch(self) -> int | None:
        """First step of the second of its objectives; None with one."""
        segments = self._segments
        return segments[1].first_step if len(segments) > 1 else None

    @property
    def objective(self) -> str:
        """`clm`, `mlm`, `clm+mlm` or `clm+mlm+clm`."""
        return "+".join(objective.name for objective in self.objectives)

    @property
    def ratio(self) -> int | None:
        """Masking ratio of the last step in percent; None when it is CLM."""
        return self.stages[-1].lasting_ratio

    @property
    def clm_share(self) -> float:
        """Share of its steps that are CLM, 0 to 1."""
        return self.clm_steps / self.steps

    @property
    def clm_steps(self) -> int:
        """Steps of CLM."""
        return sum(stage.steps for stage in self.stages if stage.objective == "clm")

    def label(self) -> str:
        """Return how tables and figures write what it was trained on: `MLM 40 %`, `CLM + MLM 40 %`."""
        labels = []
        for stage in self._segments:
            label = stage.trained_on.label()
            if stage.data:
                label += f" on {stage.data.rstrip('/').rpartition('/')[2]}"
            labels.append(label)
        return " + ".join(labels)


class _NamedStage(NamedTuple):
    """A stage as a name writes it."""

    objective: str
    """Its word: `mlm40`."""
    decay: str
    """`dec` where it ends in a decay that a further stage follows; else empty."""
    steps: str
    """Its end: `42k`."""


@dataclass(frozen=True, kw_only=True)
class _NameParts:
    """Parts of a name in the scheme."""

    size: str
    stages: tuple[_NamedStage, ...]
    cut: int | None
    """The step of an undecayed trunk; None for the whole model."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """A family of models in the paper's scheme; the paper is one, a miniature another."""

    sizes: tuple[str, ...]
    """Size names, smallest first."""
    prefix: str = ""
    """Put before every name, so that a miniature's models cannot be taken for the paper's."""
    decay_steps: int = TRAINING.decay_steps
    """Length of the decay that closes every budget."""
    known: tuple[str, ...] = ()
    """Names that have been trained, of which the nearest is offered in place of an unknown one."""

    def parse(self, name: str) -> Model:
        """Return the model that `name` stands for, whether or not the study trained it.

        Raises:
            UserError: the name is not in the scheme, or its steps contradict each other.
        """
        if len(name) > _LONGEST:
            raise UserError(
                f"a model's name has at most {_LONGEST} characters, not {len(name)}: {name[:40]!r}..."
            )
        if not self.sizes:
            raise UserError(
                f"unknown model {name!r}; the study has no sizes, so that names say nothing"
            )
        arm, seed = arm_of(name)
        parts = self._parts(arm)
        if parts is None:
            raise UserError(
                f"unknown model {name!r}; a name reads SIZE-OBJECTIVE-STEPS such as "
                f"{self.prefix}{self.sizes[-1]}-mlm40-42k, with SIZE one of {', '.join(self.sizes)} and masking "
                f"ratios from 1 to 99{nearest(name, self.known)}"
            )
        cut, last = parts.cut, parts.stages[-1]
        specs: list[StageSpec] = []
        begin = 0
        for stage in parts.stages:
            end = parse_steps(stage.steps)
            # The last stage always ends in a decay; an earlier stage only if the name says so.
            decay = self.decay_steps if stage.decay or stage is last else 0
            if cut is not None:
                self._check(name, "last step", cut, 1, end - decay)
            else:
                what = "last step" if stage is last else "switch"
                self._check(name, what, end, begin + (decay or 1))
            objective = parse_objective(stage.objective)
            specs.append(
                StageSpec(objective=objective, end=end, decay_steps=decay, cut=cut)
            )
            begin = end
        size = f"{self.prefix}{parts.size}"
        stages = make_stages(size, specs, usual_decay=self.decay_steps, seed=seed)
        return Model(name=name, size=size, stages=stages, seed=seed)

    def _parts(self, arm: str) -> _NameParts | None:
        """Return what a name is made of, its seed left out; None where it is not in the scheme."""
        objective = _objectives()
        grammar = (
            rf"{re.escape(self.prefix)}(?P<size>[a-z0-9.]+)"
            rf"(?P<stages>(?:-(?:{objective})-(?:dec)?{_STEPS})*-(?:{objective})-{_STEPS})(?:-(?P<cut>\d+))?"
        )
        match = re.fullmatch(grammar, arm)
        if match is None or match["size"] not in self.sizes:
            return None
        words = re.findall(rf"-({objective})-(dec)?({_STEPS})", match["stages"])
        cut = int(match["cut"]) if match["cut"] else None
        # A step within a trunk (`cut`) is unambiguous only if there is one stage.
        if cut is not None and len(words) > 1:
            return None
        stages = tuple(_NamedStage(*word) for word in words)
        return _NameParts(size=match["size"], stages=stages, cut=cut)

    def _check(
        self, name: str, what: str, step: int, least: int, most: int | None = None
    ) -> None:
        """Refuse a name whose `what`, a step, is below `least` or above `most`."""
        limit = ""
        if step < least:
            limit = f"at least {least}"
        elif most is not None and step > most:
            limit = f"at most {most}"
        if limit:
            raise UserError(
                f"there is no model {name!r}: with a decay of {self.decay_steps} steps its {what} must be {limit}, "
                f"not {step}"
            )


def arm_of(name: str) -> tuple[str, int]:
    """Return the model without the seed of its pretraining, and that: `mine-s2` is `mine`, 2; `mine` alone is 0."""
    match = _SEED_SUFFIX.fullmatch(name)
    if match is None:
        return name, 0
    return match["arm"], int(match["seed"])


def format_steps(steps: int) -> str:
    """Return `12k` for 12,000; a number that is not a whole thousand is printed as it is."""
    return f"{steps // 1000}k" if steps and steps % 1000 == 0 else str(steps)


def parse_steps(text: str) -> int:
    """Return 12,000 for `12k` or `12000`."""
    if text.endswith("k"):
        return 1000 * int(text.removesuffix("k"))
    return int(text)


def own_model(name: str, study: Mapping[str, Model]) -> Model | None:
    """Return the model of a name in a study, or of another pretraining of one; None for other names."""
    arm, seed = arm_of(name)
    model = study.get(name) or study.get(arm)
    if model is None or model.name == name:
        return model
    return model.again(seed)


def parse_any(name: str) -> Model | None:
    """Return the model of a name in the scheme, of any study and size such as `toy-s` or `2b`; None for other names."""
    match = re.match(
        rf"(?P<prefix>(?:[^-]+-)*?)(?P<size>[^-]+)-(?:{_objectives()})-", name
    )
    if match is None:
        return None
    # The name does not tell the decay's length, which a design must have: a decay of one step fits every name.
    design = Design(prefix=match["prefix"], sizes=(match["size"],), decay_steps=1)
    try:
        return design.parse(name)
    except UserError:
        return None
