"""The study's models: their names parsed, printed and enumerated, with stages, trunks, figures and tables.

A name in the released scheme says everything about a model:

    610m-mlm40-42k                40k stable steps of MLM at 40 %, then 2k of decay
    610m-clm-10k-mlm40-42k        10k steps of CLM without decay, then MLM at 40 % up to step 42k, decay included
    610m-clm-dec42k-mlm40-64k     the decayed 42k CLM model, then 22k steps of MLM (continued pretraining, CPT)
    610m-mlm40-42k-1000           the undecayed trunk of 610m-mlm40-42k at step 1,000
    610m-mlm40-42k-s1             610m-mlm40-42k pretrained again with another seed, the study's plus 1

Standard library only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from common.errors import UserError, nearest
from common.registry import Registry
from pretraining.paper_settings import SHAPES, TRAINING

__all__ = [
    "FIGURES", "MODELS", "OBJECTIVES", "PAPER", "TABLES", "Design", "Model", "Objective", "Stage", "StageObjective",
    "arm_of", "find_model", "format_steps", "parse",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Objective:
    """What a stage is trained on: how names write it, and where its batches are made ready."""

    name: str
    """Lowercase letters: `clm`."""
    has_ratio: bool = False
    """Whether a masking ratio in percent follows in names: `mlm40`."""
    is_causal: bool = False
    """Whether attention looks back only, in training and in the exported model's configuration."""
    prepare: str
    """`MODULE:FUNCTION`, imported when a stage is trained: makes an `ObjectiveBatch` of a packed batch and a mask rule,
    which is None without a ratio (`pretraining.training.objectives`)."""

    @property
    def pattern(self) -> str:
        """Regular expression of the whole word, ratio included."""
        return rf"{self.name}[1-9]\d?" if self.has_ratio else self.name


OBJECTIVES = Registry(
    "objective",
    [
        Objective(name="clm", is_causal=True, prepare="pretraining.training.objectives:clm"),
        Objective(name="mlm", has_ratio=True, prepare="pretraining.training.objectives:mlm"),
    ],
)
"""The objectives that names are made of and stages are trained on."""


class StageObjective(NamedTuple):
    """An objective with its masking ratio, as a name gives them; `str` writes it as the name does: `mlm40`."""

    name: str
    """Name in `OBJECTIVES`."""
    ratio: int | None
    """Masking ratio in percent; None for objectives without one."""

    def __str__(self) -> str:
        return f"{self.name}{self.ratio or ''}"

    def label(self) -> str:
        """Return how tables and figures write it: `CLM`, `MLM 40 %`."""
        return self.name.upper() if self.ratio is None else f"{self.name.upper()} {self.ratio} %"


_STEPS = r"\d+k?"
_LONGEST = 120
"""Letters of the longest name of a model."""
_AGAIN = re.compile(r"(?P<arm>.+)-s(?P<seed>[1-9]\d{0,3})")
"""The end of a name: pretrained again, with another seed."""


def _objectives() -> str:
    return "|".join(item.pattern for item in OBJECTIVES.values())


def _grammar() -> str:
    return (
        rf"(?P<size>[a-z0-9.]+)-(?P<first>{_objectives()})-"
        rf"(?:(?P<steps>{_STEPS})(?:-(?P<at>\d+))?"
        rf"|(?P<switch>(?:dec)?{_STEPS})-(?P<second>{_objectives()})-(?P<total>{_STEPS}))"
    )


