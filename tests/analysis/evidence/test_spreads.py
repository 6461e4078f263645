"""Ratios of spreads against their definition and scipy's Levene test."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.claims.assessment import assess
from analysis.claims.catalogue import CLAIMS
from analysis.claims.statements import comparisons
from analysis.evidence.contrasts import Spread
from analysis.evidence.evidence import Evidence
from analysis.evidence.settings import Settings
from analysis.sources import PUBLISHED, Source
from tests.analysis.made_up import made_up_runs

MLM, CLM = "610m-mlm40-42k", "610m-clm-42k"
SETTINGS = Settings(interval="t", resamples=2_000)


def spread_of(claim: str) -> Spread:
    spread = next(iter(comparisons(CLAIMS[claim].body)))
    assert isinstance(spread, Spread)
    return spread


def test_spread_over_learning_rates_is_that_of_figure_5() -> None:
    runs, spread = (
        made_up_runs(np.random.default_rng(0), models=(CLM, MLM), shift={MLM: 0.01}),
        spread_of("F7"),
    )
    found = Evidence(SETTINGS, runs=runs).finding(spread)
    rows = runs[(runs["task"] == spread.task) & (runs["lr"] <= 1e-4)]
    scores = 100 * rows.groupby(["model", "lr", "seed"])["test_score"].mean()
    assert found.effect == pytest.approx(scores.loc[CLM].std() / scores.loc[MLM].std())
    levene = stats.levene(scores.loc[CLM], scores.loc[MLM], center="median")
    assert found.p_zero == pytest.approx(levene.pvalue)
    assert found.low < found.effect < found.high


def test_spread_over_ratios_takes_the_selected_runs() -> None:
    spread = spread_of("F10")
    runs = made_up_runs(np.random.default_rng(2), models=(*spread.narrow, *spread.wide))
    rows = runs[(runs["task"] == spread.task) & (runs["lr"] == 1e-4)]
    best = 100 * rows.groupby(["model", "seed"])["test_score"].mean()
    narrow, wide = (best.loc[list(models)].std() for models in (spread.narrow, spread.wide))
    assert Evidence(SETTINGS, runs=runs).finding(spread).effect == pytest.approx(narrow / wide)


def verdict_on(runs: pd.DataFrame) -> str:
    verdicts = assess(Source(label="x", runs=runs), SETTINGS, second_opinion=False).verdicts
    return next(one.verdict for one in verdicts if one.claim.id == "F7")


def test_a_steadier_model_is_found_to_be_steadier() -> None:
    rng = np.random.default_rng(1)
    runs = made_up_runs(rng, models=(CLM, MLM))
    shaken = runs["model"] == MLM
    runs.loc[shaken, "test_score"] += rng.normal(0, 0.05, int(shaken.sum()))
    assert verdict_on(runs) == "supported"
    assert verdict_on(runs.replace({"model": {CLM: MLM, MLM: CLM}})) == "contradicted"


def test_what_has_no_spread_says_why() -> None:
    assert PUBLISHED.evidence(Settings()).finding(spread_of("F7")).missing == "needs single runs"
    runs = made_up_runs(np.random.default_rng(0), models=(CLM, MLM))
    few = Evidence(SETTINGS, runs=runs[runs["lr"] == 1e-4]).finding(spread_of("F7"))
    assert "at some learning rate" in few.missing
