"""Composer's callbacks, algorithms and loggers, by the names that the settings give.

Composer's own where they do the work: `callbacks=SpeedMonitor,MemoryMonitor,...`. Not Composer's: the W&B logger,
which calls methods that wandb has removed and waits for processes that have no run; algorithms that keep a state,
since checkpoints do not hold it and a resumed run would end elsewhere.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import composer.algorithms
import composer.callbacks
from composer.core import Algorithm, Callback, State
from composer.loggers import Logger, LoggerDestination, MLFlowLogger, TensorboardLogger
from composer.profiler import Profiler, ProfilerAction

from common.errors import UserError, first_line, nearest
from pretraining.plan.config import TrainingConfig

__all__ = ["algorithms_of", "callbacks_of", "loggers_of", "profiler_of"]

T = TypeVar("T")


def callbacks_of(config: TrainingConfig) -> list[Callback]:
    """Return the callbacks of the setting `callbacks`; none where nothing would be logged to.

    Raises:
        UserError: a name that Composer does not have, or a callback that needs arguments.
    """
    made = [_made("callbacks", name, composer.callbacks, Callback) for name in _names(config.callbacks)]
    return made if config.tensorboard or config.wandb or config.mlflow else []


def algorithms_of(config: TrainingConfig) -> list[Algorithm]:
    """Return the algorithms of the setting `algorithms`.

    Raises:
        UserError: a name that Composer does not have, one that needs arguments, or one that keeps a state.
    """
    made = [_made("algorithms", name, composer.algorithms, Algorithm) for name in _names(config.algorithms)]
    for algorithm in made:
        if type(algorithm).state_dict is not Algorithm.state_dict:
            raise UserError(
                f"algorithms: {type(algorithm).__name__} keeps a state that checkpoints do not hold; leave it out"
            )
    return made


def loggers_of(
    config: TrainingConfig, name: str, tensorboard: Path, *, first: bool = True
) -> list[LoggerDestination]:
    """Return where metrics go besides the log.

    Args:
        config: which of them are wanted.
        name: the stage, for dashboards.
        tensorboard: folder of TensorBoard's files.
        first: whether this process is the one that logs. The others have MLflow's logger alone, which logs nothing
            there but receives the run's id from the first.
    """
    loggers: list[LoggerDestination] = []
    if config.tensorboard and first:
        loggers.append(TensorboardLogger(log_dir=str(tensorboard), rank_zero_only=True))
    if config.wandb and first:
        loggers.append(_WeightsAndBiases(config, name))
    if config.mlflow:
        try:
            loggers.append(
                MLFlowLogger(experiment_name=config.mlflow, run_name=name, log_system_metrics=False)
            )
        except Exception as error:  # the library has its own
            raise UserError(
                f"MLflow (mlflow={config.mlflow}): {first_line(error)}; install mlflow, set MLFLOW_TRACKING_URI or "
                f"leave the setting out"
            ) from None
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


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _made(setting: str, name: str, library: Any, kind: type[T]) -> T:
    known = [
        item
        for item in library.__all__
        if isinstance(getattr(library, item), type) and issubclass(getattr(library, item), kind)
    ]
    if name not in known:
        raise UserError(f"{setting}: Composer has no {name!r}{nearest(name, known)}")
    try:
        made: T = getattr(library, name)()
    except (TypeError, ValueError, ImportError) as error:
        raise UserError(f"{setting}: {name} cannot be made by its name alone: {error}") from None
    return made


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
