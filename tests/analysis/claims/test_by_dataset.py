"""Claims by dataset: the parts, the heterogeneity against closed forms, and where one dataset makes a result."""

import math

import numpy as np
import pytest
from scipy import stats

from analysis.claims.by_dataset import (
    DatasetReading,
    Heterogeneity,
    RandomEffects,
    finding_by_dataset,
    heterogeneity,
    random_effects,
    read_by_dataset,
)
from analysis.claims.catalogue import FINDINGS
from analysis.claims.statements import comparisons, difference
from analysis.evidence.contrasts import Contrast, Result, Spread
from analysis.evidence.evidence import Evidence, Settings
from analysis.published_cells import published_values
from analysis.sources import PUBLISHED
from benchmarks.protocol import datasets_of
from tests.analysis.made_up import made_up_runs

FINDING_OF = PUBLISHED.evidence(Settings(interval="t")).result


@pytest.fixture(scope="module")
def readings() -> dict[str, DatasetReading]:
    return read_by_dataset(FINDINGS, FINDING_OF)


def test_a_part_for_a_task_is_a_part_for_each_of_its_datasets(readings) -> None:
    parts = {name: len(reading.verdict.tree.units) for name, reading in readings.items()}
    assert parts["F1"] == 6 * 3 and parts["F8"] == 12 * 3 and parts["F9"] == 12 * 3 and parts["F6"] == 19 * 3
    assert parts["F2"] == 9 * 3 * 3  # every pair of datasets
    assert parts["F5a"] == 4  # a search over more places is still one part
    for finding in FINDINGS.values():
        for one in comparisons(finding_by_dataset(finding).body):
            names = [one.dataset] if isinstance(one, Spread) else [term.dataset for term in one.terms]
            tasks = one.tasks * len(names) if isinstance(one, Spread) else [term.task for term in one.terms]
            assert all(name in datasets_of(task) for name, task in zip(names, tasks, strict=True))


def test_f8_by_dataset_holds_alone_in_21_of_36_and_is_nowhere_reversed(readings) -> None:
    units = readings["F8"].verdict.tree.units
    assert (sum(unit.p_for <= 0.05 for unit in units), sum(unit.p_against <= 0.05 for unit in units)) == (
        21,
        0,
    )
    assert (readings["F8"].verdict.tree.hold, readings["F8"].verdict.tree.fail) == (9, 0)


def test_mnli_makes_the_widening_and_sst2_shows_no_gap_at_any_size(readings) -> None:
    assert {name: len(made) for name, made in readings["F3"].makers.items()} == {"mnli_m": 2}
    gaps = {c.average.comparison.label: c.single["mnli_m"].effect for c in readings["F1"].contrasts[:3]}
    assert list(gaps.values()) == pytest.approx([4.16, 7.10, 12.51])
    sst2 = [contrast.single["sst2"] for contrast in readings["F1"].contrasts[:3]]
    assert [one.effect for one in sst2] == pytest.approx([0.44, 0.32, 0.41])
    assert [one.p_for for one in sst2] == pytest.approx([0.31, 0.42, 0.17], abs=0.02)
    assert readings["F1"].silent == {"sst2": 3}


def test_heterogeneity_is_cochrans_and_the_mean_over_datasets_has_students_interval(readings) -> None:
    for contrast in (one for reading in readings.values() for one in reading.contrasts):
        effects = np.array([result.effect for result in contrast.single.values()])
        weights = np.array([result.error**-2 for result in contrast.single.values()])
        found, left = contrast.between, effects - np.average(effects, weights=weights)
        q = float(weights @ left**2)
        assert (found.q, found.p) == pytest.approx((q, stats.chi2.sf(q, len(effects) - 1)))
        assert found.i_squared == pytest.approx(max(0.0, 1 - (len(effects) - 1) / q))
        assert min(effects) <= found.mean <= max(effects)
        assert found.high - found.mean == pytest.approx(found.mean - found.low)


def result(effect: float, error: float) -> Result:
    return Result(comparison=difference("x", "a", "b", "SC"), effect=effect, error=error)


