"""A stage's validation: whether one is due when the stage begins, and its loss; and how long a CPU takes for a stage.

`stage` calls it between updates (the third file of the loop, `train` lists them). Masks of a validation never change,
so that losses at different steps compare.
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
"""Called after each pass of a validation with the pass's number on this rank, from 0, its seconds and its batch."""


class ValidationSums(NamedTuple):
    """Sums of a validation over all ranks."""

    total: float
    """Sum of the predicted tokens' cross-entropies, in nats."""
    predicted: int
    """Number of predicted tokens."""


def starts_with_validation(
    context: TrainingContext, stage: PlannedStage, step: int, *, is_milestone: bool
) -> bool:
    """Return whether a stage that begins or resumes at a step has to validate before its first update.

    It has to where it begins, unless the validation at the end of its parent stage measured the same. Where it resumes,
    it has to if a validation was due at this step and was stopped before its end. All ranks must call this.

    Args:
        context: settings, plan and ranks.
        stage: the stage.
        step: the step, counted from the start of pretraining.
        is_milestone: whether the step is validated even if it is no multiple of the setting `eval_every`.
    """
    record, ranks = context.config.record, context.ranks
    # With 0 sequences to validate on there are no validations.
    if not record.eval_sequences:
        return False
    if step > stage.first_step:
        # It resumes.
        if not is_milestone and step % record.eval_every:
            return False
        log = context.folder(stage.name) / LOG
        # Only the first rank has the log. The others learn its answer from the sum, to which they add 0.
        lacks_row = ranks.rank == 0 and not _has_validation(log, step)
        return ranks.total(float(lacks_row))[0] > 0

    # It begins.
    if stage.parent is None:
        return True
    return _measures(context.plan.stage(stage.parent)) != _measures(stage)


def _has_validation(log: Path, step: int) -> bool:
    # `[]`: a list for faults, which is dropped. Without it a missing log or a faulty line would be an error.
    rows = read_log(log, [])
    return any(row["split"] == "validation" and row["step"] == step for row in rows)


def _measures(stage: PlannedStage) -> tuple[object, ...]:
    """Return what a stage's validation loss depends on besides the weights: objective, masking ratio and shards."""
    return stage.objective, stage.lasting_ratio, stage.data


def validation_sums(
    model: Trained,
    batches: StageBatches,
    context: TrainingContext,
    after_pass: AfterPass,
) -> ValidationSums:
    """Compute the loss on the validation split, and put the model back into training mode.

    Args:
        model: the model.
        batches: the stage's batches.
        context: ranks and precision.
        after_pass: called after each pass; if it raises, the validation ends with that error.
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
    """Log how long the remaining updates take on a CPU, where training begins from an existing model (a start).

    A GPU's hours are estimated before training. A CPU's speed is known only from a pass.

    Args:
        context: model, settings and ranks.
        stage: the stage's name, for the message.
        step: updates that the model has had so far.
        what: what was timed, in words.
        seconds: time of one pass of an update.
        batch: the batch of that pass.
    """
    if context.start is None or context.ranks.device.type != "cpu":
        return
    batches = context.config.batches

    # Up to the end of the model, through its later stages.
    updates = context.targets.model.steps - step
    # The ranks work side by side, so one rank's passes count: its sequences of an update, and the passes that
    # they fill.
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
