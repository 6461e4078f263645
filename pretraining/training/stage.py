"""One stage being trained by Composer: from its last checkpoint, with its log, validation losses and checkpoints.

The third file of the loop (`train` lists them). Composer runs it: passes, autocast, DDP, devices, loggers, callbacks.
Whatever the results depend on is passed to it. An update is, in this order:

    StepData                         the step's batch, its passes and the weights of their tokens
    StageTraining.batch_start        the rate is noted
    PretrainingModel.forward, loss   once a pass, with the backward pass after it
    StageTraining.after_train_batch  the gradient is clipped, its norm noted
    optimizer, rates_by_step         the update, and the next one's rate
    StageTraining.batch_end          the log, and validation when it is time
    StageTraining.batch_checkpoint   a checkpoint when it is time, and the end when somebody asks for it
"""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from composer import Trainer
from composer.core import Callback, State, Timestamp
from composer.loggers import Logger

from common.errors import UserError, first_line
from common.processes import AGAIN, on_first_interrupt, on_stop_signal
from common.progress import Meter
from pretraining.model.adapted import AdaptedModel
from pretraining.model.attention import BACKENDS, resolve_backend
from pretraining.model.modeling import EuroBertForMaskedLM, initialise
from pretraining.model.start_weights import Trained, load_start
from pretraining.plan.devices import mfu
from pretraining.plan.flops import model_flops_per_token
from pretraining.plan.study_plan import PlannedStage
from pretraining.training import checkpoints
from pretraining.training.composer_parts import (
    BucketViews,
    PretrainingModel,
    StepData,
    additions,
    close,
    quiet_libraries,
)
from pretraining.training.context import TrainingContext
from pretraining.training.dataloader import StepBatch, prefetched
from pretraining.training.log import LOG, LogWriter
from pretraining.training.objectives import ObjectiveBatch, loss_sum
from pretraining.training.optimizer import build_optimizer, gather_state, rates_by_step, stage_schedule
from pretraining.training.watchdog import OwnTime, Watchdog

__all__ = ["DivergedError", "StageTraining", "build_model", "compile_model"]

logger = logging.getLogger(__name__)

Row = dict[str, float | int | str | list[float]]
"""A row of the log, with what was measured on the clock."""
_STEPS_BY_RANK = 100
_LOST = ("gloo/transport", "remote process exited")
"""What gloo and NCCL say where the other end of a connection is gone."""


class DivergedError(UserError):
    """A loss or a gradient is not finite."""


