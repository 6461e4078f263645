"""What moves a score: scipy's analysis of variance, statsmodels' mixed model and a multi-bootstrap agree."""

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.precision.components import (
    Component,
    VarianceTerm,
    components_body,
    components_table,
    difference_error,
    variance_components,
)
from analysis.sources import PUBLISHED, Source
from analysis.store.instances import RunScores
from analysis.store.runs_table import COLUMNS
from common.errors import UserError
from tests.analysis.made_up import write_instances

ARMS = ("610m-clm-42k", "610m-mlm40-42k", "610m-clm-10k-mlm40-42k")
TRUE = {"pretraining": 0.8, "fine-tuning seed": 0.4}


def names_of(arm: str, pretrainings: int) -> list[str]:
    return [arm, *(f"{arm}-s{place}" for place in range(1, pretrainings))]


def runs_of(
    rng: np.random.Generator, *, datasets: dict[str, str], pretrainings: int = 5, seeds: int = 5
) -> pd.DataFrame:
    """Return runs whose pretrainings move all datasets together by 0.8 points, and seeds each by 0.4."""
    rows = []
    for arm in ARMS:
        differs = {name: rng.normal(0, 1.5) for name in datasets}
        for name in names_of(arm, pretrainings):
            level = 80 + rng.normal(0, TRUE["pretraining"])
            for dataset, task in datasets.items():
                for seed in range(seeds):
                    score = (level + differs[dataset] + rng.normal(0, TRUE["fine-tuning seed"])) / 100
                    rows.append((name, task, dataset, 1e-4, seed, score, score, 100, 100))
    return pd.DataFrame(rows, columns=list(COLUMNS))


SC = {"sst2": "SC", "mnli_m": "SC", "qqp": "SC"}


def test_the_error_of_a_difference_is_the_multi_bootstraps() -> None:
    """Pretrainings resampled, and within each its seeds (Sellam et al. 2022), where both are many."""
    rng = np.random.default_rng(2)
    runs = runs_of(rng, datasets={"sst2": "SC"}, pretrainings=30, seeds=5)
    found = components_table(Source(label="x", runs=runs)).set_index("component")["sd"]
    scores = {
        arm: 100
        * runs[runs["model"].isin(names_of(arm, 30))]
        .pivot(index="model", columns="seed", values="test_score")
        .to_numpy()
        for arm in ARMS[:2]
    }
    picks = rng.integers(0, 30, (2, 4_000, 30))
    drawn = [arm.mean(axis=1)[pick].mean(axis=1) for arm, pick in zip(scores.values(), picks, strict=True)]
    expected = np.std(drawn[0] - drawn[1], ddof=1)
    ours = difference_error(found["pretraining"], found["fine-tuning seed"], 30, 5)
    assert ours == pytest.approx(expected, rel=0.12)


def test_intervals_hold_the_truth_and_averages_know_their_datasets() -> None:
    rng = np.random.default_rng(3)
    held, trials = {"pretraining": 0, "fine-tuning seed": 0}, 100
    for _ in range(trials):
        table = components_table(Source(label="x", runs=runs_of(rng, datasets=SC, seeds=3)))
        average = table[table["dataset"] == "average"].set_index("component")
        assert list(average.index) == ["pretraining", "fine-tuning seed", "dataset, by model"]
        true = {"pretraining": 0.8, "fine-tuning seed": 0.4 / math.sqrt(3)}
        for name, sd in true.items():
            held[name] += bool(average.loc[name, "low"] <= sd <= average.loc[name, "high"])
    assert min(held.values()) >= 0.88 * trials


