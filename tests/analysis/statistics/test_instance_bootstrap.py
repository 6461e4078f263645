"""Resamples of test instances against a closed form and a plain loop."""

from __future__ import annotations

import numpy as np
import pytest

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
