"""Every interval is one object: a made-up one is used under its own name everywhere, an unknown one nowhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from analysis.claims.assessment import assess
from analysis.claims.evidence import PublishedEvidence, RunEvidence
from analysis.claims.multiverse import explore
from analysis.claims.statements import difference
from analysis.claims.wording import how_tested
from analysis.precision.coverage import KINDS, Cells, simulate, simulate_dataset
from analysis.published_cells import published_values
from analysis.sources import PUBLISHED, Source
from analysis.statistics.bounds import Bounds
from analysis.statistics.estimates import Student
from analysis.statistics.intervals import (
    CROSSED,
    DEFAULT_OF_RUNS,
    INTERVALS,
    IndependentTest,
    Interval,
    PairedTest,
    Sample,
)
from analysis.statistics.scores import Settings, published_scores, run_scores, seed_scores
from clm_or_mlm.options import ScoreOptions
from common.errors import UserError
from common.provenance import ROOT
from paper_figures.inputs import Inputs
from paper_figures.output.captions import source_sentence
from paper_figures.registry import FIGURES
from paper_figures.supplementary.coverage import FIGURE as COVERAGE
from tests.analysis.made_up import made_up_runs, with_instances

MLM, CLM = "610m-mlm40-42k", "610m-clm-42k"
GAP = difference("MLM - CLM", MLM, CLM, "SC")
WIDENING = 3.0


def jackknife_error(values: np.ndarray) -> np.ndarray:
    """Tukey's: sqrt((n - 1) / n times the squared deviations of the means with one seed left out)."""
    count = values.shape[-1]
    left_out = (values.sum(axis=-1, keepdims=True) - values) / (count - 1)
    deviations = left_out - left_out.mean(axis=-1, keepdims=True)
    return np.sqrt((count - 1) / count * (deviations**2).sum(axis=-1))


def jackknife_bounds(sample: Sample) -> Bounds:
    half = WIDENING * jackknife_error(sample.values)
    mean = sample.values.mean(axis=-1)
    return mean - half, mean + half


def jackknife_estimate(sample: Sample) -> tuple[Student, str]:
    error = float(jackknife_error(sample.values))
    return Student(effect=float(sample.values.mean()), error=error, df=2.0), "jackknife over paired seeds"


JACKKNIFE = Interval(
    name="jackknife",
    words="three jackknife errors either side",
    bounds=jackknife_bounds,
    printed_factor=lambda n_seeds: n_seeds / 10,
    paired=PairedTest(words="jackknives", estimate=jackknife_estimate),
    independent=IndependentTest(
        words="wide tests", name="wide, from printed intervals", estimate=lambda welch: replace(welch, df=1.0)
    ),
)


@pytest.fixture
def registered() -> Iterator[Callable[[Interval], None]]:
    yield INTERVALS.register  # type: ignore[misc]
    INTERVALS.pop("jackknife")


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    return made_up_runs(np.random.default_rng(0), models=(CLM, MLM), shift={MLM: 0.01})


def settings(interval: str = "jackknife") -> Settings:
    return Settings(interval=interval, resamples=200)


def test_a_new_interval_gives_its_own_bounds_of_runs_and_of_printed_cells(registered, runs) -> None:
    registered(JACKKNIFE)
    scores = run_scores(runs, settings(), source="x").set_index(["model", "task", "dataset"])
    assert set(scores["interval"]) == {"jackknife"}
    for key, values in seed_scores(runs).iterrows():
        row, half = scores.loc[key], 3 * values.std(ddof=1) / 5**0.5
        assert [row["low"], row["high"]] == pytest.approx([row["mean"] - half, row["mean"] + half])
    printed = published_scores("jackknife").set_index(["model", "task", "dataset"])
    cells = published_values().set_index(["model", "task", "dataset"])
    assert (printed["high"] - printed["mean"]).to_numpy() == pytest.approx(
        cells.loc[printed.index, "ci95"].to_numpy() / 2
    )


def test_a_new_interval_has_its_own_test_and_words_in_the_claims(registered, runs) -> None:
    registered(JACKKNIFE)
    finding = RunEvidence(runs, settings()).finding(GAP)
    assert (finding.test, finding.df) == ("jackknife over paired seeds", 2.0)
    apart = runs[(runs["model"] == CLM) == (runs["seed"] >= 3)]
    assert RunEvidence(apart, settings()).finding(GAP).df == 1.0
    finding = PublishedEvidence("jackknife").finding(GAP)
    assert (finding.test, finding.df) == ("wide, from printed intervals", 1.0)
    assert "jackknives (Welch's" in how_tested("jackknife", published=False)[0]
    assert "wide tests from each" in how_tested("jackknife", published=True)[0]


def test_a_new_interval_without_tests_is_refused_by_the_claims(registered, runs) -> None:
    registered(replace(JACKKNIFE, paired=None, independent=None))
    source = Source(label="x", runs=runs)
    for refused in (
        lambda: RunEvidence(runs, settings()),
        lambda: PublishedEvidence("jackknife"),
        lambda: assess(source, settings()),
        lambda: assess(PUBLISHED, settings()),
        lambda: how_tested("jackknife", published=False),
    ):
        with pytest.raises(
            UserError, match=r"no test of differences .* goes with the jackknife interval: choose"
        ):
            refused()
    assert "jackknife" not in set(explore(PUBLISHED, settings("t")).verdicts["interval"])


