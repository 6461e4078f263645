"""The study's parts for Composer's `Trainer`: the model, the steps' batches, gradients as views of DDP's buckets.

The sixth file of the loop (`train` lists them): `stage` hands them to Composer, which calls them in every update. An
update (or step) is one step of the optimizer, which all ranks, the processes of the job, make together. A rank computes
its share of the step's batch in several passes: forward and backward passes over one micro-batch each.

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
    """Close a trainer so that the memory of its model and optimizer can be freed.

    Composer 0.32 has a function called at exit for every trainer, which keeps the trainer's state until the process
    ends: at the second stage of a 610M model, 8.3 GB of the first were still on the GPU. So that function is dropped.
    """
    trainer.close()
    atexit.unregister(trainer.engine._close)


class PretrainingModel(ComposerModel):  # type: ignore[misc]  # composer is untyped
    """The model as Composer calls it: `forward` computes the loss itself.

    DDP wraps `forward` and must find every parameter used in it, also those that only the loss uses.
    """

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
    """Sums of a step over all ranks."""

    predicted: int
    """Number of predicted tokens."""
    fingerprint: int
    """Fingerprint of the whole batch: the sum, modulo 2^64, of the ranks' `StepBatch.fingerprint`."""
    stop: bool
    """Whether any rank was asked to stop when the step began."""
    save: bool
    """Whether any rank was asked for a checkpoint when the step began."""


def _not_asked() -> bool:
    return False


class StepData(DataSpec):  # type: ignore[misc]  # composer is untyped
    """A stage's batches in the form that Composer reads.

    Before a step, the ranks add up how many tokens each predicts: the weight of a predicted token in the loss depends
    on it. The same sum carries the batch's fingerprint and requests to stop or save, at no further cost. `sums` returns
    it; a GPU has to be waited for there, so it is called when the step is over.
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
        """Give Composer this rank's share of each step's batch.

        Args:
            batches: the shares, one for each step.
            ranks: this process among those of the job.
            weighting: `equal` or `token` (`group_weights`).
            stop: called once a step; returns whether this rank was asked to stop.
            save: called once a step; returns whether this rank was asked for a checkpoint.
        """

        def passes_of(batch: StepBatch, size: int) -> list[ObjectiveBatch]:
            # `size` is ignored: Composer would split the batch by numbers of sequences. Passes are filled by tokens,
            # which the data loader has done (`lay_out`).
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
        """Tokens that all ranks predict in the last step, of each group of sequences."""
        self._rest = torch.zeros(0)
        """Sums over all ranks in the last step: the fingerprint's high and low half, requests to stop, and to save."""

    def _weighed(self, batch: StepBatch) -> StepBatch:
        """Return a step's share with the weight of each predicted token; Composer calls it before the first pass."""
        # A double holds integers up to 2^53 exactly. The fingerprint has 64 bits, so its halves are summed.
        high, low = divmod(batch.fingerprint, 2**32)
        requests = self._stop(), self._save()
        rest = torch.tensor([high, low, *requests], dtype=torch.float64)
        # This rank's counts and `rest` in one sum, since in each sum the ranks wait for each other.
        sums = self._ranks.sum(torch.cat([batch.counts, rest]))
        groups = len(batch.counts)
        self._counts, self._rest = sums[:groups], sums[groups:]
        weights = group_weights(self._counts, self._weighting)
        # Times the number of passes of all ranks: Composer takes the mean over them, but the step's loss is their sum.
        return batch.weighed(weights * batch.passes)

    def sums(self) -> StepSums:
        """Return the sums over all ranks of the last step that has begun."""
        high, low, stop, save = (int(value) for value in self._rest.tolist())
        # The summed low halves may exceed 32 bits; adding carries them over into the high half.
        fingerprint = (high << 32) + low
        return StepSums(
            predicted=int(self._counts.sum()),
            fingerprint=fingerprint % 2**64,
            stop=stop > 0,
            save=save > 0,
        )


def _sequences(batch: StepBatch | ObjectiveBatch) -> int:
    """Return the number of sequences of a rank's share, or of one pass."""
    parts = batch.microbatches if isinstance(batch, StepBatch) else [batch]
    return sum(len(part.inputs) for part in parts)


def _tokens(batch: StepBatch | ObjectiveBatch) -> dict[str, int]:
    """Return the two token counts that Composer asks for, of a rank's share or of one pass.

    `total` moves Composer's clock. By `loss_generating` it weighs the passes: 1 for each, so that all weigh the same.
    """
    if isinstance(batch, StepBatch):
        return {"total": batch.tokens, "loss_generating": len(batch.microbatches)}
    return {"total": batch.inputs.num_tokens, "loss_generating": 1}


class BucketViews(Callback):  # type: ignore[misc]  # composer is untyped
    """Wraps the model in DDP again before the first step, so that gradients are not in memory twice.

    DDP sends gradients in buckets. As Composer wraps the model, each gradient is copied into a bucket, which takes
    another 4 bytes a parameter: 5.6 GB at 1.4 billion. Here gradients are views into the buckets.
    """

    def __init__(self, gradients: str = "fp32") -> None:
        """Choose the type, `fp32` or `bf16`, in which gradients are summed over the processes, once a step.

        The passes of one process always add up in float32.
        """
        self._gradients = gradients

    def fit_start(self, state: State, logger: Logger) -> None:
        """Wrap the model again, if it is wrapped in DDP, which it is with several processes."""
        del logger
        if isinstance(state.model, DistributedDataParallel):
            # Unwrapped first, so that the old wrapper's buckets are freed before the new one's are made.
            state.model = state.model.module
            state.model = DistributedDataParallel(
                state.model, gradient_as_bucket_view=True
            )
            if self._gradients == "bf16":
                # None stands for the group of all processes.
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

    Composer's own callbacks are left out where there is no dashboard, since they only log to one.

    Args:
        config: the settings.
        name: the stage's name, for dashboards.
        tensorboard: folder for TensorBoard's files.
        rank: number of this process; only the first one writes to dashboards. Composer's `WandBLogger` sees to that
            itself, and has to be there on all processes.

    Raises:
        UserError: a class that is not there, is not a callback or algorithm, or needs arguments.
    """
    record = config.record
    added = Additions()
    is_logged = bool(record.tensorboard or record.wandb)
    for word, part in _created("callbacks", record.callbacks, Callback):
        # A logger is also a callback by its class, but the trainer takes loggers separately.
        is_logger = isinstance(part, LoggerDestination)
        group = added.loggers if is_logger else added.callbacks
        # Composer's own callbacks only log; a user's (MODULE:CLASS) may do anything.
        if is_logged or ":" in word:
            group.append(part)

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
    """Hide warnings of the libraries in `_QUIET` while the block runs; those of torch and of this package are shown.

    Raises:
        UserError: Weights & Biases raised an error in the block.
    """
    # What Composer logs is no Python warning, so the filters below do not hide it. The level of its log stays
    # so after the block.
    logging.getLogger("composer").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        for module in _QUIET:
            # The module itself or one inside it: `wandb` and `wandb.sdk`, but not `wandb_other`.
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
    """Return each class name in a setting, with an object of that class.

    Args:
        setting: `callbacks` or `algorithms`, which is also the module of Composer that has its classes.
        words: the setting's value: names of Composer's classes, or of others as MODULE:CLASS, with commas between.
        kind: what each class must be a subclass of.

    Raises:
        UserError: a class is not there, is not of this kind, or needs arguments.
    """
    created = []
    folder = str(Path.cwd())
    if ":" in words and folder not in sys.path:
        # Python looks for a command's modules in the folder of the command, not in the one that the user is in.
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
