from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pytest
from scipy import stats

from analysis.claims.catalogue import CLAIMS
from analysis.claims.evidence import PublishedEvidence
from analysis.claims.statements import comparisons, difference, weighted
from analysis.claims.verdicts import judge_claim
from analysis.published_cells import published_values
from analysis.sensitivity.evidence import Moved, correlated, evidence_of, with_pretraining_spread
from analysis.sources import PUBLISHED, Source
from analysis.statistics.estimates import Student, studentised_estimate
from analysis.statistics.resampling import every_resample
from analysis.statistics.scores_table import Settings
from tests.analysis.comparisons.given import MADE_UP, REAL, best_runs, drawn

FOUND = PublishedEvidence("t").finding
GAP = difference("gap", REAL, MADE_UP, "SC")


def errors() -> tuple[float, float]:
    cells = published_values().set_index(["model", "task", "dataset"])["ci95"]
    return tuple(float(cells[name, "SC", "average"]) / 1.96 for name in (REAL, MADE_UP))  # type: ignore[return-value]


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5, 0.9])
def test_a_difference_of_correlated_seeds_has_the_textbook_variance(rho: float) -> None:
    first, second = errors()
    error = math.sqrt(first**2 + second**2 - 2 * rho * first * second)
    assert correlated(FOUND, rho)(GAP).error == pytest.approx(error)


def test_f4_has_its_p_at_both_correlations() -> None:
    """Computed independently, the claim alone."""
    found = [judge_claim(CLAIMS["F4"], correlated(FOUND, rho)).p_for for rho in (-0.5, 0.5)]
    assert found == pytest.approx([0.065, 0.014], abs=0.0005)


def test_models_that_cannot_all_be_so_negative_take_the_most_negative_correlation() -> None:
    slope = next(one for one in comparisons(CLAIMS["F5c"].body))
    least, less = correlated(FOUND, -0.9)(slope), correlated(FOUND, -0.5)(slope)
    assert least.error == less.error > 0


def test_pretraining_spread_adds_its_variance_for_each_model_and_task() -> None:
    first, second = errors()
    moved = with_pretraining_spread(FOUND, 0.3)(GAP)
    assert moved.error == pytest.approx(math.sqrt(first**2 + second**2 + 2 * 0.3**2))
    assert moved.effect == FOUND(GAP).effect
    own, base = FOUND(GAP).error ** 2, FOUND(GAP)
    df = (own + 0.18) ** 2 / (own**2 / base.df)
    assert moved.p_zero == pytest.approx(2 * stats.t.sf(moved.effect / moved.error, df))
    halves = weighted("halves", [(0.5, REAL, "SC"), (0.5, REAL, "QA"), (-1.0, MADE_UP, "SC")])
    added = with_pretraining_spread(FOUND, 0.3)(halves).error ** 2 - FOUND(halves).error ** 2
    assert added == pytest.approx(0.3**2 * (0.25 + 0.25 + 1))


def test_pretraining_spread_leaves_a_normal_error_normal() -> None:
    """`--interval paper` has infinite degrees of freedom."""
    moved = with_pretraining_spread(PublishedEvidence("paper").finding, 0.3)(GAP)
    assert moved.df == math.inf
    assert moved.p_zero == pytest.approx(2 * stats.norm.sf(moved.effect / moved.error))


def test_a_simulated_pretraining_spread_is_covered() -> None:
    """95 % intervals with the added variance hold the truth when models are pretrained again."""
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(2_000):
        seeds = rng.normal(0, 0.4, (2, 5)) + rng.normal(0, 0.5, (2, 1))
        source = seeds.mean(axis=1)
        own = seeds.var(axis=1, ddof=1) / 5
        variance = own.sum() + 2 * 0.5**2
        welch = own.sum() ** 2 / (own**2 / 4).sum()
        df = variance**2 / (own.sum() ** 2 / welch)
        hits += abs(source[0] - source[1]) <= stats.t.ppf(0.975, df) * math.sqrt(variance)
    assert hits / 2_000 == pytest.approx(0.95, abs=0.015)


def test_the_page_says_how_many_comparisons_of_f8_are_left() -> None:
    """docs/sensitivity.md and the README."""
    left = [
        judge_claim(CLAIMS["F8"], with_pretraining_spread(FOUND, s)).tree.hold for s in (0.1, 0.2, 0.5, 1.0)
    ]
    assert left == [7, 4, 2, 1]


def test_runs_and_cells_have_their_evidence() -> None:
    settings = Settings(interval="t")
    assert evidence_of(PUBLISHED, settings)(GAP).test.startswith("Welch")
    runs = Source(label="x", runs=best_runs(drawn({REAL: 1.0, MADE_UP: 0.0})))
    assert evidence_of(runs, settings)(GAP).test == "paired by seed, t"
    spread = next(iter(comparisons(CLAIMS["F7"].body)))
    # Not a number where there is none; two of those are never equal.
    np.testing.assert_equal(asdict(with_pretraining_spread(FOUND, 1.0)(spread)), asdict(FOUND(spread)))


def test_a_studentised_difference_starts_at_its_own_p_and_ends_at_the_normal_one() -> None:
    runs = Source(label="x", runs=best_runs(drawn({REAL: 0.5, MADE_UP: 0.0})))
    found = evidence_of(runs, Settings())
    base = found(GAP)
    assert base.test.startswith("symmetric studentised")
    assert with_pretraining_spread(found, 1e-7)(GAP).p_for == pytest.approx(base.p_for, abs=0.002)
    far = with_pretraining_spread(found, 5.0)(GAP)
    assert far.p_for == pytest.approx(2 * stats.norm.sf(base.effect / (5 * math.sqrt(2))), abs=0.01)


def test_a_moved_studentised_p_is_that_of_the_summed_errors() -> None:
    """By drawing the sum."""
    values = np.array([0.1, 0.5, 0.9, 1.4, -0.6])
    resamples = every_resample(5)
    base = studentised_estimate(values, values[resamples.picks], resamples, symmetric=True)
    moved = Moved(base=base, sd=0.3, least=Student(effect=base.effect, error=1e-9, df=4.0))
    rng = np.random.default_rng(0)
    drawn_ratios = rng.choice(base.ratios, 400_000, p=base.counts / base.counts.sum())
    summed = base.error * drawn_ratios * rng.choice([-1, 1], 400_000) + rng.normal(0, 0.3, 400_000)
    for bound in (-1.0, 0.0, 0.3):
        expected = float((summed > base.effect - bound).mean())
        assert moved.p_above(bound) == pytest.approx(expected, abs=0.003)
        assert moved.p_below(bound) == pytest.approx(1 - expected, abs=0.003)
