import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pretraining.models import DECAYS, Model, StageSpec, make_stages, parse_objective
from pretraining.paper_models import MODELS, parse
from pretraining.plan.config import Optimizer, TrainingConfig
from pretraining.training.optimizer import (
    WSD,
    build_optimizer,
    load_optimizer_state,
    optimizer_state,
    stage_schedule,
)

CPU = torch.device("cpu")


def trained(steps: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = build_optimizer(model, TrainingConfig(), CPU)
    update(model, optimizer, steps)
    return model, optimizer


def update(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int
) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.full((1, 3), 1.0 + step)).square().sum().backward()
        optimizer.step()


def test_the_settings_reach_it() -> None:
    adamw = Optimizer(peak_lr=2e-3, beta1=0.8, beta2=0.9, eps=1e-6, weight_decay=0.2)
    config = TrainingConfig(optimizer=adamw)
    group = build_optimizer(torch.nn.Linear(3, 2), config, CPU).param_groups[0]
    assert (group["lr"], group["betas"], group["eps"], group["weight_decay"]) == (
        2e-3,
        (0.8, 0.9),
        1e-6,
        0.2,
    )
    assert not group["fused"]


def test_a_restored_state_continues_bit_for_bit() -> None:
    model, optimizer = trained(3)
    saved = {
        name: tensor.clone()
        for name, tensor in optimizer_state(model, optimizer).items()
    }
    other, fresh = trained(0)
    other.load_state_dict(model.state_dict())
    load_optimizer_state(other, fresh, saved)
    for each, its in ((model, optimizer), (other, fresh)):
        update(each, its, 2)
    assert all(
        torch.equal(a, b)
        for a, b in zip(model.parameters(), other.parameters(), strict=True)
    )


def test_the_state_is_named_by_parameter_and_holds_no_scalar() -> None:
    saved = optimizer_state(*trained(1))
    assert sorted(saved) == [
        f"{what}.{name}"
        for what in ("exp_avg", "exp_avg_sq", "step")
        for name in ("bias", "weight")
    ]
    assert saved["step.bias"].shape == (1,)
    assert optimizer_state(*trained(0)) == {}


def schedules(name: str) -> list[WSD]:
    model = parse(name)
    return [stage_schedule(model, s, Optimizer()) for s in model.stages]


def test_the_same_values_by_the_loop_the_paper_used() -> None:
    """An iteration-by-iteration schedule with the +1 offset, written as a loop, agrees at every step."""
    trunk, decay = schedules("610m-mlm40-12k")
    for step in range(12_000):
        if step < 2_000:
            expected = 0.0 + (1.0 - 0.0) * (step + 1) / 2_000
        elif step < 10_000:
            expected = 1.0
        else:
            expected = 1.0 + (0.0 - 1.0) * (step - 10_000 + 1) / 2_000
        got = trunk(step) if step < 10_000 else decay(step)
        assert got == pytest.approx(expected, abs=1e-12)


def test_shortest_continued_model_warms_up_inside_its_decay() -> None:
    decay = schedules("610m-clm-dec42k-mlm40-44k")[-1]
    assert decay(42_000) == 1 / 200
    assert decay(42_199) == pytest.approx(1 - 200 / 2000)
    assert decay(43_999) == 0
    assert max(map(decay, range(42_000, 44_000))) < 1


def test_sqrt_decay_is_one_minus_the_root_of_its_share() -> None:
    schedule = WSD(warmup_steps=0, decay_first=100, decay_steps=400, curve="sqrt")
    done = np.arange(1, 401) / 400
    assert [schedule(step) for step in range(100, 500)] == pytest.approx(
        list(1 - done**0.5), abs=1e-15
    )
    assert (schedule(99), schedule(199), schedule(499)) == (1, 0.5, 0)


def test_the_decay_of_a_start_has_a_rate_to_its_last_update() -> None:
    spec = StageSpec(
        objective=parse_objective("mlm30"), end=4, decay_steps=4, curve="sqrt"
    )
    stages = make_stages("s", [spec], usual_decay=4)
    model = Model(name="mine", size="s", stages=stages, start="smollm2/")
    schedule = stage_schedule(model, stages[-1], Optimizer(warmup_steps=0))
    assert [schedule(step) for step in range(4)] == pytest.approx(
        [1 - (n / 5) ** 0.5 for n in range(1, 5)]
    )


def test_whatever_follows_a_decay_is_warmed_up_again() -> None:
    words = (
        ("clm", 0, 10, 4),
        ("mlm40", 10, 30, 6),
        ("clm", 30, 50, 0),
        ("mlm40", 50, 60, 10),
    )
    specs = [
        StageSpec(
            objective=parse_objective(word), end=end, decay_steps=decay, curve="sqrt"
        )
        for word, _, end, decay in words
    ]
    model = Model(name="mine", size="s", stages=make_stages("s", specs, usual_decay=4))
    rates = [
        stage_schedule(model, stage, Optimizer(warmup_steps=2, rewarm_steps=3))(step)
        for stage in model.stages
        for step in range(stage.first_step, stage.end)
    ]

    def fall(steps: int) -> list[float]:
        return [1 - (place / steps) ** 0.5 for place in range(1, steps + 1)]

    again = [1 / 3, 2 / 3]
    expected = [
        0.5,
        *[1.0] * 5,
        *fall(4),
        *again,
        *[1.0] * 12,
        *fall(6),
        *again,
        *[1.0] * 18,
        *fall(10),
    ]
    assert rates == pytest.approx(expected, abs=1e-15)


def test_branches_share_one_curve() -> None:
    """Where two models share a stage, they ask for the same rates."""
    seen: dict[tuple[str, int], float] = {}
    for model in MODELS.values():
        for stage in model.stages:
            schedule = stage_schedule(model, stage, Optimizer())
            for step in {
                stage.first_step,
                (stage.first_step + stage.end) // 2,
                stage.end - 1,
            }:
                key = stage.name, step
                assert seen.setdefault(key, schedule(step)) == schedule(step)


@given(
    st.integers(0, 50),
    st.integers(0, 200),
    st.integers(1, 50),
    st.sampled_from([*DECAYS]),
)
def test_multipliers_lie_in_0_to_1_and_fall_only_in_the_decay(
    warmup: int, start: int, decay: int, curve: str
) -> None:
    schedule = WSD(
        warmup_steps=warmup,
        decay_first=max(start, warmup),
        decay_steps=decay,
        curve=curve,
    )
    values = [schedule(step) for step in range(max(start, warmup) + decay)]
    assert all(0 <= value <= 1 for value in values)
    assert values[-1] == 0
    assert sorted(values[-decay:], reverse=True) == values[-decay:]


def test_steps_outside_a_schedule_are_refused() -> None:
    assert WSD(warmup_steps=0)(0) == WSD(warmup_steps=1)(0) == 1.0
    with pytest.raises(
        ValueError, match=r"step -1 is outside the schedule \[0, None\)"
    ):
        WSD(warmup_steps=0)(-1)
    with pytest.raises(ValueError, match="outside the schedule"):
        WSD(warmup_steps=0, decay_first=2, decay_steps=2)(4)
