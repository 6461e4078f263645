"""The steps of one stage on MosaicML's Composer.

Composer runs the loop: micro-batches, autocast, DDP, devices, loggers. Whatever the results depend on is passed to
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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from composer.core import Callback, DataSpec, State, Timestamp
from composer.loggers import Logger, LoggerDestination, TensorboardLogger
from composer.models import ComposerModel
from composer.trainer import Trainer

from common.errors import UserError
from common.processes import on_stop_signal
from pretraining.model.heads import EuroBertForMaskedLM
from pretraining.plan.config import TrainingConfig
from pretraining.training.dataloader import StepBatch
from pretraining.training.objectives import WEIGHTINGS, LossSum, ObjectiveBatch, loss_sum
from pretraining.training.ranks import Ranks

__all__ = ["StageRun", "StepHooks", "train_steps"]

logger = logging.getLogger(__name__)


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


class _Model(ComposerModel):  # type: ignore[misc]  # composer is untyped
    """The model as Composer calls it: forward is the whole loss, so that DDP sees every parameter used."""

    def __init__(self, model: EuroBertForMaskedLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: ObjectiveBatch) -> LossSum:
        return loss_sum(self.model, batch)

    def loss(self, outputs: LossSum, batch: ObjectiveBatch) -> torch.Tensor:
        del batch
        return outputs.mean


@dataclass(eq=False)
class _StepCallback(Callback):  # type: ignore[misc]  # composer is untyped
    """Rates, clipping, rows, checkpoints and stop requests around Composer's loop."""

    run: StageRun
    config: TrainingConfig
    ranks: Ranks
    hooks: StepHooks
    model: EuroBertForMaskedLM
    stop: Callable[[], bool]
    current: StepBatch | None = None
    norm: float = 0.0
    clock: float = field(default_factory=time.monotonic)
    since: float = 0.0

    def batch_start(self, state: State, logger: Logger) -> None:
        del logger
        step = int(state.timestamp.batch)
        for group in state.optimizers[0].param_groups:
            group["lr"] = self.run.rate(step)
        self.current = state.batch
        assert self.current is not None and self.current.step == step

    def after_train_batch(self, state: State, logger: Logger) -> None:
        del state, logger
        self.norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm))

    def batch_end(self, state: State, logger: Logger) -> None:
        batch, step = self.current, int(state.timestamp.batch)
        assert batch is not None
        loss = float(state.total_loss_dict["loss/train/total"])
        if not (math.isfinite(loss) and math.isfinite(self.norm)):
            raise UserError(
                f"the loss of step {step} is {loss} and the gradient norm {self.norm}; earlier checkpoints are "
                f"untouched, and the same command resumes from the last: lower peak_lr or check the data of this step"
            )
        counts = sum(item.count for item in batch.microbatches)
        tokens, predicted, stop = self.ranks.total(batch.tokens, counts, self.stop())
        self.since += tokens
        row: dict[str, float | int | str] = {
            "loss": loss,
            "lr": self.run.rate(step - 1),
            "grad_norm": self.norm,
            "step_tokens": int(tokens),
            "predicted": int(predicted),
            "batch": f"{self.ranks.total_bits(batch.fingerprint):016x}",
        }
        if step % self.config.log_every == 0 or step == self.run.end:
            now = time.monotonic()
            row["tokens_per_second"] = self.since / (now - self.clock)
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
    )
    weigh = WEIGHTINGS[config.weighting].weight
    logging.getLogger("composer").setLevel(logging.WARNING)
    with contextlib.ExitStack() as stack:
        stack.enter_context(on_stop_signal(signals.append))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        trainer = Trainer(
            model=_Model(model),
            train_dataloader=DataSpec(
                run.batches,
                get_num_samples_in_batch=lambda batch: sum(len(part.inputs) for part in _parts(batch)),
                get_num_tokens_in_batch=lambda batch: _weights(batch, weigh),
                split_batch=lambda batch, size: batch.microbatches,
                microbatch_transforms=lambda batch: batch.to(ranks.device, non_blocking=True),
            ),
            spin_dataloaders=False,
            max_duration=f"{run.end}ba",
            optimizers=optimizer,
            callbacks=[callback],
            loggers=_loggers(config, run) if ranks.rank == 0 else [],
            run_name=run.name,
            progress_bar=False,
            device="gpu" if ranks.device.type == "cuda" else "cpu",
            precision="amp_bf16" if run.bf16 else "fp32",
            device_train_microbatch_size=1,
            # Micro-batches are averaged by their "tokens", which `_weights` defines by the weighting's rule.
            accumulate_train_batch_on_tokens=True,
            seed=config.seed,
            dist_timeout=3600.0,
        )
        stack.callback(trainer.close)
        trainer.state.timestamp = Timestamp(batch=run.start)
        callback.clock = time.monotonic()
        trainer.fit()
        return int(trainer.state.timestamp.batch)


def _parts(batch: StepBatch | ObjectiveBatch) -> list[ObjectiveBatch]:
    return batch.microbatches if isinstance(batch, StepBatch) else [batch]


def _weights(batch: StepBatch | ObjectiveBatch, weigh: Callable[[int], int]) -> dict[str, int]:
    """Return Composer's token counts; those that generate loss are the weights of `objectives.WEIGHTINGS`."""
    parts = _parts(batch)
    weight = sum(weigh(part.count) for part in parts)
    return {"total": sum(part.inputs.num_tokens for part in parts), "loss_generating": weight}


def _loggers(config: TrainingConfig, run: StageRun) -> list[LoggerDestination]:
    loggers: list[LoggerDestination] = []
    if config.tensorboard:
        loggers.append(TensorboardLogger(log_dir=str(run.tensorboard), rank_zero_only=True))
    if config.wandb:
        loggers.append(_WeightsAndBiases(config, run.name))
    return loggers


class _WeightsAndBiases(LoggerDestination):  # type: ignore[misc]  # composer is untyped
    """A run of Weights & Biases on the first process.

    Composer's own logger calls methods that wandb has removed, and waits for processes that have no run.
    """

    def __init__(self, config: TrainingConfig, name: str) -> None:
        self._config, self._name = config, name
        self._run: Any = None

    def init(self, state: State, logger: Logger) -> None:
        del state, logger
        import wandb
        from wandb.errors import Error

        try:
            self._run = wandb.init(project=self._config.wandb, name=self._name, config=asdict(self._config))
        except Error as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise UserError(
                f"Weights & Biases (wandb={self._config.wandb}): {reason}; log in with `wandb login`, set "
                f"WANDB_MODE=offline or leave the setting out"
            ) from None

    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        self._run.log(dict(metrics), step=step)

    def post_close(self) -> None:
        if self._run is not None:
            self._run.finish()
            self._run = None