def test_a_new_interval_that_needs_runs_or_instances_is_refused_without(registered, runs) -> None:
    registered(replace(JACKKNIFE, printed_factor=None, needs_instances=True))
    for refused in (lambda: published_scores("jackknife"), lambda: PublishedEvidence("jackknife")):
        with pytest.raises(
            UserError, match=r"the jackknife interval needs single runs.* choose --interval paper or t$"
        ):
            refused()
    for refused in (lambda: run_scores(runs, settings(), source="x"), lambda: RunEvidence(runs, settings())):
        with pytest.raises(
            UserError, match=r"jackknife interval needs per-instance.*paper, t, .*bootstrap-t or studentised$"
        ):
            refused()


def test_a_new_interval_that_needs_instances_is_given_them(registered, tmp_path: Path) -> None:
    registered(
        replace(
            JACKKNIFE,
            needs_instances=True,
            bounds=lambda sample: (
                sample.over_instances.min(axis=(-2, -1)),
                sample.over_instances.max(axis=(-2, -1)),
            ),
        )
    )
    runs, folder = with_instances(tmp_path / "i", np.random.default_rng(1), models=(CLM, MLM), counts={})
    scores = run_scores(runs, settings(), source="x", instances=folder)
    plain = run_scores(runs, settings("hierarchical"), source="x", instances=folder)
    assert (scores["low"] < plain["low"]).all() and (scores["high"] > plain["high"]).all()


def test_a_new_interval_is_among_the_analyses_of_the_multiverse(registered, runs) -> None:
    registered(JACKKNIFE)
    found = explore(PUBLISHED, settings("t")).verdicts
    assert set(found["interval"]) == {"paper", "t", "jackknife"}
    cell = found[(found["id"] == "F1") & (found["interval"] == "jackknife")].iloc[0]
    other = found[(found["id"] == "F1") & (found["interval"] == "t")].iloc[0]
    assert cell["effect"] == other["effect"] and cell["low"] < other["low"]
    found = explore(Source(label="x", runs=runs), settings("t")).verdicts
    over_seeds = {name for name, one in INTERVALS.items() if not one.needs_instances}
    assert set(found["interval"]) == {*over_seeds, "mixed"} and "jackknife" in over_seeds


def test_a_new_interval_is_simulated_and_drawn(registered) -> None:
    registered(JACKKNIFE)
    cells = Cells(
        dataset="sst2", instances=500, seed_sd=np.ones(1), common_sd=np.zeros(1), joint_sd=np.zeros(1),
        shape=np.empty(0),
    )  # fmt: skip
    found = simulate_dataset(cells, trials=3_000, resamples=100, rng=np.random.default_rng(0))
    expected = 2 * special.stdtr(4, WIDENING) - 1
    error = 4 * np.sqrt(expected * (1 - expected) / 3_000)
    assert found["jackknife", "seeds"] == pytest.approx(expected, abs=error)
    data = simulate(PUBLISHED, trials=100, resamples=100, seed=0)
    assert [text.get_text() for text in COVERAGE.draw(data, "x").legends[0].get_texts()] == list(KINDS)
    assert "jackknife 9" in COVERAGE.describe(data)


def test_captions_have_the_words_of_a_new_interval(registered, runs) -> None:
    registered(JACKKNIFE)
    figure = FIGURES["3"].load()
    inputs = Inputs(source=PUBLISHED, settings=settings())
    data = pd.DataFrame({"model": [MLM], "n_seeds": [5], "interval": ["jackknife"]})
    assert source_sentence(figure, data, inputs).endswith("three jackknife errors either side.")


@given(st.text(min_size=1, max_size=12).filter(lambda name: name not in INTERVALS))
def test_an_unknown_interval_is_refused_at_every_entry(name: str) -> None:
    for entry in (
        lambda: Settings(interval=name),
        lambda: ScoreOptions(interval=name).settings(PUBLISHED),
        lambda: published_scores(name),
        lambda: PublishedEvidence(name),
        lambda: how_tested(name, published=True),
        lambda: how_tested(name, published=False),
    ):
        with pytest.raises(
            UserError, match=r"unknown interval .*; one of paper, t, bootstrap, bca, expanded"
        ):
            entry()


def test_the_crossed_interval_of_runs_is_that_of_its_test() -> None:
    values = np.random.default_rng(2).normal(80, 1, 5)
    resampled = values + np.random.default_rng(3).normal(0, 1, (400, 1))
    sample = Sample(values=values, pick=settings("t").picks, resampled=resampled)
    assert CROSSED.paired is not None
    estimate, name = CROSSED.paired.estimate(sample)
    assert name == "paired by seed and instance"
    assert [float(end) for end in CROSSED.bounds(sample)] == pytest.approx(list(estimate.interval()))


def test_the_default_of_runs_reaches_the_bar_that_it_was_chosen_by() -> None:
    """At least 94 % for five normal seeds, and in no simulated shape and number of seeds below Student's t."""
    table = pd.read_csv(ROOT / "analysis" / "data" / "interval_coverage.csv")
    table = table.pivot(index=["shape", "n_seeds"], columns="interval", values="coverage")
    assert table.loc[("normal", 5), DEFAULT_OF_RUNS.name] >= 0.94
    assert (table[DEFAULT_OF_RUNS.name] >= table["t"]).all()
    few = table[table.index.get_level_values("n_seeds") < DEFAULT_OF_RUNS.least_seeds]
    assert len(few) and (few[DEFAULT_OF_RUNS.name] == few["t"]).all()


def test_the_bootstraps_that_are_not_the_default_miss_the_bar() -> None:
    """Over five seeds no percentile can be beyond the smallest and the largest, which hold the mean in 93.75 %."""
    table = pd.read_csv(ROOT / "analysis" / "data" / "interval_coverage.csv")
    table = table.pivot(index=["shape", "n_seeds"], columns="interval", values="coverage")
    for name in ("bootstrap", "bca", "expanded"):
        assert table.loc[("normal", 5), name] < 0.94
    assert (table["bootstrap-t"] < table["t"] - 0.02).any()
