"""Models: what each is trained from and in which stages, and the grammar of the names that say so.

A model begins from random weights, or from another model's weights (its start), and is trained in stages. All else that
is asked of a model, such as its kind, its share of CLM or the step at which the objective switches, follows from its
stages. These words are used throughout:

- stage: consecutive steps with one objective, either stable (before the learning rate falls) or in the decay.
- segment: a stage with a new objective, ratio or data, or after a decay, and the decay that may end it.
- decay: the steps in which the learning rate falls to zero.
- budget: all steps of a finished model, the last ones of which are its decay.
- trunk: stable steps from which several models branch off, each with a decay of its own.
- cut: the step of a trunk at which its checkpoint is a model itself, which has no decay.
- seed: what distinguishes repeated pretrainings of a model; a model that was not repeated has seed 0.

A name says everything about a model that begins from random weights. The names below are in the scheme (the grammar) of
the released models:

    610m-mlm40-42k                40k stable steps of MLM at 40 %, then 2k of decay
    610m-clm-10k-mlm40-42k        10k steps of CLM without decay, then MLM at 40 % up to step 42k, decay included
    610m-clm-dec42k-mlm40-64k     the decayed 42k CLM model, then 22k steps of MLM (continued pretraining, CPT)
    610m-mlm40-42k-1000           the undecayed trunk of 610m-mlm40-42k at step 1,000
    610m-mlm40-42k-s1             610m-mlm40-42k pretrained again with another seed, the study's plus 1

Two kinds of names are not among the paper's: with more stages (610m-clm-10k-mlm40-32k-clm-42k), and with a masking
ratio that changes over its stage (610m-mlm40to15-42k). For models that no such name describes, a study file has tables
under names of the user's choice (`pretraining.plan.model_tables`).

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
    """Distance from a token to the earlier position whose logits predict it, for objectives with a masking ratio: 0 for
    MLM, 1 for MNTP. The configurations of exported models record it as `PREDICTION_SHIFT`."""
    prepare: str
    """`MODULE:FUNCTION`, imported when a stage is trained. The function makes an `ObjectiveBatch` of a packed batch and
    a mask rule, which is None for an objective without a ratio (`pretraining.training.objectives`)."""


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
"""Field of an exported `config.json` that holds `Objective.shift`. A head that classifies tokens reads each token's
features as many positions before it."""


class StageObjective(NamedTuple):
    """An objective with its masking ratio, as a name gives them. `str` writes both as the name does: `mlm40`."""

    name: str
    """Name in `OBJECTIVES`."""
    ratio: int | None
    """Masking ratio in percent; None for objectives without one."""
    last_ratio: int | None = None
    """Masking ratio of the stage's last step where the ratio changes linearly from `ratio` on; None where it is
    constant."""

    def __str__(self) -> str:
        text = f"{self.name}{self.ratio or ''}"
        if self.last_ratio:
            text += f"to{self.last_ratio}"
        return text

    def label(self) -> str:
        """Return the objective as tables and figures write it: `CLM`, `MLM 40 %`, `MLM 40 to 15 %`."""
        if self.ratio is None:
            return self.name.upper()
        change = f" to {self.last_ratio}" if self.last_ratio else ""
        return f"{self.name.upper()} {self.ratio}{change} %"


@dataclass(frozen=True, kw_only=True)
class Decay:
    """How the learning rate falls at the end of a stage."""

    name: str
    """Lowercase letters, as study files write the decay before its number of steps: `sqrt`."""
    rate: Callable[[float], float]
    """The learning rate as a share of its peak, given the share of the decay's steps that have been made: 1 at 0, 0 at
    1."""


LINEAR = "linear"
"""Name of the paper's decay, in which every model that a name describes ends."""
DECAYS = Registry(
    "decay",
    [
        Decay(name=LINEAR, rate=lambda share: 1.0 - share),
        Decay(name="sqrt", rate=lambda share: 1.0 - math.sqrt(share)),
    ],
)
"""The decays that a study file's stages can end in."""
_STEPS = r"\d+k?"
"""Regular expression of a number of steps in a name: `1000` or `42k`."""
_LONGEST = 120
"""Most characters of a model's name."""
_SEED_SUFFIX = re.compile(r"(?P<model>.+)-s(?P<seed>[1-9]\d{0,3})")
"""A name with a seed at its end, of a repeated pretraining: `610m-mlm40-42k-s1`."""


