"""Who counts a comparison of two models: one finding, so that a comparison is clear everywhere or nowhere.

It is the first finding whose verdict counts the difference as a part of its own; the catalogue's order decides.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from analysis.claims.catalogue import ANSWERS, FINDINGS
from analysis.claims.judged import judge
from analysis.claims.statements import comparisons
from analysis.claims.verdicts import FAILS, HOLDS, ResultOf
from analysis.evidence.contrasts import Contrast


class OwnedPair(NamedTuple):
    """A comparison of two models on a task, as a finding counts it."""

    finding: str
    tested: int
    """Comparisons that are corrected for together with it."""
    ahead: str
    """The model that is counted as ahead; empty where neither is."""


def owned_pairs(
    models: Collection[str], result_of: ResultOf
) -> dict[tuple[str, frozenset[str]], OwnedPair]:
    """Return how findings count the differences between these models, by task and pair.

    Args:
        models: those that are compared.
        result_of: what the source says about a comparison.
    """
    known = set(models)
    about = []
    # Findings come before answers: F8 counts the same pairs as the answer at its share, and pages name F8.
    for finding in (*FINDINGS.values(), *ANSWERS.values()):
        asked = comparisons(finding.body)
        # A finding without a comparison of these models among themselves counts none of their differences.
        if any(known.issuperset(comparison.models) for comparison in asked):
            about.append(finding)
    owned: dict[tuple[str, frozenset[str]], OwnedPair] = {}
    for name, judged in judge(about, result_of).items():
        for part in judged.counted:
            comparison = part.branch.node
            if not isinstance(comparison, Contrast) or not comparison.has_direction:
                continue
            if len(comparison.terms) != 2 or len(comparison.places) != 1:
                continue
            if not known.issuperset(comparison.models):
                continue
            [first], [second] = comparison.sides
            ahead = {HOLDS.name: first, FAILS.name: second}.get(part.counted, "")
            key = comparison.tasks[0], frozenset((first, second))
            owned.setdefault(key, OwnedPair(name, judged.tested, ahead))
    return owned
