"""Every verdict of the published cells recomputed with scipy, statsmodels and closed testing alone."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from analysis.claims.catalogue import FINDINGS
from analysis.claims.statements import AtLeast, Node
from analysis.evidence.contrasts import Contrast, Spread
from analysis.published_cells import published_cells


@pytest.fixture(scope="module")
def cells() -> dict[tuple[str, str, str], tuple[float, float]]:
    frame = published_cells()
    keys = zip(frame["model"], frame["task"], frame["dataset"], strict=True)
    return dict(zip(keys, zip(frame["mean"], frame["ci95"], strict=True), strict=True))


def two_ps(contrast: Contrast, cells) -> tuple[float, float]:
    """p for and against by Welch's test, written out, with scipy's t distribution."""
    values = [(term.weight, *cells[term.cell]) for term in contrast.terms]
    effect = sum(weight * mean for weight, mean, _ in values)
    variances = [(weight * max(half, 0.005) / 1.96) ** 2 for weight, _, half in values]
    t = stats.t(sum(variances) ** 2 / sum(v**2 / 4 for v in variances))
    error = math.sqrt(sum(variances))
    above = [t.sf((effect - end) / error) for end in (contrast.low, contrast.high)]  # of "at most the end"
    below = [t.cdf((effect - end) / error) for end in (contrast.low, contrast.high)]  # of "at least the end"
    if math.isfinite(contrast.low) and math.isfinite(contrast.high):
        return max(above[0], below[1]), min(1.0, 2 * min(below[0], above[1]))
    if math.isfinite(contrast.low):
        return min(1.0, 2 * above[0]), min(1.0, 2 * below[0])
    return min(1.0, 2 * below[1]), min(1.0, 2 * above[1])


def parts_of(node: Node) -> list[Node]:
    """The parts that a claim counts."""
    if isinstance(node, AtLeast) and node.count == len(node.parts) and not node.whole:
        return [one for part in node.parts for one in parts_of(part)]
    return [node]


def statement_ps(node: Node, cells) -> tuple[float, float]:
    """p for and against a statement: partial conjunctions, by sorting."""
    if not isinstance(node, AtLeast):
        assert isinstance(node, Contrast)
        return two_ps(node, cells)
    nodes = list(node.parts)
    if node.count == len(nodes):
        nodes = [one for part in node.parts for one in parts_of(part)]
    need = len(nodes) if node.count == len(node.parts) else node.count
    fors, againsts = zip(*(statement_ps(one, cells) for one in nodes), strict=True)
    total = len(nodes)
    refuse = total - need + 1
    return (
        min(1.0, (total - need + 1) * sorted(fors)[need - 1]),
        min(1.0, (total - refuse + 1) * sorted(againsts)[refuse - 1]),
    )


DECIDABLE = [
    name
    for name, finding in FINDINGS.items()
    if not any(isinstance(part, Spread) for part in parts_of(finding.body))
]


@pytest.mark.parametrize("name", DECIDABLE)
def test_the_ps_and_the_lower_bounds_of_every_claim(name: str, cells, verdicts) -> None:
    verdict, body = verdicts[name], FINDINGS[name].body
    assert (verdict.p_for, verdict.p_against) == pytest.approx(statement_ps(body, cells), rel=1e-9)
    units = parts_of(body)
    if units == [body]:
        units = list(body.parts)  # type: ignore[union-attr]
    fors, againsts = zip(*(statement_ps(unit, cells) for unit in units), strict=True)
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


def test_f5e_is_lind_and_mehlums_test_of_the_printed_averages(cells, verdicts) -> None:
    """Slopes of numpy's parabola at the ends, errors by propagation through its linear weights."""
    ratios = np.array([2.0, 3.0, 4.0, 5.0])
    weights = np.linalg.inv(np.vander(ratios, 3).T @ np.vander(ratios, 3)) @ np.vander(ratios, 3).T
    expected = {}
    for size in ("610m", "1b"):
        for task in ("SC", "TC", "QA", "IR"):
            found = [cells[f"{size}-mlm{ratio}-42k", task, "average"] for ratio in (20, 30, 40, 50)]
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