def _objective_pattern() -> str:
    """Return the regular expression of an objective's word, its ratios included: `clm`, `mlm40`, `mlm40to15`."""
    # One ratio from 1 to 99, or two with "to" between them.
    ratios = r"[1-9]\d?(?:to[1-9]\d?)?"
    words = []
    for item in OBJECTIVES.values():
        words.append(item.name + ratios if item.has_ratio else item.name)
    return "|".join(words)


def parse_objective(word: str) -> StageObjective:
    """Return the objective that a word such as `clm`, `mlm40` or `mlm40to15` stands for.

    Two ratios may also have a hyphen between them, as study files write them: `mlm40-15`.

    Raises:
        UserError: the word does not stand for an objective.
    """
    # Write a hyphen between two digits as names do: `mlm40-15` becomes `mlm40to15`.
    plain = re.sub(r"(\d)-(?=\d)", r"\1to", word)
    if not re.fullmatch(_objective_pattern(), plain):
        examples = []
        for item in OBJECTIVES.values():
            examples.append(f"{item.name}40" if item.has_ratio else item.name)
        raise UserError(
            f"unknown objective {word!r:.60}; use one of {', '.join(examples)}, with a masking ratio from 1 to 99, or "
            f"two such as mlm40-15 for a ratio that falls{nearest(word, examples)}"
        )

    # A name of letters, then no ratio (`clm`), one (`mlm40`) or two (`mlm40to15`).
    parts = re.fullmatch(r"([a-z]+)(?:(\d+)(?:to(\d+))?)?", plain)
    assert parts is not None, "names of objectives are lowercase letters"
    name, ratio, last_ratio = parts.groups()
    if last_ratio and last_ratio == ratio:
        raise UserError(
            f"the masking ratio of {word!r} does not change; write {name}{ratio}"
        )

    return StageObjective(
        name,
        ratio=int(ratio) if ratio else None,
        last_ratio=int(last_ratio) if last_ratio else None,
    )


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Consecutive optimiser steps with one objective, in one phase of the learning-rate schedule.

    Models that contain a stage of the same name share it: it is trained once.
    """

    name: str
    """Of a trunk `610m-clm`; of the stable steps after a switch `610m-clm-10k-mlm40`; of a decay the same with the step
    at which it ends, `610m-clm-10k-mlm40-42k`."""
    objective: str
    """Name in `OBJECTIVES`: `clm` or `mlm`."""
    ratio: int | None
    """Masking ratio in percent, the first one where it changes; None for CLM."""
    first_step: int
    """The stage's first step, counted from random weights or the model's start."""
    end: int
    """Step after the stage's last one."""
    phase: str
    """`stable` (warm-up included when the stage begins at 0) or `decay`."""
    parent: str | None
    """Name of the stage whose checkpoint at `first_step` this one continues; None where this one begins from random
    weights or from the model's start."""
    last_ratio: int | None = None
    """The last masking ratio, where it changes; else None."""
    ratio_steps: tuple[int, int] | None = None
    """The steps [first, end) over which the masking ratio changes; None where it does not. They hold the stage's own
    steps, and also those of its decay, or of the stable steps before it."""
    curve: str = LINEAR
    """How the learning rate falls in a decay: a name in `DECAYS`."""
    data: str = ""
    """Folder or address of the stage's shards; empty where they are those of the command's `--data`."""

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
        """Masking ratio in percent that validation uses throughout: the last one where the ratio changes. None for
        CLM."""
        return self.last_ratio or self.ratio

    def ratio_at(self, step: int) -> float | None:
        """Return the masking ratio in percent at a step, counted as `first_step` is; None for CLM.

        Where the ratio changes, the first of `ratio_steps` has `ratio` and the last one exactly `last_ratio`.
        """
        if self.ratio is None or self.last_ratio is None or self.ratio_steps is None:
            return self.ratio
        first, end = self.ratio_steps
        change = self.last_ratio - self.ratio
        # N steps have N - 1 intervals between the first and the last; a single step has none, but must not divide by 0.
        intervals = max(1, end - 1 - first)
        return self.ratio + change * (step - first) / intervals

    @property
    def predicted_share(self) -> float:
        """Share of the positions that pass the language-modeling head, 0 to 1.

        It is 1 for CLM, which predicts at every position, and else the stage's mean masking ratio.
        """
        total_percent = 0.0
        # A ratio changes linearly, so its mean is the mean of the stage's first and last step.
        for step in (self.first_step, self.end - 1):
            ratio = self.ratio_at(step)
            total_percent += 100.0 if ratio is None else ratio
        return total_percent / 2 / 100

    def extras(self) -> dict[str, object]:
        """Return the values of the optional fields that are not at their defaults, by name.

        All stages of the paper have only defaults, so that this is empty for them.
        """
        extras: dict[str, object] = {}
        # The defaults of these three are None or an empty text.
        for name in ("last_ratio", "ratio_steps", "data"):
            value = getattr(self, name)
            if value:
                extras[name] = value
        if self.curve != LINEAR:
            extras["curve"] = self.curve
        return extras


