"""The optimizer: how it is built from the settings, and which of its tensors a checkpoint holds.

Another one is another version of these functions, state names included, with its settings in
`pretraining.plan.config`; the paper's values are in `pretraining.paper_settings`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from pretraining.plan.config import TrainingConfig

__all__ = ["build_optimizer", "load_optimizer_state", "optimizer_state", "rates_by_step"]

_STATE = ("step", "exp_avg", "exp_avg_sq")


def build_optimizer(
    model: torch.nn.Module, config: TrainingConfig, device: torch.device
) -> torch.optim.Optimizer:
    """Return AdamW over all parameters of a model on `device`, fused on a GPU."""
    return torch.optim.AdamW(
        model.parameters(),
        lr=config.peak_lr,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        weight_decay=config.weight_decay,
        fused=device.type == "cuda",
    )


def rates_by_step(
    optimizer: torch.optim.Optimizer, multiplier: Callable[[int], float], start: int, end: int
) -> LambdaLR:
    """Return the scheduler that gives the updates [start, end) their share of the optimizer's rate.

    Composer steps it after every update, before its clock: a `ComposerScheduler`, which reads that clock, would be one
    step late.
    """
    return LambdaLR(optimizer, lambda done: multiplier(min(start + done, end - 1)))


def optimizer_state(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's tensors as `<what>.<parameter>`, on the CPU (not copied there), none of them a scalar."""
    return {
        f"{what}.{name}": value.detach().cpu().contiguous().reshape(value.shape or (1,))
        for name, parameter in model.named_parameters()
        for what, value in optimizer.state.get(parameter, {}).items()
    }


def load_optimizer_state(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Tensor]
) -> None:
    """Put back what `optimizer_state` returned, bit for bit; parameters without any start from scratch.

    Raises:
        KeyError: a parameter has a part of its state only.
        ValueError: a moment has another shape than its parameter.
    """
    # A fused optimizer counts its steps on the parameters' device, the others on the CPU.
    fused = any(group["fused"] for group in optimizer.param_groups)
    for name, parameter in model.named_parameters():
        if f"step.{name}" in state:
            step, *moments = (state[f"{what}.{name}"] for what in _STATE)
            if any(moment.shape != parameter.shape for moment in moments):
                raise ValueError(f"the moments of {name} have a different shape")
            device = parameter.device if fused else "cpu"
            values = (step.reshape(()).to(device), *(moment.to(parameter.device) for moment in moments))
            optimizer.state[parameter] = dict(zip(_STATE, values, strict=True))