def test_what_the_test_set_adds_is_apart(tmp_path: Path) -> None:
    """Instances move all models by 30 points each, and each pretraining by 20."""
    rng = np.random.default_rng(4)
    count, cells, rows = 400, {}, []
    common = rng.normal(0, 0.30, count)
    for arm in ARMS[:2]:
        for name in names_of(arm, 4):
            own = rng.normal(0, 0.20, count)
            scores = [0.5 + common + own + rng.normal(0, 0.05, count) for _ in range(3)]
            cells[name, "sst2"] = [
                RunScores(lr=1e-4, seed=seed, validation=score, test=score)
                for seed, score in enumerate(scores)
            ]
            for seed, score in enumerate(scores):
                rows.append((name, "SC", "sst2", 1e-4, seed, score.mean(), score.mean(), count, count))
    write_instances(tmp_path / "instances", cells)
    source = Source(
        label="x", runs=pd.DataFrame(rows, columns=list(COLUMNS)), instances=tmp_path / "instances"
    )
    table = components_table(source)
    found = table.set_index("component")["sd"]
    assert found["test set, shared by all models"] == pytest.approx(30 / 20, rel=0.15)
    assert found["test set, by pretraining"] == pytest.approx(20 / 20, rel=0.15)
    assert found["test set, by model"] < 0.4
    text = "\n".join(str(part) for part in components_body(table, source))
    assert "1 x 3" in text and "2 x 3" in text and "1 x 6" in text


def test_errors_are_those_of_the_designs_in_the_heading_where_datasets_have_other_seeds() -> None:
    parts = [
        {"task": "SC", "dataset": dataset, "models": "a, b", "pretrainings": 2, "seeds": seeds, "component": component,
         "sd": 1.0, "low": 0.5, "high": 2.0}
        for dataset, seeds in (("sst2", 3), ("mnli", 5))
        for component in ("pretraining", "fine-tuning seed")
    ]  # fmt: skip
    *_, errors = components_body(pd.DataFrame(parts), Source(label="x"))
    heading, *rows = errors.rows
    assert heading == ["dataset", "1 x 5", "1 x 10", "2 x 5"]
    expected = [f"{difference_error(1, 1, *design):.2f}" for design in ((1, 5), (1, 10), (2, 5))]
    assert [row[1:] for row in rows] == [expected, expected]


def test_a_source_without_pretrainings_has_no_components_and_cells_are_refused() -> None:
    runs = runs_of(np.random.default_rng(5), datasets={"sst2": "SC"}, pretrainings=1)
    assert components_table(Source(label="x", runs=runs)).empty
    with pytest.raises(UserError, match="needs individual runs"):
        components_table(PUBLISHED)


PRETRAINING, SEED = VarianceTerm({"pretraining"}), VarianceTerm({"pretraining", "seed"})


def two_levels(values: npt.ArrayLike) -> dict[VarianceTerm, Component]:
    """Return the components of pretrainings, and of fine-tuning seeds within them."""
    return variance_components(values, ("pretraining", "seed"), within={"seed": ("pretraining",)})


def drawn(rng: np.random.Generator, shape: tuple[int, ...], **spreads: float) -> npt.NDArray[np.float64]:
    """Return sums of effects; a key names the axes an effect varies along by their places: `_0`, `_01`."""
    values = np.zeros(shape)
    for name, sd in spreads.items():
        kept = [int(one) for one in name.removeprefix("_")]
        values += rng.normal(0, sd, [size if place in kept else 1 for place, size in enumerate(shape)])
    return values


def test_one_way_they_are_those_of_the_analysis_of_variance() -> None:
    values = np.random.default_rng(0).normal(0, 1, (5, 4)) + np.arange(5)[:, None]
    found = two_levels(values)
    inner = np.mean([row.var(ddof=1) for row in values])
    f = stats.f_oneway(*values).statistic
    assert found[SEED].variance == pytest.approx(inner)
    assert found[PRETRAINING].variance == pytest.approx(inner * (f - 1) / 4)
    assert (found[PRETRAINING].df, found[SEED].df) == (4, 15)
    ends = 15 * inner / stats.chi2.ppf([0.975, 0.025], 15)
    assert (found[SEED].low, found[SEED].high) == pytest.approx(tuple(ends))


