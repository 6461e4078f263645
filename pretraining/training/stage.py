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
from typing import Any

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
EARLIER_PRECISION = "earlier_precision"
"""Key of a checkpoint and a model: the other precision in which it was trained up to a step, by that step."""
_LOST = ("gloo/transport", "remote process exited")
"""What gloo and NCCL say where the other end of a connection is gone."""


@dataclass(kw_only=True)
class StageProgress:
    """How far a stage is, with its last update."""

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
        config, ranks = context.config, context.ranks
        self.context, self.stage, self.target = context, stage, target
        self.folder = context.folder(stage.name)

        # Model and optimizer, as far as they are trained.
        checkpoint = context.resume_point(stage, target)
        self.model, attention = build_model(context, is_seeded=checkpoint is None)
        self.optimizer = build_optimizer(
            self.model, config, ranks.device, processes=ranks.world
        )
        state: dict[str, Any] = {}
        self.progress = StageProgress()
        if checkpoint is not None:
            checkpoints.restore(checkpoint, self.model, self.optimizer)
            state = checkpoints.load_state(checkpoint)
            self.progress.step = checkpoint.step
            self.progress.tokens = int(state["tokens"])
        self.resume_step = self.saved_step = self.progress.step
        self.is_stopped = False

        # Everything on which the last bits of results depend is recorded in each checkpoint.
        precision = "bf16" if context.bf16 else "fp32"
        self.numerics = {
            "precision": precision,
            "compile": "off",
            "attention": attention,
        }
        self.earlier_precision = dict(state.get(EARLIER_PRECISION, {}))
        if checkpoint is not None and state["precision"] != precision:
            self.earlier_precision[str(checkpoint.step)] = state["precision"]

        spans = context.plan.steps_on_its_data(stage)
        self.batches = StageBatches(
            context.data_of(stage), stage, config, ranks, spans=spans
        )

        # Only the first rank writes, looks for the stop file and keeps time; the others hear of it (`StepData.sums`).
        is_first = ranks.rank == 0
        self.requests = Requests(
            stage.name,
            stop_file=context.stop_file if is_first else None,
            minutes=config.record.save_minutes if is_first else 0,
        )
        self.log: LogWriter | None = None
        self.writer: checkpoints.CheckpointWriter | None = None
        if is_first:
            recorded = None
            # A parent's checkpoint, from which the stage begins, records the parent's log, not this stage's.
            if checkpoint is not None and checkpoint.path.parent == self.folder:
                recorded = state.get(checkpoints.LOG_RECORD)
            last_row = self._last_step_of_log(checkpoint)
            self.log = LogWriter(self.folder / LOG, last_row, recorded)
            # Only on a GPU: on a CPU a copy of weights and moments would double their memory and gain no time.
            is_background = ranks.device.type == "cuda"
            self.writer = checkpoints.CheckpointWriter(
                self.folder, self.log.sync, background=is_background
            )

        watched = f"{stage.name}@{self.resume_step}"
        self.watchdog = Watchdog(ranks, watched, 60 * config.machine.timeout_minutes)
        self.meter = Meter(stage.name, target, done=self.resume_step, unit="step")
        self.passes = 0
        """Passes of the update that is being made."""
        self.pass_began = 0.0
        """When the last one began."""
        self.warned_of = set[str]()
        """What has had no token to predict, and was warned of."""

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
        first, name, config = self.resume_step, self.stage.name, self.context.config
        logger.info(
            "%s: step %d to %d, attention %s, microbatch %d",
            name,
            first,
            self.target,
            self.numerics["attention"],
            config.batches.microbatch,
        )
        self.batches.announce_epochs(first, self.target)
        batches = prefetched(self.batches.of_step, first, self.target)
        try:
            with self.meter:
                self.numerics["compile"] = compile_model(
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
                with self.requests.listening():
                    self._validate_and_fit()
                    # If the first rank could not write its last checkpoint, all ranks end.
                    self._agree(None if self.writer is None else self.writer.finish())
            if signal.SIGINT in self.requests.signals:
                raise KeyboardInterrupt
        # Composer turns a KeyboardInterrupt into a SystemExit.
        except (KeyboardInterrupt, SystemExit) as error:
            if getattr(error, "code", None) == AGAIN:
                raise  # `_fit` has said why
            self._say_what_is_saved()
            raise KeyboardInterrupt from None
        finally:
            batches.close()
            if self.writer is not None:
                self.writer.finish()
            if self.log is not None:
                self.log.close()
        # A request that came too late for the ranks' last sum ends the command here, before the next stage or the
        # export.
        if not self.is_stopped:
            self.is_stopped = self._is_any_stopped()
        if self.is_stopped:
            where = f"and saved at step {self.progress.step}"
            if not self.progress.step:
                where = "before the first step was over"
            logger.info("%s: stopped %s; run the same command to resume", name, where)
        return not self.is_stopped

    def _validate_and_fit(self) -> None:
        """Make the updates up to the target, after the validation that is due before them."""
        if starts_with_validation(
            self.context,
            self.stage,
            self.resume_step,
            is_milestone=self._is_milestone(),
        ):
            try:
                self._validate()
            except _StopUpdateError:
                self.is_stopped = True
                return
        # A stage that was stopped in its last validation has no update left.
        if self.progress.step < self.target:
            self._fit()

    def _fit(self) -> None:
        """Have Composer's trainer make the updates up to the target; comments say what its arguments are for."""
        config, ranks, stage = self.context.config, self.context.ranks, self.stage
        first = self.resume_step
        model = self.context.plan.study.model(stage.models[0])
        schedule = stage_schedule(model, stage, config.optimizer)
        added = additions(config, stage.name, self.folder / "tensorboard", ranks.rank)
        views = BucketViews(config.batches.gradients)
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
                callbacks=[views, self, *added.callbacks],
                algorithms=added.algorithms,
                loggers=added.loggers,
                run_name=stage.name,
                progress_bar=False,
                # float32 weights, and autocast in their passes.
                device="gpu" if ranks.device.type == "cuda" else "cpu",
                precision="amp_bf16" if self.context.bf16 else "fp32",
                # Not used: the data loader has made the passes (`StepData`).
                device_train_microbatch_size=1,
                # Passes are averaged by their "tokens that generate loss", which are 1 for each (`StepData`).
                accumulate_train_batch_on_tokens=True,
                # Seeds Python, NumPy and torch for algorithms; batches, masks and weights have their own generators.
                seed=config.seed,
                # The same timeout as in `Ranks.here`.
                dist_timeout=120 * config.machine.timeout_minutes,
            )
            stack.callback(close, trainer)
            # The trainer's clock would begin at 0; `max_duration`, callbacks and dashboards count from random weights.
            trainer.state.timestamp = Timestamp(batch=first, token=self.progress.tokens)
            stack.enter_context(self.watchdog)
            self.speed = Speed()
            try:
                trainer.fit()
            except _StopUpdateError:
                self.model.zero_grad(set_to_none=True)
                self.is_stopped = True
                if self.progress.step > self.saved_step:
                    self._save()
            except RuntimeError as error:
                if not any(words in str(error) for words in _LOST):
                    raise
                logger.error(
                    "%s: another process of this job has ended, or does not answer, after step %d (%s); this one ends "
                    "with exit code %d; the same command resumes from the last checkpoint",
                    stage.name,
                    self.progress.step,
                    first_line(error),
                    AGAIN,
                )
                raise SystemExit(AGAIN) from None

    # Every update: Composer calls these in this order, the three about passes once a pass.

    def batch_start(self, state: State, logger: Logger) -> None:
        """Note the rate of the update to come: at its end the optimizer has the next one's."""
        del logger
        assert state.batch.step == self.progress.step
        self.progress.rate = state.optimizers[0].param_groups[0]["lr"]
        self.update, self.passes = state.batch, 0
        self.watchdog.mark(self.progress.step, 1)

    def before_forward(self, state: State, logger: Logger) -> None:
        """Drop a CPU's update when somebody asks to stop: one pass takes seconds, the whole update minutes."""
        del state, logger
        finished_passes = self.passes
        self.passes += 1
        self.pass_began = time.monotonic()
        if self.context.ranks.device.type != "cpu":
            return
        if self._is_stopped_after(finished_passes, self.update.common_passes):
            raise _StopUpdateError

    def before_backward(self, state: State, logger: Logger) -> None:
        """Note how far this process came by itself: the last backward pass waits for the others."""
        del state, logger
        self.watchdog.mark(self.progress.step, 2)

    def after_backward(self, state: State, logger: Logger) -> None:
        """Say after the first pass how long the others take."""
        del state, logger
        if self.progress.step == self.resume_step and self.passes == 1:
            seconds = time.monotonic() - self.pass_began
            self._say_how_long("pass", seconds, self.update.microbatches[0])

    def after_train_batch(self, state: State, logger: Logger) -> None:
        """Clip the whole gradient; Composer's own clipping does not report its norm.

        Where a step has nothing to predict there is no gradient: without one, the optimizer changes neither
        weights nor moments.
        """
        del logger
        # Only a rank without a target needs the sum over all ranks, for which it has to wait.
        if not self.update.counts.any() and not self.data.sums().predicted:
            state.optimizers[0].zero_grad(set_to_none=True)
            return
        parameters = self.model.parameters()
        clip_norm = self.context.config.optimizer.clip_norm
        self.progress.norm = torch.nn.utils.clip_grad_norm_(parameters, clip_norm)

    def batch_end(self, state: State, logger: Logger) -> None:
        """Log an update, and validate when it is time."""
        # What the update did. A loss that is not finite ends training before anything is written.
        progress, record = self.progress, self.context.config.record
        tokens_before = progress.tokens
        # Composer's clock has counted this update, so that the first one ends as step 1.
        progress.step = int(state.timestamp.batch)
        progress.tokens = int(state.timestamp.token)
        loss = float(state.total_loss_dict["loss/train/total"])
        norm = float(progress.norm)
        sums = self.data.sums()
        self._check_finite(loss, norm)
        self.watchdog.mark(progress.step, 0)
        self.speed.count(progress.tokens - tokens_before)
        row: LogRow = {
            "loss": loss,
            "lr": progress.rate,
            "grad_norm": norm,
            "predicted": sums.predicted,
            "batch": f"{sums.fingerprint:016x}",
        }
        if not sums.predicted:
            del row["loss"], row["grad_norm"]
            self._say_no_target("step")

        # Once in a while: the log.
        if progress.step % record.log_every == 0 or progress.step == self.target:
            row |= self._timings()
            self._write("train", row)
        if self.context.ranks.rank == 0:
            self.meter.update(progress.step, self._summary(row))
        metrics = {
            key: value for key, value in row.items() if isinstance(value, float | int)
        }

        # Once in a while: validation.
        is_due = progress.step % record.eval_every == 0 or self._is_milestone()
        if record.eval_sequences and is_due:
            with self.speed.paused():
                validation_loss = self._validate()
            if validation_loss is not None:
                metrics["validation_loss"] = validation_loss

        # Dashboards get every step. A curve for each objective, since losses of CLM and MLM do not compare.
        objective = self.stage.objective
        logger.log_metrics(
            {f"{objective}/{key}": value for key, value in metrics.items()}
        )

    def batch_checkpoint(self, state: State, logger: Logger) -> None:
        """Save when it is time or somebody asks to stop, and then stop."""
        del logger
        step = self.progress.step
        sums = self.data.sums()
        is_stopped = sums.stop
        if self.context.ranks.world == 1:
            # A single rank need not agree with others, so a signal since the update's sum counts as well.
            is_stopped = is_stopped or self.requests.stop()
        is_due = step % self.context.config.record.save_every == 0
        # By the clock as well: a crash costs ten minutes, not a thousand steps.
        if is_stopped or sums.save or is_due or self._is_milestone():
            with self.speed.paused():
                self._save()
            self.watchdog.mark(step, 0)
            self.requests.saved()
        self.is_stopped = is_stopped
        if is_stopped and step < self.target:
            state.stop_training()

    def _is_milestone(self) -> bool:
        """Return whether this step is validated and its checkpoint kept: the target, and where other stages branch off,
        so that the log does not depend on which model was trained first."""
        step = self.progress.step
        return step == self.target or step in self.stage.keep

    # Requests to stop, on which all ranks agree.

    def _is_any_stopped(self) -> bool:
        """Return whether any rank is asked to stop; all ranks call it."""
        return self.context.ranks.total(float(self.requests.stop()))[0] > 0

    def _is_stopped_after(self, number: int, common: int) -> bool:
        """Return whether any rank is asked to stop; False behind the passes that all have.

        Args:
            number: of the pass on this rank, from 0.
            common: passes that every rank has.
        """
        # The ranks wait for each other here, so all have to ask equally often.
        return number < common and self._is_any_stopped()

    # Checkpoints.

    def _save(self) -> None:
        """Have the checkpoint written (on a GPU while training continues) and checkpoints no longer needed removed."""
        step, stage = self.progress.step, self.stage
        state: dict[str, Any] = {
            "stage": stage.name,
            "objective": stage.objective,
            "ratio": stage.ratio,
            "tokens": self.progress.tokens,
            **self.numerics,
        }
        if self.earlier_precision:
            state[EARLIER_PRECISION] = self.earlier_precision
        state |= self.context.identity(stage)
        state["interventions"] = self.context.config.interventions(step)
        if self.log is not None:
            state[checkpoints.LOG_RECORD] = self.log.record()
        gather_state(self.optimizer)
        problem = None
        if self.writer is not None:
            problem = self.writer.begin(
                step, self.model, self.optimizer, state, stage.keep
            )
        self._agree(problem)
        self.saved_step = step

    def _agree(self, error: UserError | OSError | None) -> None:
        """End on all processes where the first one could not write a checkpoint."""
        if self.context.ranks.total(float(error is not None))[0]:
            raise error or UserError(
                f"the first process could not write a checkpoint at or before step {self.progress.step}"
            )

    def _say_what_is_saved(self) -> None:
        """Warn of an interruption: from which step the same command resumes; only on the first rank."""
        if self.writer is None:
            return
        self.writer.finish()
        saved = checkpoints.latest(self.folder, self.target)
        what = "no checkpoint has been saved yet"
        if saved is not None:
            what = f"step {saved.step} is saved in {saved.path}"
        logger.warning(
            "%s: interrupted after step %d; %s; run the same command to resume",
            self.stage.name,
            self.progress.step,
            what,
        )

    # Validation.

    def _validate(self) -> float | None:
        """Log the loss on the validation split at its fixed masks and return it; None where nothing is masked."""

        def after_pass(number: int, seconds: float, batch: ObjectiveBatch) -> None:
            self.watchdog.mark(self.progress.step, 0)
            if number == 0 and self.progress.step == self.resume_step:
                # Times 3: a training pass also goes backward, which costs twice the forward pass that was timed.
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
                self.progress.step,
                self.stage.lasting_ratio or 0,
            )
        return loss

    # What is logged and said.

    def _last_step_of_log(
        self, checkpoint: checkpoints.Checkpoint | None
    ) -> int | None:
        """Return the step after which the log's rows go, since they are written again; None where they stay."""
        saved = checkpoints.checkpoint_steps(self.folder)
        if not saved:
            return -1
        # After an older checkpoint the log is not cut: the later rows belong to newer checkpoints, which stay.
        return saved[-1].step if saved[-1] == checkpoint else None

    def _write(self, split: str, row: LogRow) -> None:
        """Write a row of the log, with what each has of its stage; only on the first rank."""
        if self.log is None:
            return
        stage, step = self.stage, self.progress.step
        ratio: float | None = stage.lasting_ratio
        if split == "train":
            ratio = stage.ratio_at(step - 1)
        whole_row: dict[str, Any] = {
            "step": step,
            "split": split,
            "objective": stage.objective,
            "ratio": ratio,
            "stage": stage.name,
        }
        self.log.write(whole_row | row | {"tokens": self.progress.tokens})

    def _timings(self) -> LogRow:
        """Return what was measured on the clock since the last time, of all ranks together."""
        ranks = self.context.ranks
        speed = self.speed.tokens_per_second()
        flops = model_flops_per_token(
            self.context.shape,
            length=self.context.config.sequences.attended_length,
            predicted=self.stage.predicted_share,
        )
        timings: LogRow = {
            "tokens_per_second": speed,
            "memory_gb": ranks.peak_memory(),
            "device": ranks.device_name,
            "processes": ranks.world,
        }
        utilisation = mfu(speed, flops, ranks.device_name, ranks.world)
        if utilisation is not None:
            timings["mfu"] = utilisation
        return timings

    def _summary(self, row: LogRow) -> str:
        """Return what the progress bar says of an update."""
        words = f"loss {row['loss']:.3f}" if "loss" in row else "no target"
        words += f", rate {self.progress.rate:.3g}"
        if "tokens_per_second" in row:
            words += f", {row['tokens_per_second']:,.0f} tokens/s"
        if "mfu" in row:
            words += f", MFU {row['mfu']:.1%}"
        return words

    def _check_finite(self, loss: float, norm: float) -> None:
        """Refuse an update whose loss or gradient is not a number, before it reaches a checkpoint."""
        if math.isfinite(loss) and math.isfinite(norm):
            return
        step = self.progress.step
        remedy = "at the first step, the weights to start from are not finite or the rate is far too high"
        if step > 1:
            remedy = (
                "earlier checkpoints are untouched; to resume from the last one, rerun the command with one change, "
                f"for example --set skip={step - 1}:10 (skips ten batches)"
            )
        raise UserError(
            f"the loss at step {step} is {loss} and the gradient norm is {norm}; {remedy}"
        )

    def _say_how_long(self, what: str, seconds: float, batch: ObjectiveBatch) -> None:
        """Log how long a start's updates take on a CPU."""
        log_cpu_time(
            self.context, self.stage.name, self.progress.step, what, seconds, batch
        )

    def _say_no_target(self, what: str) -> None:
        """Warn that there was nothing to predict: once of steps, once of validations."""
        if what in self.warned_of:
            return
        self.warned_of.add(what)
        logger.warning(
            "%s: after step %d, a %s has no token to predict, so it changes nothing and the log has no loss of it; "
            "give longer sequences, more of them, or a higher masking ratio",
            self.stage.name,
            self.progress.step,
            what,
        )
