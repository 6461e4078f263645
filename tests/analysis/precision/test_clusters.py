"""Simulated test sets against the chances that they are drawn from, and intervals that hold them or do not."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.precision import clusters
from analysis.precision.clusters import TestSet, clusters_document, simulate_clusters
from common.registry import Registry
from common.tables import show


def test_answers_are_right_as_often_as_the_test_set_says_and_alike_within_clusters() -> None:
    test_set = TestSet(name="x", sizes=(1, 4, 2) * 60, right=0.8, cluster=1.0)
    rng = np.random.default_rng(0)
    drawn = np.array([test_set.draw(rng) for _ in range(300)])
    assert drawn.shape == (300, 2, 5, 420) and set(np.unique(drawn)) == {0, 1}
    assert drawn[:, 0].mean() == pytest.approx(0.8, abs=0.01)
    assert drawn[:, 1].mean() == pytest.approx(0.78, abs=0.01)
    assert (np.bincount(test_set.clusters) == test_set.sizes).all()
    first, inside, outside = drawn[:, 0, 0, 1::7], drawn[:, 0, 0, 2::7], drawn[:, 0, 0, 5::7]
    within, between = (np.corrcoef(first.ravel(), other.ravel())[0, 1] for other in (inside, outside))
    assert within > 0.15 > 0.03 > abs(between)


def test_crossed_intervals_hold_what_intervals_with_every_instance_for_itself_do_not(monkeypatch) -> None:
    sets = (
        TestSet(name="alike", sizes=(20,) * 40, right=0.85, cluster=1.0),
        TestSet(name="near", sizes=(1,) * 43, right=0.97, instance=4.0),
    )
    monkeypatch.setattr(clusters, "TEST_SETS", Registry("test set", sets))
    frame = simulate_clusters(trials=300, seed=1).set_index(["test_set", "of"])
    for case in (("alike", "score"), ("alike", "difference"), ("near", "score")):
        assert frame.loc[case, "single"] < 0.82 and frame.loc[case, "crossed"] > 0.91
        assert frame.loc[case, "width"] > 1.2
    text = show(clusters_document(frame.reset_index(), 300), "text")
    assert "near" in text and "300 test sets each" in text
