from dataclasses import replace

import pytest

from pretraining.paper_settings import SHAPES
from pretraining.plan.devices import DEVICES
from pretraining.plan.study_plan import PAPER_STUDY, plan_of

WHOLE = plan_of(tuple(PAPER_STUDY.models.values()))


def test_shared_steps_are_counted_once() -> None:
    """844,000 by hand: 15 x 42k base, 130k two-stage, 52k continued, 32k for the 1B two-stage model."""
    assert len(WHOLE.models) == 51
    assert WHOLE.costs().steps == 15 * 42_000 + 130_000 + 2 * 26_000 + 32_000
    done: set[tuple[str, int]] = set()
    for model in WHOLE.models:
        for stage in model.stages:
            done |= {
                (stage.name, step) for step in range(stage.first_step, stage.end, 1000)
            }
    assert len(done) * 1000 == WHOLE.costs().steps


def test_trunks_keep_what_others_need() -> None:
    trunk = next(item for item in WHOLE.stages if item.name == "610m-clm")
    thousands = [1, 2, 3, 5, 6, 9, 10, 11, 17, 20, 21, 32, 40]
    assert trunk.keep == tuple(1000 * step for step in thousands)
    assert (trunk.first_step, trunk.end, trunk.parent) == (0, 40_000, None)
    decayed = next(item for item in WHOLE.stages if item.name == "610m-clm-42k")
    assert decayed.keep == (42_000,)
    assert {child.name for child in WHOLE.children("610m-clm-42k")} == {
        "610m-clm-dec42k-mlm40",
        "610m-clm-dec42k-mlm40-44k",
    }


def test_parents_come_first_and_hold_the_step() -> None:
    seen = {}
    for item in WHOLE.stages:
        if item.parent is not None:
            parent = seen[item.parent]
            assert parent.first_step < item.first_step <= parent.end
            assert item.first_step in parent.keep
        seen[item.name] = item


def test_costs_by_hand() -> None:
    """One base model: 42,000 steps of 2,373,120 tokens."""
    costs = plan_of([PAPER_STUDY.models["610m-clm-42k"]]).costs(
        device=replace(DEVICES["A100"], mfu=0.5)
    )
    tokens = 42_000 * 2_373_120
    assert costs.tokens == tokens
    assert costs.gpu_hours == pytest.approx(
        costs.flops["model"] / (DEVICES["A100"].peak * 0.5 * 3600)
    )
    assert costs.checkpoint_bytes == 2 * 12 * SHAPES["610m"].trained_parameters
    assert costs.model_bytes == 4 * SHAPES["610m"].trained_parameters
