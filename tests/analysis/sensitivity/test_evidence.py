from __future__ import annotations

import math

import pytest

from analysis.claims.catalogue import CLAIMS
from analysis.claims.statements import comparisons, difference
from analysis.claims.verdicts import judge_claim
from analysis.evidence.evidence import Settings
from analysis.published_cells import published_values
from analysis.sensitivity.evidence import correlated, evidence_of
from analysis.sources import PUBLISHED, Source
from tests.analysis.comparisons.given import MADE_UP, REAL, best_runs, drawn

FOUND = PUBLISHED.evidence(Settings(interval="t")).finding
GAP = difference("gap", REAL, MADE_UP, "SC")


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5, 0.9])
def test_a_difference_of_correlated_seeds_has_the_textbook_variance(rho: float) -> None:
    cells = published_values().set_index(["model", "task", "dataset"])["ci95"]
    first, second = (float(cells[name, "SC", "average"]) / 1.96 for name in (REAL, MADE_UP))
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


def test_runs_and_cells_have_their_evidence() -> None:
    settings = Settings(interval="t")
    assert evidence_of(PUBLISHED, settings)(GAP).test.startswith("Welch")
    runs = Source(label="x", runs=best_runs(drawn({REAL: 1.0, MADE_UP: 0.0})))
    assert evidence_of(runs, settings)(GAP).test == "paired by seed, t"
