"""Which finding counts a comparison of two models: always one, so that a comparison is clear everywhere or nowhere.

"Clear" means significant after a correction for everything that is tested together, and several findings may count the
same difference among different numbers of others. The first of them, in the catalogue's order, decides for all pages.
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
    """The finding's id."""
    tested: int
    """Number of comparisons that the finding corrects for together, this one included."""
    ahead: str
    """The model that is counted as ahead; empty where neither is."""


def owned_pairs(
    models: Collection[str], result_of: ResultOf
) -> dict[tuple[str, frozenset[str]], OwnedPair]:
    """Return how findings count the differences between these models.

    Args:
        models: the models that are compared.
        result_of: what the source says about a comparison.

    Returns:
        By (task, the two models) the pair as its finding counts it; a pair that no finding counts is absent.
    """
    compared = set(models)
    relevant = []
    # Findings come before answers: F8 counts the same pairs as the answer at its share, and pages name F8.
    for finding in (*FINDINGS.values(), *ANSWERS.values()):
        in_finding = comparisons(finding.body)
        # A finding that compares none of these models with another of them has none of their differences.
        if any(compared.issuperset(comparison.models) for comparison in in_finding):
            relevant.append(finding)

    owned: dict[tuple[str, frozenset[str]], OwnedPair] = {}
    # Findings may be left out here: a part is counted among the parts of its own finding and of the finding's
    # rivals. Which findings are judged together moves only the p's of whole findings, which are not used.
    for name, judged in judge(relevant, result_of).items():
        # `judged.counted` has the finding's parts; `part.counted` says what one part counts as: holds, fails,
        # open.
        for part in judged.counted:
            comparison = part.branch.node
            # Only parts that claim one model ahead of another on one task are differences of a pair: no
            # margins, no ratios of spreads, no gaps between gaps. Such a part has two scores, on one place (a
            # task with a dataset or its average).
            if not isinstance(comparison, Contrast) or not comparison.has_direction:
                continue
            if len(comparison.terms) != 2 or len(comparison.places) != 1:
                continue
            if not compared.issuperset(comparison.models):
                continue
            [first], [second] = comparison.sides  # the first is claimed to be ahead
            ahead = {HOLDS.name: first, FAILS.name: second}.get(part.counted, "")
            # The two scores are on the same task, the only one.
            key = comparison.tasks[0], frozenset((first, second))

            # An earlier finding that counts the pair keeps it.
            owned.setdefault(key, OwnedPair(name, judged.tested, ahead))

    return owned
