"""The rows of a stage's log: which stay when training resumes, what a new one says, which update is refused.

`stage` makes them of what an update or a validation has measured (the third file of the loop, `train` lists
them); `log` writes and reads them, and says what their fields mean.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from common.errors import UserError
from pretraining.plan.devices import mfu
from pretraining.plan.flops import model_flops_per_token
from pretraining.plan.study_plan import PlannedStage
from pretraining.training import checkpoints
from pretraining.training.context import TrainingContext

LogRow = dict[str, float | int | str]
"""A row of the log; `LogWriter` moves the fields that were measured on the clock to a file of their own."""


def last_step_to_keep(
    folder: Path, checkpoint: checkpoints.Checkpoint | None
) -> int | None:
    """Return the last step whose rows of the log stay; later rows are cut off, since they are written again.

    Args:
        folder: the stage's folder.
        checkpoint: the checkpoint that training resumes from.

    Returns:
        -1 to cut all rows, None to cut none.
    """
    saved = checkpoints.checkpoint_steps(folder)
    # Training begins at the stage's first step, so that even its first row is written again.
    if not saved:
        return -1
    newest = saved[-1]
    # Resumed from an older checkpoint, as for a model that ends before the newest one: the log stays whole,
    # because its last rows belong to the newer checkpoints, which stay as well. Rows between the two are
    # written a second time. They are the same, and `read_log` takes one of each.
    if checkpoint != newest:
        return None
    return newest.step


def complete_row(
    row: LogRow, split: str, stage: PlannedStage, *, step: int, tokens: int
) -> dict[str, Any]:
    """Return a row of the log: what was measured, and the fields that every row has.

    Args:
        row: what was measured.
        split: `train` for an update, or `validation`.
        stage: the stage.
        step: updates that the model has had so far.
        tokens: tokens of these updates, of all ranks together.
    """
    # A masking ratio may change from update to update, but validation always masks at the stage's last one.
    ratio: float | None = stage.lasting_ratio
    if split == "train":
        # The update that led to this step is numbered from 0, so its number is one less.
        ratio = stage.ratio_at(step - 1)

    # In this order, then the order of `row`: a log has the same bytes whenever a model is trained again.
    common: dict[str, Any] = {
        "step": step,
        "split": split,
        "objective": stage.objective,
        "ratio": ratio,
        "stage": stage.name,
    }
    return common | row | {"tokens": tokens}


def timings(context: TrainingContext, stage: PlannedStage, speed: float) -> LogRow:
    """Return the fields of a row that differ from run to run: speed since the last row, memory, the machine.

    `mfu` is the share of the GPUs' peak rate that was reached; it is left out where that rate is not known.

    Args:
        context: the model's shape, settings and ranks.
        stage: the stage.
        speed: tokens per second, of all ranks together.
    """
    ranks = context.ranks
    # FLOPs of a token depend on the mean length of the sequence that it is in (`attended_length`), and on the
    # share of positions for which the head computes logits (`predicted_share`).
    flops = model_flops_per_token(
        context.shape,
        length=context.config.sequences.attended_length,
        predicted=stage.predicted_share,
    )
    row: LogRow = {
        "tokens_per_second": speed,
        "memory_gb": ranks.peak_memory(),
        "device": ranks.device_name,
        "processes": ranks.world,
    }
    utilisation = mfu(speed, flops, ranks.device_name, ranks.world)
    if utilisation is not None:
        row["mfu"] = utilisation
    return row


def summary(row: LogRow, rate: float) -> str:
    """Return the progress bar's words on an update.

    Args:
        row: the update's row of the log, with timings only when it was time to write them.
        rate: the update's learning rate.
    """
    words = f"loss {row['loss']:.3f}" if "loss" in row else "no target"
    words += f", rate {rate:.3g}"
    if "tokens_per_second" in row:
        words += f", {row['tokens_per_second']:,.0f} tokens/s"
    if "mfu" in row:
        words += f", MFU {row['mfu']:.1%}"
    return words


def check_finite(step: int, loss: float, norm: float) -> None:
    """Refuse an update whose loss or gradient is not a finite number, before it reaches a checkpoint.

    Args:
        step: updates that the model has had, this one included.
        loss: the update's loss.
        norm: norm of its gradient.

    Raises:
        UserError: the sentence says how to leave such batches out.
    """
    if math.isfinite(loss) and math.isfinite(norm):
        return
    remedy = "at the first step, the weights to start from are not finite or the rate is far too high"
    if step > 1:
        # The setting `skip` numbers batches from 0: that of the update to this step is one less.
        remedy = (
            "earlier checkpoints are untouched; to resume from the last one, rerun the command with one change, "
            f"for example --set skip={step - 1}:10 (skips ten batches)"
        )

    raise UserError(
        f"the loss at step {step} is {loss} and the gradient norm is {norm}; {remedy}"
    )
