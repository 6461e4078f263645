"""The typical effect of a claim: the mean of its comparisons, each in the claimed direction."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from analysis.evidence.contrasts import Contrast, Finding, Term
from common.errors import UserError
from pretraining.models import parse

__all__ = ["shared_trunks", "typical_contrast"]

_MOST_NAMED = 6
"""Trunks that are named."""


def typical_contrast(known: Iterable[Finding]) -> Contrast | None:
    """Return the mean of a claim's contrasts as a contrast of its own, so that it has an interval of its own.

    Contrasts that claim a range ("comparable") have no direction; they count only where there are no others. A
    contrast and its reverse (F5a searches both ways) have no mean, nor have ratios of spreads.
    """
    contrasts = [finding.comparison for finding in known if isinstance(finding.comparison, Contrast)]
    directed = [one for one in contrasts if not one.is_range]
    chosen = directed or contrasts
    if not chosen:
        return None
    unit = Counter(one.unit for one in chosen).most_common(1)[0][0]
    chosen = [one for one in chosen if one.unit == unit]
    weights: dict[tuple[str, str, str], float] = {}
    for one in chosen:
        sign = -1.0 if not math.isfinite(one.low) else 1.0
        for term in one.terms:
            weights[term.cell] = weights.get(term.cell, 0.0) + sign * term.weight / len(chosen)
    terms = tuple(
        Term(weight=weight, model=model, task=task, dataset=dataset)
        for (model, task, dataset), weight in weights.items()
        if abs(weight) > 1e-12
    )
    if not terms:
        return None
    low, high = 0.0, math.inf
    if not directed:
        low, high = (
            math.fsum(ends) / len(chosen) for ends in zip(*((o.low, o.high) for o in chosen), strict=True)
        )
    many = f"mean of {len(chosen)} comparisons" if len(chosen) > 1 else chosen[0].label
    return Contrast(label=f"{many}, in the claimed direction", terms=terms, low=low, high=high, unit=unit)


def shared_trunks(known: Iterable[Finding]) -> str:
    """Return `the 6 models compared branch from 2 trunks (610m-clm, 610m-mlm40)`; empty where each has its own.

    A trunk starts from random weights. Models of one trunk were not pretrained independently of each other: what luck
    the trunk had is in all of them, and their mean does not average it out.
    """
    models = dict.fromkeys(model for finding in known for model in finding.comparison.models)
    trunks = dict.fromkeys(_trunk(model) for model in models)
    if len(trunks) == len(models):
        return ""
    named = f" ({', '.join(trunks)})" if len(trunks) <= _MOST_NAMED else ""
    return (
        f"the {len(models)} models compared branch from {len(trunks)} trunk{'s' * (len(trunks) > 1)}{named}"
    )


def _trunk(model: str) -> str:
    """Return the first stage of a model; a name that says nothing about stages is a trunk of its own."""
    try:
        return parse(model).stages[0].name
    except UserError:
        return model
