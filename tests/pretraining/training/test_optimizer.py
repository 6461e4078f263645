import pytest
import torch

from pretraining.plan.config import TrainingConfig
from pretraining.training.optimizer import build_optimizer, load_optimizer_state, optimizer_state

CPU = torch.device("cpu")


def trained(steps: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = build_optimizer(model, TrainingConfig(), CPU)
    update(model, optimizer, steps)
    return model, optimizer


def update(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.full((1, 3), 1.0 + step)).square().sum().backward()
        optimizer.step()


def test_the_settings_reach_it() -> None:
    config = TrainingConfig(peak_lr=2e-3, beta1=0.8, beta2=0.9, eps=1e-6, weight_decay=0.2)
    group = build_optimizer(torch.nn.Linear(3, 2), config, CPU).param_groups[0]
    assert (group["lr"], group["betas"], group["eps"], group["weight_decay"]) == (2e-3, (0.8, 0.9), 1e-6, 0.2)
    assert not group["fused"]


def test_a_restored_state_continues_bit_for_bit() -> None:
    model, optimizer = trained(3)
    saved = {name: tensor.clone() for name, tensor in optimizer_state(model, optimizer).items()}
    other, fresh = trained(0)
    other.load_state_dict(model.state_dict())
    load_optimizer_state(other, fresh, saved)
    for each, its in ((model, optimizer), (other, fresh)):
        update(each, its, 2)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_the_state_is_named_by_parameter_and_holds_no_scalar() -> None:
    saved = optimizer_state(*trained(1))
    assert sorted(saved) == [
        f"{what}.{name}" for what in ("exp_avg", "exp_avg_sq", "step") for name in ("bias", "weight")
    ]
    assert saved["step.bias"].shape == (1,)
    assert optimizer_state(*trained(0)) == {}


def test_an_incomplete_state_is_refused() -> None:
    model, optimizer = trained(1)
    saved = optimizer_state(model, optimizer)
    del saved["exp_avg.weight"]
    with pytest.raises(KeyError):
        load_optimizer_state(model, optimizer, saved)