def _stage_objective(word: str) -> StageObjective:
    letters = word.rstrip("0123456789")
    return StageObjective(letters, int(word[len(letters) :]) if word != letters else None)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Consecutive optimiser steps with one objective and one phase of the schedule; the unit of shared work."""

    name: str
    """A trunk's name such as `610m-clm`, that of a second objective such as `610m-clm-10k-mlm40`, or the model's
    for its decay."""
    objective: str
    """Name in `OBJECTIVES`: `clm` or `mlm`."""
    ratio: int | None
    """Masking ratio in percent; None for CLM."""
    start: int
    """First step, counted from the start of pretraining."""
    end: int
    """Step after the last."""
    phase: str
    """`stable` (warm-up included when start is 0) or `decay`."""
    parent: str | None
    """The stage whose checkpoint at `start` this one continues; None for a start from random weights."""

    @property
    def steps(self) -> int:
        """Number of optimiser steps."""
        return self.end - self.start

    @property
    def predicted_share(self) -> float:
        """Share of the positions that pass the head, 0 to 1: the masking ratio, 1 for CLM."""
        return 1.0 if self.ratio is None else self.ratio / 100

    def label(self) -> str:
        """Return how tables and figures write what it is trained on: `CLM`, `MLM 40 %`."""
        return StageObjective(self.objective, self.ratio).label()


@dataclass(frozen=True, kw_only=True)
class Model:
    """One checkpoint of the study: what its name says, and what follows from it."""

    name: str
    """Name in the released scheme."""
    size: str
    """`210m`, `610m` or `1b`."""
    kind: str
    """`base` (one stage), `two-stage`, `continued` (CPT from a decayed checkpoint) or `intermediate`."""
    objectives: tuple[StageObjective, ...]
    """What it was trained on, first to last: one, or two where it switches."""
    switch: int | None
    """Step at which the second stage starts; None with one stage."""
    steps: int
    """Optimiser steps that went into the checkpoint, from random weights on."""
    decay_steps: int = field(repr=False)
    """Length of the closing decay of its design."""
    seed: int = 0
    """Added to the study's seed: weights, masks and order of sequences of another pretraining."""

    @property
    def decayed(self) -> bool:
        """Whether the checkpoint ends in a learning-rate decay."""
        return self.kind != "intermediate"

    @property
    def objective(self) -> str:
        """`clm`, `mlm` or `clm+mlm` (any two stages)."""
        return "+".join(objective.name for objective in self.objectives)

    @property
    def ratio(self) -> int | None:
        """Masking ratio of the last stage in percent; None when it is CLM."""
        return self.objectives[-1].ratio

    @property
    def first_share(self) -> float:
        """Share of the budget spent on the first stage's objective, 0 to 1 (1 with one stage)."""
        return 1.0 if self.switch is None else self.switch / self.steps

    def label(self) -> str:
        """Return how tables and figures write what it was trained on: `MLM 40 %`, `CLM + MLM 40 %`."""
        return " + ".join(objective.label() for objective in self.objectives)

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """All steps that lead to the checkpoint, in order, as stages that other models may share."""
        first, trunk = self.objectives[0], f"{self.size}-{self.objectives[0]}"
        last_stable = self.steps - (self.decay_steps if self.decayed else 0)
        stages: list[Stage] = []
        parent: str | None = None

        def add(stage: str, objective: StageObjective, start: int, end: int, phase: str) -> None:
            nonlocal parent
            if self.seed and stage != self.name:
                stage = f"{stage}-s{self.seed}"
            if end > start:  # a switch where the decay begins leaves no stable steps
                stages.append(
                    Stage(
                        name=stage,
                        objective=objective.name,
                        ratio=objective.ratio,
                        start=start,
                        end=end,
                        phase=phase,
                        parent=parent if parent != stage else None,
                    )
                )
                parent = stage

        if self.switch is None:
            add(trunk, first, 0, last_stable, "stable")
            add(self.name, first, last_stable, self.steps, "decay")
            return tuple(stages)
        second, switch = self.objectives[1], format_steps(self.switch)
        if self.kind == "continued":
            add(trunk, first, 0, self.switch - self.decay_steps, "stable")
            add(f"{trunk}-{switch}", first, self.switch - self.decay_steps, self.switch, "decay")
            switch = f"dec{switch}"
        else:
            add(trunk, first, 0, self.switch, "stable")
        add(f"{trunk}-{switch}-{second}", second, self.switch, last_stable, "stable")
        add(self.name, second, max(last_stable, self.switch), self.steps, "decay")
        return tuple(stages)

    @property
    def figures(self) -> tuple[int, ...]:
        """Numbers of the paper's figures that show this model."""
        return tuple(number for number, names in FIGURES.items() if self.name in names)


