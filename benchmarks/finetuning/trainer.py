"""One fine-tuning: order of the examples, optimiser, schedule and the loop, the same for all four families.

The definitions are the paper's (appendix B): batches of 32 as 8 micro-batches of 4 whose means are averaged,
10 % warm-up and linear decay, AdamW without decay on biases and norms, gradients clipped at 1. How many
examples share a forward pass is left to the device: it changes rounding only.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.finetuning.device import RunDevice
from benchmarks.protocol import FineTuning

Groups = list[NDArray[np.int64]]
"""Example numbers of a step's micro-batches."""

Watch = Callable[[range], Iterator[int]]
"""Yields the numbers of the steps unchanged and may show progress, as tqdm does."""

log = logging.getLogger(__name__)

_CHECK_EVERY = 25
"""Steps between two looks at the losses on a GPU, which each look waits for."""


class FineTuningError(Exception):
    """A fine-tuning that cannot end; the message is the reason that is recorded. Other runs continue."""


class TrainingLoss(Protocol):
    """The training data of a task family and the loss on them."""

    def order(self, seed: int) -> Iterator[Groups]:
        """Yield the micro-batches of each step without end."""

    def backward(self, model: nn.Module, groups: Groups, device: RunDevice) -> Tensor:
        """Add a step's gradient to the model's and return the loss, detached."""


@dataclass(frozen=True, kw_only=True)
class FineTuningLog:
    """What a fine-tuning leaves in addition to the weights."""

    losses: tuple[float, ...]
    """Loss of each step."""
    train_positions: int
    """Most positions of a forward pass at the end; fewer than at the start if memory ran out."""


def steps_of(
    size: int, fine_tuning: FineTuning, epochs: int | None, micro_batch: int
) -> int:
    """Return the number of optimiser steps: `fine_tuning.steps`, or the number of whole batches in some epochs.

    An epoch's last micro-batches, if they fill no batch, are not counted, so CoNLL has 438 steps and UNER 392.
    `example_order` yields them as a step all the same; with one epoch, training ends before that step, unless
    the epoch has no other one.

    Args:
        size: number of training examples.
        fine_tuning: the hyper-parameters.
        epochs: passes over the training examples; None: `fine_tuning.steps` counts.
        micro_batch: examples of a micro-batch.
    """
    if epochs is None:
        return fine_tuning.steps
    micro_batches = math.ceil(size / micro_batch)
    micro_batches_of_batch = fine_tuning.batch // micro_batch
    whole_batches = micro_batches // micro_batches_of_batch
    # A dataset that fills no batch is still trained on: one step an epoch.
    return max(1, whole_batches) * epochs


def example_order(
    size: int, seed: int, micro_batch: int, groups: int
) -> Iterator[Groups]:
    """Yield the micro-batches of each step without end, as transformers' Trainer draws them.

    The order of epoch e is the permutation that torch's generator gives for seed + e, as in the Trainer's seedable
    sampler. The last step of an epoch takes what is left.

    Args:
        size: number of examples.
        seed: the run's seed.
        micro_batch: examples of a micro-batch.
        groups: micro-batches of a step.
    """
    epoch = 0
    while True:
        generator = torch.Generator().manual_seed(seed + epoch)
        order = torch.randperm(size, generator=generator).numpy()
        micro_batches = []
        for first in range(0, size, micro_batch):
            micro_batches.append(order[first : first + micro_batch])
        for first in range(0, len(micro_batches), groups):
            yield micro_batches[first : first + groups]
        epoch += 1


def pair_order(size: int, seed: int, batch: int) -> Iterator[Groups]:
    """Yield each step's batch without end, as sentence-transformers' trainer draws them (D15).

    One generator draws the permutation of every epoch; seed 0 leaves it as torch makes it. A batch is one group: a loss
    that compares all examples of a batch has no micro-batches.
    """
    generator = torch.Generator()
    # As that trainer, which tests `if seed`: with 0 the generator keeps torch's default seed.
    if seed:
        generator.manual_seed(seed)
    while True:
        order = torch.randperm(size, generator=generator).numpy()
        for first in range(0, size, batch):
            yield [order[first : first + batch]]


def distinct_order(
    keys: Sequence[tuple[str, ...]], seed: int, batch: int
) -> Iterator[Groups]:
    """Yield batches without end, in the order of `pair_order`, in which no two rows have a key in common.

    A row that shares a key with an earlier row of its batch waits for the next batch. An epoch ends with the first
    batch that cannot be filled: rows that still wait then are left out of the epoch.

    Args:
        keys: the query and the positive of each row.
        seed: the seed of the order.
        batch: rows of a batch.
    """
    # One batch of `pair_order` with all rows is the order of an epoch. Without rows
    # its size is 1: `pair_order` goes through a range in steps of that size, and a range refuses steps of 0.
    epochs = pair_order(len(keys), seed, max(1, len(keys)))
    for (order,) in epochs:
        waiting = deque(order.tolist())
        while waiting:
            chosen: list[int] = []
            later: list[int] = []
            seen: set[str] = set()
            while waiting and len(chosen) < batch:
                row = waiting.popleft()
                if seen.isdisjoint(keys[row]):
                    seen.update(keys[row])
                    chosen.append(row)
                else:
                    later.append(row)

            yield [np.array(chosen)]
            if len(chosen) < batch:
                break

            # Back to the front in their old order: `extendleft` puts the last row that it gets first.
            waiting.extendleft(reversed(later))


