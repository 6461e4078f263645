"""The script behind the shipped coverages: shapes of mean 0, closed forms, and the shipped bytes."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.evidence.intervals import COVERAGE_FILE, measured_coverage
from analysis.published_cells import TEST_INSTANCES
from benchmarks.protocol import DATASETS
from common.provenance import ROOT
from tests.speed import interval_coverage as simulation
from tests.speed.interval_coverage import (
    SEED_COUNTS,
    SHAPES,
    published_variances,
)

TRIALS = 230


@pytest.fixture(scope="module")
def found() -> pd.DataFrame:
    return simulation.by_shape(TRIALS, resamples=250)


@pytest.mark.parametrize("name", list(SHAPES))
def test_a_shape_has_mean_zero(name: str) -> None:
    drawn = SHAPES[name]((400_000, 1), np.random.default_rng(0))
    assert abs(drawn.mean()) < 5 * drawn.std() / np.sqrt(drawn.size)


@pytest.mark.slow
def test_the_shipped_file_is_written_again_to_the_byte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Shown for Student's interval and for the crossed one; all others take hours."""
    monkeypatch.setattr(simulation, "OVER_SEEDS", ("t",))
    rows = [
        *simulation.of_shape("sst2", 5, 23_000, 1_000),
        *simulation.with_instances(2, 23_000, 1_000),
    ]
    lines = pd.DataFrame(rows).to_csv(index=False, float_format="%.6g").splitlines()
    shipped = (ROOT / "analysis" / "data" / COVERAGE_FILE).read_text().splitlines()
    assert lines[0] == shipped[0] and len(lines) == 3 and set(lines) <= set(shipped)


def test_normal_seeds_give_students_coverages(found: pd.DataFrame) -> None:
    normal = found[found["shape"] == "normal"].set_index(["interval", "n_seeds"])
    for count in SEED_COUNTS:
        for name, share in (
            ("t", 0.95),
            ("paper", 2 * stats.t.cdf(1.96, count - 1) - 1),
        ):
            error = np.sqrt(share * (1 - share) / TRIALS)
            assert normal.loc[(name, count), "coverage"] == pytest.approx(
                share, abs=4 * error
            )
    factor = 1.96 / stats.t.ppf(0.975, 4)
    assert normal.loc[("paper", 5), ["width", "mean_width"]].tolist() == pytest.approx(
        [factor] * 2, rel=1e-4
    )


def test_coverage_file_is_what_a_smaller_simulation_gives(
    found: pd.DataFrame,
) -> None:
    for row in found.to_dict("records"):
        cells = int(row["n_cells"])
        known = measured_coverage(
            str(row["interval"]), str(row["shape"]), int(row["n_seeds"]), cells
        )
        assert known is not None and known[2] == cells
        trials = TRIALS if cells == 46 else TRIALS // 5  # of smaller sources
        error = (known[0] * (1 - known[0]) / trials) ** 0.5
        assert row["coverage"] == pytest.approx(known[0], abs=4.5 * error + 0.01)


def test_percentiles_of_five_seeds_cover_at_most_their_range(
    found: pd.DataFrame,
) -> None:
    """The range of five values holds the centre of a symmetric shape in 1 - 2 / 2^5 = 93.75 %."""
    of_five = (
        (found["shape"] == "normal")
        & (found["n_seeds"] == 5)
        & (found["n_cells"] == 46)
    )
    five = found[of_five].set_index("interval")["coverage"]
    assert five["bootstrap"] <= 0.9375 + 4 * np.sqrt(0.0625 * 0.9375 / TRIALS)
    assert five["pooled"] > five["bootstrap"]


def test_published_variances_are_those_printed():
    found = published_variances("sst2")
    assert found.instances == 872 and len(found.seeds) == 46
    assert 0.62 / 1.96 * np.sqrt(5) in found.seeds
    assert (found.joint <= found.seeds).all()
    assert (published_variances("nq").common == 0).all()
    assert set(TEST_INSTANCES) == set(DATASETS)
    small, large = published_variances("msmarco"), published_variances("mnli_m")
    assert np.median(small.common) > 8 * np.median(large.common)
