"""What a study needs: closed forms of its error, the engine's own errors, and the power that the engine reaches."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.precision.design import Spread, Study, design_table, planned_test
from analysis.sources import PUBLISHED, Source
from analysis.store.instances import RunScores
from common.errors import UserError
from tests.analysis.made_up import made_up_runs, write_instances
from tests.speed.design_power import SC, Layout, promised_and_reached

MODELS = ("610m-clm-42k", "610m-mlm40-42k", "1b-clm-42k", "1b-mlm40-42k")
ONE = Spread(sd=0.5, paired_sd=0.6, from_instances=0.04, instances=1000)


@pytest.mark.parametrize(("pretrainings", "datasets"), [(1, 1), (3, 1), (1, 4), (3, 4)])
def test_the_error_is_the_formula(pretrainings: int, datasets: int):
    study = Study(
        effect=1, seeds=5, pretrainings=pretrainings, datasets=datasets, pretraining_sd=0.3, dataset_sd=0.2,
        instances=4000,
    )  # fmt: skip
    one = 2 * 0.5**2 / (pretrainings * 5) + 0.04 / 4
    variance = 2 * 0.3**2 / pretrainings + (one + 0.2**2) / datasets
    assert planned_test(study, [ONE]).error == pytest.approx(math.sqrt(variance))


def test_units_are_those_of_the_highest_level_that_is_a_sample():
    study = Study(effect=1, pretraining_sd=0.3)
    freedom = {
        "pooled": (study, [4, math.inf]),
        "paired t": (replace(study, interval="t"), [4, math.inf]),
        "over pretrainings": (replace(study, pretrainings=3), [2, math.inf]),
        "over datasets": (replace(study, datasets=6, dataset_sd=0.1), [5, math.inf]),
    }
    for name, (one, expected) in freedom.items():
        test = planned_test(one, [ONE])
        assert test.name == name and test.parts[:, 1].tolist() == expected
    assert planned_test(replace(study, seeds=3), [ONE]).name == "paired t"
    assert planned_test(study, [replace(ONE, cells=3)]).name == "paired t"


@settings(max_examples=4, deadline=None)
@given(
    effect=st.floats(0.2, 3), tests=st.sampled_from([1, 12]), pretraining_sd=st.sampled_from([0.0, 0.2]),
    pretrainings=st.integers(1, 4),
)  # fmt: skip
def test_what_is_needed_is_just_enough(effect: float, tests: int, pretraining_sd: float, pretrainings: int):
    study = Study(effect=effect, tests=tests, pretraining_sd=pretraining_sd, pretrainings=pretrainings)
    row = design_table(PUBLISHED, study).set_index("dataset").loc["sst2"]
    spread = Spread(sd=row["sd"], paired_sd=math.sqrt(2) * row["sd"], cells=46)
    assert planned_test(study, [spread]).power(effect) == pytest.approx(row["power"])
    assert planned_test(study, [spread]).power(row["find"]) == pytest.approx(0.8)
    for what, least in (("seeds", 2), ("pretrainings", 2), ("datasets", 1)):
        if row[what] > least:
            enough, fewer = (
                planned_test(replace(study, **{what: int(row[what]) - less}), [spread]).power(effect)
                for less in (0, 1)
            )
            assert fewer < 0.8 <= enough


def test_printed_cells_say_what_half_a_point_needs():
    tables = [design_table(PUBLISHED, Study(effect=effect)) for effect in (0.5, 1.0)]
    table, more = (one.set_index(["task", "dataset"]) for one in tables)
    assert len(table) == 16
    assert table.loc[("TC", "average"), "seeds"] <= 5 < table.loc[("IR", "msmarco"), "seeds"]
    assert (more["seeds"] <= table["seeds"]).all() and (more["power"] >= table["power"]).all()


def test_runs_paired_by_seed_have_the_spread_of_their_differences():
    runs = made_up_runs(np.random.default_rng(1), models=MODELS, sd=0.01)
    source = Source(label="x", runs=runs)
    pooled, paired = (design_table(source, Study(effect=0.5, interval=kind)) for kind in ("pooled", "t"))
    # Half of the variance is common to all models of a dataset.
    assert paired["seeds"].median() < 0.7 * pooled["seeds"].median()
    few = Source(label="x", runs=runs[runs["model"].isin(MODELS[:2])])
    assert set(design_table(few, Study(effect=0.5))["test"]) == {"paired t"}


def test_test_instances_enter_with_the_crossed_interval(tmp_path: Path):
    rng = np.random.default_rng(2)
    runs = made_up_runs(rng, models=MODELS, rates=(1e-4,), sd=0.001)
    runs = runs[runs["dataset"] == "sst2"].reset_index(drop=True)
    hard = {model: rng.normal(size=400) for model in MODELS}
    cells: dict[tuple[str, str], list[RunScores]] = {}
    for place, row in runs.iterrows():
        scores = (hard[row["model"]] + rng.normal(size=400) > -1).astype(float)
        runs.loc[place, ["test_score", "n_test"]] = scores.mean(), 400
        run = RunScores(lr=1e-4, seed=row["seed"], validation=scores[:5], test=scores)
        cells.setdefault((row["model"], "sst2"), []).append(run)
    write_instances(tmp_path, cells)
    source = Source(label="x", runs=runs, instances=tmp_path)
    study = Study(effect=7.0, interval="crossed")
    [row] = design_table(source, study).to_dict("records")
    [more] = design_table(source, replace(study, instances=1600)).to_dict("records")
    assert row["instances"] > 400 and more["find"] < row["find"]
    with pytest.raises(UserError, match="per-instance"):
        design_table(replace(source, instances=None), study)


def test_one_run_or_none_with_a_spread_is_refused():
    with pytest.raises(UserError, match="--seeds 1"):
        design_table(PUBLISHED, Study(effect=1, seeds=1))
    assert (
        design_table(PUBLISHED, Study(effect=1, seeds=1, pretrainings=2))["test"] == "over pretrainings"
    ).all()
    runs = made_up_runs(np.random.default_rng(2), models=MODELS[:1], seeds=(0,))
    with pytest.raises(UserError, match="no variance can be estimated"):
        design_table(Source(label="x", runs=runs), Study(effect=1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "sources"),
    [
        (Layout(seeds=5, sds=SC[:1]), 60),
        (Layout(seeds=5, sds=SC), 40),
        (Layout(seeds=10, sds=SC[:1]), 60),
        (Layout(seeds=5, sds=SC[:1], tests=12), 40),
    ],
)
def test_the_engine_reaches_what_is_promised(layout: Layout, sources: int):
    promised, reached = promised_and_reached(layout, sources, np.random.default_rng(0))
    # Three points, and two standard errors of the simulation.
    assert reached == pytest.approx(promised, abs=0.03 + 2 * math.sqrt(0.16 / (23 * sources)))
