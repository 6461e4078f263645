"""The shapes have mean 0, and coverages agree with closed forms where there are any."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.evidence.intervals import INTERVALS, measured_coverage
from analysis.precision import shapes
from analysis.precision.shapes import SHAPES, shapes_document, simulate_shapes
from common.tables import show
from tests.analysis.stores import RELEASED


@pytest.mark.parametrize("name", list(SHAPES))
def test_a_shape_has_mean_zero(name: str) -> None:
    drawn = SHAPES[name].draw((400_000, 1), np.random.default_rng(0))
    assert abs(drawn.mean()) < 5 * drawn.std() / np.sqrt(drawn.size)


def test_the_released_runs_are_those_of_the_file() -> None:
    runs = pd.read_csv(RELEASED)
    counts = (runs.pivot(index="lr", columns="seed", values="test_score") * 872).round().astype(int)
    assert tuple(map(tuple, counts.to_numpy().tolist())) == shapes._SST2_CORRECT


TRIALS = 230


@pytest.fixture(scope="module")
def found() -> pd.DataFrame:
    return simulate_shapes(trials=TRIALS, resamples=250, seed=3)


def test_normal_seeds_give_students_coverages(found: pd.DataFrame) -> None:
    normal = found[found["shape"] == "normal"].set_index(["interval", "n_seeds"])
    for count in shapes.SEED_COUNTS:
        error = 4 * np.sqrt(0.05 * 0.95 / TRIALS)
        assert normal.loc[("t", count), "coverage"] == pytest.approx(0.95, abs=error)
        paper = 2 * stats.t.cdf(1.96, count - 1) - 1
        assert normal.loc[("paper", count), "coverage"] == pytest.approx(
            paper, abs=4 * np.sqrt(paper * (1 - paper) / TRIALS)
        )
    factor = 1.96 / stats.t.ppf(0.975, 4)
    assert normal.loc[("paper", 5), "width"] == pytest.approx(factor, rel=1e-4)
    assert normal.loc[("paper", 5), "mean_width"] == pytest.approx(factor, rel=1e-4)


def test_the_file_behind_captions_is_what_a_smaller_simulation_gives_within_its_error(
    found: pd.DataFrame,
) -> None:
    for row in found.to_dict("records"):
        known = measured_coverage(str(row["interval"]), str(row["shape"]), int(row["n_seeds"]))
        assert known is not None
        error = (known[0] * (1 - known[0]) / TRIALS) ** 0.5
        assert row["coverage"] == pytest.approx(known[0], abs=4.5 * error + 0.01)


def test_intervals_of_too_few_seeds_are_marked(found: pd.DataFrame) -> None:
    few = found[found["n_seeds"] == 3].drop_duplicates("interval").set_index("interval")["used"]
    over_seeds = [name for name, one in INTERVALS.items() if not one.needs_instances]
    assert few.to_dict() == {
        **{name: "paper" if name == "paper" else "t" for name in over_seeds}, "crossed": "crossed",
    }  # fmt: skip


def test_no_percentile_of_five_seeds_covers_more_than_their_range(found: pd.DataFrame) -> None:
    """The range of five values holds the centre of a symmetric shape in 1 - 2 / 2^5 = 93.75 %."""
    five = found[(found["shape"] == "normal") & (found["n_seeds"] == 5)].set_index("interval")["coverage"]
    assert five["bootstrap"] <= 0.9375 + 4 * np.sqrt(0.0625 * 0.9375 / TRIALS)
    assert five["pooled"] > five["bootstrap"]


def test_every_shape_has_a_table_and_few_seeds_are_in_parentheses(found: pd.DataFrame) -> None:
    document = shapes_document(found, TRIALS)
    text = show(document, "text")
    assert all(f"\n{name}: {shape.words}.\n" in text for name, shape in SHAPES.items())
    share = found.query("shape == 'normal' and n_seeds == 2 and interval == 't'")["coverage"].iloc[0]
    assert f"({100 * share:.1f})" in text
    assert "| seeds | paper | t |" in show(document, "markdown")
    head = "shape,n_seeds,interval,used,coverage,width,mean_width"
    assert show(document, "csv").splitlines()[0] == head
    assert len(json.loads(show(document, "json"))) == len(found)
