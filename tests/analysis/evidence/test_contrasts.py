"""Claimed regions and findings by their definitions; ratios of spreads against theirs and scipy's Levene test."""

import itertools
import math
import statistics

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.claims.assessment import assess
from analysis.claims.catalogue import FINDINGS
from analysis.claims.statements import comparisons
from analysis.evidence.contrasts import (
    Contrast,
    Result,
    SeedSpread,
    Spread,
    Term,
    contrast_result,
    seed_spread_result,
)
from analysis.evidence.evidence import Evidence
from analysis.evidence.settings import Settings
from analysis.published_cells import published_values
from analysis.sources import PUBLISHED, Source
from analysis.statistics.estimates import Resampled, Student
from benchmarks.protocol import datasets_of
from tests.analysis.made_up import made_up_runs

TWO = Contrast(
    label="x",
    terms=(
        Term(weight=1.0, model="a", task="SC"),
        Term(weight=-1.0, model="b", task="QA", dataset="squad"),
        Term(weight=0.5, model="a", task="SC"),
    ),
)
RANGE = Contrast(label="x", terms=TWO.terms, low=-1.0, high=2.0)
BELOW = Contrast(label="x", terms=TWO.terms, low=-math.inf, high=0.5)


def test_a_contrast_names_each_model_task_and_place_once() -> None:
    assert TWO.models == ("a", "b") and TWO.tasks == ("SC", "QA")
    assert TWO.places == (("SC", "average"), ("QA", "squad"))
    assert TWO.terms[0].cell == ("a", "SC", "average")
    spread = Spread(
        label="x", task="SC", narrow=("a",), wide=("b", "c"), dataset="sst2"
    )
    assert (
        spread.models == ("a", "b", "c")
        and spread.tasks == ("SC",)
        and spread.places == (("SC", "sst2"),)
    )


@pytest.mark.parametrize(
    ("asked", "words", "is_range", "held", "not_held"),
    [
        (TWO, "> 0", False, (0.01, 99.0), (0.0, -0.01)),
        (RANGE, "in (-1, 2)", True, (-0.99, 1.99), (-1.0, 2.0)),
        (BELOW, "< 0.5", False, (-99.0, 0.49), (0.5, 0.51)),
        (
            Spread(label="", task="SC", narrow=(), wide=()),
            "< 1",
            False,
            (0.0, 0.99),
            (1.0, 1.01),
        ),
    ],
)
def test_a_region_is_open(
    asked: Contrast | Spread,
    words: str,
    is_range: bool,
    held: tuple[float, ...],
    not_held: tuple[float, ...],
) -> None:
    assert (asked.region, asked.is_range) == (words, is_range)
    assert all(asked.holds(effect) for effect in held) and not any(
        asked.holds(effect) for effect in not_held
    )


@pytest.mark.parametrize(
    ("low", "high", "margin", "has_direction"),
    [
        (0.0, math.inf, 0.0, True),
        (-math.inf, 0.0, 0.0, True),
        (1.0, math.inf, 0.0, True),
        (-0.25, math.inf, 0.25, False),
        (-0.5, 0.5, 0.0, False),
        (1.0, 3.0, 0.0, False),
    ],
)
def test_margin_is_what_a_half_line_allows_below_zero(
    low: float, high: float, margin: float, has_direction: bool
) -> None:
    region = Contrast(label="", terms=(), low=low, high=high)
    assert (region.margin, region.has_direction) == (margin, has_direction)


def test_what_is_missing_is_no_evidence_for_or_against() -> None:
    unknown = Result(comparison=TWO, missing="no runs")
    assert not unknown.known and (unknown.p_for, unknown.p_against) == (1.0, 1.0)
    assert (
        math.isnan(unknown.effect)
        and math.isnan(unknown.p_zero)
        and unknown.instance_share == 0
    )
    assert not unknown.within_seeds and Result(comparison=TWO).known


def test_a_finding_takes_over_its_estimate() -> None:
    estimate = Student(effect=1.0, error=0.5, df=4.0, instance_share=0.3)
    found = contrast_result(
        RANGE, estimate, test="t", inputs=("one",), seeds=(5, 5), interval="t"
    )
    assert (found.low, found.high) == estimate.interval()
    assert (found.inner_low, found.inner_high) == estimate.interval(0.90)
    assert found.p_zero == pytest.approx(2 * estimate.p_above(0.0))
    assert (found.effect, found.error, found.df, found.instance_share) == (
        1.0,
        0.5,
        4.0,
        0.3,
    )
    assert found.seeds == (5,) and not found.within_seeds
    assert contrast_result(
        RANGE, estimate, test="t", inputs=(), seeds=(5, 4)
    ).seeds == (5, 4)