@dataclass(frozen=True, kw_only=True)
class StageSpec:
    """What a name or a study file gives for an objective: up to which step it is trained, and with which decay.

    `make_stages` makes one or two stages of it: the stable steps, and the decay.
    """

    objective: StageObjective
    """What is trained."""
    end: int
    """Step after the last one, the decay included, counted from the first step of pretraining."""
    decay_steps: int = 0
    """Number of steps at the end in which the learning rate falls; 0 for none."""
    curve: str = LINEAR
    """How the learning rate falls in the decay: a name in `DECAYS`."""
    data: str = ""
    """Folder or address of the shards; empty where they are those of the command's `--data`."""
    cut: int | None = None
    """Step of the stable steps whose checkpoint is wanted, so that nothing after it is trained; None for all steps."""


def make_stages(
    root: str, specs: Iterable[StageSpec], *, usual_decay: int, seed: int = 0
) -> tuple[Stage, ...]:
    """Return all steps that lead to a model's checkpoint, in order, as stages that other models may share.

    Models share the stages whose names are equal, so a stage's name must say all that its steps depend on.

    Args:
        root: what the stages' names begin with: a size, or the short name of a start.
        specs: at least one, by rising end, each at least as long as its decay.
        usual_decay: number of steps of a linear decay that the stages' names do not mention.
        seed: the seed of a repeated pretraining, which the stages' names then end with; 0 for the first one.
    """
    stages: list[Stage] = []

    def add(
        name: str, spec: StageSpec, ratio_span: tuple[int, int], end: int, phase: str
    ) -> None:
        """Append the stage that continues the last one up to the step `end`, if any step lies between."""
        begin, parent = 0, None
        if stages:
            begin, parent = stages[-1].end, stages[-1].name

        # No step lies between where a model switches as its decay begins: in `610m-clm-40k-mlm40-42k` MLM has
        # no stable steps.
        if end <= begin:
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

    # What the names of the next spec's stages begin with, and its first step.
    name_so_far, first_step = root, 0
    for spec in specs:
        end_text = format_steps(spec.end)
        ratio_span = (first_step, spec.end)  # of a changing ratio, decay included
        prefix = f"{name_so_far}-{spec.objective}"
        if spec.data:
            prefix = f"{prefix}.on.{short_name(spec.data)}"

        # The stable steps. Their name does not say where they end, since other models may train the same trunk further.
        stable_name = prefix
        if spec.objective.last_ratio:
            # A ratio that changes up to the end takes other values with another end, so here the name has the end.
            stable_name = f"{prefix}.by.{end_text}"

        stable_end = spec.cut or spec.end - spec.decay_steps
        add(stable_name, spec, ratio_span, stable_end, "stable")

        # The decay. A checkpoint of the stable steps (`cut`) has none. If `decay_steps` is 0, the stable steps have
        # reached the end already, and `add` appends nothing.
        is_usual_decay = (spec.decay_steps, spec.curve) == (usual_decay, LINEAR)
        unusual_decay = ""
        if spec.decay_steps and not is_usual_decay:
            unusual_decay = f".{spec.curve}{spec.decay_steps}"
        if spec.cut is None:
            decay_name = f"{prefix}-{end_text}{unusual_decay}"
            add(decay_name, spec, ratio_span, spec.end, "decay")

        # "dec", since what continues a decayed checkpoint differs from what continues the trunk at the same step.
        decayed = "dec" if spec.decay_steps else ""
        name_so_far = f"{prefix}-{decayed}{end_text}{unusual_decay}"
        first_step = spec.end

    return tuple(stages)


