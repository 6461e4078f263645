"""A stage's validation: when the first one is due, its loss at fixed masks, and how long a CPU takes for a stage.

`stage` calls it between updates (the third file of the loop, `train` lists them).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from tqdm import tqdm

from pretraining.model.start_weights import Trained
from pretraining.plan.study_plan import PlannedStage
from pretraining.training.context import TrainingContext
from pretraining.training.dataloader import StageBatches
from pretraining.training.log import LOG, read_log
from pretraining.training.objectives import ObjectiveBatch, loss_sum

logger = logging.getLogger(__name__)

AfterPass = Callable[[int, float, ObjectiveBatch], None]
"""Called after each pass with its number on this rank, from 0, its seconds and its batch."""


class ValidationSums(NamedTuple):
    """Sums of a validation over all ranks."""

    total: float
    """Cross-entropy in nats."""
    predicted: int
    """Predicted tokens."""


def starts_with_validation(
    context: TrainingContext, stage: PlannedStage, step: int, *, is_milestone: bool
) -> bool:
    """Return whether to validate before the first update from `step` on: not where the parent's objective continues.

    Where a validation was stopped, it is still to be done.

    Args:
        context: settings, plan and ranks.
        stage: the stage that begins or resumes.
        step: updates that it has had, counted from random weights.
        is_milestone: whether the step is validated whatever its number.
    """
    record, ranks = context.config.record, context.ranks
    if not record.eval_sequences:
        return False
    if step > stage.first_step:
        if not is_milestone and step % record.eval_every:
            return False
        log = context.folder(stage.name) / LOG
        # Only the first rank keeps a log; the others learn its answer from the sum.
        lacks_row = ranks.rank == 0 and not _has_validation(log, step)
        return ranks.total(float(lacks_row))[0] > 0
    if stage.parent is None:
        return True
    return _measures(context.plan.stage(stage.parent)) != _measures(stage)


def _has_validation(log: Path, step: int) -> bool:
    rows = read_log(log, [])
    return any(row["split"] == "validation" and row["step"] == step for row in rows)


def _measures(stage: PlannedStage) -> tuple[object, ...]:
    """Return what the validation losses of a stage depend on, besides the weights."""
    return stage.objective, stage.lasting_ratio, stage.data


def validation_sums(
    model: Trained,
    batches: StageBatches,
    context: TrainingContext,
    after_pass: AfterPass,
) -> ValidationSums:
    """Return the loss on the validation split at its fixed masks; the model trains again afterwards.

    Args:
        model: what is trained.
        batches: the stage's batches.
        context: ranks and precision.
        after_pass: may raise, which ends the validation.
    """
    ranks = context.ranks
    total = predicted = 0.0
    model.eval()
    try:
        with (
            torch.no_grad(),
            torch.autocast(ranks.device.type, torch.bfloat16, enabled=context.bf16),
        ):
            for number, batch in enumerate(batches.validation()):
                began = time.monotonic()
                part = loss_sum(model, batch.to(ranks.device))
                total += float(part.total)
                predicted += part.count
                after_pass(number, time.monotonic() - began, batch)
    finally:
        model.train()
    total, predicted = ranks.total(total, predicted)
    return ValidationSums(total=total, predicted=int(predicted))


def log_cpu_time(
    context: TrainingContext,
    stage: str,
    step: int,
    what: str,
    seconds: float,
    batch: ObjectiveBatch,
) -> None:
    """Log how long a start's updates take on a CPU, whose speed only its first pass shows.

    Args:
        context: what is trained, and where.
        stage: the stage's name, for the message.
        step: updates that the model has had.
        what: the pass that was timed, in words.
        seconds: time that a pass of an update takes.
        batch: the pass's batch.
    """
    if context.start is None or context.ranks.device.type != "cpu":
        return
    batches = context.config.batches
    updates = context.targets.model.steps - step
    sequences = math.ceil(batches.global_batch / context.ranks.world)
    passes = updates * math.ceil(sequences / batches.microbatch)
    logger.info(
        "%s: at the speed of the first %s, %s updates in passes of %s tokens take %s on this CPU",
        stage,
        what,
        f"{updates:,}",
        f"{batch.inputs.num_tokens:,}",
        tqdm.format_interval(passes * seconds),
    )
