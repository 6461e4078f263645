"""What captions say about coverage, and that the file behind it is what the simulation gives."""

from __future__ import annotations

import pytest

from analysis.precision.shapes import SEED_COUNTS, SHAPES, simulate_shapes
from analysis.statistics.intervals import INTERVALS, caption_of
from analysis.statistics.measured_coverage import SHOWN_SHAPES, coverage_words, measured_coverage


def test_every_interval_over_seeds_was_simulated_with_every_shape() -> None:
    for name, interval in INTERVALS.items():
        for shape in SHAPES:
            for count in SEED_COUNTS:
                found = measured_coverage(name, shape, count)
                assert (found is None) == (interval.needs_instances and shape != "normal")
                assert found is None or (0.4 < found[0] <= 1 and found[1] == count)
    assert set(SHOWN_SHAPES) <= set(SHAPES)


def test_a_number_of_seeds_that_was_not_simulated_gets_the_next_fewer() -> None:
    assert measured_coverage("t", "normal", 12) == measured_coverage("t", "normal", 10)
    assert measured_coverage("t", "normal", 1) is None
    assert "normal" in coverage_words("crossed", 5) and "collapse" not in coverage_words("crossed", 5)


def test_the_file_is_what_a_smaller_simulation_gives_within_its_error() -> None:
    found = simulate_shapes(trials=250, resamples=250, seed=7)
    for row in found.to_dict("records"):
        known = measured_coverage(str(row["interval"]), str(row["shape"]), int(row["n_seeds"]))
        assert known is not None
        error = (known[0] * (1 - known[0]) / 250) ** 0.5
        assert row["coverage"] == pytest.approx(known[0], abs=4.5 * error + 0.01)


def test_a_caption_names_every_interval_seen_with_the_fewest_seeds_of_each() -> None:
    text = caption_of([(5, "studentised"), (8, "studentised"), (2, "t"), (1, "studentised")])
    first, second = text.split("; with 2 seeds ")
    assert first.startswith("95 % symmetric studentised bootstrap") and "of 5 simulated seeds" in first
    assert second.startswith("95 % interval by Student's t") and "of 2 simulated seeds" in second
    assert caption_of([(1, "t")]) == "single seeds, which have no interval"
