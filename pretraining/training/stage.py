"""Training of one stage with Composer: resumed from its last checkpoint, logged, validated and saved.

The third file of the loop (`train` lists them). Words that are used here:

    stage    consecutive updates with one objective, such as `610m-clm`, or `610m-clm-10k-mlm40`, which branches off the
             first (its parent) at step 10,000
    update   one step of the optimizer; a model is at step n after n updates, counted from the start of pretraining
    rank     one process of the job, on a GPU of its own; all ranks make each update together
    pass     one forward and backward pass of a rank's model over a micro-batch; an update takes several
    request  a signal, or a file that the user makes, that asks training to save and stop

Composer runs the loop: passes, autocast, DDP, devices, loggers, callbacks. Whatever the results depend on is handed to
it by this package. An update is, in this order:

    StepData                         the step's batch, its passes and the weights of their tokens
    StageTraining.batch_start        the learning rate is noted
    StageTraining.before_forward     once a pass; on a CPU the update may end here, after a request to stop
    PretrainingModel.forward, loss   once a pass
    StageTraining.before_backward    once a pass, before its backward pass; the watchdog is told
    StageTraining.after_backward     once a pass, after its backward pass; the first tells how long training takes
    StageTraining.after_train_batch  the gradient is clipped, its norm noted
    optimizer, rates_by_step         the update, and the learning rate of the next one
    StageTraining.batch_end          the log, and validation when it is time
    StageTraining.batch_checkpoint   a checkpoint when it is time, and the end of training after a request
"""

from __future__ import annotations

import contextlib
import logging
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
from pretraining.training.log_rows import (
    LogRow,
    check_finite,
    complete_row,
    last_step_to_keep,
    summary,
    timings,
)
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

EARLIER_PRECISION = "earlier_precision"
"""Key in a checkpoint's state and in a model's manifest, where training was resumed in another precision: a table of
steps, each with the precision in which the model was trained up to that step."""
_LOST = ("gloo/transport", "remote process exited")
"""What the errors of gloo and NCCL contain where another process of the job has ended."""
_BETWEEN, _FORWARD, _BACKWARD = 0, 1, 2
"""Parts of a step as the watchdog counts them: the model is at the step, the next update has begun, and a backward pass
of that update has begun."""


@dataclass(kw_only=True)
class StageProgress:
    """How far training has come, and what is logged of the last update."""

    step: int = 0
    """Number of updates so far, counted from the start of pretraining."""
    tokens: int = 0
    """Number of tokens so far, of all ranks together."""
    rate: float = 0.0
    """Learning rate of the last update."""
    norm: torch.Tensor = field(default_factory=lambda: torch.zeros(()))
    """Norm of the last update's gradient before it was clipped, shape ()."""


class _StopUpdateError(Exception):
    """A request to stop came in the middle of an update or a validation.

    What has begun is dropped, and done again when training resumes.
    """


