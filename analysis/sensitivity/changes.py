"""Other versions of a claim: other margins, other datasets behind its task averages, another reading of its words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from analysis.claims.statements import AtLeast, Claim, Node, all_of
from analysis.evidence.contrasts import AnyContrast, Contrast, Term
from benchmarks.protocol import AVERAGE

__all__ = ["READINGS", "changed", "on_datasets", "with_margin"]

Change = Callable[[AnyContrast], AnyContrast]
Reading = Callable[[Claim], Claim]


def changed(claim: Claim, change: Change) -> Claim:
    """Return the claim with every comparison changed."""
    return replace(claim, body=_mapped(claim.body, change), reported=())


def _mapped(node: Node, change: Change) -> Node:
    if isinstance(node, AtLeast):
        return replace(node, parts=tuple(_mapped(part, change) for part in node.parts))
    return change(node)


def with_margin(factor: float) -> Change:
    """Return the change that widens every margin around "no difference"; other ranges (1 to 3 points) stay."""

    def change(comparison: AnyContrast) -> AnyContrast:
        if (
            isinstance(comparison, Contrast)
            and math.isfinite(comparison.high)
            and comparison.low == -comparison.high
        ):
            return replace(comparison, low=factor * comparison.low, high=factor * comparison.high)
        return comparison

    return change


def on_datasets(task: str, names: Iterable[str]) -> Change:
    """Return the change that takes a task's average over some of its datasets only."""
    kept = tuple(names)

    def terms_of(term: Term) -> tuple[Term, ...]:
        if term.task != task or term.dataset != AVERAGE:
            return (term,)
        return tuple(replace(term, weight=term.weight / len(kept), dataset=name) for name in kept)

    def change(comparison: AnyContrast) -> AnyContrast:
        if not isinstance(comparison, Contrast) or all(term.task != task for term in comparison.terms):
            return comparison
        return replace(comparison, terms=tuple(one for term in comparison.terms for one in terms_of(term)))

    return change


def _most_parts(claim: Claim) -> Claim:
    """Return the claim that more than half of its parts hold, where all had to."""
    body = claim.body
    if isinstance(body, AtLeast) and body.count == len(body.parts) > 2:
        return replace(claim, body=replace(body, count=len(body.parts) // 2 + 1))
    return claim


def _end_points(claim: Claim) -> Claim:
    """Return F3 between the smallest and the largest size alone: the steps of each task's contrasts added up."""
    if claim.id != "F3" or not isinstance(claim.body, AtLeast):
        return claim
    parts = []
    for part in claim.body.parts:
        assert isinstance(part, AtLeast)
        steps = [step for step in part.parts if isinstance(step, Contrast)]
        weights: dict[tuple[str, str, str], float] = {}
        for step in steps:
            for term in step.terms:
                weights[term.cell] = weights.get(term.cell, 0.0) + term.weight
        terms = tuple(
            Term(weight=weight, model=model, task=task, dataset=dataset)
            for (model, task, dataset), weight in weights.items()
            if weight
        )
        parts.append(replace(steps[0], label=f"{part.label}, end to end", terms=terms))
    return replace(claim, body=all_of(claim.body.label, parts))


READINGS: Mapping[str, Reading] = {
    "as worded": lambda claim: claim,
    "most parts": _most_parts,
    "end points": _end_points,
}
"""How the words of a claim can be read; `as worded` is the catalogue's."""
