"""What sources say about contrasts, levels and ratios of spreads, against scipy and loops."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.claims.catalogue import FINDINGS
from analysis.claims.statements import comparisons, difference, weighted
from analysis.evidence.cells import seed_scores
from analysis.evidence.contrasts import Spread
from analysis.evidence.evidence import Evidence
from analysis.evidence.settings import Settings
from analysis.published_cells import published_values
from common.errors import UserError
from tests.analysis.evidence.asked import (
    CLM,
    MLM,
    evidence,
    level_of,
    on_dataset,
    seeds_of,
)
from tests.analysis.made_up import made_up_runs

OTHER = "1b-clm-42k"
GAP = difference("MLM - CLM", MLM, CLM, "SC")
RUNS = made_up_runs(np.random.default_rng(0), models=(CLM, MLM), shift={MLM: 0.01})


PRINTED = {
    (m, t, d): (mean, max(half, 0.005) / 1.96)
    for m, t, d, mean, half in published_values()[
        ["model", "task", "dataset", "mean", "ci95"]
    ].itertuples(index=False)
}


def test_seeds_of_two_models_are_never_paired() -> None:
    first, second = seeds_of(RUNS, MLM), seeds_of(RUNS, CLM)
    expected = stats.ttest_ind(first, second, equal_var=False)
    found = evidence(RUNS).result(GAP)
    assert found.p_zero == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx(
        tuple(expected.confidence_interval(0.95))
    )
    assert (found.inner_low, found.inner_high) == pytest.approx(
        tuple(expected.confidence_interval(0.90))
    )
    assert (found.seeds, found.df, found.within_seeds) == (
        (5,),
        pytest.approx(expected.df),
        False,
    )
    normal = evidence(RUNS, "paper").result(GAP)
    assert (normal.error, normal.df) == (found.error, math.inf)
    assert (normal.high - normal.low) / (2 * normal.error) == pytest.approx(
        stats.norm.ppf(0.975)
    )


def test_any_weighted_sum_is_of_independent_models() -> None:
    """A slope over four models, whose weights are those of numpy's line; Welch's error written out."""
    models = [f"610m-mlm{ratio}-42k" for ratio in (20, 30, 40, 50)]
    runs = made_up_runs(np.random.default_rng(4), models=models)
    rows = [seed_scores(runs).loc[(one, "QA", "average")] for one in models]
    weights = [-0.3, -0.1, 0.1, 0.3]
    found = evidence(runs).result(
        weighted("slope", list(zip(weights, models, ["QA"] * 4, strict=True)))
    )
    parts = [(w * stats.sem(row)) ** 2 for w, row in zip(weights, rows, strict=True)]
    df = sum(parts) ** 2 / sum(part**2 / 4 for part in parts)
    slope = np.polyfit([2, 3, 4, 5], rows, 1)[0].mean()
    p = 2 * stats.t.sf(abs(slope) / math.sqrt(sum(parts)), df)
    assert (found.effect, found.p_zero) == pytest.approx((slope, p))


def test_a_difference_is_over_all_seeds_of_each_model() -> None:
    partial = RUNS[
        ~((RUNS["model"] == CLM) & (RUNS["dataset"] == "qqp") & (RUNS["seed"] >= 3))
    ]
    found = evidence(partial).result(GAP)
    theirs = stats.ttest_ind(
        seeds_of(partial, MLM),
        seeds_of(partial, CLM),
        equal_var=False,
        nan_policy="omit",
    )
    assert found.seeds == (5, 3)
    assert (found.p_zero, found.df) == pytest.approx((theirs.pvalue, theirs.df))
    means = [np.nanmean(seeds_of(partial, model)) for model in (MLM, CLM)]
    assert found.effect == pytest.approx(means[0] - means[1], abs=1e-12)
    assert "n = 3 (seeds 0, 1, 2)" in found.inputs[1] and found.inputs[0].startswith(
        f"+1 x {MLM} SC average"
    )
    assert evidence(partial).result(on_dataset("sst2")).seeds == (5,)


@pytest.mark.parametrize("interval", ["t", "pooled", "bootstrap"])
def test_without_common_seeds_it_is_welch(interval: str) -> None:
    apart = RUNS[
        ((RUNS["model"] == CLM) & (RUNS["seed"] >= 3))
        | ((RUNS["model"] == MLM) & (RUNS["seed"] < 3))
    ]
    expected = stats.ttest_ind(
        seeds_of(apart, MLM), seeds_of(apart, CLM), equal_var=False, nan_policy="omit"
    )
    found = evidence(apart, interval).result(GAP)
    assert found.p_zero == pytest.approx(float(expected.pvalue))
    assert (found.seeds, found.test) == ((3, 2), "Welch") and not found.within_seeds


def test_what_is_missing_is_named_model_by_model() -> None:
    one = evidence(RUNS[RUNS["model"] == MLM])
    assert one.result(GAP).missing == f"no runs of {CLM} on SC average"
    single = RUNS[(RUNS["seed"] == 0) | (RUNS["model"] == MLM)]
    for interval in ("t", "paper", "pooled", "bootstrap"):
        found = evidence(single, interval).result(GAP)
        assert (
            found.missing == f"only one seed of {CLM} on SC average"
            and len(found.inputs) == 2
        )
        assert not found.known and math.isnan(found.effect)
    mean, low, high, count, _ = evidence(single).score((CLM, "SC", "sst2"))
    assert count == 1 and np.isnan([low, high]).all() and mean > 0
    absent = evidence(None).result(difference("x", "mine", "yours", "SC")).missing
    assert absent == "no published cell for mine on SC average, yours on SC average"


@pytest.mark.parametrize("interval", ["t", "pooled", "bootstrap"])
def test_a_copy_differs_by_nothing_with_some_width(
    interval: str,
) -> None:
    copies = [
        RUNS,
        *(RUNS[RUNS["model"] == CLM].assign(model=name) for name in ("x", "y", "z")),
    ]
    source = evidence(pd.concat(copies, ignore_index=True), interval)
    for other in (CLM, "x"):
        found = source.result(on_dataset("sst2", CLM, other))
        assert found.effect == 0 and found.low < 0 < found.high and found.p_zero > 0.9
    two = weighted("x", [(0.5, MLM, "SC"), (0.5, MLM, "SC"), (-1, CLM, "SC")])
    assert source.result(two).effect == pytest.approx(source.result(GAP).effect)
    assert source.result(two).p_zero == pytest.approx(source.result(GAP).p_zero)


def test_runs_next_to_printed_cells_are_tested_by_welch() -> None:
    runs = made_up_runs(np.random.default_rng(1), models=("mine",))
    both = Evidence(Settings(interval="pooled"), runs=runs, printed=True)
    found = both.result(difference("x", "mine", CLM, "SC"))
    scores = seeds_of(runs, "mine")
    mean, error = PRINTED[CLM, "SC", "average"]
    theirs = stats.ttest_ind_from_stats(
        scores.mean(),
        scores.std(ddof=1),
        5,
        mean,
        error * math.sqrt(5),
        5,
        equal_var=False,
    )
    assert (found.p_zero, found.interval) == (pytest.approx(theirs.pvalue), "t")
    assert f"mean {scores.mean():.4f}" in found.inputs[0] and "+-" in found.inputs[1]
    replaced = Evidence(Settings(interval="t"), runs=RUNS, printed=True).result(
        on_dataset("sst2")
    )
    # Models that have runs are not taken from the paper
    assert replaced.test == "Welch"
    assert (OTHER, "SC", "sst2") in both and (OTHER, "SC", "sst2") in both.printed


@pytest.mark.parametrize(
    ("score", "ends"),
    [
        (0.995, (None, 100.0)),
        (0.0, (0.0, None)),
        (-0.3, (None, None)),
        (-0.999, (-100.0, None)),
    ],
)
def test_levels_are_cut_where_the_metric_ends(
    score: float, ends: tuple[float | None, float | None]
) -> None:
    """Correlations, the metrics of own data sets that can be negative, end at -1."""
    runs = RUNS[
        (RUNS["model"] == MLM) & (RUNS["dataset"] == "sst2") & (RUNS["lr"] == 1e-4)
    ].copy()
    runs["test_score"] = score + 0.01 * np.array([0, 0, 1, 0, 0])
    _, low, high, _, _ = evidence(runs).score((MLM, "SC", "sst2"))
    free = evidence(runs).result(level_of((MLM, "SC", "sst2")))
    assert low == (free.low if ends[0] is None else ends[0])
    assert high == (free.high if ends[1] is None else ends[1])
    assert ends == (None, None) or free.low < 0 or free.high > 100


def test_the_papers_levels_are_as_printed() -> None:
    paper, student = evidence(None, "paper"), evidence(None, "t")
    for cell in list(PRINTED)[::7]:
        mean, error = PRINTED[cell]
        half = error * 1.96 if error > 0.0026 else 0.0
        assert paper.score(cell)[:3] == pytest.approx(
            (mean, mean - half, mean + half), abs=1e-9
        )
        wide = stats.t.interval(0.95, 4, mean, error)
        assert student.score(cell)[1:3] == pytest.approx(np.clip(wide, 0, 100))


def test_estimates_that_need_a_standard_error_get_students() -> None:
    assert (
        evidence(RUNS, "bootstrap").student(GAP.terms)
        == evidence(RUNS).estimate(GAP.terms).estimate
    )


@pytest.mark.parametrize("interval", ["bootstrap", "pooled"])
def test_resampled_findings_depend_on_the_seed_only(
    interval,
) -> None:
    models = (CLM, MLM, "x", "y")
    runs = made_up_runs(
        np.random.default_rng(2), models=models, seeds=range(8), rates=[1e-4]
    )
    first, second, other = (
        repr(evidence(runs, interval, seed=s).result(GAP).low) for s in (7, 7, 8)
    )
    assert first == second
    # Student's quantile may be the larger
    assert first != other or interval == "pooled"
    level = level_of((CLM, "SC", "sst2"))
    shuffled = runs.sample(frac=1, random_state=0)
    assert repr(evidence(runs, interval).result(level)) == repr(
        evidence(shuffled, interval).result(level)
    )


def test_what_a_source_cannot_give_is_refused() -> None:
    with pytest.raises(UserError, match="needs per-instance scores"):
        evidence(RUNS, "crossed")
    spread = next(iter(comparisons(FINDINGS["F7"].body)))
    assert (
        isinstance(spread, Spread)
        and evidence(None).result(spread).missing == "needs individual runs"
    )