def learning_rate(step: int, steps: int, peak: float, warmup_share: float) -> float:
    """Return the learning rate of a step, counted from 0: it is 0 at step 0 and would be 0 again at `steps`."""
    warmup = math.ceil(steps * warmup_share)
    if step < warmup:
        return peak * step / max(1, warmup)
    return peak * max(0.0, (steps - step) / max(1, steps - warmup))


def decayed(model: nn.Module) -> list[str]:
    """Return the names of the parameters with weight decay: all except biases and the weights of norms.

    Both are told by names, as transformers' Trainer does: classes of norms have no common base class.
    """
    of_norms: set[str] = set()
    for path, module in model.named_modules():
        # Only the norm's own parameters, by their names in the whole model.
        if "norm" in type(module).__name__.lower():
            for name, _ in module.named_parameters(prefix=path, recurse=False):
                of_norms.add(name)
    names = []
    for name, parameter in model.named_parameters():
        is_bias = name.split(".")[-1].startswith("bias")
        if parameter.requires_grad and name not in of_norms and not is_bias:
            names.append(name)
    return names


def make_optimiser(
    model: nn.Module, lr: float, fine_tuning: FineTuning
) -> torch.optim.Optimizer:
    """Return AdamW with weight decay on the parameters of `decayed`, and with its state in the type of the weights."""
    decayed_names = set(decayed(model))
    with_decay: list[nn.Parameter] = []
    without: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        parameters = with_decay if name in decayed_names else without
        parameters.append(parameter)

    parameter_groups = [
        {"params": with_decay, "weight_decay": fine_tuning.weight_decay},
        {"params": without, "weight_decay": 0.0},
    ]

    # The fused kernel keeps intermediate results in float32: right for float32 weights, but with bfloat16 weights
    # it would not round where the paper's optimiser did. With None, unlike False, torch still updates all parameters
    # together on a GPU.
    dtypes = {parameter.dtype for parameter in model.parameters()}
    fused = True if dtypes == {torch.float32} else None
    return torch.optim.AdamW(
        parameter_groups,
        lr=lr,
        betas=fine_tuning.betas,
        eps=fine_tuning.eps,
        fused=fused,
    )


def fine_tune(
    model: nn.Module,
    objective: TrainingLoss,
    device: RunDevice,
    *,
    lr: float,
    seed: int,
    steps: int,
    fine_tuning: FineTuning,
    watch: Watch = iter,
) -> FineTuningLog:
    """Fine-tune `model` in place.

    The result depends on the arguments alone: the global generators, which dropout uses, are seeded here.

    Args:
        model: the model, whose head is initialised for this seed.
        objective: the family's training data and loss.
        device: device, precision and size of forward passes.
        lr: peak learning rate.
        seed: the seed of the examples' order and of dropout.
        steps: number of optimiser steps.
        fine_tuning: the other hyper-parameters.
        watch: yields the steps and may show progress.

    Raises:
        FineTuningError: the loss is not finite, or one example does not fit into memory.
    """
    torch.manual_seed(seed)
    optimiser = make_optimiser(model, lr, fine_tuning)
    order = objective.order(seed)
    losses: list[Tensor] = []
    model.train()
    for step in watch(range(steps)):
        # The micro-batches of this step; below, `group` has parameters of the optimiser.
        groups = next(order)
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, steps, lr, fine_tuning.warmup_share)
        # Where memory ran out, this device has smaller passes, also for the steps that follow.
        loss, device = _backward(model, objective, groups, device, optimiser)
        nn.utils.clip_grad_norm_(model.parameters(), fine_tuning.clip_norm)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        losses.append(loss)

        # On a GPU a look at a loss waits for the step to end, so most steps are not looked at.
        if (step + 1) % _CHECK_EVERY == 0 or step + 1 == steps or not device.kind.gpu:
            _check_finite(losses)

    return FineTuningLog(
        losses=tuple(float(loss) for loss in losses),
        train_positions=device.train_positions,
    )


def _backward(
    model: nn.Module,
    objective: TrainingLoss,
    groups: Groups,
    device: RunDevice,
    optimiser: torch.optim.Optimizer,
) -> tuple[Tensor, RunDevice]:
    """Compute a step's gradient, in smaller and smaller forward passes while memory does not suffice.

    Returns:
        The loss, and the device with the size of the passes that fitted, for the next steps.
    """
    while True:
        try:
            return objective.backward(model, groups, device), device
        except torch.OutOfMemoryError:
            smaller = device.train_positions // 2

        # Outside of the except clause, whose traceback would keep the activations in memory. Gradients of passes that
        # fitted are dropped, as the whole step is computed again.
        optimiser.zero_grad(set_to_none=True)
        # An example that is longer than a pass is a pass by itself. Below 8 positions nearly every pass has
        # one example already, so smaller ones are not tried.
        if smaller < 8:
            raise FineTuningError(
                "out of memory even in the smallest forward pass; use a device with more memory"
            )

        # Memory that torch holds for passes of the old size is given back; that may fail as well.
        with contextlib.suppress(RuntimeError):
            torch.cuda.empty_cache()
        log.warning(
            "out of memory; continuing with %d positions per forward pass, which changes rounding and dropout",
            smaller,
        )
        device = replace(device, train_positions=smaller)


def _check_finite(losses: list[Tensor]) -> None:
    """Raise a `FineTuningError` that names the first step, counted from 1, whose loss is not finite.

    Only the last losses are looked at: those before them passed the check of an earlier step.
    """
    recent = torch.stack(losses[-_CHECK_EVERY:])
    bad = (~torch.isfinite(recent)).nonzero().flatten()
    if len(bad):
        first = int(bad[0])
        losses_before = len(losses) - len(recent)
        step = losses_before + first + 1
        raise FineTuningError(f"the loss is {float(recent[first])} at step {step}")
