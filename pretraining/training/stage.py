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
from dataclasses import dataclass, field

import torch
from composer import Trainer
from composer.core import Callback, State, Timestamp
from composer.loggers import Logger

from common.errors import UserError, first_line
from common.processes import AGAIN
from common.progress import Meter
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
from pretraining.training.dataloader import StageBatches, StepBatch, prefetched
from pretraining.training.log import LOG, LogWriter
from pretraining.training.network import build_model, compile_model
from pretraining.training.objectives import ObjectiveBatch
from pretraining.training.optimizer import (
    build_optimizer,
    gather_state,
    rates_by_step,
    stage_schedule,
)
from pretraining.training.requests import Requests
from pretraining.training.validation import (
    log_cpu_time,
    starts_with_validation,
    validation_sums,
)
from pretraining.training.watchdog import Speed, Watchdog

logger = logging.getLogger(__name__)

LogRow = dict[str, float | int | str]
"""A row of the log, with what was measured on the clock."""
EARLIER = "earlier_precision"
"""Key of a checkpoint and a model: the other precision in which it was trained up to a step, by that step."""
_LOST = ("gloo/transport", "remote process exited")
"""What gloo and NCCL say where the other end of a connection is gone."""


@dataclass(kw_only=True)
class StageProgress:
    """What has been done of a stage, with its last update."""

    step: int = 0
    """Updates, counted from the start of pretraining."""
    tokens: int = 0
    """Tokens of all ranks that they were trained on."""
    rate: float = 0.0
    """Learning rate of the last one."""
    norm: torch.Tensor = field(default_factory=lambda: torch.zeros(()))
    """Norm of its gradient before it was clipped, ()."""


class _StopUpdateError(Exception):
    """Somebody asks to stop while an update is being made: it is dropped, and made again when training resumes."""


