"""What the stages of one training call share: shape, data, settings, and what a checkpoint must agree with."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from common.errors import UserError
from pretraining.data.manifest import load_manifest
from pretraining.model.configuration import config_of
from pretraining.plan.config import TrainingConfig
from pretraining.plan.plan import Plan, PlannedStage
from pretraining.plan.study_file import Study
from pretraining.training import checkpoints
from pretraining.training.composer_adapter import Ranks
from pretraining.training.dataloader import Data

__all__ = ["TrainingContext"]


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
        self.data.order.batch_of(0, ranks.rank, ranks.world)

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
            UserError: the stage's parent has no checkpoint at the step where it branches off.
        """
        own = checkpoints.latest(self.folder(stage.name), target)
        if own is not None or stage.parent is None:
            return own
        start = checkpoints.latest(self.folder(stage.parent), stage.start)
        if start is None or start.step != stage.start:
            raise UserError(
                f"{stage.name} branches off {stage.parent} at step {stage.start}, and "
                f"{self.folder(stage.parent)} has no checkpoint of that step; train the model as a whole, or "
                f"first `train {stage.parent}`"
            )
        return start
