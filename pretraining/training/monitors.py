"""Composer's callbacks by the names that the settings give, its loggers and its profiler.

Composer's own where they do the work: `callbacks=SpeedMonitor,MemoryMonitor,...`. Not Composer's: the W&B logger,
which calls methods that wandb has removed and waits for processes that have no run.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import composer.callbacks
from composer.core import Callback, State
from composer.loggers import Logger, LoggerDestination, TensorboardLogger
from composer.profiler import Profiler, ProfilerAction

from common.errors import UserError, nearest
from pretraining.plan.config import TrainingConfig

__all__ = ["callbacks_of", "loggers_of", "profiler_of"]


def callbacks_of(config: TrainingConfig) -> list[Callback]:
    """Return the callbacks of the setting `callbacks`; none where nothing would be logged to.

    Raises:
        UserError: a name that Composer does not have, or a callback that needs arguments.
    """
    names = [name.strip() for name in config.callbacks.split(",") if name.strip()]
    made = [_made(name) for name in names]
    return made if config.tensorboard or config.wandb else []


def loggers_of(config: TrainingConfig, name: str, tensorboard: Path) -> list[LoggerDestination]:
    """Return where the first process's metrics go besides the log.

    Args:
        config: which of them are wanted.
        name: the stage, for dashboards.
        tensorboard: folder of TensorBoard's files.
    """
    loggers: list[LoggerDestination] = []
    if config.tensorboard:
        loggers.append(TensorboardLogger(log_dir=str(tensorboard), rank_zero_only=True))
    if config.wandb:
        loggers.append(_WeightsAndBiases(config, name))
    return loggers


def profiler_of(config: TrainingConfig, folder: Path) -> Profiler | None:
    """Return Composer's profiler for the setting `profile`, torch's traces in a folder; None without the setting."""
    steps = config.profiled
    if not steps:
        return None

    def action(state: State) -> ProfilerAction:
        step = int(state.timestamp.batch)
        if step == steps[0] - 1:
            return ProfilerAction.WARMUP
        if step not in steps:
            return ProfilerAction.SKIP
        return ProfilerAction.ACTIVE_AND_SAVE if step == steps[-1] else ProfilerAction.ACTIVE

    return Profiler(
        schedule=action,
        trace_handlers=[],
        sys_prof_cpu=False,
        torch_prof_folder=str(folder),
        torch_prof_remote_file_name=None,
        torch_prof_memory_remote_file_name=None,
        torch_prof_memory_filename=None,
        torch_prof_overwrite=True,
    )


def _made(name: str) -> Callback:
    known = [item for item in composer.callbacks.__all__ if _is_callback(getattr(composer.callbacks, item))]
    if name not in known:
        raise UserError(f"callbacks: Composer has no {name!r}{nearest(name, known)}")
    try:
        return getattr(composer.callbacks, name)()
    except (TypeError, ValueError, ImportError) as error:
        raise UserError(f"callbacks: {name} cannot be made by its name alone: {error}") from None


def _is_callback(item: object) -> bool:
    return isinstance(item, type) and issubclass(item, Callback)


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
