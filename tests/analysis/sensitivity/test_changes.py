from __future__ import annotations

import math

import pytest

from analysis.claims.catalogue import CLAIMS
from analysis.claims.statements import AtLeast, comparisons
from analysis.evidence.contrasts import Contrast
from analysis.evidence.evidence import Settings
from analysis.published_cells import published_values
from analysis.sensitivity.changes import READINGS, changed, on_datasets, with_margin
from analysis.sources import PUBLISHED
from benchmarks.protocol import datasets_of


def test_margins_widen_and_other_ranges_stay() -> None:
    wide = changed(CLAIMS["F4"], with_margin(2.0))
    for before, after in zip(comparisons(CLAIMS["F4"].body), comparisons(wide.body), strict=True):
        assert isinstance(before, Contrast) and isinstance(after, Contrast)
        if math.isfinite(before.high):
            assert (after.low, after.high) == (2 * before.low, 2 * before.high)
        else:
            assert after == before
    assert changed(CLAIMS["F14"], with_margin(2.0)).body == CLAIMS["F14"].body  # 1 to 3 points is no margin


def test_an_average_over_two_datasets_is_the_mean_of_their_cells() -> None:
    claim = changed(CLAIMS["F1"], on_datasets("SC", ["sst2", "qqp"]))
    first = next(iter(comparisons(claim.body)))
    assert isinstance(first, Contrast) and len(first.terms) == 4
    cells = published_values().set_index(["model", "dataset"])["mean"]
    expected = sum(
        sign * cells[f"210m-{name}-42k", dataset] / 2
        for sign, name in ((1, "mlm40"), (-1, "clm"))
        for dataset in ("sst2", "qqp")
    )
    assert PUBLISHED.evidence(Settings(interval="t")).finding(first).effect == pytest.approx(expected)
    whole = changed(CLAIMS["F1"], on_datasets("SC", datasets_of("SC")))
    average = next(iter(comparisons(CLAIMS["F1"].body)))
    again = PUBLISHED.evidence(Settings(interval="t")).finding(next(iter(comparisons(whole.body))))
    assert again.effect == pytest.approx(
        PUBLISHED.evidence(Settings(interval="t")).finding(average).effect, abs=0.011
    )


def test_f3_by_end_points_is_1b_minus_210m() -> None:
    claim = READINGS["end points"](CLAIMS["F3"])
    found = [PUBLISHED.evidence(Settings(interval="t")).finding(one) for one in comparisons(claim.body)]
    assert [one.effect for one in found] == pytest.approx([3.46, -1.68], abs=0.005)
    assert all(one.p_zero < 0.05 for one in found)
    models = {
        term.model for one in comparisons(claim.body) if isinstance(one, Contrast) for term in one.terms
    }
    assert models == {f"{size}-{name}-42k" for size in ("210m", "1b") for name in ("mlm40", "clm")}
    assert READINGS["end points"](CLAIMS["F1"]) == CLAIMS["F1"]


def test_most_parts_asks_for_more_than_half() -> None:
    body = READINGS["most parts"](CLAIMS["F1"]).body
    assert isinstance(body, AtLeast) and (body.count, len(body.parts)) == (4, 6)
    assert READINGS["most parts"](CLAIMS["F14"]) == CLAIMS["F14"]
