"""Which is the best? The questions that can be asked of the study's models, as alternatives that compete.

A question is added by registering a `Question` here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from common.registry import Registry
from pretraining.models import MODELS, Model, format_steps

__all__ = ["QUESTIONS", "Contest", "Question"]


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Models of which one is the best."""

    group: str
    """What they have in common: a budget, a size."""
    alternatives: Mapping[str, str]
    """The model of each alternative, by the alternative's name."""
    union: tuple[str, ...] = ()
    """Alternatives whose chances are added up as well."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question with a contest for each budget or size."""

    name: str
    words: str
    contests: Callable[[Iterable[str]], list[Contest]]
    """From the names of the models that have scores to the contests among them, two alternatives each or more."""
    union_words: str = field(default="")
    """What the union of alternatives is, where there is one."""


def _known(names: Iterable[str], wanted: Callable[[Model], bool]) -> list[Model]:
    held = set(names)
    return [model for name, model in MODELS.items() if name in held and wanted(model)]


def _budget(model: Model) -> str:
    return format_steps(model.steps)


def _grouped(
    models: Iterable[Model], group: Callable[[Model], str], alternative: Callable[[Model], str]
) -> list[Contest]:
    groups: dict[str, dict[str, str]] = {}
    for model in models:
        groups.setdefault(group(model), {})[alternative(model)] = model.name
    return [Contest(group=name, alternatives=found) for name, found in groups.items() if len(found) > 1]


def _clm_share(model: Model) -> float:
    """Return the share of the steps that are CLM's: 0, about 1/4, 1/2 and 3/4, 1."""
    if model.switch is None:
        return 1.0 if model.objective == "clm" else 0.0
    return model.first_share


def _splits(names: Iterable[str]) -> list[Contest]:
    def wanted(model: Model) -> bool:
        usual = model.objective in ("clm", "mlm", "clm+mlm") and model.ratio in (40, None)
        return (
            usual
            and model.size == "610m"
            and model.kind in ("base", "two-stage")
            and _clm_share(model) not in _LATE
        )

    models = sorted(_known(names, wanted), key=lambda model: (model.steps, _clm_share(model)))
    contests = _grouped(models, _budget, lambda model: f"{round(4 * _clm_share(model)) * 25} % CLM")
    return [
        Contest(
            group=one.group, alternatives=one.alternatives,
            union=tuple(name for name in one.alternatives if name in ("25 % CLM", "50 % CLM")),
        )
        for one in contests
    ]  # fmt: skip


_LATE = (40_000 / 42_000,)
"""The split of Figure 7, where MLM has the decay alone."""


def _ratios(names: Iterable[str]) -> list[Contest]:
    models = _known(
        names, lambda model: model.kind == "base" and model.objective == "mlm" and model.steps == 42_000
    )
    return _grouped(models, lambda model: model.size, lambda model: f"{model.ratio} %")


def _objectives(names: Iterable[str]) -> list[Contest]:
    models = _known(names, lambda model: model.kind == "base" and model.ratio in (40, None))
    return _grouped(
        models, lambda model: f"{model.size}, {_budget(model)}", lambda model: model.objective.upper()
    )


def _all_models(names: Iterable[str]) -> list[Contest]:
    models = _known(names, lambda model: model.decayed)
    return _grouped(sorted(models, key=lambda model: model.steps), _budget, lambda model: model.name)


QUESTIONS: Registry[Question] = Registry(
    "question",
    [
        Question(
            name="split", words="Which share of CLM before MLM is best? 610M, by budget.", contests=_splits,
            union_words="25-50 %",
        ),
        Question(name="ratio", words="Which masking ratio is best? MLM, 42k steps, by size.", contests=_ratios),
        Question(name="objective", words="Which objective is best? By size and budget.", contests=_objectives),
        Question(
            name="model", words="Which model is best? By budget.", contests=_all_models
        ),
    ],
)  # fmt: skip
"""The questions that `clm-or-mlm best` answers."""
