"""The mixed model against an analysis of variance, its error rate, and its limits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.claims.mixed_model import MixedEvidence, fit_mixed
from analysis.claims.statements import difference
from analysis.published_cells import published_values
from benchmarks.protocol import datasets_of
from tests.analysis.made_up import made_up_runs

MLM, CLM = "610m-mlm40-42k", "610m-clm-42k"
GAP = difference("MLM - CLM", MLM, CLM, "SC")


SIZES = ("210m", "610m", "1b")


BASE = [f"{size}-{kind}-42k" for size in SIZES for kind in ("clm", "mlm40")]


def mixed_rows(rng, *, effect=0.0, datasets=5.0, seeds=0.3, noise=0.2):
    rows = []
    for dataset in datasets_of("SC"):
        level = rng.normal(80, datasets)
        for seed in range(5):
            own = rng.normal(0, seeds)
            for model in BASE:
                score = level + own + rng.normal(0, noise) + (effect if "mlm" in model else 0.0)
                rows.append((score, model, dataset, seed))
    return pd.DataFrame(rows, columns=["score", "model", "dataset", "seed"])


GAP_WEIGHTS = {MLM: 1.0, CLM: -1.0}


def test_the_mixed_model_of_balanced_runs_is_the_two_way_analysis_of_variance():
    rows = mixed_rows(np.random.default_rng(4), effect=0.5)
    fitted = fit_mixed(rows)
    estimate = fitted.contrast(GAP_WEIGHTS)
    table = rows.pivot(index=["dataset", "seed"], columns="model", values="score")
    left = table.sub(table.mean(axis=1), axis=0) - (table.mean(axis=0) - table.to_numpy().mean())
    residual = float((left.to_numpy() ** 2).sum()) / ((15 - 1) * (6 - 1))
    assert estimate.effect == pytest.approx(table[MLM].mean() - table[CLM].mean(), abs=1e-6)
    assert fitted.result.scale == pytest.approx(residual, rel=1e-3)
    assert estimate.error == pytest.approx(np.sqrt(2 * residual / 15), rel=1e-3)


def test_type_one_error_of_the_mixed_model():
    rng = np.random.default_rng(5)
    trials = 150
    wrong = 0
    for _ in range(trials):
        fitted = fit_mixed(mixed_rows(rng))
        estimate = fitted.contrast(GAP_WEIGHTS)
        wrong += 2 * min(estimate.p_above(0), estimate.p_below(0)) <= 0.05
    assert wrong / trials < 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)


def test_a_fit_on_the_boundary_is_noted(recwarn):
    notes = [fit_mixed(mixed_rows(np.random.default_rng(seed), seeds=0.0)).note for seed in range(6)]
    assert any("boundary" in note or "singular" in note for note in notes)
    assert not recwarn.list


def test_scores_without_variation_cannot_be_fitted():
    rows = mixed_rows(np.random.default_rng(6), seeds=0.0, noise=0.0)
    with pytest.raises(ValueError, match="no score varies"):
        fit_mixed(rows)


def test_the_mixed_model_of_too_few_runs_is_not_decidable():
    runs = made_up_runs(np.random.default_rng(8), models=(MLM,), seeds=(0,))
    found = MixedEvidence(runs, "seed", BASE).finding(GAP)
    assert "no mixed model on SC" in found.missing


@pytest.mark.slow
def test_the_mixed_model_is_misled_by_unequal_variances():
    """The table of docs/intervals.md: the published spreads of QA, no difference between MLM and CLM."""
    cells = published_values()
    cells = cells[(cells["task"] == "QA") & (cells["dataset"] != "average")].set_index(["model", "dataset"])
    sds = cells["ci95"] / 1.96 * np.sqrt(5)
    rng = np.random.default_rng(0)
    trials, names = 1_000, datasets_of("QA")
    mixed, paired = dict.fromkeys(SIZES, 0), dict.fromkeys(SIZES, 0)
    for _ in range(trials):
        rows = []
        for dataset in names:
            level = rng.normal(50, 20)
            rows += [
                (level + rng.normal(0, sds[model, dataset]), model, dataset, seed)
                for seed in range(5)
                for model in BASE
            ]
        frame = pd.DataFrame(rows, columns=["score", "model", "dataset", "seed"])
        fitted = fit_mixed(frame)
        per_seed = frame.groupby(["model", "seed"])["score"].mean()
        for size in SIZES:
            weights = {f"{size}-mlm40-42k": 1.0, f"{size}-clm-42k": -1.0}
            estimate = fitted.contrast(weights)
            mixed[size] += 2 * min(estimate.p_above(0), estimate.p_below(0)) <= 0.05
            differences = per_seed[f"{size}-mlm40-42k"] - per_seed[f"{size}-clm-42k"]
            paired[size] += stats.ttest_1samp(differences, 0).pvalue <= 0.05
    error = 3 * np.sqrt(0.05 * 0.95 / trials)
    assert all(abs(count / trials - 0.05) < error for count in paired.values())
    assert mixed["210m"] / trials < 0.04 < 0.07 < mixed["610m"] / trials
