"""The steps of one stage on MosaicML's Composer.

Composer runs the loop: passes, autocast, DDP, devices, loggers. Whatever the results depend on is passed to
it: batches by step (`dataloader`), the loss (`objectives`), the rate by step (`schedule`), checkpoints
(`checkpoints`). Composer's own counterparts are not used where they would change numbers: its schedulers are
stepped before its clock, so that every rate is one step late, and its loaders are replayed from the start of an
epoch to resume after a kill.
"""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

import composer.trainer.trainer as composer_trainer
import torch
from composer.core import Callback, DataSpec, State, Timestamp
from composer.loggers import Logger
from composer.models import ComposerModel
from composer.trainer import Trainer
from torch.nn.parallel import DistributedDataParallel

from common.errors import UserError
from common.processes import on_stop_signal
from pretraining.model.modeling import EuroBertForMaskedLM
from pretraining.plan.config import TrainingConfig
from pretraining.training.dataloader import StepBatch
from pretraining.training.monitors import callbacks_of, loggers_of, profiler_of
from pretraining.training.objectives import LossSum, ObjectiveBatch, group_weights, loss_sum
from pretraining.training.ranks import Ranks

__all__ = ["StageRun", "StepHooks", "train_steps"]

logger = logging.getLogger(__name__)
_LOUD = ("composer", "torchmetrics", "tensorboard", "streaming", "urllib3", "wandb")
"""Libraries whose warnings no user can act on; those of torch and of this package are shown."""


@dataclass(frozen=True, kw_only=True)
class StageRun:
    """What is trained: updates [start, end) of one stage."""

    name: str
    """The stage, for dashboards."""
    start: int
    """First update."""
    end: int
    """Update after the last."""
    batches: Iterator[StepBatch]
    """This rank's shares, one an update."""
    rate: Callable[[int], float]
    """Learning rate of an update."""
    bf16: bool
    """Whether forward passes run under bf16 autocast."""
    tensorboard: Path
    """Folder for TensorBoard's files."""


class StepHooks(Protocol):
    """What happens around updates; `step` counts the updates done."""

    def after_step(self, step: int, row: dict[str, float | int | str]) -> dict[str, float]:
        """Log an update, save and validate when it is time; return metrics for the dashboards."""

    def stop_requested(self) -> bool:
        """Return whether something other than a signal asks to save and end."""

    def save(self, step: int) -> None:
        """Write a checkpoint."""


@dataclass(frozen=True, kw_only=True)
class _Pass:
    """One pass as Composer is given it."""

    batch: ObjectiveBatch
    """Its sequences and their weights."""
    passes: int
    """Passes of all ranks in this step."""


@dataclass(frozen=True, kw_only=True)
class _Sums:
    """What the ranks add up once a step: what the gradient needs, and what the log wants at no further cost."""

    counts: torch.Tensor
    """Predicted tokens of each group, (G,), on the device."""
    rest: torch.Tensor
    """Tokens, the fingerprint in halves, whether to stop, each rank's wait for its batch and its last step's work,
    in seconds: on the device, read when the step is over."""

    @classmethod
    def of(cls, batch: StepBatch, ranks: Ranks, stop: bool, wait: float = 0.0, work: float = 0.0) -> _Sums:
        # Halves of so few bits that doubles hold their sums exactly.
        high, low = divmod(batch.fingerprint, 2**32)
        rest = torch.tensor([batch.tokens, high, low, stop], dtype=torch.float64)
        own = torch.zeros(2, ranks.world, dtype=torch.float64)
        own[:, ranks.rank] = torch.tensor([wait, work])
        total = ranks.sum(torch.cat([batch.counts, rest, own.flatten()]))
        return cls(counts=total[: len(batch.counts)], rest=total[len(batch.counts) :])

    def read(self) -> tuple[int, int, int, bool]:
        """Return tokens, predicted tokens, the fingerprint and whether any rank is asked to stop."""
        tokens, high, low, stop = map(int, self.rest[:4].tolist())
        return tokens, int(self.counts.sum()), ((high << 32) + low) % 2**64, stop > 0

    def times(self) -> tuple[float, float]:
        """Return the ranks' mean wait in seconds, and the slowest rank's work over the mean (1 without any)."""
        waits, works = self.rest[4:].reshape(2, -1).tolist()
        return sum(waits) / len(waits), max(works) * len(works) / sum(works) if sum(works) else 1.0