def short_name(text: str) -> str:
    """Return a part of a stage's name that stands for a folder or address.

    A single word such as `news` stands for itself. Any other text becomes the last part of its path, with underscores
    in place of all but letters and digits (hyphens separate the parts of names), and a hash of the whole text.
    """
    last = text.rstrip("/").rpartition("/")[2]
    words = re.sub(r"[^A-Za-z0-9]+", "_", last)
    word = words.strip("_")[:40]
    if word == text:
        return word
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    # Without a letter or digit in the last part, the hash stands alone.
    return f"{word}.{digest}".lstrip(".")


@dataclass(frozen=True, kw_only=True)
class Model:
    """One checkpoint of the study: what it was trained from, its stages, and what follows from them."""

    name: str
    """Name in the scheme of the released models, or the name that a study file chose."""
    size: str
    """`210m`, `610m` or `1b`; for a model with a start, that start's short name."""
    stages: tuple[Stage, ...]
    """All steps that lead to the checkpoint, in order, as stages that other models may share; never empty."""
    start: str = ""
    """Folder or hub id of the model from whose weights training begins; empty: random weights."""
    seed: int = 0
    """Number that is added to the study's seed, on which weights, masks and the order of sequences depend; 0 for the
    first pretraining of a model."""

    def again(self, seed: int) -> Model:
        """Return the model pretrained again with another seed; its name and those of its stages end in the seed."""
        stages = []
        for stage in self.stages:
            parent = None
            if stage.parent is not None:
                parent = f"{stage.parent}-s{seed}"
            stages.append(replace(stage, name=f"{stage.name}-s{seed}", parent=parent))
        name = f"{self.name}-s{seed}"
        return replace(self, name=name, stages=tuple(stages), seed=seed)

    @property
    def origin(self) -> str:
        """Name of the start as figures and tables write it; empty for random weights."""
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
        # A decay is a stage, not a segment: `610m-clm-10k-mlm40-42k` has three stages and is "two-stage".
        kind_by_segments = {1: "base", 2: "two-stage"}
        return kind_by_segments.get(len(self._segments), "multi-stage")

    @property
    def steps(self) -> int:
        """Optimiser steps that lead from random weights, or from the start, to the checkpoint."""
        return self.stages[-1].end

    @property
    def decayed(self) -> bool:
        """Whether the checkpoint ends in a learning-rate decay."""
        return self.stages[-1].phase == "decay"

    @property
    def _segments(self) -> tuple[Stage, ...]:
        """The first stage of each segment: that of the model, and each later one in which something new begins.

        That is another objective, ratio or data, or training that continues after a decay. A decay after stable
        steps of its own objective begins nothing new.
        """
        segments = [self.stages[0]]
        for before, after in pairwise(self.stages):
            is_same_objective = before.trained_on == after.trained_on
            is_same = is_same_objective and before.data == after.data
            if before.phase == "decay" or not is_same:
                segments.append(after)
        return tuple(segments)

    @property
    def objectives(self) -> tuple[StageObjective, ...]:
        """The objectives in the order of training: one, or several where the model switches."""
        return tuple(stage.trained_on for stage in self._segments)

    @property
    def switch(self) -> int | None:
        """First step of the second objective; None where there is only one."""
        segments = self._segments
        return segments[1].first_step if len(segments) > 1 else None

    @property
    def objective(self) -> str:
        """Names of the objectives in the order of training: `clm`, `mlm`, `clm+mlm` or `clm+mlm+clm`."""
        return "+".join(objective.name for objective in self.objectives)

    @property
    def ratio(self) -> int | None:
        """Masking ratio of the last step in percent; None when the last step is CLM."""
        return self.stages[-1].lasting_ratio

    @property
    def clm_share(self) -> float:
        """Share of the model's steps that are CLM, 0 to 1."""
        return self.clm_steps / self.steps

    @property
    def clm_steps(self) -> int:
        """Number of steps of CLM."""
        return sum(stage.steps for stage in self.stages if stage.objective == "clm")

    def label(self) -> str:
        """Return the objectives as tables and figures write them: `MLM 40 %`, `CLM + MLM 40 %`.

        Where a stage has shards of its own, the last part of their path follows: `CLM + MLM 40 % on news`.
        """
        labels = []
        for stage in self._segments:
            label = stage.trained_on.label()
            if stage.data:
                label += f" on {stage.data.rstrip('/').rpartition('/')[2]}"
            labels.append(label)
        return " + ".join(labels)