def test_resampled_estimate_has_a_p_of_one_at_most() -> None:
    drawn = Resampled(effect=0.0, drawn=(-1.0, 0.0, 0.0, 0.0, 1.0))
    found = contrast_result(TWO, drawn, test="b", inputs=(), seeds=(5,))
    assert found.p_zero == 1.0 and found.instance_share == 0.0
    nothing = Student(effect=0.0, error=0.0, df=4.0)
    assert contrast_result(TWO, nothing, test="t", inputs=(), seeds=(5,)).p_zero == 1.0


MLM, CLM = "610m-mlm40-42k", "610m-clm-42k"
SETTINGS = Settings(interval="t", resamples=2_000)


def spread_of(finding: str) -> Spread:
    spread = next(iter(comparisons(FINDINGS[finding].body)))
    assert isinstance(spread, Spread)
    return spread


def test_spread_over_ratios_takes_the_selected_runs() -> None:
    spread = spread_of("F10")
    runs = made_up_runs(np.random.default_rng(2), models=(*spread.narrow, *spread.wide))
    rows = runs[(runs["task"] == spread.task) & (runs["lr"] == 1e-4)]
    best = 100 * rows.groupby(["model", "seed"])["test_score"].mean()
    narrow, wide = (
        best.loc[list(models)].std() for models in (spread.narrow, spread.wide)
    )
    assert Evidence(SETTINGS, runs=runs).result(spread).effect == pytest.approx(
        narrow / wide
    )


def verdict_on(runs: pd.DataFrame) -> str:
    return assess(Source(label="x", runs=runs), SETTINGS).judged["F7"].verdict


def test_a_steadier_model_is_found_to_be_steadier() -> None:
    rng = np.random.default_rng(1)
    runs = made_up_runs(rng, models=(CLM, MLM))
    shaken = runs["model"] == MLM
    runs.loc[shaken, "test_score"] += rng.normal(0, 0.05, int(shaken.sum()))
    assert verdict_on(runs) == "holds"
    assert verdict_on(runs.replace({"model": {CLM: MLM, MLM: CLM}})) == "fails"


def test_what_has_no_spread_says_why() -> None:
    assert (
        PUBLISHED.evidence(Settings()).result(spread_of("F7")).missing
        == "needs individual runs"
    )
    runs = made_up_runs(np.random.default_rng(0), models=(CLM, MLM))
    few = Evidence(SETTINGS, runs=runs[runs["lr"] == 1e-4]).result(spread_of("F7"))
    assert "at some learning rate" in few.missing


def written_out(
    narrow: np.ndarray, wide: np.ndarray
) -> tuple[float, tuple[float, float], tuple[float, float], tuple[float, float]]:
    """The ratio, its 95 % and 90 % intervals and the shares of log ratios above and below 0, over all 5^5 resamples."""
    logs = []
    for picks in itertools.product(range(5), repeat=5):
        first, second = narrow[:, picks].ravel(), wide[:, picks].ravel()
        logs.append(
            math.log(statistics.stdev(first)) - math.log(statistics.stdev(second))
        )
    ends = [
        np.quantile(logs, q, method="inverted_cdf") for q in (0.025, 0.975, 0.05, 0.95)
    ]
    sides = np.mean(np.array(logs) >= 0), np.mean(np.array(logs) <= 0)
    ratio = statistics.stdev(narrow.ravel()) / statistics.stdev(wide.ravel())
    return ratio, tuple(np.exp(ends[:2])), tuple(np.exp(ends[2:])), sides


@pytest.mark.parametrize("turned", [False, True])
def test_ratio_has_the_larger_p_of_its_two_tests(
    turned: bool,
) -> None:
    rng = np.random.default_rng(4)
    runs = made_up_runs(rng, models=(CLM, MLM), rates=[1e-4, 2e-4])
    shaken = runs["model"] == (CLM if turned else MLM)
    runs.loc[shaken, "test_score"] += rng.normal(0, 0.02, int(shaken.sum()))
    spread = Spread(
        label="",
        task="SC",
        narrow=(CLM,),
        wide=(MLM,),
        learning_rates=(1e-4, 2e-4),
        dataset="sst2",
    )
    found = Evidence(Settings(interval="t", resamples=4_000), runs=runs).result(spread)
    rows = runs[runs["dataset"] == "sst2"]
    narrow, wide = (
        100
        * rows[rows["model"] == model]
        .pivot(index="lr", columns="seed", values="test_score")
        .to_numpy()
        for model in (CLM, MLM)
    )
    ratio, outer, inner, (above, below) = written_out(narrow, wide)
    equal = stats.levene(narrow.ravel(), wide.ravel(), center="median").pvalue
    assert found.effect == pytest.approx(ratio) and (ratio > 1) == turned
    assert (found.low, found.high) == pytest.approx(outer, rel=0.02)
    assert (found.inner_low, found.inner_high) == pytest.approx(inner, rel=0.02)
    sides = max(equal, min(1, 2 * above)), max(equal, min(1, 2 * below))
    expected = (1.0, sides[1]) if turned else (sides[0], 1.0)
    assert (found.p_for, found.p_against) == pytest.approx(expected, abs=2e-3)
    assert found.seeds == (5,) and found.p_zero == pytest.approx(equal)
    assert found.inputs == (
        f"{CLM} SC sst2: sd {statistics.stdev(narrow.ravel()):.4f} over 2 conditions x 5 seeds",
        f"{MLM} SC sst2: sd {statistics.stdev(wide.ravel()):.4f} over 2 conditions x 5 seeds",
    )