class StageTraining(Callback):  # type: ignore[misc]  # composer is untyped
    """Training of one stage: `run` begins it, and Composer calls the methods of a `Callback` in every update."""

    data: StepData
    """The batches in the form that Composer reads; `run` makes it."""
    speed: Speed
    """Counts tokens per second; `_fit` makes it just before the first update, so that no preparation is counted."""
    update: StepBatch
    """This rank's share of the batch of the current update."""

    def __init__(
        self, context: TrainingContext, stage: PlannedStage, target: int
    ) -> None:
        """Load the last checkpoint into model and optimizer, and open the log.

        Without a checkpoint, the weights are those of the model that pretraining starts from, or random.

        Args:
            context: settings, data and ranks of this call.
            stage: the stage to train.
            target: step at which training ends.
        """
        config, ranks = context.config, context.ranks
        self.context, self.stage, self.target = context, stage, target
        self.folder = context.folder(stage.name)

        # Model and optimizer; a checkpoint replaces their first state, so only without one the model is initialised.
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

        self.resume_step = self.progress.step
        """Step at which this call begins."""
        self.saved_step = self.progress.step
        """Step of the last checkpoint that was loaded or saved."""
        self.is_stopped = False
        """Whether training ends before the target, because of a request."""

        # On these the last bits of all results depend, so each checkpoint records them. `run` may turn on compiling.
        precision = "bf16" if context.bf16 else "fp32"
        self.numerics = {
            "precision": precision,
            "compile": "off",
            "attention": attention,
        }
        self.earlier_precision = dict(state.get(EARLIER_PRECISION, {}))
        if checkpoint is not None and state["precision"] != precision:
            # The keys are text, as in the JSON file that they are written to.
            self.earlier_precision[str(checkpoint.step)] = state["precision"]

        # Earlier stages may have used the same shards: their steps count, so that this stage reads on where they ended.
        # `spans` has the steps [first, end) of each.
        spans = context.plan.steps_on_its_data(stage)
        self.batches = StageBatches(
            context.data_of(stage), stage, config, ranks, spans=spans
        )

        # Only the first rank looks for the stop file and at the clock. The others learn of such a request from the sums
        # over all ranks that are taken in each update (`StepData.sums`).
        is_first = ranks.rank == 0
        self.requests = Requests(
            stage.name,
            stop_file=context.stop_file if is_first else None,
            minutes=config.record.save_minutes if is_first else 0,
        )
        self.log: LogWriter | None = None
        self.writer: checkpoints.CheckpointWriter | None = None

        # Only the first rank writes.
        if is_first:
            recorded = None
            # The checkpoint may be the parent stage's last one: it then records the parent's log, not this stage's.
            if checkpoint is not None and checkpoint.path.parent == self.folder:
                recorded = state.get(checkpoints.LOG_RECORD)
            last_step = last_step_to_keep(self.folder, checkpoint)
            self.log = LogWriter(self.folder / LOG, last_step, recorded)

            # Only on a GPU: on a CPU a copy of weights and moments would double their memory and gain no time.
            is_background = ranks.device.type == "cuda"
            self.writer = checkpoints.CheckpointWriter(
                self.folder, self.log.sync, background=is_background
            )

        # With the step: if these processes have trained the stage before, torch's store still has what they
        # reported then. Under the same name the watchdog would take those reports for new ones.
        watched = f"{stage.name}@{self.resume_step}"
        self.watchdog = Watchdog(ranks, watched, 60 * config.machine.timeout_minutes)
        self.meter = Meter(stage.name, target, done=self.resume_step, unit="step")
        self.passes = 0
        """Number of passes that have begun in the current update."""
        self.pass_began = 0.0
        """Time at which the last of them began, by the monotonic clock."""
        self.warned_of = set[str]()
        """Which of `step` and `validation` had no token to predict: each is warned of once."""

    def run(self) -> bool:
        """Train up to the target step.

        Training is asked to stop by SIGTERM, SIGUSR1 or a first Ctrl-C, which any rank may get, or by the stop file. On
        a GPU it then ends after the current update. On a CPU it ends after the current pass, and the unfinished update
        is made again when training resumes. A checkpoint is saved in both cases.

        Returns:
            True when the target was reached without a request to stop. After False, the command exits with a code that
            asks to be started again. A Ctrl-C ends in KeyboardInterrupt instead: nobody wants a restart then.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed; the log says what has been saved.
            SystemExit: another process of the job has ended.
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

        # Made apart from `batches`, which gives each batch only once: the first update takes it from there.
        def first_pass() -> ObjectiveBatch:
            return self.batches.of_step(first).microbatches[0]

        try:
            with self.meter:
                # The first pass is tried: only then is it known whether the compiled blocks work.
                self.numerics["compile"] = compile_model(
                    self.model, first_pass, self.context
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
                    # The last checkpoint may still be being written, in a thread of the first rank.
                    problem = None
                    if self.writer is not None:
                        problem = self.writer.finish()
                    self._raise_on_all_ranks(problem)

            # A first Ctrl-C is a request as well, and the checkpoint is saved by now. But whoever pressed it
            # does not want the command to be started again, as `False` would ask for: it ends as an
            # interrupt, below.
            if signal.SIGINT in self.requests.signals:
                raise KeyboardInterrupt
        # Composer turns a KeyboardInterrupt into a SystemExit.
        except (KeyboardInterrupt, SystemExit) as error:
            if getattr(error, "code", None) == AGAIN:
                raise  # from `_fit`, which has logged that another process of the job has ended
            self._say_what_is_saved()
            raise KeyboardInterrupt from None
        finally:
            batches.close()
            # After an error, a checkpoint may still be being written.
            if self.writer is not None:
                self.writer.finish()
            if self.log is not None:
                self.log.close()

        # A request may have come after the last update. It ends the command here, before the next stage or the export.
        if not self.is_stopped:
            self.is_stopped = self._is_any_stopped()
        if self.is_stopped:
            where = f"and saved at step {self.progress.step}"
            if not self.progress.step:
                where = "before the first step was over"
            logger.info("%s: stopped %s; run the same command to resume", name, where)

        return not self.is_stopped

    def _validate_and_fit(self) -> None:
        """Make the updates up to the target, after a validation if one is due before the first of them."""
        if starts_with_validation(
            self.context,
            self.stage,
            self.resume_step,
            is_milestone=self._is_milestone(),
        ):
            try:
                self._validate()
            except _StopUpdateError:
                # There is nothing to save: no update was made yet.
                self.is_stopped = True
                return

        # An earlier call may have been stopped in the validation at the target: then no update is left.
        if self.progress.step < self.target:
            self._fit()

    def _fit(self) -> None:
        """Make the updates up to the target with Composer's trainer.

        Raises:
            SystemExit: another process of the job has ended; this one asks to be started again.
        """
        config, ranks, stage = self.context.config, self.context.ranks, self.stage
        first = self.resume_step
        # Any model that has this stage: models share a stage only if its learning rates are the same in all of them.
        model = self.context.plan.study.model(stage.models[0])
        schedule = stage_schedule(model, stage, config.optimizer)
        added = additions(config, stage.name, self.folder / "tensorboard", ranks.rank)

        # With several processes: wraps the model so that gradients are in memory once, not twice.
        views = BucketViews(config.batches.gradients)
        with contextlib.ExitStack() as stack:
            stack.enter_context(quiet_libraries())
            trainer = Trainer(
                # What is trained, on which batches, up to which update (`ba`: counted in batches, one each).
                model=PretrainingModel(self.model),
                train_dataloader=self.data,
                max_duration=f"{self.target}ba",
                # Composer would skip the batches before the resumed step, but ours begin at that step.
                spin_dataloaders=False,
                # AdamW with the state of the checkpoint, and the rate of each update, not of each epoch.
                optimizers=self.optimizer,
                schedulers=rates_by_step(self.optimizer, schedule, first, self.target),
                step_schedulers_every_batch=True,
                # This object clips, logs, validates and saves. The settings add the rest, such as dashboards.
                callbacks=[views, self, *added.callbacks],
                algorithms=added.algorithms,
                loggers=added.loggers,
                run_name=stage.name,
                progress_bar=False,
                # Weights are float32 in both precisions: `amp_bf16` casts them in each pass.
                device="gpu" if ranks.device.type == "cuda" else "cpu",
                precision="amp_bf16" if self.context.bf16 else "fp32",
                # Not used: the data loader has split the batch into passes (`StepData`).
                device_train_microbatch_size=1,
                # Composer weighs passes by their number of tokens that generate loss. `StepData` says 1 for each, so
                # that all passes weigh the same.
                accumulate_train_batch_on_tokens=True,
                # Seeds Python, NumPy and torch for algorithms; batches, masks and weights have their own generators.
                seed=config.seed,
                # Seconds: twice the minutes of the watchdog, which says more and should end the job first.
                dist_timeout=120 * config.machine.timeout_minutes,
            )
            stack.callback(close, trainer)

            # Otherwise the trainer's clock would begin at 0. `max_duration`, callbacks and dashboards count steps from
            # the start of pretraining.
            trainer.state.timestamp = Timestamp(batch=first, token=self.progress.tokens)
            stack.enter_context(self.watchdog)
            self.speed = Speed()
            try:
                trainer.fit()
            except _StopUpdateError:
                # Raised in a pass or in a validation. The weights are those after the last whole update; the passes
                # since then have only left gradients.
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

    # In every update Composer calls these methods, in this order. It calls `before_forward`, `before_backward` and
    # `after_backward` once a pass, the others once an update.

    def batch_start(self, state: State, logger: Logger) -> None:
        """Begin an update: note its batch, and its learning rate, which the scheduler replaces before `batch_end`."""
        del logger
        assert state.batch.step == self.progress.step
        self.progress.rate = state.optimizers[0].param_groups[0]["lr"]
        self.update = state.batch
        self.passes = 0
        self.watchdog.mark(self.progress.step, _FORWARD)

    def before_forward(self, state: State, logger: Logger) -> None:
        """Begin a pass; on a CPU, drop the update here after a request to stop.

        A CPU takes seconds for a pass and minutes for an update. A GPU finishes its update first.

        Raises:
            _StopUpdateError: any rank was asked to stop, and this is a CPU.
        """
        del state, logger
        finished_passes = self.passes
        self.passes += 1
        self.pass_began = time.monotonic()
        if self.context.ranks.device.type != "cpu":
            return
        # Ranks may have different numbers of passes. Every rank has at least `common_passes`.
        if self._is_stopped_at(finished_passes, self.update.common_passes):
            raise _StopUpdateError

    def before_backward(self, state: State, logger: Logger) -> None:
        """Tell the watchdog that this rank has got so far: the last backward pass of an update waits for the others."""
        del state, logger
        self.watchdog.mark(self.progress.step, _BACKWARD)

    def after_backward(self, state: State, logger: Logger) -> None:
        """Log after the very first pass how long all the others will take."""
        del state, logger
        if self.progress.step == self.resume_step and self.passes == 1:
            seconds = time.monotonic() - self.pass_began
            self._say_how_long("pass", seconds, self.update.microbatches[0])

    def after_train_batch(self, state: State, logger: Logger) -> None:
        """Clip the gradient of the update and note its norm, which Composer's own clipping does not report.

        A step may have no token to predict on any rank. Its gradient is removed then: AdamW would decay the weights and
        change its moments even with a gradient of zeros, and leaves parameters without a gradient as they are.
        """
        del logger
        # Reading the sum over all ranks makes a GPU wait. A rank that predicts a token itself does not need it.
        if not self.update.counts.any() and not self.data.sums().predicted:
            state.optimizers[0].zero_grad(set_to_none=True)
            return
        parameters = self.model.parameters()
        clip_norm = self.context.config.optimizer.clip_norm
        self.progress.norm = torch.nn.utils.clip_grad_norm_(parameters, clip_norm)

    def batch_end(self, state: State, logger: Logger) -> None:
        """Log the update that has just been made, and validate when it is time."""
        # What the update did. A loss that is not finite ends training here, before anything is written.
        # `record`: the settings of how often to log, validate and save.
        progress, record = self.progress, self.context.config.record
        tokens_before = progress.tokens
        # Composer's clock has counted this update already: the first update ends at step 1.
        progress.step = int(state.timestamp.batch)
        progress.tokens = int(state.timestamp.token)
        loss = float(state.total_loss_dict["loss/train/total"])
        norm = float(progress.norm)
        sums = self.data.sums()
        check_finite(progress.step, loss, norm)
        self.watchdog.mark(progress.step, _BETWEEN)
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
            row |= timings(self.context, self.stage, self.speed.tokens_per_second())
            self._write("train", row)

        if self.context.ranks.rank == 0:
            self.meter.update(progress.step, summary(row, progress.rate))
        # Dashboards take numbers: the fingerprint and the device's name are text.
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

        # Dashboards get every step. Each objective has a curve of its own, since losses of CLM and MLM do not compare.
        objective = self.stage.objective
        logger.log_metrics(
            {f"{objective}/{key}": value for key, value in metrics.items()}
        )

    def batch_checkpoint(self, state: State, logger: Logger) -> None:
        """Save a checkpoint when it is time; after a request to stop, save one and stop."""
        del logger
        step = self.progress.step
        sums = self.data.sums()
        is_stopped = sums.stop
        if self.context.ranks.world == 1:
            # The sum holds requests from before the update. A single rank, which no other has to follow, also obeys one
            # that came during it.
            is_stopped = is_stopped or self.requests.stop()

        is_due = step % self.context.config.record.save_every == 0
        # `sums.save` is a request of the clock (`save_minutes`): a crash then costs ten minutes, not a thousand steps.
        if is_stopped or sums.save or is_due or self._is_milestone():
            with self.speed.paused():
                self._save()
            # Saving may have taken long: the watchdog counts its minutes anew from here.
            self.watchdog.mark(step, _BETWEEN)
            self.requests.saved()

        self.is_stopped = is_stopped
        # At the target Composer ends by itself.
        if is_stopped and step < self.target:
            state.stop_training()

    def _is_milestone(self) -> bool:
        """Return whether this step is validated and its checkpoint kept, whatever the settings' intervals say.

        That is so at the target, and at each step where another stage branches off, even if this call trains no model
        that needs it: so the log does not depend on which model was trained first.
        """
        step = self.progress.step
        return step == self.target or step in self.stage.keep

    # Requests to stop, on which all ranks agree.

    def _is_any_stopped(self) -> bool:
        """Return whether any rank was asked to stop. All ranks must call it, since each waits for the others."""
        return self.context.ranks.total(float(self.requests.stop()))[0] > 0

    def _is_stopped_at(self, number: int, common: int) -> bool:
        """Return whether any rank was asked to stop; not looked up at a pass that only some ranks have.

        Args:
            number: number of the pass on this rank, from 0.
            common: number of passes that every rank has.
        """
        # The ranks wait for each other in `_is_any_stopped`, so each has to call it equally often.
        return number < common and self._is_any_stopped()

    # Checkpoints.

    def _save(self) -> None:
        """Save a checkpoint of this step, and remove older ones that nothing needs any more.

        On a GPU it is written while training continues.
        """
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

        # What a call must agree with to resume from here (`TrainingContext.check`): all that the weights
        # follow from, and which batches the setting `skip` has left out so far.
        state |= self.context.identity(stage)
        state["interventions"] = self.context.config.interventions(step)
        if self.log is not None:
            state[checkpoints.LOG_RECORD] = self.log.record()

        # All ranks: a sharded optimizer sends its parts to the first one, the only one that writes.
        gather_state(self.optimizer)
        problem = None
        if self.writer is not None:
            # `keep`: steps at which other stages branch off, or whose checkpoint is a model.
            problem = self.writer.begin(
                step, self.model, self.optimizer, state, stage.keep
            )

        self._raise_on_all_ranks(problem)
        self.saved_step = step

    def _raise_on_all_ranks(self, error: UserError | OSError | None) -> None:
        """Raise on every rank if the first one could not write a checkpoint; all ranks call it.

        Args:
            error: the writer's error on the first rank; None elsewhere, and where all went well.
        """
        has_failed = self.context.ranks.total(float(error is not None))[0] > 0
        if has_failed:
            raise error or UserError(
                f"the first process could not write a checkpoint at or before step {self.progress.step}"
            )

    def _say_what_is_saved(self) -> None:
        """Warn that training was interrupted, and say from which step it resumes; only on the first rank."""
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
        """Write the loss on the validation split to the log and return it; None where no token is predicted.

        Raises:
            _StopUpdateError: any rank was asked to stop.
        """

        def after_pass(number: int, seconds: float, batch: ObjectiveBatch) -> None:
            self.watchdog.mark(self.progress.step, _BETWEEN)
            if number == 0 and self.progress.step == self.resume_step:
                # Times 3: a training pass also goes backward, which costs twice the forward pass that was timed.
                self._say_how_long("pass of a validation", 3 * seconds, batch)
            if self._is_stopped_at(number, self.batches.validation_passes):
                raise _StopUpdateError

        sums = validation_sums(self.model, self.batches, self.context, after_pass)
        if not sums.predicted:
            self._say_no_target("validation")
            self._write("validation", {"predicted": 0})
            return None

        loss = sums.total / sums.predicted
        self._write("validation", {"loss": loss, "predicted": sums.predicted})
        # Whoever adapts an existing model compares learning rates by this loss (docs/build-an-encoder.md), so
        # it is also shown. The ratio is the share of tokens that are masked, in percent: 0 for CLM, which
        # masks none.
        if self.context.start is not None:
            logger.info(
                "%s: validation loss %.3f after step %d, at %g %%",
                self.stage.name,
                loss,
                self.progress.step,
                self.stage.lasting_ratio or 0,
            )

        return loss

    # The log and messages.

    def _write(self, split: str, row: LogRow) -> None:
        """Write a row of the log: these fields, and those that every row has; only on the first rank.

        Args:
            split: `train` for an update, or `validation`.
            row: what was measured.
        """
        if self.log is None:
            return
        step, tokens = self.progress.step, self.progress.tokens
        self.log.write(complete_row(row, split, self.stage, step=step, tokens=tokens))

    def _say_how_long(self, what: str, seconds: float, batch: ObjectiveBatch) -> None:
        """Log how long the remaining updates take on a CPU, where training starts from an existing model.

        Args:
            what: what was timed, in words.
            seconds: time of one pass of an update.
            batch: the pass's batch.
        """
        log_cpu_time(
            self.context, self.stage.name, self.progress.step, what, seconds, batch
        )

    def _say_no_target(self, what: str) -> None:
        """Warn that there was nothing to predict, once for each `what`: `step` or `validation`."""
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