@pytest.mark.slow
def test_crossed_they_are_those_of_restricted_maximum_likelihood() -> None:
    """Data sets crossed with pretrainings, fine-tuning seeds within: where all are positive, REML's by MixedLM."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    values = drawn(np.random.default_rng(5), (5, 5, 4), _0=2.0, _1=1.0, _01=0.8, _012=0.5)
    names = ("data set", "pretraining", "seed")
    found = variance_components(values, names, within={"seed": names[:2]})
    assert all(one.variance > 0 for one in found.values()) and len(found) == 4
    places = np.indices(values.shape).reshape(3, -1)
    frame = pd.DataFrame(
        {"y": values.ravel(), "d": places[0], "p": places[1], "dp": 10 * places[0] + places[1]}
    )
    formulas = {"d": "0 + C(d)", "p": "0 + C(p)", "dp": "0 + C(dp)"}
    fit = MixedLM.from_formula(
        "y ~ 1", frame, groups=np.ones(len(frame)), vc_formula=formulas, re_formula="0"
    ).fit()
    named = dict(zip(fit.model.exog_vc.names, fit.vcomp, strict=True)) | {"dps": fit.scale}
    ours = dict(zip(("d", "p", "dp", "dps"), (one.variance for one in found.values()), strict=True))
    assert ours == pytest.approx(named, rel=0.02)


def test_instances_are_crossed_with_pretrainings_and_within_data_sets() -> None:
    """Every component comes out of one large design that holds all four."""
    spreads = {"_0": 1.0, "_1": 0.7, "_01": 0.6, "_012": 0.5, "_03": 0.9, "_013": 0.4, "_0123": 0.8}
    values = drawn(np.random.default_rng(1), (40, 40, 4, 30), **spreads)
    axes = ("data set", "pretraining", "seed", "instance")
    within = {"seed": ("data set", "pretraining"), "instance": ("data set",)}
    found = variance_components(values, axes, within=within)
    for name, sd in spreads.items():
        term = VarianceTerm(axes[int(place)] for place in name.removeprefix("_"))
        assert found[term].variance == pytest.approx(sd**2, rel=0.5 if len(name) == 2 else 0.1)
        assert found[term].low <= found[term].variance <= found[term].high
    assert len(found) == len(spreads)


@pytest.mark.parametrize("ratio", [0.0, 0.5, 4.0])
def test_intervals_hold_the_variance_in_95_of_100(ratio: float) -> None:
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(2_000):
        found = two_levels(drawn(rng, (5, 5), _0=ratio**0.5, _01=1.0))[PRETRAINING]
        held += found.low <= ratio <= found.high
    assert 0.94 <= held / 2_000 <= 0.985


@given(st.floats(0.1, 10), st.floats(-50, 50))
def test_they_do_not_depend_on_the_level_and_scale_with_the_unit(scale: float, shift: float) -> None:
    values = np.array([[1.0, 2.0, 4.0], [2.0, 3.5, 3.0], [5.0, 4.0, 7.0]])
    moved, base = (two_levels(one) for one in (scale * values + shift, values))
    for term in base:
        for end in ("variance", "low", "high"):
            expected = scale**2 * getattr(base[term], end)
            assert getattr(moved[term], end) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_what_has_no_spread_has_none_and_what_cannot_be_split_is_refused() -> None:
    alike = two_levels([[1.0, 3.0], [3.0, 1.0], [2.0, 2.0]])
    assert alike[PRETRAINING].variance < 0 == alike[PRETRAINING].low == alike[PRETRAINING].high
    assert set(two_levels(np.full((2, 2), 3.0)).values()) == {
        Component(variance=0.0, low=0.0, high=0.0, df=1), Component(variance=0.0, low=0.0, high=0.0, df=2),
    }  # fmt: skip
    for values in (np.ones((1, 5)), np.ones((5, 1)), [[1.0, np.nan], [1.0, 2.0]]):
        with pytest.raises(ValueError, match="two levels"):
            two_levels(values)