class StageTraining(Callback):  # type: ignore[misc]  # composer is untyped
    """One stage being trained; Composer calls it around every update."""

    data: StepData
    """Made by `run`, as `speed` by `_fit`: both begin with the first update."""
    speed: Speed
    update: StepBatch
    """What the update that is being made is trained on."""

    def __init__(
        self, context: TrainingContext, stage: PlannedStage, target: int
    ) -> None:
        """Take weights and the optimizer's state of the last checkpoint, or the weights of the start or the seed."""
        checkpoint = context.resume_point(stage, target)
        config, ranks = context.config, context.ranks
        self.context, self.stage, self.target = context, stage, target
        self.model, attention = build_model(context, is_seeded=checkpoint is None)
        self.optimizer = build_optimizer(
            self.model, config, ranks.device, processes=ranks.world
        )
        self.done, self.stopped = StageProgress(), False
        if checkpoint is not None:
            checkpoints.restore(checkpoint, self.model, self.optimizer)
            state = checkpoints.load_state(checkpoint)
            self.done = StageProgress(step=checkpoint.step, tokens=int(state["tokens"]))
        self.computed = {
            "precision": "bf16" if context.bf16 else "fp32",
            "compile": "off",
            "attention": attention,
        }
        self.earlier = {} if checkpoint is None else dict(state.get(EARLIER, {}))
        if checkpoint is not None and state["precision"] != self.computed["precision"]:
            self.earlier[str(checkpoint.step)] = state["precision"]
        spans = context.plan.steps_on_its_data(stage)
        self.batches = StageBatches(
            context.data_of(stage), stage, config, ranks, spans=spans
        )
        self.log: LogWriter | None = None
        self.writer: checkpoints.CheckpointWriter | None = None
        # The first rank alone writes, looks for the stop file and keeps time; the others hear of it (`StepData.sums`).
        is_first = ranks.rank == 0
        self.requests = Requests(
            stage.name,
            stop_file=context.stop_file if is_first else None,
            minutes=config.record.save_minutes if is_first else 0,
        )
        self.folder = context.folder(stage.name)
        if is_first:
            # The checkpoint of a parent, where the stage begins, speaks of the parent's log.
            is_own = checkpoint is not None and checkpoint.path.parent == self.folder
            recorded = state.get(checkpoints.LOG_RECORD) if is_own else None
            self.log = LogWriter(
                self.folder / LOG, self._log_until(checkpoint), recorded
            )
            # A CPU would hold weights and moments twice, and has no time to win.
            self.writer = checkpoints.CheckpointWriter(
                self.folder, self.log.sync, background=ranks.device.type == "cuda"
            )
        self.watchdog = Watchdog(
            ranks, f"{stage.name}@{self.done.step}", 60 * config.machine.timeout_minutes
        )
        self.without_target = set[str]()
        self.first, self.saved = self.done.step, self.done.step
        self.passes, self.pass_began = 0, 0.0
        """Passes of the update that is being made, and when the last one began."""
        self.meter = Meter(stage.name, target, done=self.done.step, unit="step")

    def run(self) -> bool:
        """Train to the target; return whether it was reached and nobody asked to stop.

        SIGTERM, SIGUSR1 and the first Ctrl-C of any rank, and the stop file, end it with a checkpoint: after the
        current update, on a CPU after the current pass, whose update is made again later.

        Raises:
            KeyboardInterrupt: after Ctrl-C, once saved. The other requests return False, for which the command's exit
                code asks to be started again.
            UserError: a loss or a gradient that is not finite, a disk without room, or Weights & Biases cannot be
                reached.
        """
        first, name, config = self.done.step, self.stage.name, self.context.config
        logger.info(
            "%s: step %d to %d, attention %s, microbatch %d",
            name,
            first,
            self.target,
            self.computed["attention"],
            config.batches.microbatch,
        )
        self.batches.announce_epochs(first, self.target)
        batches = prefetched(self.batches.of_step, first, self.target)
        try:
            with self.meter:
                self.computed["compile"] = compile_model(
                    self.model,
                    lambda: self.batches.of_step(first).microbatches[0],
                    self.context,
                )
                self.data = StepData(
                    batches,
                    self.context.ranks,
                    weighting=config.batches.weighting,
                    stop=self.requests.stop,
                    save=self.requests.save,
                )
                with self.requests.taken():
                    self._validate_and_fit()
                    # All ranks end where the first could not write its last checkpoint.
                    self._agree(None if self.writer is None else self.writer.finish())
            if signal.SIGINT in self.requests.signals:
                raise KeyboardInterrupt
        except (
            KeyboardInterrupt,
            SystemExit,
        ) as ended:  # Composer makes the second of the first
            if getattr(ended, "code", None) == AGAIN:
                raise  # `_fit` has said why
            self._say_what_is_saved()
            raise KeyboardInterrupt from None
        finally:
            batches.close()
            if self.writer is not None:
                self.writer.finish()
            if self.log is not None:
                self.log.close()
        # One that came too late for the ranks' last sum ends the command here, before the next stage or the export.
        stopped = (
            self.stopped or self.context.ranks.total(float(self.requests.stop()))[0] > 0
        )
        if stopped:
            where = f"and saved at step {self.done.step}"
            if not self.done.step:
                where = "before the first step was over"
            logger.info("%s: stopped %s; run the same command to resume", name, where)
        return not stopped

    def _validate_and_fit(self) -> None:
        """Make the updates up to the target, after the validation that is due before them."""
        if starts_with_validation(
            self.context, self.stage, self.first, is_milestone=self._lasting()
        ):
            try:
                self._validate()
            except _StopUpdateError:
                self.stopped = True
                return
        # A stage that was stopped in its last validation has no update left.
        if self.done.step < self.target:
            self._fit()

    def _fit(self) -> None:
        """Have Composer's trainer make the updates up to the target; comments say what its arguments are for."""
        config, ranks, stage, first = (
            self.context.config,
            self.context.ranks,
            self.stage,
            self.done.step,
        )
        schedule = stage_schedule(
            self.context.plan.study.model(stage.models[0]), stage, config.optimizer
        )
        added = additions(config, stage.name, self.folder / "tensorboard", ranks.rank)
        with contextlib.ExitStack() as stack:
            stack.enter_context(quiet_libraries())
            trainer = Trainer(
                # What is trained, on which batches, up to which update.
                model=PretrainingModel(self.model),
                train_dataloader=self.data,
                max_duration=f"{self.target}ba",
                # The first batch is that of the step to come: there are none before it to run through.
                spin_dataloaders=False,
                # AdamW with the state of the checkpoint, and the rate of each update, not of each epoch.
                optimizers=self.optimizer,
                schedulers=rates_by_step(self.optimizer, schedule, first, self.target),
                step_schedulers_every_batch=True,
                # Clipping, the log, validation and checkpoints are this object; the rest is what settings add.
                callbacks=[
                    BucketViews(config.batches.gradients),
                    self,
                    *added["callbacks"],
                ],
                algorithms=added["algorithms"],
                loggers=added["loggers"],
                run_name=stage.name,
                progress_bar=False,
                # float32 weights, and autocast in their passes.
                device="gpu" if ranks.device.type == "cuda" else "cpu",
                precision="amp_bf16" if self.context.bf16 else "fp32",
                # Not read: the data loader has made the passes (`StepData`).
                device_train_microbatch_size=1,
                # Passes are averaged by their "tokens that generate loss", which are 1 for each (`StepData`).
                accumulate_train_batch_on_tokens=True,
                # Of Python, NumPy and torch, for algorithms: batches, masks and weights have generators of their own.
                seed=config.seed,
                # As in `Ranks.here`.
                dist_timeout=120 * config.machine.timeout_minutes,
            )
            stack.callback(close, trainer)
            # Its clock, which would begin at zero: `max_duration`, callbacks and dashboards count from random weights.
            trainer.state.timestamp = Timestamp(batch=first, token=self.done.tokens)
            stack.enter_context(self.watchdog)
            self.speed = Speed()
            try:
                trainer.fit()
            except _StopUpdateError:
                self.model.zero_grad(set_to_none=True)
                self.stopped = True
                if self.done.step > self.saved:
                    self._save()
            except RuntimeError as error:
                if not any(words in str(error) for words in _LOST):
                    raise
                logger.error(
                    "%s: another process of this job has ended, or does not answer, after step %d (%s); this one ends "
                    "with exit code %d; the same command resumes from the last checkpoint",
                    stage.name,
                    self.done.step,
                    first_line(error),
                    AGAIN,
                )
                raise SystemExit(AGAIN) from None

    def batch_start(self, state: State, logger: Logger) -> None:
        """Note the rate of the update to come: at its end the optimizer has the next one's."""
        del logger
        assert state.batch.step == self.done.step
        self.done.rate = state.optimizers[0].param_groups[0]["lr"]
        self.update, self.passes = state.batch, 0
        self.watchdog.mark(self.done.step, 1)

    def before_forward(self, state: State, logger: Logger) -> None:
        """Drop an update on a CPU where somebody asks to stop: its passes take seconds, all of them minutes."""
        del state, logger
        self.passes, self.pass_began = self.passes + 1, time.monotonic()
        is_cpu = self.context.ranks.device.type == "cpu"
        if is_cpu and self._is_stopped_after(
            self.passes - 1, self.update.common_passes
        ):
            raise _StopUpdateError

    def _is_stopped_after(self, number: int, common: int) -> bool:
        """Return whether any rank is asked to stop; False behind the passes that all have.

        Args:
            number: of the pass on this rank, from 0.
            common: passes that every rank has.
        """
        # The ranks wait for each other here, so all have to ask equally often.
        if number >= common:
            return False
        return self.context.ranks.total(float(self.requests.stop()))[0] > 0

    def after_backward(self, state: State, logger: Logger) -> None:
        """Say after the first pass how long the others take."""
        del state, logger
        if self.done.step == self.first and self.passes == 1:
            seconds = time.monotonic() - self.pass_began
            self._say_how_long("pass", seconds, self.update.microbatches[0])

    def before_backward(self, state: State, logger: Logger) -> None:
        """Note how far this process came by itself: the last backward pass waits for the others."""
        del state, logger
        self.watchdog.mark(self.done.step, 2)

    def after_train_batch(self, state: State, logger: Logger) -> None:
        """Clip the whole gradient; Composer's own clipping does not report its norm.

        Where a step has nothing to predict there is no gradient: without one, the optimizer leaves weights and
        moments alone.
        """
        del logger
        # Whoever has a target need not wait for the sum over all processes.
        if not self.update.counts.any() and not self.data.sums().predicted:
            state.optimizers[0].zero_grad(set_to_none=True)
            return
        most = self.context.config.optimizer.clip_norm
        self.done.norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), most)

    def batch_end(self, state: State, logger: Logger) -> None:
        """Log an update, and validate when it is time."""
        done, config = self.done, self.context.config.record
        # Composer's clock has counted this update, so that the first one ends as step 1.
        tokens_before, done.tokens = done.tokens, int(state.timestamp.token)
        done.step = int(state.timestamp.batch)
        loss, norm = float(state.total_loss_dict["loss/train/total"]), float(done.norm)
        sums = self.data.sums()
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise UserError(
                f"the loss at step {done.step} is {loss} and the gradient norm is {norm}; "
                + (
                    "at the first step, the weights to start from are not finite or the rate is far too high"
                    if done.step == 1
                    else "earlier checkpoints are untouched; to resume from the last one, rerun the command with one "
                    f"change, for example --set skip={done.step - 1}:10 (skips ten batches)"
                )
            )
        self.watchdog.mark(done.step, 0)
        self.speed.count(done.tokens - tokens_before)
        row: LogRow = {
            "loss": loss,
            "lr": done.rate,
            "grad_norm": norm,
            "predicted": sums.predicted,
            "batch": f"{sums.fingerprint:016x}",
        }
        if not sums.predicted:
            del row["loss"], row["grad_norm"]
            self._say_no_target("step")
        if done.step % config.log_every == 0 or done.step == self.target:
            row |= self._measured()
            self._write("train", row)
        if self.context.ranks.rank == 0:
            speed = (
                f", {row['tokens_per_second']:,.0f} tokens/s"
                if "tokens_per_second" in row
                else ""
            )
            words = f"loss {loss:.3f}" if sums.predicted else "no target"
            share = f", MFU {row['mfu']:.1%}" if "mfu" in row else ""
            self.meter.update(done.step, f"{words}, rate {done.rate:.3g}{speed}{share}")
        metrics = {
            key: value for key, value in row.items() if isinstance(value, float | int)
        }
        if config.eval_sequences and (
            done.step % config.eval_every == 0 or self._lasting()
        ):
            with self.speed.paused():
                validation_loss = self._validate()
            if validation_loss is not None:
                metrics["validation_loss"] = validation_loss
        logger.log_metrics(
            {f"{self.stage.objective}/{key}": value for key, value in metrics.items()}
        )

    def _say_how_long(self, what: str, seconds: float, batch: ObjectiveBatch) -> None:
        """Log how long a start's updates take on a CPU."""
        log_cpu_time(
            self.context, self.stage.name, self.done.step, what, seconds, batch
        )

    def batch_checkpoint(self, state: State, logger: Logger) -> None:
        """Save when it is time or somebody asks to stop, and then stop."""
        del logger
        step = self.done.step
        sums = self.data.sums()
        stopping = sums.stop
        if self.context.ranks.world == 1:
            # Nobody else has to agree, so a signal that came meanwhile counts.
            stopping = stopping or self.requests.stop()
        if (
            stopping
            or sums.save
            or step % self.context.config.record.save_every == 0
            or self._lasting()
        ):
            with self.speed.paused():
                self._save()
            self.watchdog.mark(step, 0)
            self.requests.saved()
        self.stopped = stopping
        if stopping and step < self.target:
            state.stop_training()

    def _lasting(self) -> bool:
        """Return whether this step gets a validation and a checkpoint that stays: the target, and where other stages
        branch off, so that the log does not depend on which model was trained first."""
        return self.done.step == self.target or self.done.step in self.stage.keep

    def _log_until(self, checkpoint: checkpoints.Checkpoint | None) -> int | None:
        """Return the step after which the log's rows go, since they are written again; None where they stay."""
        saved = checkpoints.checkpoint_steps(self.folder)
        if not saved:
            return -1
        # The rows after an older checkpoint belong to the newer ones, which stay.
        return saved[-1].step if saved[-1] == checkpoint else None

    def _measured(self) -> LogRow:
        """Return what was measured on the clock since the last time, of all ranks together."""
        ranks, speed = self.context.ranks, self.speed.tokens_per_second()
        flops = model_flops_per_token(
            self.context.shape,
            length=self.context.config.sequences.attended_length,
            predicted=self.stage.predicted_share,
        )
        utilisation = mfu(speed, flops, ranks.device_name, ranks.world)
        measured: LogRow = {
            "tokens_per_second": speed,
            "memory_gb": ranks.peak_memory(),
            "device": ranks.device_name,
            "processes": ranks.world,
        }
        return measured if utilisation is None else measured | {"mfu": utilisation}

    def _save(self) -> None:
        """Have the checkpoint written, on a GPU while training continues, and those no longer needed removed."""
        step, stage, writer = self.done.step, self.stage, self.writer
        state = {
            "stage": stage.name,
            "objective": stage.objective,
            "ratio": stage.ratio,
            "tokens": self.done.tokens,
            **self.computed,
            **({EARLIER: self.earlier} if self.earlier else {}),
            **self.context.identity(stage),
            "interventions": self.context.config.interventions(step),
            **({} if self.log is None else {checkpoints.LOG_RECORD: self.log.record()}),
        }
        gather_state(self.optimizer)
        self._agree(
            None
            if writer is None
            else writer.begin(step, self.model, self.optimizer, state, stage.keep)
        )
        self.saved = step

    def _agree(self, error: UserError | OSError | None) -> None:
        """End on all processes where the first one could not write a checkpoint."""
        if self.context.ranks.total(float(error is not None))[0]:
            raise error or UserError(
                f"the first process could not write a checkpoint at or before step {self.done.step}"
            )

    def _say_what_is_saved(self) -> None:
        """Warn of an interruption: from which step the same command resumes; the first rank alone."""
        if self.writer is None:
            return
        self.writer.finish()
        saved = checkpoints.latest(self.folder, self.target)
        logger.warning(
            "%s: interrupted after step %d; %s; run the same command to resume",
            self.stage.name,
            self.done.step,
            "no checkpoint has been saved yet"
            if saved is None
            else f"step {saved.step} is saved in {saved.path}",
        )

    def _validate(self) -> float | None:
        """Log the loss on the validation split at its fixed masks and return it; None where nothing is masked."""

        def after_pass(number: int, seconds: float, batch: ObjectiveBatch) -> None:
            self.watchdog.mark(self.done.step, 0)
            if number == 0 and self.done.step == self.first:
                # The backward pass costs twice the forward one, which is all of a validation's.
                self._say_how_long("pass of a validation", 3 * seconds, batch)
            if self._is_stopped_after(number, self.batches.validation_passes):
                raise _StopUpdateError

        sums = validation_sums(self.model, self.batches, self.context, after_pass)
        if not sums.predicted:
            self._say_no_target("validation")
            self._write("validation", {"predicted": 0})
            return None
        loss = sums.total / sums.predicted
        self._write("validation", {"loss": loss, "predicted": sums.predicted})
        if self.context.start is not None:
            logger.info(
                "%s: validation loss %.3f after step %d, at %g %%",
                self.stage.name,
                loss,
                self.done.step,
                self.stage.lasting_ratio or 0,
            )
        return loss

    def _say_no_target(self, what: str) -> None:
        """Warn that there was nothing to predict: once of steps, once of validations."""
        if what not in self.without_target:
            self.without_target.add(what)
            logger.warning(
                "%s: after step %d, a %s has no token to predict, so it changes nothing and the log has no loss of it; "
                "give longer sequences, more of them, or a higher masking ratio",
                self.stage.name,
                self.done.step,
                what,
            )

    def _write(self, split: str, row: LogRow) -> None:
        """Write a row of the log, with what each has of its stage; the first rank alone."""
        if self.log is not None:
            stage, step = self.stage, self.done.step
            ratio = (
                stage.ratio_at(step - 1) if split == "train" else stage.lasting_ratio
            )
            of_stage = {
                "objective": stage.objective,
                "ratio": ratio,
                "stage": stage.name,
            }
            self.log.write(
                {"step": step, "split": split}
                | of_stage
                | row
                | {"tokens": self.done.tokens}
            )