def test_of_effects_with_equal_errors_the_random_effects_are_a_t_test_of_them_and_of_alike_ones_never_surer() -> (
    None
):
    effects = [0.4, 1.9, 1.1, -0.3]
    found = random_effects([result(effect, 0.01) for effect in effects])
    expected = stats.ttest_1samp(effects, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=1e-4)
    alike = random_effects([result(1.0 + 0.001 * place, 0.3) for place in range(4)])
    assert alike.high - alike.mean == pytest.approx(stats.t.ppf(0.975, 3) * 0.3 / 2)
    assert alike.i_squared == 0


@pytest.mark.parametrize("errors", [[], [0.1], [0.1, 0.0], [0.1, math.nan]])
def test_without_two_effects_with_errors_there_is_no_mean_over_datasets(errors: list[float]) -> None:
    found = random_effects([result(1.0, error) for error in errors])
    assert all(math.isnan(value) for value in (found.mean, found.low, found.q, found.i_squared))


def test_the_average_without_a_dataset_is_that_of_the_others() -> None:
    contrast = difference("MLM - CLM", "1b-mlm40-42k", "1b-clm-42k", "SC")
    found = heterogeneity(contrast, FINDING_OF)
    assert found is not None
    cells = published_values().set_index(["model", "dataset"])["mean"]
    gaps = {name: cells["1b-mlm40-42k", name] - cells["1b-clm-42k", name] for name in datasets_of("SC")}
    for name, result in found.without.items():
        rest = [gap for other, gap in gaps.items() if other != name]
        assert result.effect == pytest.approx(sum(rest) / 2)


def test_contrasts_across_tasks_have_no_heterogeneity() -> None:
    across = next(iter(comparisons(FINDINGS["F2"].body)))
    assert isinstance(across, Contrast) and heterogeneity(across, FINDING_OF) is None


def test_with_runs_of_one_dataset_what_can_be_said_of_it_is_said() -> None:
    models = ["610m-clm-42k", "610m-mlm40-42k"]
    runs = made_up_runs(np.random.default_rng(0), models=models, shift={models[1]: 0.05})
    runs = runs[runs["dataset"] == "sst2"]
    readings = read_by_dataset(FINDINGS, Evidence(Settings(), runs=runs).result)
    found = readings["F1"]
    assert found.verdict.tree.known_units == 1 and found.verdict.tree.hold == 1
    assert found.verdict.verdict == "holds in 1 of 18"
    (contrast,) = found.contrasts
    assert set(contrast.single) == {"sst2"} and not contrast.without and math.isnan(contrast.between.q)
    assert readings["F8"].verdict.tree.known_units == 0 and readings["F8"].verdict.verdict == "open"


def test_spreads_are_read_by_dataset_from_runs() -> None:
    models = ["610m-clm-42k", "610m-mlm40-42k"]
    runs = made_up_runs(np.random.default_rng(1), models=models)
    found = read_by_dataset(FINDINGS, Evidence(Settings(), runs=runs).result)["F7"]
    assert found.verdict.tree.known_units == len(found.verdict.tree.units) == 12


@pytest.mark.parametrize(
    ("rest", "p_rest", "named"),
    [(1.2, 0.2, False), (0.9, 0.2, True), (-0.1, 0.8, True), (3.0, 0.2, False), (0.9, 0.01, False)],
)
def test_a_result_depends_on_a_dataset_if_its_effect_halves_or_turns_without_it(
    rest: float, p_rest: float, named: bool
) -> None:
    """Of 2.0 points; fewer data alone, with which an effect as large is no longer significant, name nothing."""
    contrast = difference("MLM - CLM", "1b-mlm40-42k", "1b-clm-42k", "SC")

    def of(effect: float, p: float) -> Result:
        return Result(comparison=contrast, effect=effect, p_for=p, p_against=1.0)

    for sign in (1.0, -1.0):
        found = Heterogeneity(
            average=of(2.0 * sign, 0.01), single={}, without={"sst2": of(rest * sign, p_rest)},
            between=RandomEffects(),
        )  # fmt: skip
        assert found.made_by == (("sst2",) if named else ())
