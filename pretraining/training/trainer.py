"""One stage being trained: from its last checkpoint, with its log, validation losses and checkpoints."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from itertools import pairwise

import torch

from common.errors import UserError
from common.progress import Meter
from pretraining.model.attention import resolve_backend
from pretraining.model.modeling import EuroBertForMaskedLM, initialise
from pretraining.plan.config import batch_number, value_at
from pretraining.plan.flops import mfu, model_flops_per_token
from pretraining.plan.plan import PlannedStage
from pretraining.training import checkpoints
from pretraining.training.composer_adapter import StageRun, train_steps
from pretraining.training.context import TrainingContext
from pretraining.training.dataloader import StepBatch, prefetched
from pretraining.training.log import LOG, LogWriter
from pretraining.training.objectives import loss_sum
from pretraining.training.optimizer import build_optimizer
from pretraining.training.schedule import stage_schedule

__all__ = ["Trainer"]

logger = logging.getLogger(__name__)


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
        self.model.model.bf16_residual = self.config.residual == "bf16"
        self.model.fuse_projections(self.ranks.device.type == "cuda")
        dtype = torch.bfloat16 if context.bf16 else torch.float32
        head_dim = context.model_config.head_dim
        self.attention = resolve_backend(self.config.backend, self.ranks.device, dtype, head_dim).name
        self.model.set_attention_backend(self.attention)
        self.optimizer = build_optimizer(self.model, self.config, self.ranks.device)
        self.first, self.tokens = 0, 0
        if start is not None:
            checkpoints.restore(start, self.model, self.optimizer)
            self.first, self.tokens = start.step, int(checkpoints.load_state(start)["tokens"])
        self.log = LogWriter(self.folder / LOG) if self.ranks.rank == 0 else None
        self.writer = checkpoints.CheckpointWriter(self.folder) if self.ranks.rank == 0 else None
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
            self._agree(None if self.writer is None else self.writer.problem(), reached)
        finally:
            batches.close()
            if self.writer is not None:
                self.writer.close()
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
            row["device"], row["processes"] = self.ranks.device_name, self.ranks.world
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
        """Have the checkpoint of a step written, while training continues, and those no longer needed removed."""
        error: UserError | OSError | None = None
        if self.writer is not None:
            state = {
                "stage": self.stage.name,
                "objective": self.stage.objective,
                "ratio": self.stage.ratio,
                "tokens": self.tokens,
                "precision": "bf16" if self.context.bf16 else "fp32",
                "compile": self.compiled,
                "attention": self.attention,
                **self.context.identity(self.stage),
                "interventions": self.config.interventions(step),
            }
            try:
                self.writer.begin(step, self.model, self.optimizer, state, self.stage.keep)
            except (UserError, OSError) as raised:
                error = raised
        self._agree(error, step)

    def _agree(self, error: UserError | OSError | None, step: int) -> None:
        """End on all processes where the first one could not write a checkpoint."""
        if self.ranks.total(float(error is not None))[0]:
            raise error or UserError(
                f"a checkpoint before step {step} could not be written by the first process"
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
        epochs = (batch_number(skips, step) // each for step in range(self.first, self.target))
        for step, (before, epoch) in enumerate(pairwise(epochs), self.first + 1):
            if epoch > before:
                logger.warning(
                    "%s: the data hold %s steps; step %d begins pass %d over them", self.stage.name, f"{each:,}",
                    step, epoch + 1,
                )  # fmt: skip

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
