"""One stage being trained: from its last checkpoint, with its log, validation losses and checkpoints.

`TrainingContext` is what the stages of one call share, and decides which checkpoints they may resume from.
"""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from common.errors import UserError
from common.progress import Meter
from pretraining.data.manifest import load_manifest
from pretraining.model.attention_backends import BACKENDS
from pretraining.model.attention_choice import Choice, Heads, choose, resolve_backend
from pretraining.model.configuration import config_of
from pretraining.model.heads import EuroBertForMaskedLM
from pretraining.model.modeling import initialise
from pretraining.plan.config import TrainingConfig
from pretraining.plan.flops import mfu, model_flops_per_token
from pretraining.plan.interventions import batch_number, value_at
from pretraining.plan.plan import Plan, PlannedStage
from pretraining.plan.study_file import Study
from pretraining.training import checkpoints
from pretraining.training.composer_adapter import StageRun, train_steps
from pretraining.training.dataloader import Data, StepBatch, prefetched
from pretraining.training.log import LOG, LogWriter
from pretraining.training.objectives import OBJECTIVES, loss_sum
from pretraining.training.optimizer import build_optimizer
from pretraining.training.ranks import Ranks
from pretraining.training.schedule import stage_schedule

__all__ = ["Trainer", "TrainingContext"]

logger = logging.getLogger(__name__)


class TrainingContext:
    """One call's study, settings, data and place among the processes."""

    def __init__(
        self,
        *,
        study: Study,
        config: TrainingConfig,
        plan: Plan,
        size: str,
        data: Path,
        out: Path,
        ranks: Ranks,
        stop_file: Path | None = None,
    ) -> None:
        """Open the data.

        Raises:
            UserError: the data does not fit the model or the settings, or the batch the number of processes.
        """
        self.study, self.config, self.plan, self.out, self.ranks = study, config, plan, out, ranks
        self.stop_file = stop_file
        self.shape, self.data_folder = study.shapes[size], data
        self.model_config = config_of(self.shape, load_manifest(data)["tokenizer"])
        self.data = Data(data, config, self.model_config)
        self.bf16 = config.precision == "bf16" or (config.precision == "auto" and ranks.device.type == "cuda")
        if config.global_batch < ranks.world:
            raise UserError(
                f"global_batch={config.global_batch} leaves some of {ranks.world} processes without a sequence; "
                f"start fewer"
            )

    def folder(self, stage: str) -> Path:
        """Return the folder of a stage's checkpoints and log."""
        return self.out / "stages" / stage

    def identity(self) -> dict[str, Any]:
        """Return what a checkpoint must agree with to resume from it."""
        return {
            "shape": asdict(self.shape),
            "science": self.config.science(),
            "data": self.data.manifest["sha256"],
            "tokenizer": self.data.manifest["tokenizer"]["sha256"],
        }

    def check(self, state: dict[str, Any], where: str) -> None:
        """Refuse to resume from what was trained otherwise."""
        mine = self.identity()
        for part, what in (("tokenizer", "another tokenizer"), ("data", "other shards")):
            if state.get(part) != mine[part]:
                raise UserError(
                    f"{where} was trained with {what} than {self.data_folder} holds; give its --data or another --out"
                )
        for part in ("shape", "science"):
            theirs = state.get(part) or {}
            for key, value in mine[part].items():
                if theirs.get(key) != value:
                    raise UserError(
                        f"{where} was trained with {key}={theirs.get(key)!r}, not {value!r}; "
                        f"set it so or choose another --out"
                    )

    def start_of(self, stage: PlannedStage, target: int) -> checkpoints.Checkpoint | None:
        """Return the checkpoint to resume a stage from; None for random weights.

        Raises:
            UserError: the stage's parent has no checkpoint at the step where it branches off, or the checkpoint is
                of what was trained otherwise.
        """
        start = checkpoints.latest(self.folder(stage.name), target)
        if start is None and stage.parent is not None:
            start = checkpoints.latest(self.folder(stage.parent), stage.start)
            if start is None or start.step != stage.start:
                raise UserError(
                    f"{stage.name} branches off {stage.parent} at step {stage.start}, and "
                    f"{self.folder(stage.parent)} has no checkpoint of that step; train the model as a whole, or "
                    f"first `train {stage.parent}`"
                )
        if start is not None:
            self.check(checkpoints.load_state(start), str(start.path))
        return start

    def is_done(self, stage: PlannedStage, target: int) -> bool:
        """Return whether a stage has been trained up to a step."""
        start = self.start_of(stage, target)
        return start is not None and start.step == target and start.path.parent == self.folder(stage.name)