class _Model(ComposerModel):  # type: ignore[misc]  # composer is untyped
    """The model as Composer calls it: forward is the whole loss, so that DDP sees every parameter used."""

    def __init__(self, model: EuroBertForMaskedLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: _Pass) -> LossSum:
        return loss_sum(self.model, batch.batch)

    def loss(self, outputs: LossSum, batch: _Pass) -> torch.Tensor:
        # Composer takes the mean over all ranks' passes; the step's loss is their sum.
        return outputs.total * batch.passes


class _Waits:
    """Batches, and how long the last one was waited for, in seconds."""

    def __init__(self, batches: Iterator[StepBatch]) -> None:
        self._batches, self.last = batches, 0.0

    def __iter__(self) -> Iterator[StepBatch]:
        return self

    def __next__(self) -> StepBatch:
        began = time.monotonic()
        batch = next(self._batches)
        self.last = time.monotonic() - began
        return batch


class _Trainer(Trainer):  # type: ignore[misc]  # composer is untyped
    """Composer's trainer with gradients as views of DDP's buckets, and a clock that every rank knows by itself."""

    def __init__(self, **options: Any) -> None:
        with mock.patch.object(composer_trainer, "prepare_ddp_module", _data_parallel):
            super().__init__(**options)

    def _accumulate_time_across_ranks(
        self, num_samples: int, num_tokens: int, batch_time: timedelta
    ) -> tuple[int, int, timedelta]:
        # Composer's own is two collectives and two waits a step; what a step holds follows from its number.
        return num_samples, num_tokens, batch_time


def _data_parallel(module: torch.nn.Module, find_unused_parameters: bool) -> torch.nn.Module:
    """Return what Composer's `prepare_ddp_module` does, without a second copy of the gradients."""
    return DistributedDataParallel(
        module, find_unused_parameters=find_unused_parameters, gradient_as_bucket_view=True
    )


@dataclass(eq=False)
class _StepCallback(Callback):  # type: ignore[misc]  # composer is untyped
    """Rates, clipping, rows, checkpoints and stop requests around Composer's loop."""

    run: StageRun
    config: TrainingConfig
    ranks: Ranks
    hooks: StepHooks
    model: EuroBertForMaskedLM
    stop: Callable[[], bool]
    waits: _Waits
    asked: bool = False
    began: float = 0.0
    work: float = 0.0
    sums: _Sums | None = None
    norm: torch.Tensor | None = None
    clock: float = field(default_factory=time.monotonic)
    since: float = 0.0

    def batch_start(self, state: State, logger: Logger) -> None:
        del logger
        step = int(state.timestamp.batch)
        for group in state.optimizers[0].param_groups:
            group["lr"] = self.run.rate(step)
        batch: StepBatch = state.batch
        assert batch.step == step
        self.asked = self.asked or self.stop()
        self.sums = _Sums.of(batch, self.ranks, self.asked, self.waits.last, self.work)
        state.batch = batch.weighed(group_weights(self.sums.counts, self.config.weighting))

    def before_train_batch(self, state: State, logger: Logger) -> None:
        del state, logger
        self.began = time.monotonic()

    def before_backward(self, state: State, logger: Logger) -> None:
        # Of the last pass's: its backward waits for the other ranks. On a GPU this is the time to queue the work.
        del state, logger
        self.work = time.monotonic() - self.began

    def after_train_batch(self, state: State, logger: Logger) -> None:
        del state, logger
        self.norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)

    def batch_end(self, state: State, logger: Logger) -> None:
        assert self.sums is not None and self.norm is not None
        step, loss, norm = (
            int(state.timestamp.batch),
            float(state.total_loss_dict["loss/train/total"]),
            float(self.norm),
        )
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise UserError(
                f"the loss of step {step} is {loss} and the gradient norm {norm}; earlier checkpoints are "
                f"untouched, and the same command resumes from the last with, say, --set skip={step - 1}:10, which "
                f"leaves out ten batches, or --set peak_lr_from={step - 1}:{self.config.peak_lr / 2:g}"
            )
        tokens, predicted, fingerprint, stop = self.sums.read()
        if self.ranks.world == 1:
            stop = (
                self.asked or self.stop()
            )  # nobody else has to agree, so a signal that came meanwhile counts
        self.since += tokens
        row: dict[str, float | int | str] = {
            "loss": loss,
            "lr": self.run.rate(step - 1),
            "grad_norm": norm,
            "step_tokens": tokens,
            "predicted": predicted,
            "batch": f"{fingerprint:016x}",
        }
        if step % self.config.log_every == 0 or step == self.run.end:
            now = time.monotonic()
            row["tokens_per_second"] = self.since / (now - self.clock)
            row["loader_wait"], row["straggler"] = self.sums.times()
            self.clock, self.since = now, 0.0
        paused = time.monotonic()
        metrics = self.hooks.after_step(step, row)
        self.clock += time.monotonic() - paused
        logger.log_metrics(metrics)
        if stop and step < self.run.end:
            self.hooks.save(step)
            state.stop_training()


