"""Chances of being the best, against quadrature and values computed independently from the printed cells."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from analysis.comparisons.best import best_of
from analysis.evidence.evidence import Settings
from analysis.published_cells import published_values
from analysis.sources import PUBLISHED, Source
from common.errors import UserError
from tests.analysis.comparisons.given import best_runs, drawn

SETTINGS = Settings(interval="t", resamples=4_000)
ANSWER = best_of(PUBLISHED, SETTINGS, ["split", "objective"])


def chance(group: str, title: str, alternative: str, answer=ANSWER):
    [one] = [
        one for one in answer.chances
        if (one.group, one.scope.title, one.alternative) == (group, title, alternative)
    ]  # fmt: skip
    return one


@pytest.mark.parametrize(
    ("group", "title", "p_union"),
    [
        ("12k", "SC average", 1.00),
        ("12k", "TC average", 0.00),
        ("22k", "IR average", 0.14),
        ("42k", "QA average", 1.00),
    ],
)
def test_the_best_split_is_25_to_50_percent_on_some_tasks_only(group, title, p_union):
    """By an independent computation from the cells."""
    assert chance(group, title, "25 % CLM").p_union == pytest.approx(p_union, abs=0.02)


def test_two_alternatives_have_the_chance_of_two_students_by_quadrature():
    cells = published_values().set_index(["model", "dataset", "task"])
    (m1, h1), (m2, h2) = (
        cells.loc[(f"610m-{name}-42k", "sst2", "SC"), ["mean", "ci95"]] for name in ("mlm40", "clm")
    )
    first, second = stats.t(4, m1, h1 / 1.96), stats.t(4, m2, h2 / 1.96)
    exact = integrate.quad(lambda x: first.pdf(x) * second.cdf(x), m1 - 30, m1 + 30, points=[m1, m2])[0]
    assert chance("610m, 42k", "SST-2", "MLM").p_best == pytest.approx(exact, abs=0.025)


def test_chances_add_up_and_ranks_lie_in_their_intervals():
    for group in ("12k", "22k", "42k"):
        found = [one for one in ANSWER.chances if one.question == "split" and one.group == group]
        assert len(found) == 17 * 5
        for scope in {one.scope for one in found}:
            assert sum(one.p_best for one in found if one.scope == scope) == pytest.approx(1)
        assert all(1 <= one.rank_low <= one.rank_high <= 5 for one in found)


def test_from_runs_two_alternatives_have_the_chance_of_two_students():
    scores = drawn({"610m-mlm40-42k": 0.0, "610m-clm-42k": -0.3})
    answer = best_of(Source(label="x", runs=best_runs(scores)), SETTINGS, ["objective"])
    first, second = (
        stats.t(4, np.mean(values), stats.sem(values))
        for values in (scores[f"610m-{name}-42k"]["sst2"] for name in ("mlm40", "clm"))
    )
    exact = integrate.quad(lambda x: first.pdf(x) * second.cdf(x), 70, 90, points=[80])[0]
    assert chance("610m, 42k", "SST-2", "MLM", answer).p_best == pytest.approx(exact, abs=0.025)


def test_a_source_without_competitors_is_refused():
    runs = best_runs(drawn({"610m-mlm40-42k": 0.0, "mine": 0.0}))
    with pytest.raises(UserError, match="too few of the study's models"):
        best_of(Source(label="x", runs=runs), SETTINGS)
    with pytest.raises(UserError, match="unknown question"):
        best_of(PUBLISHED, SETTINGS, ["size"])
    assert np.isnan(chance("610m, 42k", "SST-2", "MLM").p_union)
