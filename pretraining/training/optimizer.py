"""The optimizer, its state in a checkpoint, and its learning rate: warm-up, stable, decay (section 3, Table 1).

The last file of the loop (`train` lists them): `stage` hands optimizer and rates to Composer's trainer. Another
optimizer is another version of these functions, state names included, with its settings in `pretraining.plan.config`;
the paper's values are in `pretraining.paper_settings`.

The rate is a pure function of the step, the number of an update. Steps are counted from 0 at the start of pretraining,
through all stages of a model. The paper's own trainer counts with an offset of one: in a warm-up of n steps, step 0 has
1 / n of the peak rate and the last step has the peak; the last step of the decay has a rate of zero.
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
"""What torch's AdamW keeps for each parameter: the number of its updates, then the two moments of its gradient."""


def build_optimizer(
    model: torch.nn.Module,
    config: TrainingConfig,
    device: torch.device,
    *,
    processes: int = 1,
) -> torch.optim.Optimizer:
    """Return AdamW over all parameters of a model.

    With the setting `shard_optimizer`, each of several processes keeps the state of its share of the parameters only,
    updates these and sends them to the others.

    Args:
        model: the model, on `device`.
        config: the settings.
        device: a GPU, on which torch's fused kernels are used, or a CPU.
        processes: number of processes of the job.
    """
    adamw = config.optimizer
    settings: dict[str, Any] = {
        "lr": adamw.peak_lr,
        "betas": (adamw.beta1, adamw.beta2),
        "eps": adamw.eps,
        "weight_decay": adamw.weight_decay,
        "fused": device.type == "cuda",
    }

    # All in one group, as in the paper's trainer: norms and embeddings have weight decay as well.
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
    """Return the scheduler that multiplies the optimizer's peak rate for the updates [first, end).

    It counts the updates itself. A `ComposerScheduler` would read Composer's clock, which moves on only after the
    scheduler has been asked for the next update's rate, so that each rate would come one update late.

    Args:
        optimizer: the optimizer, with the peak rate.
        multiplier: returns the factor of the peak rate for an update, by its number.
        first: number of the first update.
        end: number after that of the last update.
    """

    def rate_after(updates: int) -> float:
        # LambdaLR also asks for the rate after the last update. A decay has none there, so the last one is repeated.
        return multiplier(min(first + updates, end - 1))

    return LambdaLR(optimizer, rate_after)


def gather_state(optimizer: torch.optim.Optimizer) -> None:
    """Send a sharded optimizer's state from all processes to the first, so that `optimizer_state` is whole there.

    All processes must call it. Without sharding it does nothing.
    """
    if isinstance(optimizer, ZeroRedundancyOptimizer):
        optimizer.consolidate_state_dict(to=0)
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # its copies to the CPU are asynchronous


def optimizer_state(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, Tensor]:
    """Return the optimizer's tensors by name: `exp_avg.lm_head.weight` is the first moment of `lm_head.weight`.

    They are on the CPU, where those that are there already are not copied. A scalar, such as the number of updates, is
    returned with the shape (1,).
    """
    # The optimizer's state has numbers for parameters, in the order in which the model lists them.
    state = optimizer.state_dict()["state"]
    tensors = {}
    for number, (name, _) in enumerate(model.named_parameters()):
        # A parameter has no state before its first update.
        for what, value in state.get(number, {}).items():
            tensor = value.detach().cpu().contiguous()
            tensors[f"{what}.{name}"] = tensor.reshape(value.shape or (1,))
    return tensors


def load_optimizer_state(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    state: Mapping[str, Tensor],
) -> None:
    """Load what `optimizer_state` returned into an optimizer, bit for bit.

    A parameter that is not in `state` keeps the state of a new optimizer. A sharded optimizer takes only the state of
    the parameters that this process updates.

    Raises:
        KeyError: `state` has some of a parameter's tensors, but not all.
        ValueError: a moment has another shape than its parameter.
    """
    # The optimizer of this process's share of the parameters.
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
        # The number of updates, then the two moments.
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
    """The learning rate of each step as a share of the peak rate: warm-up, stable, decay (WSD).

    Warm-ups and decay may overlap; at each step the lowest of their rates counts.
    """

    warmup_steps: int
    """Steps of linear warm-up from step 0; 0 starts at the peak."""
    decay_first: int | None = None
    """First step of the decay; None for a trunk, which never decays."""
    decay_steps: int = 0
    """Length of the decay."""
    is_paper: bool = True
    """Whether the decay's last update has a rate of zero, as in the paper; if not, zero would come one step later."""
    curve: str = LINEAR
    """How the rate falls in the decay: one of `DECAYS`."""
    rewarm_first: int | None = None
    """First step of a second warm-up, after a checkpoint whose rate had decayed to zero; None if there is none."""
    rewarm_steps: int = 0
    """Length of the linear warm-up from `rewarm_first`; 0 returns to the peak at once."""

    def __call__(self, step: int) -> float:
        """Return the share of the peak rate, 0 to 1, that the update number `step` (from 0) has.

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
            steps_since = step - self.rewarm_first
            if 0 <= steps_since < self.rewarm_steps:
                multiplier = min(multiplier, (steps_since + 1) / self.rewarm_steps)

        # Decay.
        if self.decay_first is not None and step >= self.decay_first:
            # With one step more, the last update comes one step before the end, and zero is not reached.
            length = self.decay_steps
            if not self.is_paper:
                length += 1
            share = (step - self.decay_first + 1) / length
            multiplier = min(multiplier, DECAYS[self.curve].rate(share))

        return multiplier


def stage_schedule(model: Model, stage: Stage, settings: Optimizer) -> WSD:
    """Return the learning-rate schedule of one stage of a model.

    A stage that continues an undecayed one goes on at the peak rate. A stage that continues a decayed one is warmed up
    again, over the settings' `rewarm_steps`; the paper does not say how.
    """
    # As in the paper, a new model's last update has a rate of 0; from a start, the last update still has a rate.
    schedule = WSD(
        warmup_steps=settings.warmup_steps, is_paper=not model.start, curve=stage.curve
    )
    if stage.phase == "decay":
        schedule = replace(
            schedule, decay_first=stage.first_step, decay_steps=stage.steps
        )

    # A second warm-up begins where the last decay before this stage ended.
    stages_before = [item for item in model.stages if item.end <= stage.first_step]
    decay_ends = [item.end for item in stages_before if item.phase == "decay"]
    if decay_ends:
        schedule = replace(
            schedule,
            rewarm_first=max(decay_ends),
            rewarm_steps=settings.rewarm_steps,
        )

    return schedule
