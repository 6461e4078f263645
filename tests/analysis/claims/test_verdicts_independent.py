"""Every verdict of the published cells recomputed with scipy, statsmodels and closed testing alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from analysis.claims.catalogue import FINDINGS
from tests.analysis.independent_checks import CHECKS, DECIDABLE, Check, published, statement_ps, units_of


@pytest.mark.parametrize("check", CHECKS)
def test_what_is_computed_again_agrees(check: Callable[[], Check]) -> None:
    found = check()
    assert found.agrees, found


@pytest.mark.parametrize("name", DECIDABLE)
def test_the_ps_and_the_lower_bounds_of_every_claim(name: str, verdicts) -> None:
    verdict, body, cells = verdicts[name], FINDINGS[name].body, published()
    assert (verdict.p_for, verdict.p_against) == pytest.approx(statement_ps(body, cells), rel=1e-9)
    fors, againsts = zip(*(statement_ps(unit, cells) for unit in units_of(body)), strict=True)
    for found, ps in ((verdict.tree.hold, fors), (verdict.tree.fail, againsts)):
        assert found == multipletests(ps, alpha=0.05, method="holm")[0].sum()
        assert found == by_closed_testing(ps)


def by_closed_testing(ps: tuple[float, ...]) -> int:
    """Goeman and Solari (2011): n minus the largest set of statements that no Bonferroni test rejects together.

    Of the sets of one size the last to be rejected holds the largest p's, so those are enough to look at; for few
    statements all sets are.
    """
    total = len(ps)
    largest = 0
    for size in range(1, total + 1):
        sets = itertools.combinations(ps, size) if total <= 9 else [tuple(sorted(ps)[-size:])]
        if any(min(one) * size > 0.05 for one in sets):
            largest = size
    return total - largest


def test_f5e_is_lind_and_mehlums_test_of_the_printed_averages(verdicts) -> None:
    """Slopes of numpy's parabola at the ends, errors by propagation through its linear weights."""
    ratios = np.array([2.0, 3.0, 4.0, 5.0])
    weights = np.linalg.inv(np.vander(ratios, 3).T @ np.vander(ratios, 3)) @ np.vander(ratios, 3).T
    expected = {}
    for size in ("610m", "1b"):
        for task in ("SC", "TC", "QA", "IR"):
            found = [published()[f"{size}-mlm{ratio}-42k", task, "average"] for ratio in (20, 30, 40, 50)]
            means, errors = (
                np.array([mean for mean, _ in found]),
                np.array([half for _, half in found]) / 1.96,
            )
            ps = []
            for place, sign in ((2.0, -1), (5.0, 1)):
                slope = 2 * place * weights[0] + weights[1]
                variances = (slope * errors) ** 2
                df = variances.sum() ** 2 / (variances**2 / 4).sum()
                ps.append(2 * stats.t.sf(sign * slope @ means / np.sqrt(variances.sum()), df))
            expected[f"U on {task}, {size}"] = min(1.0, max(ps))
    units = {unit.node.label: unit.p_for for unit in verdicts["F5e"].tree.units}
    assert units == pytest.approx(expected, rel=1e-6)
    assert units["U on SC, 610m"] == pytest.approx(0.152, abs=0.001)
    assert units["U on IR, 1b"] == pytest.approx(0.066, abs=0.001)
    assert sum(p <= 0.05 for p in units.values()) == 5


def test_the_numbers_of_f4_f9_f12_and_f13(verdicts) -> None:
    assert (verdicts["F4"].p_for, verdicts["F4"].p_for_adjusted) == pytest.approx((0.039, 0.078), abs=0.0005)
    assert (verdicts["F13"].p_for, verdicts["F13"].p_for_adjusted) == pytest.approx(
        (0.029, 0.117), abs=0.0005
    )
    assert verdicts["F9"].p_against == pytest.approx(0.045, abs=0.0005)
    # However "all of" is bracketed: 0.014 was the p of one bracketing.
    assert verdicts["F12"].p_against == pytest.approx(0.019, abs=0.0005)
    assert verdicts["F12"].decisive.outside and verdicts["F12"].decisive.effect == pytest.approx(-3.36)
    assert (verdicts["F8"].typical.effect, verdicts["F8"].decisive.effect) == pytest.approx(
        (1.58, -0.25), abs=0.005
    )