class _NamedStage(NamedTuple):
    """An objective of a name with its end, as the name writes them: the three parts of `clm-dec42k`."""

    objective: str
    """The objective's word: `mlm40`."""
    decay: str
    """`dec` where a decay ends the stage and a further stage follows; else empty."""
    steps: str
    """The step at which the stage ends: `42k`."""


@dataclass(frozen=True, kw_only=True)
class _NameParts:
    """Parts of a name in the scheme: SIZE, then OBJECTIVE-STEPS for each stage, then perhaps the step of a trunk."""

    size: str
    stages: tuple[_NamedStage, ...]
    cut: int | None
    """The step of an undecayed trunk: 1000 in `610m-mlm40-42k-1000`; None for the whole model."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """What a study's names have in common: sizes, prefix and decay. The paper's study is one, a miniature another."""

    sizes: tuple[str, ...]
    """Size names, smallest first."""
    prefix: str = ""
    """Text before every name, so that a miniature's models cannot be taken for the paper's."""
    decay_steps: int = TRAINING.decay_steps
    """Length of the decay in which every model ends."""
    known: tuple[str, ...] = ()
    """Names of trained models, of which the nearest is offered in place of an unknown name."""

    def parse(self, name: str) -> Model:
        """Return the model that `name` stands for, whether or not the study lists it.

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

        name_without_seed, seed = arm_of(name)
        parts = self._parts(name_without_seed)
        if parts is None:
            raise UserError(
                f"unknown model {name!r}; a name reads SIZE-OBJECTIVE-STEPS such as "
                f"{self.prefix}{self.sizes[-1]}-mlm40-42k, with SIZE one of {', '.join(self.sizes)} and masking "
                f"ratios from 1 to 99{nearest(name, self.known)}"
            )

        # Say of each stage up to which step it is trained, and refuse steps that contradict each other.
        cut, last = parts.cut, parts.stages[-1]
        specs: list[StageSpec] = []
        begin = 0
        for stage in parts.stages:
            end = parse_steps(stage.steps)
            # The last stage always ends in a decay; an earlier stage only if the name says so ("dec").
            decay = self.decay_steps if stage.decay or stage is last else 0
            if cut is not None:
                # A trunk's checkpoint is taken before the decay. A name with a cut has only this one stage.
                self._check(name, "last step", cut, least=1, most=end - decay)
            else:
                # A stage holds its decay; without one, it has at least one step.
                least_steps = decay or 1
                what = "last step" if stage is last else "switch"
                self._check(name, what, end, least=begin + least_steps)

            objective = parse_objective(stage.objective)
            specs.append(
                StageSpec(objective=objective, end=end, decay_steps=decay, cut=cut)
            )
            begin = end

        size = f"{self.prefix}{parts.size}"
        stages = make_stages(size, specs, usual_decay=self.decay_steps, seed=seed)
        return Model(name=name, size=size, stages=stages, seed=seed)

    def _parts(self, name: str) -> _NameParts | None:
        """Return the parts of a name that has no seed; None where the name is not in the scheme."""
        objective = _objective_pattern()
        # A size, stages of which all but the last may end in a decay ("dec"), and perhaps a step of the trunk. Of
        # `610m-clm-dec42k-mlm40-64k` the stages are `-clm-dec42k-mlm40-64k`; of `610m-mlm40-42k-1000` the cut is 1000.
        earlier_stages = rf"(?:-(?:{objective})-(?:dec)?{_STEPS})*"
        last_stage = rf"-(?:{objective})-{_STEPS}"
        grammar = (
            rf"{re.escape(self.prefix)}(?P<size>[a-z0-9.]+)"
            rf"(?P<stages>{earlier_stages}{last_stage})(?:-(?P<cut>\d+))?"
        )
        match = re.fullmatch(grammar, name)
        if match is None or match["size"] not in self.sizes:
            return None

        # Each stage again, in its three parts: `-clm-dec42k` gives ("clm", "dec", "42k").
        words = re.findall(rf"-({objective})-(dec)?({_STEPS})", match["stages"])
        cut = int(match["cut"]) if match["cut"] else None

        # A step of the trunk (`cut`) is unambiguous only if there is one stage.
        if cut is not None and len(words) > 1:
            return None
        stages = tuple(_NamedStage(*word) for word in words)
        return _NameParts(size=match["size"], stages=stages, cut=cut)

    def _check(
        self, name: str, what: str, step: int, least: int, most: int | None = None
    ) -> None:
        """Refuse a name with a step below `least` or above `most`; `what` is what the message calls the step."""
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
    """Return a model's name without the seed at its end (the arm), and that seed.

    `mine-s2` gives ("mine", 2), and `mine`, the first pretraining, ("mine", 0).
    """
    match = _SEED_SUFFIX.fullmatch(name)
    if match is None:
        return name, 0
    return match["model"], int(match["seed"])


