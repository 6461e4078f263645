"""Resamples of test instances against a closed form and a plain loop."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.statistics import instance_bootstrap
from analysis.statistics.instance_bootstrap import resample_instances


def test_instance_resamples_have_the_binomial_spread() -> None:
    scores = np.zeros((1, 400))
    scores[0, :300] = 1
    means = resample_instances(scores, 20_000, np.random.default_rng(0))[:, 0]
    assert means.mean() == pytest.approx(0.75, abs=0.001)
    assert means.std() == pytest.approx((0.75 * 0.25 / 400) ** 0.5, rel=0.03)


def test_instance_resamples_equal_a_plain_loop() -> None:
    rng = np.random.default_rng(11)
    scores = rng.random((3, 17))
    ours = resample_instances(scores, 50, np.random.default_rng(5))
    [child] = np.random.default_rng(5).spawn(1)
    draws = child.integers(0, 17, size=(50, 17), dtype=np.uint32)
    loop = [[float(np.mean([row[pick] for pick in draw])) for row in scores] for draw in draws]
    assert np.allclose(ours, loop, atol=1e-11)


def test_paired_runs_share_resamples_and_unpaired_do_not() -> None:
    scores = np.tile(np.random.default_rng(1).random(200), (2, 1))
    paired = resample_instances(scores, 5_000, np.random.default_rng(2))
    assert (paired[:, 0] == paired[:, 1]).all()
    unpaired = resample_instances(scores, 5_000, np.random.default_rng(2), paired=False)
    assert abs(np.corrcoef(unpaired.T)[0, 1]) < 0.05
    assert sorted(unpaired[:, 0]) == sorted(paired[:, 0])


def written_out(scores: np.ndarray, rows: list[int], seed: int) -> np.ndarray:
    """Means of the resamples, of which each chunk has as many as `rows` says and a generator of its own."""
    count = scores.shape[1]
    children = np.random.default_rng(seed).spawn(len(rows))
    return np.array([
        scores[:, draw].mean(axis=1)
        for child, many in zip(children, rows, strict=True)
        for draw in child.integers(0, count, size=(many, count), dtype=np.uint32)
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("held", "resamples", "rows"),
    [(14, 5, [2, 2, 1]), (14, 4, [2, 2]), (13, 3, [1, 1, 1]), (1, 2, [1, 1]), (700, 5, [5])],
)
def test_every_chunk_of_resamples_draws_from_its_own_generator(monkeypatch, held, resamples, rows) -> None:
    """So the draws depend on no number of threads; a resample of seven is never torn, however little is held."""
    monkeypatch.setattr(instance_bootstrap, "_CHUNK_DRAWS", held)
    scores = np.random.default_rng(12).random((2, 7))
    ours = resample_instances(scores, resamples, np.random.default_rng(6))
    assert ours.shape == (resamples, 2)
    assert np.allclose(ours, written_out(scores, rows, 6), atol=1e-11)


def test_a_seed_gives_the_same_resamples_as_ever_where_they_need_more_than_one_chunk() -> None:
    """Two million draws are a chunk: another size would give other digits from the same seed."""
    scores = np.arange(1024.0)[None, :]
    ours = resample_instances(scores, 2049, np.random.default_rng(7))
    assert np.allclose(ours, written_out(scores, [2048, 1], 7), atol=1e-9)


def test_the_means_are_rounded_to_twelve_decimals() -> None:
    scores = np.random.default_rng(13).random((2, 3))
    ours = resample_instances(scores, 40, np.random.default_rng(8))
    exact = written_out(scores, [40], 8)
    assert (ours == np.round(exact, 12)).all()
    assert (np.abs(ours - exact) > 1e-14).any() and (ours != np.round(exact, 11)).any()