class StageTraining(Callback):  # type: ignore[misc]  # composer is untyped
    """One stage being trained; Composer calls it around every update."""

    def __init__(self, context: TrainingContext, stage: PlannedStage, target: int) -> None:
        """Take weights and the optimizer's state of the last checkpoint, or the weights of the start or the seed."""
        start = context.start_of(stage, target)
        self.context, self.stage, self.target = context, stage, target
        self.config, self.ranks = context.config, context.ranks
        self.folder = context.folder(stage.name)
        self.stage_data, self.spans = context.data_of(stage), context.plan.steps_on_its_data(stage)
        self.model, self.attention = build_model(context, is_seeded=start is None)
        self.fixed_shapes = BACKENDS[self.attention].fixed_shapes
        self.optimizer = build_optimizer(
            self.model, self.config, self.ranks.device, processes=self.ranks.world
        )
        self.step, self.tokens = 0, 0
        if start is not None:
            checkpoints.restore(start, self.model, self.optimizer)
            self.step, self.tokens = start.step, int(checkpoints.load_state(start)["tokens"])
        self.log = LogWriter(self.folder / LOG, self._log_until(start)) if self.ranks.rank == 0 else None
        self.writer = checkpoints.CheckpointWriter(self.folder) if self.ranks.rank == 0 else None
        self.meter: Meter | None = None
        self.data: StepData | None = None
        self.signals: list[int] = []
        self.stop_file_checked = 0.0
        self.clock, self.since = time.monotonic(), 0
        self.saved = time.monotonic()
        self.watchdog = Watchdog(self.ranks, f"{stage.name}@{self.step}", 60 * self.config.timeout_minutes)
        self.own_time = OwnTime(self.ranks)
        self.rate, self.norm = 0.0, torch.zeros(())
        self.stopping = self.saving = False
        self.compiled = "off"

    def run(self) -> bool:
        """Train to the target; return whether it was reached.

        SIGTERM, SIGUSR1, the first Ctrl-C and the stop file of any rank let the current update finish, save it and end.

        Raises:
            UserError: a loss or a gradient that is not finite, a disk without room, or Weights & Biases cannot be
                reached.
        """
        first = self.step
        logger.info(
            "%s: step %d to %d, attention %s, microbatch %d",
            self.stage.name, first, self.target, self.attention, self.config.microbatch,
        )  # fmt: skip
        self._announce_epochs()
        batches = prefetched(self._batch, first, self.target)
        try:
            with Meter(self.stage.name, self.target, done=first, unit="step") as self.meter:
                self.compiled = compile_model(
                    self.model, lambda: self._batch(first).microbatches[0], self.context
                )
                if first == self.stage.start and self._starts_with_validation():
                    self._validate()
                self.data = StepData(
                    batches, self.ranks, weighting=self.config.weighting,
                    stop=self._wants_to_stop, save=self._wants_to_save,
                )  # fmt: skip
                self._fit(self.data)
            self._agree(None if self.writer is None else self.writer.finish())
            # Saved as after the other signals, whose exit code asks for another start; this one's does not.
            if signal.SIGINT in self.signals:
                raise KeyboardInterrupt
        except (KeyboardInterrupt, SystemExit) as ended:  # Composer makes the second of the first
            if getattr(ended, "code", None) == AGAIN:
                raise
            self._say_what_is_saved()
            raise KeyboardInterrupt from None
        finally:
            batches.close()
            if self.writer is not None:
                self.writer.finish()
            if self.log is not None:
                self.log.close()
        if self.step < self.target:
            logger.info(
                "%s: stopped and saved at step %d; run the same command to resume", self.stage.name, self.step
            )
        return self.step == self.target

    def _fit(self, data: StepData) -> None:
        config, device = self.config, self.ranks.device
        model = self.context.plan.study.model(self.stage.models[0])
        schedule = stage_schedule(
            model, self.stage, warmup_steps=config.warmup_steps, rewarm_steps=config.rewarm_steps
        )
        added = additions(config, self.stage.name, self.folder / "tensorboard", self.ranks.rank)
        with contextlib.ExitStack() as stack:
            stack.enter_context(on_stop_signal(self.signals.append))
            stack.enter_context(on_first_interrupt(self._interrupted))
            stack.enter_context(quiet_libraries())
            trainer = Trainer(
                model=PretrainingModel(self.model),
                train_dataloader=data,
                # The first batch is that of the step to come: there are none before it to run through.
                spin_dataloaders=False,
                max_duration=f"{self.target}ba",
                optimizers=self.optimizer,
                schedulers=rates_by_step(self.optimizer, schedule, self.step, self.target),
                step_schedulers_every_batch=True,
                callbacks=[BucketViews(), self, *added["callbacks"]],
                algorithms=added["algorithms"],
                loggers=added["loggers"],
                run_name=self.stage.name,
                progress_bar=False,
                device="gpu" if device.type == "cuda" else "cpu",
                precision="amp_bf16" if self.context.bf16 else "fp32",
                # Not read: the data loader has made the passes (`StepData`).
                device_train_microbatch_size=1,
                # Passes are averaged by their "tokens that generate loss", which are 1 for each (`StepData`).
                accumulate_train_batch_on_tokens=True,
                seed=config.seed,
                # As in `Ranks.here`.
                dist_timeout=120 * config.timeout_minutes,
            )
            stack.callback(close, trainer)
            # Its clock, which would begin at zero: `max_duration`, callbacks and dashboards count from random weights.
            trainer.state.timestamp = Timestamp(batch=self.step, token=self.tokens)
            stack.enter_context(self.watchdog)
            self.clock = time.monotonic()
            try:
                trainer.fit()
            except RuntimeError as error:
                if not any(words in str(error) for words in _LOST):
                    raise
                logger.error(
                    "%s: another process of this job has ended, or does not answer, after step %d (%s); this one ends "
                    "with exit code %d; the same command resumes from the last checkpoint",
                    self.stage.name, self.step, first_line(error), AGAIN,
                )  # fmt: skip
                raise SystemExit(AGAIN) from None

    def _interrupted(self, received: signal.Signals) -> None:
        self.signals.append(received)
        logger.warning(
            "%s: saving a checkpoint after this step; press Ctrl-C again to stop at once", self.stage.name
        )

    def batch_start(self, state: State, logger: Logger) -> None:
        """Note the rate of the update to come: at its end the optimizer has the next one's."""
        del logger
        assert state.batch.step == self.step
        self.rate = state.optimizers[0].param_groups[0]["lr"]
        self.watchdog.mark(self.step, 1)
        self.own_time.begin()

    def before_backward(self, state: State, logger: Logger) -> None:
        """Note how far this process came by itself: the last backward pass waits for the others."""
        del state, logger
        self.watchdog.mark(self.step, 2)
        self.own_time.backward()

    def after_train_batch(self, state: State, logger: Logger) -> None:
        """Clip the whole gradient; Composer's own clipping does not report its norm."""
        del state, logger
        self.norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)

    def batch_end(self, state: State, logger: Logger) -> None:
        """Log an update, and validate when it is time."""
        assert self.data is not None
        # Composer's clock has counted this update, so that the first one ends as step 1.
        before, self.step, self.tokens = self.tokens, int(state.timestamp.batch), int(state.timestamp.token)
        loss, norm = float(state.total_loss_dict["loss/train/total"]), float(self.norm)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise DivergedError(
                f"the loss at step {self.step} is {loss} and the gradient norm is {norm}; "
                + (
                    "at the first step, the weights to start from are not finite or the rate is far too high"
                    if self.step == 1
                    else "earlier checkpoints are untouched; to resume from the last one, rerun the command with one "
                    f"change, for example --set skip={self.step - 1}:10 (skips ten batches)"
                )
            )
        self.watchdog.mark(self.step, 0)
        self.own_time.count()
        predicted, fingerprint, self.stopping, self.saving = self.data.sums()
        self.since += self.tokens - before
        row: Row = {
            "loss": loss, "lr": self.rate, "grad_norm": norm, "predicted": predicted, "batch": f"{fingerprint:016x}",
        }  # fmt: skip
        if self.step % self.config.log_every == 0 or self.step == self.target:
            row |= self._measured()
            self._write("train", row)
        if self.meter is not None and self.ranks.rank == 0:
            speed = f", {row['tokens_per_second']:,.0f} tokens/s" if "tokens_per_second" in row else ""
            share = f", MFU {row['mfu']:.1%}" if "mfu" in row else ""
            self.meter.update(self.step, f"loss {loss:.3f}, rate {self.rate:.3g}{speed}{share}")
        metrics = {key: value for key, value in row.items() if isinstance(value, float | int)}
        paused = time.monotonic()
        if self.config.eval_sequences and (self.step % self.config.eval_every == 0 or self._lasting()):
            metrics["validation_loss"] = self._validate()
        self.clock += time.monotonic() - paused
        logger.log_metrics({f"{self.stage.objective}/{key}": value for key, value in metrics.items()})

    def batch_checkpoint(self, state: State, logger: Logger) -> None:
        """Save when it is time or somebody asks to stop, and then stop."""
        del logger
        if self.ranks.world == 1:
            # Nobody else has to agree, so a signal that came meanwhile counts.
            self.stopping = self.stopping or self._wants_to_stop()
        paused = time.monotonic()
        if self.stopping or self.saving or self.step % self.config.save_every == 0 or self._lasting():
            self._save()
            self.watchdog.mark(self.step, 0)
            self.saved = time.monotonic()
        self.clock += time.monotonic() - paused
        if self.stopping and self.step < self.target:
            state.stop_training()

    def _lasting(self) -> bool:
        """Return whether this step stays: where other stages branch off, too, so that the log does not depend on
        which model was trained first."""
        return self.step == self.target or self.step in self.stage.keep

    def _wants_to_stop(self) -> bool:
        """Return whether a signal came or, on the first rank and checked once a second, the stop file exists."""
        stop_file = self.context.stop_file
        if stop_file is not None and not self.ranks.rank and time.monotonic() > self.stop_file_checked + 1:
            self.stop_file_checked = time.monotonic()
            if stop_file.exists():
                return True
        return bool(self.signals)

    def _wants_to_save(self) -> bool:
        """Return whether the first rank's clock says that a checkpoint is due."""
        minutes = self.config.save_minutes
        return bool(minutes) and not self.ranks.rank and time.monotonic() > self.saved + 60 * minutes

    def _log_until(self, start: checkpoints.Checkpoint | None) -> int | None:
        """Return the step after which the log's rows go, since they are written again; None where they stay."""
        saved = checkpoints.checkpoint_steps(self.folder)
        if not saved:
            return -1
        return saved[-1].step if saved[-1] == start else None

    def _measured(self) -> Row:
        """Return what was measured on the clock since the last time, of all ranks."""
        now = time.monotonic()
        speed = self.since / (now - self.clock)
        self.clock, self.since = now, 0
        flops = model_flops_per_token(
            self.context.shape,
            length=self.config.sequences.attended_length,
            predicted=self.stage.predicted_share,
        )
        used = mfu(speed, flops, self.ranks.device_name, self.ranks.world)
        measured: Row = {
            "tokens_per_second": speed,
            "memory_gb": self.ranks.peak_memory(),
            "device": self.ranks.device_name,
            "processes": self.ranks.world,
        }
        if self.ranks.world > 1 and self.own_time.steps >= _STEPS_BY_RANK:
            measured["seconds_by_rank"] = self.own_time.by_rank(self.stage.name, self.step)
        return measured if used is None else measured | {"mfu": used}

    def _save(self) -> None:
        """Have the checkpoint written while training continues, and those no longer needed removed."""
        state = {
            "stage": self.stage.name,
            "objective": self.stage.objective,
            "ratio": self.stage.ratio,
            "tokens": self.tokens,
            "precision": "bf16" if self.context.bf16 else "fp32",
            "compile": self.compiled,
            "attention": self.attention,
            **self.context.identity(self.stage),
            "interventions": self.config.interventions(self.step),
        }
        writer, keep = self.writer, self.stage.keep
        gather_state(self.optimizer)
        self._agree(
            None if writer is None else writer.begin(self.step, self.model, self.optimizer, state, keep)
        )

    def _agree(self, error: UserError | OSError | None) -> None:
        """End on all processes where the first one could not write a checkpoint."""
        if self.ranks.total(float(error is not None))[0]:
            raise error or UserError(
                f"the first process could not write a checkpoint at or before step {self.step}"
            )

    def _say_what_is_saved(self) -> None:
        if self.writer is None:
            return
        self.writer.finish()
        saved = checkpoints.latest(self.folder, self.target)
        logger.warning(
            "%s: interrupted after step %d; %s; run the same command to resume", self.stage.name, self.step,
            "no checkpoint has been saved yet" if saved is None else f"step {saved.step} is saved in {saved.path}",
        )  # fmt: skip

    def _batch(self, step: int) -> StepBatch:
        stage, ranks, data = self.stage, self.ranks, self.stage_data
        number = self.config.batch_number(step, self.spans)
        data.open_ahead(number, ranks.local_rank, ranks.local_world)
        ratio = stage.ratio_at(step)
        batch = data.step(number, stage.objective, ratio, rank=ranks.rank, world=ranks.world)
        return replace(batch, step=step, microbatches=[self._shaped(part) for part in batch.microbatches])

    def _shaped(self, part: ObjectiveBatch) -> ObjectiveBatch:
        return part.padded(*self.config.pass_multiples) if self.fixed_shapes else part

    def _announce_epochs(self) -> None:
        """Say at which step the next epoch begins, and in which the stage ends."""
        each = self.stage_data.order.steps_per_epoch
        steps = range(self.step, self.target)
        epochs = [self.config.batch_number(step, self.spans) // each + 1 for step in steps]
        later = [(step, epoch) for step, epoch in enumerate(epochs, self.step) if epoch > epochs[0]]
        if later:
            logger.warning(
                "%s: the shards last for %s steps; at step %d epoch %d begins, and the stage ends in epoch %d",
                self.stage.name, f"{each:,}", *later[0], epochs[-1],
            )  # fmt: skip

    def _starts_with_validation(self) -> bool:
        """Return whether to validate before the first step: not where the parent's objective continues."""
        if not self.config.eval_sequences:
            return False
        if self.stage.parent is None:
            return True
        parent = self.context.plan.stage(self.stage.parent)
        before, now = ((of.objective, of.lasting_ratio, of.data) for of in (parent, self.stage))
        return before != now

    def _validate(self) -> float:
        """Log the loss on the validation split at its fixed masks and return it."""
        stage, ranks = self.stage, self.ranks
        batches = self.stage_data.validation(
            stage.objective, stage.lasting_ratio, rank=ranks.rank, world=ranks.world
        )
        self.model.eval()
        total = count = 0.0
        with torch.no_grad(), torch.autocast(ranks.device.type, torch.bfloat16, enabled=self.context.bf16):
            for batch in batches:
                part = loss_sum(self.model, self._shaped(batch).to(ranks.device))
                total, count = total + float(part.total), count + part.count
                self.watchdog.mark(self.step, 0)
        self.model.train()
        total, count = ranks.total(total, count)
        loss = total / max(count, 1)
        self._write("validation", {"loss": loss, "predicted": int(count)})
        return loss

    def _write(self, split: str, row: Row) -> None:
        if self.log is not None:
            stage = self.stage
            ratio = stage.ratio_at(self.step - 1) if split == "train" else stage.lasting_ratio
            of_stage = {"objective": stage.objective, "ratio": ratio, "stage": stage.name}
            self.log.write({"step": self.step, "split": split} | of_stage | row | {"tokens": self.tokens})


def build_model(context: TrainingContext, *, is_seeded: bool) -> tuple[Trained, str]:
    """Return a model on the context's device as the settings want it, and its attention backend.

    Args:
        context: settings and device.
        is_seeded: give it the start's weights, or the seed's; others are going to be loaded.
    """
    config, device = context.config, context.ranks.device
    model: Trained
    if context.start is not None:
        rows = context.data.manifest["tokenizer"]["vocab_size"]
        model = load_start(context.start, rows, config.seed).train()
    else:
        model = EuroBertForMaskedLM(context.model_config)
        if is_seeded:
            initialise(model, config.seed)
    model.to(device)
    dtype = torch.bfloat16 if context.bf16 else torch.float32
    if isinstance(model, EuroBertForMaskedLM):
        model.fuse_projections(device.type == "cuda")
        model.body.residual_is_narrow = config.residual == "bf16"
        head_dim = model.config.head_dim
    else:
        head_dim = model.head_dim
    attention = resolve_backend(config.backend, device, dtype, head_dim).name
    model.set_attention_backend(attention)
    return model, attention


def compile_model(model: Trained, batch: Callable[[], ObjectiveBatch], context: TrainingContext) -> str:
    """Compile the blocks where that is wanted and works; return `on`, `off` or why it is off.

    Args:
        model: on its device.
        batch: gives one pass to try; gradients are zero afterwards.
        context: settings and device.

    Raises:
        torch.OutOfMemoryError: the pass does not fit.
    """
    wanted, device = context.config.compile, context.ranks.device
    if wanted == "off" or (wanted == "auto" and device.type != "cuda") or isinstance(model, AdaptedModel):
        return "off"
    tuned = {"coordinate_descent_tuning": True} if context.config.compile == "tuned" else None
    model.compile_blocks(options=tuned)
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=context.bf16):
            loss_sum(model, batch().to(device)).mean.backward()  # type: ignore[no-untyped-call]
    except torch.OutOfMemoryError:
        raise  # no fault of the compiler, and less would fit without it
    except RuntimeError as error:  # what Dynamo, Inductor and Triton raise is derived from it
        model.uncompile_blocks()
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = lines[0][:200]
        logger.warning("torch.compile failed (%s); training continues without it", reason)
        return f"off: {reason}"
    finally:
        model.zero_grad(set_to_none=True)
    return "on"