@dataclass(frozen=True, kw_only=True)
class Design:
    """A family of models in the paper's scheme; the paper itself is `PAPER`, a miniature is another."""

    sizes: tuple[str, ...]
    """Size names, smallest first."""
    prefix: str = ""
    """Put before every name, so that a miniature's models cannot be taken for the paper's."""
    decay_steps: int = TRAINING.decay_steps
    """Length of the decay that closes every budget."""

    def parse(self, name: str) -> Model:
        """Return the model that `name` stands for, whether or not the study trained it.

        Raises:
            UserError: the name is not in the scheme, or its steps contradict each other.
        """
        if len(name) > _LONGEST:
            raise UserError(
                f"a model's name has at most {_LONGEST} characters, not {len(name)}: {name[:40]!r}..."
            )
        arm, seed = arm_of(name)
        match = (
            re.fullmatch(_grammar(), arm.removeprefix(self.prefix)) if name.startswith(self.prefix) else None
        )
        if match is None or match["size"] not in self.sizes:
            known = tuple(MODELS) if self is PAPER else ()
            raise UserError(
                f"unknown model {name!r}; a name reads SIZE-OBJECTIVE-STEPS such as "
                f"{self.prefix}{self.sizes[-1]}-mlm40-42k, with SIZE one of {', '.join(self.sizes)} and masking "
                f"ratios from 1 to 99{nearest(name, known)}"
            )
        objectives = tuple(_stage_objective(word) for word in match.group("first", "second") if word)
        switch, longest = None, None
        if match["second"]:
            kind = "continued" if match["switch"].startswith("dec") else "two-stage"
            switch, steps = _parse_steps(match["switch"].removeprefix("dec")), _parse_steps(match["total"])
            shortest = switch + self.decay_steps
        elif match["at"]:
            kind, steps, shortest = "intermediate", int(match["at"]), 1
            longest = _parse_steps(match["steps"]) - self.decay_steps
        else:
            kind, steps, shortest = "base", _parse_steps(match["steps"]), self.decay_steps
        if steps < shortest or (longest is not None and steps > longest):
            limit = f"at least {shortest}" if steps < shortest else f"at most {longest}"
            raise UserError(
                f"there is no model {name!r}: with a decay of {self.decay_steps} steps its last step "
                f"must be {limit}, not {steps}"
            )
        return Model(
            name=name,
            size=f"{self.prefix}{match['size']}",
            kind=kind,
            objectives=objectives,
            switch=switch,
            steps=steps,
            decay_steps=self.decay_steps,
            seed=seed,
        )


def arm_of(name: str) -> tuple[str, int]:
    """Return the model without the seed of its pretraining, and that: `mine-s2` is `mine`, 2; `mine` alone is 0."""
    match = _AGAIN.fullmatch(name)
    return (match["arm"], int(match["seed"])) if match else (name, 0)


def format_steps(steps: int) -> str:
    """Return `12k` for 12,000; a number that is no whole thousand is printed as it is."""
    return f"{steps // 1000}k" if steps and steps % 1000 == 0 else str(steps)


def _parse_steps(text: str) -> int:
    return int(text.removesuffix("k")) * (1000 if text.endswith("k") else 1)


PAPER = Design(sizes=tuple(SHAPES))
"""The paper's design: three sizes, decays of 2,000 steps."""

RATIOS = (20, 30, 40, 50)
STEPS = (1_000, 2_000, 5_000, 10_000, 20_000, 40_000)
SPLITS = {12: (3, 6, 9), 22: (5, 11, 17), 42: (10, 21, 32)}
"""Budgets in thousands of steps, and the CLM steps of their 25-75, 50-50 and 75-25 splits."""
CPT_TOTALS = (44, 54, 64)