def test_only_seeds_under_every_condition_count() -> None:
    runs = made_up_runs(np.random.default_rng(5), models=(CLM, MLM), rates=[1e-4, 2e-4])
    spread = Spread(
        label="",
        task="SC",
        narrow=(CLM,),
        wide=(MLM,),
        learning_rates=(1e-4, 2e-4),
        dataset="sst2",
    )

    def without(*gaps: tuple[str, float, int]) -> Result:
        lost = [
            (m, lr, s) in gaps
            for m, lr, s in zip(runs["model"], runs["lr"], runs["seed"], strict=True)
        ]
        return Evidence(SETTINGS, runs=runs[~np.array(lost)]).result(spread)

    assert without((CLM, 1e-4, 0), (MLM, 2e-4, 3)).seeds == (3,)
    assert without((CLM, 1e-4, 0), (MLM, 2e-4, 3), (MLM, 1e-4, 4)).seeds == (2,)
    few = without((CLM, 1e-4, 0), (MLM, 2e-4, 3), (MLM, 1e-4, 4), (CLM, 2e-4, 1))
    assert (
        few.missing == "fewer than two seeds have runs under every condition"
        and not few.known
    )


def test_a_group_without_spread_or_without_runs_is_named() -> None:
    runs = made_up_runs(np.random.default_rng(6), models=(CLM, MLM), rates=[1e-4])
    spread = Spread(label="", task="SC", narrow=(CLM,), wide=(MLM,), dataset="sst2")
    flat = runs.copy()
    flat.loc[(flat["model"] == CLM) & (flat["dataset"] == "sst2"), "test_score"] = 0.5
    assert (
        Evidence(SETTINGS, runs=flat).result(spread).missing
        == "all scores of a group are equal"
    )
    away = Spread(label="", task="SC", narrow=(CLM, "x"), wide=(MLM,), dataset="sst2")
    assert Evidence(SETTINGS, runs=runs).result(away).missing == "no runs of x"


@pytest.mark.parametrize("without", ["narrow", "wide"])
def test_a_seeds_spread_that_is_not_a_number_is_missing(without: str) -> None:
    places = (("SC", "sst2"), ("SC", "mnli"))
    pair = SeedSpread(label="", narrow=("narrow",), wide=("wide",), datasets=places)
    found = seed_spread_result(
        pair, lambda cell: math.nan if cell[0] == without else 0.5
    )
    assert found.missing == "no spread over seeds of narrow, wide on sst2"


def test_seed_spread_of_printed_cells_is_the_mean_log_ratio() -> None:
    half = published_values().set_index(["model", "dataset"])["ci95"].clip(lower=0.005)
    ratios = [
        math.log(half["610m-clm-42k", name] / half["610m-mlm40-42k", name])
        for task in ("SC", "TC", "QA", "IR")
        for name in datasets_of(task)
    ]
    reported = FINDINGS["F7"].reported
    found, three_sizes = map(PUBLISHED.evidence(Settings()).result, reported)
    expected = stats.ttest_1samp(ratios, 0)
    assert found.effect == pytest.approx(math.exp(np.mean(ratios)))
    ends = np.exp(expected.confidence_interval(0.95))
    assert (found.low, found.high) == pytest.approx(tuple(ends))
    assert (found.p_for, found.p_against) == (pytest.approx(expected.pvalue), 1.0)
    assert three_sizes.low == pytest.approx(0.59, abs=0.005)
    nothing = Evidence(
        SETTINGS, runs=made_up_runs(np.random.default_rng(0), models=["x"])
    )
    assert "no spread over seeds" in nothing.result(found.comparison).missing
