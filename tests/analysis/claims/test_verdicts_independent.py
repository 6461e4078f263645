"""Every verdict of the published cells recomputed with scipy, statsmodels and closed testing alone."""

import itertools
from collections.abc import Callable

import pytest

from analysis.claims.catalogue import FINDINGS
from analysis.claims.judged import JudgedFinding
from tests.analysis.adjusted import multipletests
from tests.analysis.independent_checks import CHECKS, Check
from tests.analysis.second_opinion import (
    DECIDABLE,
    published,
    shown_parts,
    statement_ps,
    units_of,
)


@pytest.mark.parametrize("check", CHECKS)
def test_what_is_computed_again_agrees(check: Callable[[], Check]) -> None:
    found = check()
    assert found.agrees, found


@pytest.mark.parametrize("name", DECIDABLE)
def test_the_ps_and_the_lower_bounds_of_every_claim(
    name: str, found: dict[str, JudgedFinding]
) -> None:
    main, body, cells = found[name], FINDINGS[name].body, published()
    assert (main.p_for, main.p_against) == pytest.approx(
        statement_ps(body, cells), rel=1e-9
    )
    fors, againsts = zip(
        *(statement_ps(unit, cells) for unit in units_of(body)), strict=True
    )
    for side, (count, ps) in enumerate(
        ((main.holds_in, fors), (main.fails_in, againsts))
    ):
        assert count == shown_parts(name, side)
        # Closed testing gives what Holm does, here of the parts alone.
        assert (
            by_closed_testing(ps)
            == multipletests(ps, alpha=0.05, method="holm")[0].sum()
        )
        assert FINDINGS[name].rivals or count == by_closed_testing(ps)


def by_closed_testing(ps: tuple[float, ...]) -> int:
    """Goeman and Solari (2011): n minus the largest set of statements that no Bonferroni test rejects together.

    Of the sets of one size the last to be rejected holds the largest p's, so those are enough to look at; for few
    statements all sets are.
    """
    total = len(ps)
    largest = 0
    for size in range(1, total + 1):
        sets = (
            itertools.combinations(ps, size)
            if total <= 9
            else [tuple(sorted(ps)[-size:])]
        )
        if any(min(one) * size > 0.05 for one in sets):
            largest = size
    return total - largest
