"""The study's parts for Composer's `Trainer`: the model, the steps' batches, gradients as views of DDP's buckets.

The sixth file of the loop (`train` lists them): `stage` hands them to Composer, which calls them in every update.

`train` and a script of one's own (docs/extend.md) build the same run from them. Settings add callbacks, algorithms and
loggers: Composer's own by their names (`callbacks=SpeedMonitor,MemoryMonitor`), a user's as `module:Class`.
"""

from __future__ import annotations

import atexit
import logging
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from composer import Trainer
from composer.core import Algorithm, Callback, DataSpec, State
from composer.loggers import Logger, LoggerDestination, TensorboardLogger, WandBLogger
from composer.models import ComposerModel
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from common.errors import UserError, first_line
from common.settings import values_of
from pretraining.model.adapted import AdaptedModel
from pretraining.model.modeling import EuroBertForMaskedLM
from pretraining.plan.config import TrainingConfig
from pretraining.training.dataloader import StepBatch
from pretraining.training.objectives import (
    LossSum,
    ObjectiveBatch,
    group_weights,
    loss_sum,
)
from pretraining.training.ranks import Ranks


def close(trainer: Trainer) -> None:
    """Close a trainer and let go of its model and optimizer.

    Composer 0.32 keeps the state of every closed trainer until the process ends, so that a second stage found 8.3 GB of
    the first one's on the GPU (610M).
    """
    trainer.close()
    atexit.unregister(trainer.engine._close)


class PretrainingModel(ComposerModel):  # type: ignore[misc]  # composer is untyped
    """The model as Composer calls it: forward is the whole loss, so that DDP sees every parameter used."""

    def __init__(self, model: EuroBertForMaskedLM | AdaptedModel) -> None:
        """Train this model."""
        super().__init__()
        self.model = model

    def forward(self, batch: ObjectiveBatch) -> LossSum:
        """Return the loss of one pass."""
        return loss_sum(self.model, batch)

    def loss(self, outputs: LossSum, batch: ObjectiveBatch) -> torch.Tensor:
        """Return the pass's loss, in nats."""
        del batch
        return outputs.total


class StepSums(NamedTuple):
    """Sums of a step over all ranks, known once it is over."""

    predicted: int
    """Predicted tokens."""
    fingerprint: int
    """`StepBatch.fingerprint` of all shares."""
    stop: bool
    """Whether any rank is asked to stop."""
    save: bool
    """Whether any rank is asked for a checkpoint."""


def _not_asked() -> bool:
    return False


class StepData(DataSpec):  # type: ignore[misc]  # composer is untyped
    """A stage's steps as Composer reads them; one sum over the ranks gives each predicted token its weight.

    The sum carries what the log wants at no further cost; it is read once a step is over.
    """

    def __init__(
        self,
        batches: Iterable[StepBatch],
        ranks: Ranks,
        *,
        weighting: str = "equal",
        stop: Callable[[], bool] = _not_asked,
        save: Callable[[], bool] = _not_asked,
    ) -> None:
        """Give Composer this rank's shares.

        Args:
            batches: one share an update.
            ranks: this process's place.
            weighting: `equal` or `token` (`group_weights`).
            stop: called once a step: whether this rank is asked to stop.
            save: likewise for a checkpoint.
        """

        def passes_of(batch: StepBatch, size: int) -> list[ObjectiveBatch]:
            # `size` is ignored: Composer splits by numbers of sequences, but passes are filled by tokens (`lay_out`).
            del size
            return batch.microbatches

        super().__init__(
            batches,
            batch_transforms=self._weighed,
            split_batch=passes_of,
            microbatch_transforms=lambda part: part.to(ranks.device, non_blocking=True),
            get_num_samples_in_batch=_sequences,
            get_num_tokens_in_batch=_tokens,
        )
        self._ranks, self._weighting = ranks, weighting
        self._stop, self._save = stop, save
        self._counts = torch.zeros(0)
        """Predicted tokens of each group in the last step, of all ranks."""
        self._rest = torch.zeros(0)
        """The sums of its fingerprint's halves and of the requests to stop and to save."""

    def _weighed(self, batch: StepBatch) -> StepBatch:
        # The fingerprint is sent as two halves, of so few bits that doubles hold their sums over ranks exactly.
        high, low = divmod(batch.fingerprint, 2**32)
        requests = self._stop(), self._save()
        rest = torch.tensor([high, low, *requests], dtype=torch.float64)
        # Counts, fingerprint and requests share one sum a step: in each sum the ranks wait for each other.
        sums = self._ranks.sum(torch.cat([batch.counts, rest]))
        groups = len(batch.counts)
        self._counts, self._rest = sums[:groups], sums[groups:]
        weights = group_weights(self._counts, self._weighting)
        # Times the passes: Composer takes the mean over all ranks' passes, but the step's loss is their sum.
        return batch.weighed(weights * batch.passes)

    def sums(self) -> StepSums:
        """Return what the ranks' sum of the last step says."""
        high, low, stop, save = (int(value) for value in self._rest.tolist())
        fingerprint = (high << 32) + low
        return StepSums(
            predicted=int(self._counts.sum()),
            fingerprint=fingerprint % 2**64,
            stop=stop > 0,
            save=save > 0,
        )


