"""One stage being trained: from its last checkpoint, with its log, validation losses and checkpoints."""

from __future__ import annotations

import logging
import resource
import sys
import time

import torch

from common.errors import UserError
from common.progress import Meter
from pretraining.model.heads import EuroBertForMaskedLM
from pretraining.model.modeling import initialise
from pretraining.plan.config import Recipe
from pretraining.plan.flops import effective_length, mfu, model_flops_per_token
from pretraining.plan.plan import PlannedStage
from pretraining.training import checkpoints
from pretraining.training.composer_adapter import Stretch, train_stretch
from pretraining.training.context import Session, device_name, plan_stage
from pretraining.training.dataloader import prefetched
from pretraining.training.log import LOG, LogWriter
from pretraining.training.objectives import loss_sum
from pretraining.training.schedule import stage_schedule

__all__ = ["Run"]

logger = logging.getLogger(__name__)


class Run:
    """One stage being trained; the hooks of its stretch."""

    def __init__(
        self,
        session: Session,
        stage: PlannedStage,
        target: int,
        start: checkpoints.Checkpoint | None,
    ) -> None:
        """Take the weights and moments of `start`, or the seed's weights when it is None, to train up to `target`."""
        self.session, self.stage, self.target = session, stage, target
        self.recipe, self.ranks = session.recipe, session.ranks
        self.folder = session.folder(stage.name)
        self.model = EuroBertForMaskedLM(session.config)
        self.model.set_attention_backend(self.recipe.backend)
        if start is None:
            initialise(self.model, self.recipe.seed)
        self.model.to(self.ranks.device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=self.recipe.peak_lr,
            betas=(self.recipe.beta1, self.recipe.beta2),
            eps=self.recipe.eps,
            weight_decay=self.recipe.weight_decay,
            fused=self.ranks.device.type == "cuda",
        )
        self.first, self.tokens = 0, 0
        if start is not None:
            checkpoints.restore(start, self.model, self.optimizer)
            self.first, self.tokens = start.step, int(checkpoints.load_state(start)["tokens"])
        self.log = LogWriter(self.folder / LOG) if self.ranks.rank == 0 else None
        self.meter: Meter | None = None
        self.looked = 0.0
        self.compiled = "off"
        self.device = device_name(self.ranks.device)

    def go(self) -> bool:
        """Train to the target; tell whether it was reached."""
        stage, ranks = self.stage, self.ranks
        model = self.session.study.model(stage.models[0])
        own = next(item for item in model.stages if item.name == stage.name)
        schedule = stage_schedule(
            model, own, warmup_steps=self.recipe.warmup_steps, rewarm_steps=self.recipe.rewarm_steps
        )
        logger.info("%s: step %d to %d", stage.name, self.first, self.target)
        batches = prefetched(self.session.data, stage.ratio, self.first, self.target, ranks.rank, ranks.world)
        try:
            with Meter(stage.name, self.target, done=self.first, unit="step") as self.meter:
                self.compiled = _compile(self.model, self.recipe, self.session, stage.ratio)
                if self.first == stage.start and self._starts_with_validation():
                    self._validate(self.first)
                end = train_stretch(
                    self.model,
                    self.optimizer,
                    Stretch(
                        start=self.first,
                        end=self.target,
                        batches=batches,
                        rate=lambda step: self.recipe.peak_lr * schedule(step),
                        bf16=self.session.bf16,
                    ),
                    recipe=self.recipe,
                    ranks=ranks,
                    hooks=self,
                    name=stage.name,
                    folder=str(self.folder / "tensorboard"),
                )
        finally:
            batches.close()
            if self.log is not None:
                self.log.close()
        if end.stopped:
            logger.info("%s: asked to stop; saved at step %d, the same command goes on", stage.name, end.step)
        return not end.stopped

    def _starts_with_validation(self) -> bool:
        """Tell whether the loss before the first step is to be known: not where a parent's objective goes on."""
        if not self.recipe.eval_sequences:
            return False
        if self.stage.parent is None:
            return True
        parent = plan_stage(self.session.plan, self.stage.parent)
        return (parent.objective, parent.ratio) != (self.stage.objective, self.stage.ratio)

    def updated(self, step: int, row: dict[str, float | int | str]) -> dict[str, float]:
        """Log an update, validate and save when it is time."""
        self.tokens += int(row.pop("step_tokens"))
        speed = row.get("tokens_per_second")
        if speed is not None:
            row["memory_gb"] = _memory(self.ranks.device)
            used = self._mfu(float(speed))
            if used is not None:
                row["mfu"] = used
            self._write(step, "train", row)
        if self.meter is not None and self.ranks.rank == 0:
            rate = "" if speed is None else f", {float(speed):,.0f} tokens/s"
            share = f", MFU {row['mfu']:.1%}" if "mfu" in row else ""
            self.meter.update(step, f"loss {row['loss']:.3f}{rate}{share}")
        metrics = {f"{self.stage.objective}/{k}": float(v) for k, v in row.items() if not isinstance(v, str)}
        # Where others leave, too, so that the log does not depend on which model was trained first.
        kept = step == self.target or step in self.stage.keep
        if self.recipe.eval_sequences and (step % self.recipe.eval_every == 0 or kept):
            metrics[f"{self.stage.objective}/validation_loss"] = self._validate(step)
        if step % self.recipe.save_every == 0 or kept:
            self._save(step)
        return metrics

    def asked(self) -> bool:
        """Tell, on the first rank and once a second, whether the stop file has come."""
        if self.session.stop_file is None or self.ranks.rank or time.monotonic() < self.looked + 1:
            return False
        self.looked = time.monotonic()
        return self.session.stop_file.exists()

    def stopped(self, step: int) -> None:
        """Save before the job ends."""
        self._save(step)

    def _validate(self, step: int) -> float:
        """Log the loss on the validation split at its fixed masks and return it."""
        self.model.eval()
        total = count = 0.0
        with (
            torch.no_grad(),
            torch.autocast(self.ranks.device.type, torch.bfloat16, enabled=self.session.bf16),
        ):
            for batch in self.session.data.validation(
                self.stage.ratio, rank=self.ranks.rank, world=self.ranks.world
            ):
                found = loss_sum(self.model, batch.to(self.ranks.device))
                total, count = total + float(found.total), count + found.count
        self.model.train()
        total, count = self.ranks.total(total, count)
        loss = total / max(count, 1)
        self._write(step, "validation", {"loss": loss, "predicted": int(count)})
        return loss

    def _write(self, step: int, split: str, row: dict[str, float | int | str]) -> None:
        if self.log is None:
            return
        about = {
            "step": step,
            "split": split,
            "objective": self.stage.objective,
            "ratio": self.stage.ratio,
            "stage": self.stage.name,
        }
        self.log.write(about | row | {"tokens": self.tokens})

    def _save(self, step: int) -> None:
        problem = 0.0
        error: UserError | OSError | None = None
        if self.ranks.rank == 0:
            state = {
                "stage": self.stage.name,
                "objective": self.stage.objective,
                "ratio": self.stage.ratio,
                "tokens": self.tokens,
                "hardware": {"device": self.device, "processes": self.ranks.world},
                "precision": "bf16" if self.session.bf16 else "fp32",
                "compile": self.compiled,
                **self.session.identity(),
            }
            try:
                checkpoints.save(self.folder, step, self.model, self.optimizer, state)
                checkpoints.prune(self.folder, {*self.stage.keep, step})
            except (UserError, OSError) as found:
                error, problem = found, 1.0
        if self.ranks.total(problem)[0]:
            raise error or UserError(
                f"the checkpoint of step {step} could not be written by the first process"
            )

    def _mfu(self, tokens_per_second: float) -> float | None:
        recipe, ratio = self.recipe, self.stage.ratio
        fixed = recipe.cut == "fixed"
        length = recipe.max_length if fixed else effective_length(recipe.min_length, recipe.max_length)
        predicted = 1.0 if ratio is None else ratio / 100
        flops = model_flops_per_token(self.session.shape, length=length, predicted=predicted)
        return mfu(tokens_per_second, flops, self.device, self.ranks.world)


def _memory(device: torch.device) -> float:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def _compile(model: EuroBertForMaskedLM, recipe: Recipe, session: Session, ratio: int | None) -> str:
    """Compile the blocks where it is wanted and works; return `on`, `off` or why it is off."""
    device = session.ranks.device
    if recipe.compile == "off" or (recipe.compile == "auto" and device.type != "cuda"):
        return "off"
    model.compile_blocks()
    try:
        batch = session.data.step(0, ratio, rank=session.ranks.rank, world=session.ranks.world).microbatches[
            0
        ]
        with torch.autocast(device.type, torch.bfloat16, enabled=session.bf16):
            loss_sum(model, batch.to(device)).mean.backward()  # type: ignore[no-untyped-call]
    except Exception as error:
        model.uncompile_blocks()
        reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        logger.warning("torch.compile failed, training goes on without it: %s", reason)
        return f"off: {reason}"
    finally:
        model.zero_grad(set_to_none=True)
    return "on"
