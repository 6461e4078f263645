"""What runs say about contrasts: pairing, partial runs, spreads, instances; and the mixed model next to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.claims.assessment import assess
from analysis.claims.catalogue import CLAIMS
from analysis.claims.evidence import PublishedEvidence, RunEvidence
from analysis.claims.statements import Contrast, Spread, Term, comparisons, difference, weighted
from analysis.sources import Source
from analysis.statistics.scores_table import Settings, seed_scores
from benchmarks.protocol import DATASETS
from common.errors import UserError
from tests.analysis.made_up import made_up_runs, with_instances

MLM, CLM = "610m-mlm40-42k", "610m-clm-42k"
GAP = difference("MLM - CLM", MLM, CLM, "SC")


def on_dataset(dataset: str, task: str) -> Contrast:
    return Contrast(
        label=f"MLM - CLM on {dataset}",
        terms=tuple(
            Term(weight=w, model=m, task=task, dataset=dataset) for w, m in ((1.0, MLM), (-1.0, CLM))
        ),
    )


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    return made_up_runs(np.random.default_rng(0), models=(CLM, MLM), shift={MLM: 0.01})


def settings(interval: str = "t", **options) -> Settings:
    return Settings(interval=interval, resamples=2_000, **options)


def test_runs_are_paired_by_seed(runs):
    values = seed_scores(runs)
    first, second = (values.loc[[(m, "SC", "average")]].to_numpy()[0] for m in (MLM, CLM))
    expected = stats.ttest_rel(first, second)
    found = RunEvidence(runs, settings()).finding(GAP)
    assert found.p_zero == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert (found.seeds, found.df) == ((5,), 4.0)
    # What the seeds have in common cancels: unpaired, the interval is wider.
    assert found.high - found.low < np.ptp(stats.ttest_ind(first, second).confidence_interval(0.95))


def test_seeds_that_a_model_lacks_are_left_out_and_counted(runs):
    partial = runs[~((runs["model"] == CLM) & (runs["dataset"] == "qqp") & (runs["seed"] >= 3))]
    found = RunEvidence(partial, settings()).finding(GAP)
    assert (found.seeds, found.df) == ((3,), 2.0)
    assert "seeds 0, 1, 2" in " ".join(found.inputs)
    assert RunEvidence(partial, settings()).finding(on_dataset("sst2", "SC")).seeds == (5,)


def test_without_common_seeds_it_is_welch(runs):
    apart = runs[
        ((runs["model"] == CLM) & (runs["seed"] >= 3)) | ((runs["model"] == MLM) & (runs["seed"] < 3))
    ]
    values = seed_scores(apart)
    first, second = (values.loc[[(m, "SC", "average")]].to_numpy()[0] for m in (MLM, CLM))
    expected = stats.ttest_ind(first, second, equal_var=False, nan_policy="omit")
    found = RunEvidence(apart, settings()).finding(GAP)
    assert found.p_zero == pytest.approx(float(expected.pvalue))
    assert found.seeds == (3, 2)
    assert RunEvidence(apart, settings("studentised")).finding(GAP).p_zero == found.p_zero


def test_missing_models_and_single_seeds_are_named(runs):
    evidence = RunEvidence(runs[runs["model"] == MLM], settings())
    assert evidence.finding(GAP).missing == f"no runs of {CLM} on SC average"
    single = runs[(runs["seed"] == 0) | (runs["model"] == MLM)]
    assert RunEvidence(single, settings()).finding(GAP).missing == f"only one seed of {CLM} on SC average"


def test_learning_rates_that_are_missing_do_not_stop_it(runs):
    few = runs[runs["lr"] == 1e-4]
    found = RunEvidence(few, settings()).finding(GAP)
    assert found.known and found.seeds == (5,)
    spread = next(iter(comparisons(CLAIMS["F7"].body)))
    assert "missing" in RunEvidence(few, settings()).finding(spread).missing


def test_the_papers_interval_uses_normal_quantiles(runs):
    student, normal = (RunEvidence(runs, settings(kind)).finding(GAP) for kind in ("t", "paper"))
    assert student.error == normal.error
    assert (normal.high - normal.low) / (2 * normal.error) == pytest.approx(stats.norm.ppf(0.975))


@pytest.mark.parametrize("kind", ["bootstrap", "bca"])
def test_bootstraps_over_seeds_are_repeatable(runs, kind):
    first, second = (RunEvidence(runs, settings(kind, seed=7)).finding(GAP) for _ in range(2))
    assert repr(first) == repr(second) and "bootstrap" in first.test


def test_spread_over_learning_rates_is_that_of_figure_5(runs):
    spread = next(iter(comparisons(CLAIMS["F7"].body)))
    assert isinstance(spread, Spread)
    found = RunEvidence(runs, settings()).finding(spread)
    scores = (
        100
        * runs[(runs["task"] == spread.task) & (runs["lr"] <= 1e-4)]
        .groupby(["model", "lr", "seed"])["test_score"]
        .mean()
    )
    assert found.effect == pytest.approx(scores.loc[CLM].std() / scores.loc[MLM].std())
    assert found.p_zero == pytest.approx(
        stats.levene(scores.loc[CLM], scores.loc[MLM], center="median").pvalue
    )
    assert found.low < found.effect < found.high


def test_a_steadier_model_is_found_to_be_steadier():
    rng = np.random.default_rng(1)
    runs = made_up_runs(rng, models=(CLM, MLM))
    shaken = runs["model"] == MLM
    runs.loc[shaken, "test_score"] += rng.normal(0, 0.05, int(shaken.sum()))
    verdict = {v.claim.id: v for v in assess(Source(label="x", runs=runs), settings()).verdicts}["F7"]
    assert verdict.verdict == "supported" and verdict.decisive.effect < 0.6
    swapped = runs.replace({"model": {CLM: MLM, MLM: CLM}})
    verdict = {v.claim.id: v for v in assess(Source(label="x", runs=swapped), settings()).verdicts}["F7"]
    assert verdict.verdict == "contradicted"


def test_spread_over_ratios_takes_the_selected_runs():
    spread = next(iter(comparisons(CLAIMS["F10"].body)))
    assert isinstance(spread, Spread)
    runs = made_up_runs(np.random.default_rng(2), models=(*spread.narrow, *spread.wide))
    found = RunEvidence(runs, settings()).finding(spread)
    best = (
        100
        * runs[(runs["task"] == spread.task) & (runs["lr"] == 1e-4)]
        .groupby(["model", "seed"])["test_score"]
        .mean()
    )
    narrow, wide = (best.loc[list(models)].std() for models in (spread.narrow, spread.wide))
    assert found.effect == pytest.approx(narrow / wide)


@pytest.fixture(scope="module")
def instances(tmp_path_factory) -> tuple[pd.DataFrame, Path]:
    folder = tmp_path_factory.mktemp("instances") / "instances"
    return with_instances(
        folder, np.random.default_rng(3), models=(CLM, MLM), counts={"msmarco": 43, "sst2": 400}, shift=0.02
    )


def test_instances_widen_what_seeds_alone_show(instances):
    runs, folder = instances
    over_seeds = RunEvidence(runs, settings())
    over_both = RunEvidence(runs, settings("hierarchical"), instances=folder)
    for dataset in ("msmarco", "sst2"):
        contrast = on_dataset(dataset, DATASETS[dataset].task)
        narrow, wide = over_seeds.finding(contrast), over_both.finding(contrast)
        assert wide.effect == pytest.approx(narrow.effect)
        assert wide.error > 2 * narrow.error and wide.instance_share > 0.7
    small = over_both.finding(on_dataset("msmarco", "IR"))
    large = over_both.finding(on_dataset("sst2", "SC"))
    assert small.error > 2 * large.error  # 43 queries against 400 sentences


def test_the_error_over_seeds_and_instances_is_that_of_the_two_way_layout(instances):
    from analysis.store.instances import read_instances

    runs, folder = instances
    scores = {
        m: 100
        * read_instances(folder, "msmarco", runs[(runs["model"] == m) & (runs["dataset"] == "msmarco")])
        for m in (MLM, CLM)
    }
    differences = scores[MLM] - scores[CLM]
    shared = np.cov(differences, bias=True)
    common = (shared.sum() - np.trace(shared)) / 20 / differences.shape[1]
    expected = differences.mean(axis=1).var(ddof=1) / 5 + common
    found = RunEvidence(runs, Settings(interval="hierarchical"), instances=folder).finding(
        on_dataset("msmarco", "IR")
    )
    assert found.error**2 == pytest.approx(expected, rel=0.05)


def test_nq_is_never_paired_by_query(instances):
    runs, folder = instances
    over_seeds = RunEvidence(runs, settings()).finding(on_dataset("nq", "IR"))
    over_both = RunEvidence(runs, Settings(interval="hierarchical"), instances=folder).finding(
        on_dataset("nq", "IR")
    )
    # Each run has queries of its own: nothing is common to seeds, and their spread holds the queries' already.
    assert over_both.instance_share < 0.05
    assert over_both.error == pytest.approx(over_seeds.error, rel=0.03)


def test_hierarchical_is_repeatable_and_needs_instances(instances):
    runs, folder = instances
    contrast = weighted("x", [(1, MLM, "IR"), (-1, CLM, "IR")])
    first, second = (
        RunEvidence(runs, settings("hierarchical"), instances=folder).finding(contrast) for _ in range(2)
    )
    assert repr(first) == repr(second) and first.test == "paired by seed and instance"
    with pytest.raises(UserError, match="needs per-instance scores"):
        RunEvidence(runs, settings("hierarchical"))


def test_published_cells_refuse_what_they_cannot_give():
    with pytest.raises(UserError, match="needs single runs"):
        PublishedEvidence("bca")


def test_a_cell_printed_without_spread_keeps_the_rounding():
    contrast = difference("QA at 1k", "610m-clm-42k-1000", "610m-mlm40-42k-1000", "QA")
    found = PublishedEvidence().finding(contrast)
    assert found.error == pytest.approx(np.hypot(0.24, 0.005) / 1.96)