_SIZES_AND_RATIOS = tuple(f"{s}-{o}-42k" for s in SHAPES for o in (*(f"mlm{r}" for r in RATIOS), "clm"))
_TRUNK_STEPS = tuple(f"610m-{o}-42k-{step}" for o in ("mlm40", "clm") for step in STEPS)
_BY_BUDGET = {
    budget: (
        f"610m-mlm40-{budget}k",
        *(f"610m-clm-{k}k-mlm40-{budget}k" for k in splits),
        f"610m-clm-{budget}k",
    )
    for budget, splits in SPLITS.items()
}
_BUDGETS = tuple(name for names in _BY_BUDGET.values() for name in names)
_STARTS = ("610m-mlm40-42k", "610m-clm-42k")
_CPT_BY_START = tuple(
    tuple(f"610m-{o}-dec42k-mlm40-{total}k" for total in CPT_TOTALS) for o in ("mlm40", "clm")
)
_CONTINUED = tuple(name for names in _CPT_BY_START for name in names)
_LATE_SWITCH = tuple(f"610m-clm-40k-mlm{r}-42k" for r in RATIOS)

FIGURES: dict[int, tuple[str, ...]] = {
    1: (*_BY_BUDGET[42], "610m-mlm40-dec42k-mlm40-64k", "610m-clm-dec42k-mlm40-64k"),
    2: tuple(f"{s}-{o}-42k" for s in SHAPES for o in ("mlm40", "clm")),
    3: tuple(f"{s}-mlm{r}-42k" for s in SHAPES for r in RATIOS),
    4: _TRUNK_STEPS,
    5: _STARTS,
    6: _BUDGETS,
    7: (*(f"610m-mlm{r}-42k" for r in RATIOS), *_LATE_SWITCH),
    8: (*_STARTS, "610m-mlm40-dec42k-mlm40-64k", "610m-clm-dec42k-mlm40-64k"),
    9: (*_STARTS, *_CONTINUED),
    10: _TRUNK_STEPS,
    11: ("1b-mlm40-42k", "1b-clm-10k-mlm40-42k", "1b-clm-42k"),
    12: _CONTINUED,
}
"""The models that each figure of the paper shows."""

TABLES: dict[int, tuple[str, ...]] = {
    1: (),
    **dict.fromkeys(range(2, 6), _SIZES_AND_RATIOS),
    **dict.fromkeys(range(6, 10), _TRUNK_STEPS),
    **dict.fromkeys(range(10, 14), _BUDGETS),
    **dict.fromkeys(
        range(14, 18),
        tuple(n for start, later in zip(_STARTS, _CPT_BY_START, strict=True) for n in (start, *later)),
    ),
}
"""The models whose scores each table of the paper holds, in the order of its rows (Table 1 holds settings)."""

_NAMES = dict.fromkeys(
    (*_SIZES_AND_RATIOS, *_BUDGETS, *_LATE_SWITCH, *_CONTINUED, *_TRUNK_STEPS, *FIGURES[11])
)

MODELS: dict[str, Model] = {name: PAPER.parse(name) for name in _NAMES}
"""All 51 models of the paper by name: 15 base, 17 two-stage and their endpoints, 6 CPT, 12 intermediate, 1 at 1B."""


parse = PAPER.parse
"""The model that a name stands for in the paper's scheme."""


def find_model(name: str) -> Model | None:
    """Return the model of a name in the scheme, of any study and size such as `toy-s` or `2b`; None for other names."""
    if name in MODELS:
        return MODELS[name]
    match = re.match(rf"(?P<prefix>(?:[^-]+-)*?)(?P<size>[^-]+)-(?:{_objectives()})-", name)
    if match is None:
        return None
    try:
        return Design(prefix=match["prefix"], sizes=(match["size"],), decay_steps=0).parse(name)
    except UserError:
        return None