def _sequences(batch: StepBatch | ObjectiveBatch) -> int:
    parts = batch.microbatches if isinstance(batch, StepBatch) else [batch]
    return sum(len(part.inputs) for part in parts)


def _tokens(batch: StepBatch | ObjectiveBatch) -> dict[str, int]:
    """Return Composer's token counts: those of its clock, and equal ones for the passes, which it weighs by them."""
    if isinstance(batch, StepBatch):
        return {"total": batch.tokens, "loss_generating": len(batch.microbatches)}
    return {"total": batch.inputs.num_tokens, "loss_generating": 1}


class BucketViews(Callback):  # type: ignore[misc]  # composer is untyped
    """Wraps the model in DDP again before the first step, without Composer's second copy of the gradients.

    That copy is 4 bytes a parameter: 5.6 GB at 1.4 billion.
    """

    def __init__(self, gradients: str = "fp32") -> None:
        """Sum gradients over the processes in this type, `fp32` or `bf16`, once a step; passes add up in float32."""
        self._gradients = gradients

    def fit_start(self, state: State, logger: Logger) -> None:
        """Let gradients be views of DDP's buckets, if the model is wrapped in DDP."""
        del logger
        if isinstance(state.model, DistributedDataParallel):
            # Unwrapped first, so that the old wrapper's buckets are freed before the new one's are made.
            state.model = state.model.module
            state.model = DistributedDataParallel(
                state.model, gradient_as_bucket_view=True
            )
            if self._gradients == "bf16":
                state.model.register_comm_hook(None, bf16_compress_hook)


@dataclass(kw_only=True)
class Additions:
    """Parts that the settings add to Composer's trainer."""

    callbacks: list[Any] = field(default_factory=list)
    algorithms: list[Any] = field(default_factory=list)
    loggers: list[Any] = field(default_factory=list)


def additions(
    config: TrainingConfig, name: str, tensorboard: Path, rank: int = 0
) -> Additions:
    """Return Composer's callbacks, algorithms and loggers that the settings ask for.

    Composer's own callbacks are left out where nothing would be logged to.

    Args:
        config: which are wanted.
        name: the stage, for dashboards.
        tensorboard: folder of TensorBoard's files.
        rank: number of this process; only the first writes to dashboards. Composer's `WandBLogger` sees to that by
            itself, and has to be there on all.

    Raises:
        UserError: a class that is not there, is not a callback or algorithm, or needs arguments.
    """
    record = config.record
    added = Additions()
    is_logged = bool(record.tensorboard or record.wandb)
    for word, part in _created("callbacks", record.callbacks, Callback):
        # A logger is one of Composer's callbacks, and the trainer takes it separately.
        kind = added.loggers if isinstance(part, LoggerDestination) else added.callbacks
        # Composer's own callbacks only log; a user's (MODULE:CLASS) may do anything.
        if is_logged or ":" in word:
            kind.append(part)
    for _, part in _created("algorithms", record.algorithms, Algorithm):
        added.algorithms.append(part)
    if record.tensorboard and rank == 0:
        folder = str(tensorboard)
        added.loggers.append(TensorboardLogger(log_dir=folder, rank_zero_only=True))
    if record.wandb:
        import wandb

        # Composer 0.32 calls get_url, which wandb 0.31 no longer has.
        if not hasattr(wandb.Run, "get_url"):
            wandb.Run.get_url = lambda run: run.url
        init = {"config": values_of(config)}
        dashboard = WandBLogger(project=record.wandb, name=name, init_kwargs=init)
        added.loggers.append(dashboard)
    return added


_QUIET = ("composer", "torchmetrics", "tensorboard", "streaming", "urllib3", "wandb")
"""Libraries whose warnings no user can act on."""


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Leave out the warnings that no user can act on; those of torch and of this package are shown.

    Raises:
        UserError: Weights & Biases does not start.
    """
    logging.getLogger("composer").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        for module in _QUIET:
            warnings.filterwarnings("ignore", module=rf"{module}(\.|$)")
        try:
            yield
        except Exception as error:
            if not type(error).__module__.startswith("wandb."):
                raise
            raise UserError(
                f"Weights & Biases (setting wandb): {first_line(error)}; log in with `wandb login`, set "
                "WANDB_MODE=offline or remove the setting"
            ) from None


def _created(setting: str, words: str, kind: type) -> list[tuple[str, Any]]:
    """Return the name of each class that a setting names, and an object of it, which is made without arguments."""
    created = []
    folder = str(Path.cwd())
    if ":" in words and folder not in sys.path:
        # An installed command's path begins with its own folder, not with the user's.
        sys.path.append(folder)
    for word in (part.strip() for part in words.split(",")):
        if not word:
            continue
        place = word if ":" in word else f"composer.{setting}:{word}"
        try:
            item: Any = pkgutil.resolve_name(place)
            if not (isinstance(item, type) and issubclass(item, kind)):
                raise TypeError(f"it is not a subclass of Composer's {kind.__name__}")
            created.append((word, item()))
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise UserError(
                f"{setting}: {word} cannot be created: {error}; give a class of composer.{setting} that needs no "
                "arguments, or your own as MODULE:CLASS, with its module in this folder or on PYTHONPATH"
            ) from None
    return created