class Trainer:
    """One stage being trained; the hooks of its steps."""

    def __init__(self, context: TrainingContext, stage: PlannedStage, target: int) -> None:
        """Take weights and the optimizer's state of the last checkpoint, or the seed's weights."""
        start = context.start_of(stage, target)
        self.context, self.stage, self.target = context, stage, target
        self.config, self.ranks = context.config, context.ranks
        self.folder = context.folder(stage.name)
        self.model = EuroBertForMaskedLM(context.model_config)
        if start is None:
            initialise(self.model, self.config.seed)
        self.model.to(self.ranks.device)
        if self.config.activation_checkpointing:
            self.model.gradient_checkpointing_enable({"use_reentrant": False})
        self.attention = self._choose_attention(start)
        self.model.set_attention_backend(self.attention.backend)
        self.optimizer = build_optimizer(self.model, self.config, self.ranks.device)
        self.first, self.tokens = 0, 0
        if start is not None:
            self._check_interventions(start)
            checkpoints.restore(start, self.model, self.optimizer)
            self.first, self.tokens = start.step, int(checkpoints.load_state(start)["tokens"])
        self.log = LogWriter(self.folder / LOG) if self.ranks.rank == 0 else None
        self.meter: Meter | None = None
        self.stop_file_checked = 0.0
        self.compiled = "off"

    def run(self) -> bool:
        """Train to the target; return whether it was reached."""
        stage, config = self.stage, self.config
        model = self.context.study.model(stage.models[0])
        own = next(item for item in model.stages if item.name == stage.name)
        schedule = stage_schedule(
            model, own, warmup_steps=config.warmup_steps, rewarm_steps=config.rewarm_steps
        )
        logger.info("%s: step %d to %d", stage.name, self.first, self.target)
        self._announce_epochs()
        batches = prefetched(self._batch, self.first, self.target)
        try:
            with Meter(stage.name, self.target, done=self.first, unit="step") as self.meter:
                self.compiled = self._compile()
                if self.first == stage.start and self._starts_with_validation():
                    self._validate(self.first)
                steps = StageRun(
                    name=stage.name,
                    start=self.first,
                    end=self.target,
                    batches=batches,
                    rate=lambda step: value_at(config.peaks, step, config.peak_lr) * schedule(step),
                    bf16=self.context.bf16,
                    tensorboard=self.folder / "tensorboard",
                )
                reached = train_steps(
                    self.model, self.optimizer, steps, config=config, ranks=self.ranks, hooks=self
                )
        finally:
            batches.close()
            if self.log is not None:
                self.log.close()
        if reached < self.target:
            logger.info("%s: stopped and saved at step %d; the same command resumes", stage.name, reached)
        return reached == self.target

    def after_step(self, step: int, row: dict[str, float | int | str]) -> dict[str, float]:
        """Log an update, validate and save when it is time."""
        self.tokens += int(row.pop("step_tokens"))
        speed = row.get("tokens_per_second")
        if speed is not None:
            row["memory_gb"] = self.ranks.peak_memory()
            used = self._mfu(float(speed))
            if used is not None:
                row["mfu"] = used
            self._write(step, "train", row)
        if self.meter is not None and self.ranks.rank == 0:
            rate = "" if speed is None else f", {float(speed):,.0f} tokens/s"
            share = f", MFU {row['mfu']:.1%}" if "mfu" in row else ""
            self.meter.update(step, f"loss {row['loss']:.3f}{rate}{share}")
        metrics = {f"{self.stage.objective}/{k}": float(v) for k, v in row.items() if not isinstance(v, str)}
        # Where other stages branch off, too, so that the log does not depend on which model was trained first.
        lasting = step == self.target or step in self.stage.keep
        if self.config.eval_sequences and (step % self.config.eval_every == 0 or lasting):
            metrics[f"{self.stage.objective}/validation_loss"] = self._validate(step)
        if step % self.config.save_every == 0 or lasting:
            self.save(step)
        return metrics

    def stop_requested(self) -> bool:
        """Return, on the first rank and checked once a second, whether the stop file exists."""
        stop_file = self.context.stop_file
        if stop_file is None or self.ranks.rank or time.monotonic() < self.stop_file_checked + 1:
            return False
        self.stop_file_checked = time.monotonic()
        return stop_file.exists()

    def save(self, step: int) -> None:
        """Write the checkpoint of a step and remove those that are no longer needed."""
        problem = 0.0
        error: UserError | OSError | None = None
        if self.ranks.rank == 0:
            state = {
                "stage": self.stage.name,
                "objective": self.stage.objective,
                "ratio": self.stage.ratio,
                "tokens": self.tokens,
                "hardware": {"device": self.ranks.device_name, "processes": self.ranks.world},
                "precision": "bf16" if self.context.bf16 else "fp32",
                "compile": self.compiled,
                "attention": self.attention._asdict(),
                "interventions": self.config.interventions(step),
                **self.context.identity(),
            }
            try:
                checkpoints.save(self.folder, step, self.model, self.optimizer, state)
                checkpoints.prune(self.folder, {*self.stage.keep, step})
            except (UserError, OSError) as raised:
                error, problem = raised, 1.0
        if self.ranks.total(problem)[0]:
            raise error or UserError(
                f"the checkpoint of step {step} could not be written by the first process"
            )

    def _batch(self, step: int) -> StepBatch:
        stage, ranks, data = self.stage, self.ranks, self.context.data
        number = batch_number(self.config.skips, step)
        data.open_ahead(number, ranks.local_rank, ranks.local_world)
        batch = data.step(number, stage.objective, stage.ratio, rank=ranks.rank, world=ranks.world)
        return replace(batch, step=step)

    def _announce_epochs(self) -> None:
        """Say which steps begin another pass over the data, before they come."""
        each, skips = self.context.data.order.steps_per_epoch, self.config.skips
        epochs = [batch_number(skips, step) // each for step in (self.first, self.target - 1)]
        for epoch in range(epochs[0] + 1, epochs[1] + 1):
            begin = next(s for s in range(self.first, self.target) if batch_number(skips, s) // each >= epoch)
            logger.warning(
                "%s: the data hold %s steps; step %d begins pass %d over them", self.stage.name, f"{each:,}",
                begin, epoch + 1,
            )  # fmt: skip

    def _check_interventions(self, start: checkpoints.Checkpoint) -> None:
        """Refuse a checkpoint whose batches or rates were not those of the settings."""
        theirs = checkpoints.load_state(start).get("interventions", self.config.interventions(0))
        mine = self.config.interventions(start.step)
        for key, value in mine.items():
            if theirs.get(key) != value:
                raise UserError(
                    f"{start.path} was trained with {key}={_changes(theirs.get(key))!r} before step {start.step}, not "
                    f"{_changes(value)!r}; only later steps can be changed: set it so or choose another --out"
                )

    def _starts_with_validation(self) -> bool:
        """Return whether to validate before the first step: not where the parent's objective continues."""
        if not self.config.eval_sequences:
            return False
        if self.stage.parent is None:
            return True
        parent = self.context.plan.stage(self.stage.parent)
        return (parent.objective, parent.ratio) != (self.stage.objective, self.stage.ratio)

    def _validate(self, step: int) -> float:
        """Log the loss on the validation split at its fixed masks and return it."""
        stage, ranks = self.stage, self.ranks
        batches = self.context.data.validation(
            stage.objective, stage.ratio, rank=ranks.rank, world=ranks.world
        )
        self.model.eval()
        total = count = 0.0
        with torch.no_grad(), torch.autocast(ranks.device.type, torch.bfloat16, enabled=self.context.bf16):
            for batch in batches:
                part = loss_sum(self.model, batch.to(ranks.device))
                total, count = total + float(part.total), count + part.count
        self.model.train()
        total, count = ranks.total(total, count)
        loss = total / max(count, 1)
        self._write(step, "validation", {"loss": loss, "predicted": int(count)})
        return loss

    def _write(self, step: int, split: str, row: dict[str, float | int | str]) -> None:
        if self.log is None:
            return
        of_stage = {"objective": self.stage.objective, "ratio": self.stage.ratio, "stage": self.stage.name}
        self.log.write({"step": step, "split": split} | of_stage | row | {"tokens": self.tokens})

    def _choose_attention(self, start: checkpoints.Checkpoint | None) -> Choice:
        """Return the attention backend that the first rank chooses, where every rank can run what is set."""
        context, model = self.context, self.context.model_config
        dtype = torch.bfloat16 if context.bf16 else torch.float32
        resolve_backend(self.config.backend, self.ranks.device, dtype, model.head_dim)
        names, place, measured = list(BACKENDS), 0, False
        if self.ranks.rank == 0:
            own = start is not None and start.path.parent == self.folder
            choice = choose(
                self.config.backend,
                Heads(model.num_attention_heads, model.num_key_value_heads, model.head_dim),
                self.ranks.device,
                dtype,
                is_causal=OBJECTIVES[self.stage.objective].is_causal,
                max_length=self.config.max_length,
                recorded=checkpoints.load_state(start).get("attention") if start and own else None,
            )
            place, measured = names.index(choice.backend), choice.measured
        chosen, by_measuring = self.ranks.total(place, measured)
        return Choice(names[int(chosen)], bool(by_measuring))

    def _mfu(self, tokens_per_second: float) -> float | None:
        flops = model_flops_per_token(
            self.context.shape, length=self.config.attended_length, predicted=self.stage.predicted_share
        )
        return mfu(tokens_per_second, flops, self.ranks.device_name, self.ranks.world)

    def _compile(self) -> str:
        """Compile the blocks where it is wanted and works; return `on`, `off` or why it is off."""
        device = self.ranks.device
        if self.config.compile == "off" or (self.config.compile == "auto" and device.type != "cuda"):
            return "off"
        self.model.compile_blocks()
        try:
            batch = self._batch(self.first).microbatches[0]
            with torch.autocast(device.type, torch.bfloat16, enabled=self.context.bf16):
                loss_sum(self.model, batch.to(device)).mean.backward()  # type: ignore[no-untyped-call]
        except torch.OutOfMemoryError:
            raise  # no fault of the compiler, and less would fit without it
        except RuntimeError as error:  # what Dynamo, Inductor and Triton raise is derived from it
            self.model.uncompile_blocks()
            lines = str(error).strip().splitlines() or [type(error).__name__]
            reason = lines[0][:200]
            logger.warning("torch.compile failed, training continues without it: %s", reason)
            return f"off: {reason}"
        finally:
            self.model.zero_grad(set_to_none=True)
        return "on"


def _changes(recorded: Any) -> str:
    return ",".join(f"{step}:{value:g}" for step, value in recorded or [])