def train_steps(
    model: EuroBertForMaskedLM,
    optimizer: torch.optim.Optimizer,
    run: StageRun,
    *,
    config: TrainingConfig,
    ranks: Ranks,
    hooks: StepHooks,
) -> int:
    """Do the updates of a stage and return the number of updates done, counted from random weights.

    SIGTERM, SIGUSR1 and `hooks.stop_requested` of any rank let the current update finish, save it and end.

    Args:
        model: on the rank's device, with the weights to start from.
        optimizer: over the model's parameters, with the state to start from.
        run: the updates.
        config: clipping, weighting, loggers.
        ranks: this process's place.
        hooks: what happens around updates.

    Raises:
        UserError: a loss or a gradient that is not finite, or Weights & Biases cannot be reached.
    """
    signals: list[signal.Signals] = []
    callback = _StepCallback(
        run=run,
        config=config,
        ranks=ranks,
        hooks=hooks,
        model=model,
        stop=lambda: bool(signals) or hooks.stop_requested(),
        waits=_Waits(run.batches),
    )
    logging.getLogger("composer").setLevel(logging.WARNING)
    with contextlib.ExitStack() as stack:
        stack.enter_context(on_stop_signal(signals.append))
        stack.enter_context(warnings.catch_warnings())
        for module in _LOUD:
            warnings.filterwarnings("ignore", module=rf"{module}(\.|$)")
        trainer = _Trainer(
            model=_Model(model),
            train_dataloader=DataSpec(
                callback.waits,
                get_num_samples_in_batch=_sequences,
                get_num_tokens_in_batch=_tokens,
                split_batch=lambda batch, size: [
                    _Pass(batch=part, passes=batch.passes) for part in batch.microbatches
                ],
                microbatch_transforms=lambda item: replace(
                    item, batch=item.batch.to(ranks.device, non_blocking=True)
                ),
            ),
            spin_dataloaders=False,
            max_duration=f"{run.end}ba",
            optimizers=optimizer,
            callbacks=[callback, *callbacks_of(config)],
            loggers=[] if ranks.rank else loggers_of(config, run.name, run.tensorboard),
            profiler=profiler_of(config, run.tensorboard.with_name("profile")),
            run_name=run.name,
            progress_bar=False,
            device="gpu" if ranks.device.type == "cuda" else "cpu",
            precision="amp_bf16" if run.bf16 else "fp32",
            device_train_microbatch_size=1,
            # Passes are averaged by their "tokens that generate loss", which are 1 for each (`_tokens`).
            accumulate_train_batch_on_tokens=True,
            seed=config.seed,
            dist_timeout=3600.0,
        )
        stack.callback(trainer.close)
        trainer.state.timestamp = Timestamp(batch=run.start)
        callback.clock = time.monotonic()
        trainer.fit()
        return int(trainer.state.timestamp.batch)


def _sequences(batch: StepBatch | _Pass) -> int:
    return batch.step_sequences if isinstance(batch, StepBatch) else len(batch.batch.inputs)


def _tokens(batch: StepBatch | _Pass) -> dict[str, int]:
    """Return Composer's token counts: those of its clock, of all ranks, and equal weights of the passes."""
    if isinstance(batch, StepBatch):
        return {"total": batch.step_tokens, "loss_generating": len(batch.microbatches)}
    return {"total": batch.batch.inputs.num_tokens, "loss_generating": 1}
