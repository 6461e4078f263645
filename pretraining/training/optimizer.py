"""The optimizer, which of its tensors a checkpoint holds, and its rate: warm-up, stable, decay (section 3, Table 1).

The last file of the loop (`train` lists them): `stage` hands optimizer and rates to Composer's trainer. Another
optimizer is another version of these functions, state names included, with its settings in `pretraining.plan.config`;
the paper's values are in `pretraining.paper_settings`.

The rate is a pure function of the step. The paper's own trainer counts with an offset of one: step 0 has 1 / warm-up of
the peak, the last step of the warm-up has the peak, and the last step of the decay has zero. Steps are counted from the
start of pretraining, in every stage and every branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.optim.lr_scheduler import LambdaLR

from pretraining.models import DECAYS, LINEAR, Model, Stage
from pretraining.plan.config import Optimizer, TrainingConfig

_STATE = ("step", "exp_avg", "exp_avg_sq")
"""What torch's AdamW keeps of a parameter: its count of updates, then the two moments."""


def build_optimizer(
    model: torch.nn.Module,
    config: TrainingConfig,
    device: torch.device,
    *,
    processes: int = 1,
) -> torch.optim.Optimizer:
    """Return AdamW over all parameters of a model on `device`, fused on a GPU.

    With `shard_optimizer` each of several processes updates its share of the parameters and sends them to the others.
    """
    adamw = config.optimizer
    settings: dict[str, Any] = {
        "lr": adamw.peak_lr,
        "betas": (adamw.beta1, adamw.beta2),
        "eps": adamw.eps,
        "weight_decay": adamw.weight_decay,
        "fused": device.type == "cuda",
    }
    # One group, as in the paper's trainer: norms and embeddings are decayed as well.
    parameters = model.parameters()
    if config.machine.shard_optimizer and processes > 1:
        return ZeroRedundancyOptimizer(parameters, torch.optim.AdamW, **settings)
    return torch.optim.AdamW(parameters, **settings)


def rates_by_step(
    optimizer: torch.optim.Optimizer,
    multiplier: Callable[[int], float],
    first: int,
    end: int,
) -> LambdaLR:
    """Return the scheduler that gives the updates [first, end) their share of the optimizer's rate.

    Composer steps it after every update, before its clock: a `ComposerScheduler`, which reads that clock, would be one
    step late.
    """

    def rate_after(updates: int) -> float:
        # LambdaLR asks once more after the last update, for which a decay has no rate: repeat the last.
        return multiplier(min(first + updates, end - 1))

    return LambdaLR(optimizer, rate_after)


def gather_state(optimizer: torch.optim.Optimizer) -> None:
    """Bring the shares of all processes to the first one, before its `optimizer_state`; all processes call it."""
    if isinstance(optimizer, ZeroRedundancyOptimizer):
        optimizer.consolidate_state_dict(to=0)
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # its copies to the CPU are asynchronous


def optimizer_state(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, Tensor]:
    """Return the optimizer's tensors as `<what>.<parameter>`, on the CPU (not copied there), none of them a scalar."""
    # The optimizer's state numbers parameters by their place in the model.
    state = optimizer.state_dict()["state"]
    tensors = {}
    for number, (name, _) in enumerate(model.named_parameters()):
        for what, value in state.get(number, {}).items():
            tensor = value.detach().cpu().contiguous()
            tensors[f"{what}.{name}"] = tensor.reshape(value.shape or (1,))
    return tensors


def load_optimizer_state(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    state: Mapping[str, Tensor],
) -> None:
    """Put back what `optimizer_state` returned, bit for bit; parameters without any start from scratch.

    Of an optimizer that is shared among processes, this one's part.

    Raises:
        KeyError: a parameter has a part of its state only.
        ValueError: a moment has another shape than its parameter.
    """
    if isinstance(optimizer, ZeroRedundancyOptimizer):
        optimizer = optimizer.optim
    updated_here: set[Tensor] = set()
    for group in optimizer.param_groups:
        updated_here.update(group["params"])
    # A fused optimizer counts its steps on the parameters' device, the others on the CPU.
    is_fused = any(group["fused"] for group in optimizer.param_groups)
    for name, parameter in model.named_parameters():
        if f"step.{name}" not in state:
            continue
        step, *moments = (state[f"{what}.{name}"] for what in _STATE)
        if any(moment.shape != parameter.shape for moment in moments):
            raise ValueError(f"the moments of {name} have a different shape")
        if parameter not in updated_here:
            continue
        device = parameter.device
        step = step.reshape(()).to(device if is_fused else "cpu")
        values = [step, *(moment.to(device) for moment in moments)]
        optimizer.state[parameter] = dict(zip(_STATE, values, strict=True))


@dataclass(frozen=True, kw_only=True)
class WSD:
    """Multipliers of the peak learning rate by step; several phases may overlap, the lowest counts."""

    warmup_steps: int
    """Steps of linear warm-up from step 0; 0 starts at the peak."""
    decay_first: int | None = None
    """First step of the decay; None for a trunk, which never decays."""
    decay_steps: int = 0
    """Length of the decay."""
    is_paper: bool = True
    """Whether its last update has no rate, as in the paper; without, zero is reached one step after it."""
    curve: str = LINEAR
    """How it falls: one of `DECAYS`."""
    rewarm_first: int | None = None
    """First step after a decayed checkpoint (CPT); None when there is none."""
    rewarm_steps: int = 0
    """Length of the linear warm-up from `rewarm_first`; 0 returns to the peak at once."""

    def __call__(self, step: int) -> float:
        """Return the multiplier, 0 to 1, of the update that `step` (counted from 0) makes.

        Raises:
            ValueError: a negative step, or one after the end of the decay.
        """
        end = None if self.decay_first is None else self.decay_first + self.decay_steps
        if step < 0 or (end is not None and step >= end):
            raise ValueError(f"step {step} is outside the schedule [0, {end})")

        # Warm-up, in each phase with the paper's offset of one.
        multiplier = 1.0
        if step < self.warmup_steps:
            multiplier = (step + 1) / self.warmup_steps

        # A second warm-up after a decayed checkpoint.
        if self.rewarm_first is not None:
            place = step - self.rewarm_first
            if 0 <= place < self.rewarm_steps:
                multiplier = min(multiplier, (place + 1) / self.rewarm_steps)

        # Decay.
        if self.decay_first is not None and step >= self.decay_first:
            length = self.decay_steps
            if not self.is_paper:
                length += 1
            share = (step - self.decay_first + 1) / length
            multiplier = min(multiplier, DECAYS[self.curve].rate(share))
        return multiplier


def stage_schedule(model: Model, stage: Stage, settings: Optimizer) -> WSD:
    """Return the schedule of one stage of the model.

    A second stage or a decay that continues an undecayed trunk stays on the trunk's plateau; only what follows
    a decayed checkpoint is warmed up again, over the settings' `rewarm_steps` (the paper does not say how).
    """
    # As in the paper, a new model's last update has a rate of 0; from a start, the last update still has a rate.
    schedule = WSD(
        warmup_steps=settings.warmup_steps, is_paper=not model.start, curve=stage.curve
    )
    if stage.phase == "decay":
        schedule = replace(
            schedule, decay_first=stage.first_step, decay_steps=stage.steps
        )
    stages_before = [item for item in model.stages if item.end <= stage.first_step]
    decay_ends = [item.end for item in stages_before if item.phase == "decay"]
    if decay_ends:
        schedule = replace(
            schedule,
            rewarm_first=max(decay_ends),
            rewarm_steps=settings.rewarm_steps,
        )
    return schedule
