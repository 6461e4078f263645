"""What the settings add to Composer's `Trainer`: callbacks, algorithms, loggers.

Composer's own by their names (`callbacks=SpeedMonitor,MemoryMonitor`), a user's as `module:Class`.
"""

from __future__ import annotations

import logging
import pkgutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from composer.core import Algorithm, Callback, State
from composer.loggers import Logger, LoggerDestination, TensorboardLogger, WandBLogger

from common.errors import UserError
from pretraining.plan.config import TrainingConfig

__all__ = ["additions", "quiet_libraries"]


def additions(config: TrainingConfig, name: str, tensorboard: Path, rank: int = 0) -> dict[str, list[Any]]:
    """Return Composer's `callbacks`, `algorithms` and `loggers` that the settings ask for.

    Composer's own callbacks are left out where nothing would be logged to.

    Args:
        config: which are wanted.
        name: the stage, for dashboards.
        tensorboard: folder of TensorBoard's files.
        rank: number of this process; only the first writes to dashboards.

    Raises:
        UserError: a class that is not there, is no callback or algorithm, or needs arguments.
    """
    logged = bool(config.tensorboard or config.wandb)
    made = [
        part
        for word, part in _made("callbacks", config.callbacks, Callback)
        if logged or ":" in word  # a user's own may do anything
    ]
    loggers = [part for part in made if isinstance(part, LoggerDestination)]
    if config.tensorboard and rank == 0:
        loggers.append(TensorboardLogger(log_dir=str(tensorboard), rank_zero_only=True))
    if config.wandb and rank == 0:
        loggers.append(_WeightsAndBiases(config, name))
    return {
        "callbacks": [part for part in made if not isinstance(part, LoggerDestination)],
        "algorithms": [part for _, part in _made("algorithms", config.algorithms, Algorithm)],
        "loggers": loggers,
    }


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Leave out the warnings that no user can act on; those of torch and of this package are shown."""
    logging.getLogger("composer").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        for module in ("composer", "torchmetrics", "tensorboard", "streaming", "urllib3", "wandb"):
            warnings.filterwarnings("ignore", module=rf"{module}(\.|$)")
        yield


def _made(setting: str, words: str, kind: type) -> list[tuple[str, Any]]:
    """Return an object of each class that a setting names, with its name."""
    made = []
    if ":" in words and (here := str(Path.cwd())) not in sys.path:
        # An installed command's path begins with its own folder, not with the user's.
        sys.path.append(here)
    for word in filter(None, (word.strip() for word in words.split(","))):
        try:
            item: Any = pkgutil.resolve_name(word if ":" in word else f"composer.{setting}:{word}")
            if not (isinstance(item, type) and issubclass(item, kind)):
                raise TypeError(f"it is not a subclass of Composer's {kind.__name__}")
            made.append((word, item()))
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise UserError(
                f"{setting}: {word} cannot be created: {error}; give a class of composer.{setting} that needs no "
                "arguments, or your own as MODULE:CLASS, with its module in this folder or on PYTHONPATH"
            ) from None
    return made


class _WeightsAndBiases(WandBLogger):  # type: ignore[misc]  # composer is untyped
    """Composer's own, but for its start, which calls a method that wandb has removed."""

    def __init__(self, config: TrainingConfig, name: str) -> None:
        super().__init__(project=config.wandb, name=name)
        self.config, self.name = config, name

    def init(self, state: State, logger: Logger) -> None:
        del state, logger
        import wandb
        from wandb.errors import Error

        try:
            wandb.init(project=self.config.wandb, name=self.name, config=asdict(self.config))
        except Error as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise UserError(
                f"Weights & Biases (wandb={self.config.wandb}): {reason}; log in with `wandb login`, set "
                f"WANDB_MODE=offline or remove the setting"
            ) from None
