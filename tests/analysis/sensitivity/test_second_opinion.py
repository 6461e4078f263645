from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from analysis.claims.catalogue import CLAIMS
from analysis.claims.statements import Claim, all_of, any_of, difference
from analysis.evidence.evidence import Settings
from analysis.published_cells import published_values
from analysis.sensitivity.second_opinion import SCALES, _sum_of, opinion_curve, second_opinions
from analysis.sources import PUBLISHED
from analysis.statistics.bayesian import hierarchical, share_below
from analysis.statistics.estimates import Student

FOUND = PUBLISHED.evidence(Settings(interval="t")).finding
MLM, CLM = "610m-mlm40-42k", "610m-clm-42k"


def claim_of(body) -> dict[str, Claim]:
    return {"X": Claim(id="X", statement="S.", where="here", family="f", body=body)}


def test_a_difference_has_students_posterior_here_and_the_hierarchical_one_over_datasets() -> None:
    [one] = second_opinions(FOUND, claim_of(difference("d", MLM, CLM, "TC", low=0.25)))
    base = FOUND(difference("d", MLM, CLM, "TC"))
    assert one.here == pytest.approx(stats.t.sf(0.25, base.df, base.effect, base.error))
    cells = published_values().set_index(["model", "dataset", "task"])
    students = []
    for name in ("ontonotes", "conll2003_en", "uner_en"):
        (m1, h1), (m2, h2) = (cells.loc[(model, name, "TC"), ["mean", "ci95"]] for model in (MLM, CLM))
        e1, e2 = (h1 / 1.96) ** 2, (h2 / 1.96) ** 2
        df = (e1 + e2) ** 2 / (e1**2 / 4 + e2**2 / 4)
        students.append(Student(effect=float(m1 - m2), error=math.sqrt(e1 + e2), df=df))
    fine = hierarchical(students, [0.25] * 3).mean.above
    assert one.over_datasets == pytest.approx(fine, abs=0.005)


def test_parts_combine_as_independent() -> None:
    parts = [difference("a", MLM, CLM, "TC"), difference("b", MLM, CLM, "TC", low=-0.5)]
    chances = [second_opinions(FOUND, claim_of(part))[0].here for part in parts]
    [both], [either] = (second_opinions(FOUND, claim_of(made("x", parts))) for made in (all_of, any_of))
    assert both.here == pytest.approx(chances[0] * chances[1])
    assert either.here == pytest.approx(1 - (1 - chances[0]) * (1 - chances[1]))


def test_a_sum_of_independent_quantities_by_another_way() -> None:
    grid = np.linspace(-8, 8, 201)
    weight = stats.norm.pdf(grid) / stats.norm.pdf(grid).sum()
    values, shares = _sum_of(grid, weight, grid + 1, weight)
    for bound in (-1.0, 0.5, 1.0, 3.0):
        assert share_below(values, shares, bound) == pytest.approx(
            stats.norm.cdf(bound, 1, math.sqrt(2)), abs=0.01
        )


def test_every_claim_has_one_and_spreads_have_none() -> None:
    found = {one.id: one for one in second_opinions(FOUND)}
    assert list(found) == list(CLAIMS)
    assert math.isnan(found["F7"].here) and math.isnan(found["F10"].over_datasets)
    assert found["F1"].here > 0.99 and 0.5 < found["F1"].over_datasets < 0.9
    assert found["F9"].here < 0.01


def test_the_curve_falls_with_the_priors_scale_and_starts_where_the_review_has_it() -> None:
    """F1 over datasets at 1, 4, 16 and 64 margins, computed independently."""
    curve = opinion_curve(FOUND, {"F1": CLAIMS["F1"]})
    assert [curve[scale][0].over_datasets for scale in SCALES] == pytest.approx(
        [0.76, 0.72, 0.58, 0.43], abs=0.005
    )
    assert len({curve[scale][0].here for scale in SCALES}) == 1
    assert curve[4.0] == second_opinions(FOUND, {"F1": CLAIMS["F1"]})