def format_steps(steps: int) -> str:
    """Return `12k` for 12,000; a number that is not a whole thousand is printed as it is."""
    return f"{steps // 1000}k" if steps and steps % 1000 == 0 else str(steps)


def parse_steps(text: str) -> int:
    """Return 12,000 for `12k` or `12000`."""
    if text.endswith("k"):
        return 1000 * int(text.removesuffix("k"))
    return int(text)


def own_model(name: str, study: Mapping[str, Model]) -> Model | None:
    """Return the model of that name in a study, or the one that the name repeats with a seed; None for other names.

    Args:
        name: a model's name, which may end in a seed: `mine-s2`.
        study: models by name.
    """
    name_without_seed, seed = arm_of(name)
    model = study.get(name) or study.get(name_without_seed)
    if model is None or model.name == name:
        return model
    return model.again(seed)


def parse_any(name: str) -> Model | None:
    """Return the model of a name in the scheme, whatever its study and size; None where it is not in the scheme.

    Each decay of the model has one step here, whatever its study had. Where a decay begins is therefore
    wrong, and so are the costs of its stages. Steps, objectives, switch and share of CLM are right.
    """
    # The word before the first objective is the size, all before it the prefix: `toy-` and `s` of `toy-s-mlm40-12k`.
    match = re.match(
        rf"(?P<prefix>(?:[^-]+-)*?)(?P<size>[^-]+)-(?:{_objective_pattern()})-", name
    )
    if match is None:
        return None
    # The name does not say how long its decay is, but a design must. One step is short enough for every name.
    design = Design(prefix=match["prefix"], sizes=(match["size"],), decay_steps=1)
    try:
        return design.parse(name)
    except UserError:
        return None
