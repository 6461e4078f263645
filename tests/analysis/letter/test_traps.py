from __future__ import annotations

import numpy as np
import pytest

from analysis.letter.traps import TRAPS, measured_traps
from tests.analysis.made_up import made_up_runs
from tests.analysis.stores import released_source


def test_without_runs_every_trap_has_the_size_that_follows_from_its_definition() -> None:
    found = measured_traps(None)
    assert [trap.name for trap, _ in found] == list(TRAPS)
    assert all(effect is None and trap.size(effect) == trap.known for trap, effect in found)


def test_what_follows_from_the_definitions_is_right() -> None:
    # One relevant document at rank 1 of three: DCG 1, ideal 1 + 1/log2(3) + 1/log2(4).
    assert f"{100 / (1 + 1 / np.log2(3) + 0.5):.1f}" in TRAPS["ndcg-ideal"].known
    assert "1.42 times" in TRAPS["interval"].known
    assert "2.3 points" in TRAPS["msmarco-queries"].known
    runs = released_source().runs
    assert runs is not None
    low, high = (100 * runs[runs["lr"] == rate]["test_score"] for rate in (1e-5, 1e-4))
    words = f"reach {low.min():.0f} to {low.max():.0f} at a learning rate of 1e-05 and about {high.mean():.0f} at 1e-04"
    assert words in TRAPS["bfloat16"].known and "on the test split" in TRAPS["bfloat16"].known


def test_protocols_are_compared_on_the_fine_tunings_that_the_paper_chose_and_ranked() -> None:
    runs = made_up_runs(np.random.default_rng(0), models=("610m-clm-42k", "610m-mlm40-42k"))
    shifts = {"TC": -0.2, "QA": 0.05, "IR": -0.01, "SC": 0.0}
    standard = runs.assign(test_score=runs["test_score"] + runs["task"].map(shifts))
    standard["validation_score"] = 0.5  # whose own best rate would be another
    found = {trap.name: effect for trap, effect in measured_traps(runs, standard)}
    assert (found["ner-f1"], found["qa-f1"], found["ndcg-ideal"]) == pytest.approx((20.0, 5.0, 1.0))
    assert list(found)[:3] == ["ner-f1", "qa-f1", "ndcg-ideal"]


def test_the_rule_for_the_rate_is_measured_on_the_released_runs() -> None:
    found = {trap.name: effect for trap, effect in measured_traps(released_source().runs)}
    assert found["rate-by-seed"] == pytest.approx(0.32, abs=0.005)
    assert TRAPS["rate-by-seed"].size(found["rate-by-seed"]).startswith("0.32 points")
