"""What the stages of one training call share: shape, data, recipe, and what a checkpoint must agree with."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from common.errors import UserError
from pretraining.data.manifest import load_manifest
from pretraining.model.configuration import EncoderConfig, config_for
from pretraining.paper_settings import Shape
from pretraining.plan.config import Recipe
from pretraining.plan.plan import Plan, PlannedStage
from pretraining.plan.study_file import Study
from pretraining.training import checkpoints
from pretraining.training.composer_adapter import Ranks
from pretraining.training.dataloader import Data

__all__ = ["Session", "device_name", "plan_stage", "study_config"]


class Session:
    """One call's study, data and place among the processes."""

    def __init__(
        self,
        study: Study,
        recipe: Recipe,
        plan: Plan,
        data: Path,
        out: Path,
        size: str,
        ranks: Ranks,
        stop_file: Path | None = None,
    ) -> None:
        self.study, self.recipe, self.plan, self.out, self.ranks = study, recipe, plan, out, ranks
        self.stop_file = stop_file
        self.shape, self.size, self.data_folder = study.shapes[size], size, data
        self.config = study_config(self.shape, load_manifest(data)["tokenizer"])
        self.data = Data(data, recipe, self.config)
        self.bf16 = recipe.precision == "bf16" or (recipe.precision == "auto" and ranks.device.type == "cuda")
        # Raises before any work when the batch cannot be shared or the data is too small.
        self.data.order.batch_of(0, ranks.rank, ranks.world)

    def folder(self, stage: str) -> Path:
        """Return the folder of a stage's checkpoints and log."""
        return self.out / "stages" / stage

    def identity(self) -> dict[str, Any]:
        """Return what a checkpoint must agree with to be gone on from."""
        return {
            "shape": asdict(self.shape),
            "science": self.recipe.science(),
            "data": self.data.manifest["sha256"],
            "tokenizer": self.data.manifest["tokenizer"]["sha256"],
        }

    def check(self, state: dict[str, Any], where: str) -> None:
        """Refuse to go on from what was trained otherwise."""
        mine = self.identity()
        for part in ("tokenizer", "data"):
            if state.get(part) != mine[part]:
                what = "another tokenizer" if part == "tokenizer" else "other shards"
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
        """Return the checkpoint to go on from; None for random weights.

        Raises:
            UserError: the stage's parent has no checkpoint at the step where it leaves.
        """
        found = checkpoints.latest(self.folder(stage.name), target)
        if found is None and stage.parent is not None:
            found = checkpoints.latest(self.folder(stage.parent), stage.start)
            if found is None or found.step != stage.start:
                raise UserError(
                    f"{stage.name} leaves {stage.parent} at step {stage.start}, and "
                    f"{self.folder(stage.parent)} has no checkpoint of that step; train the model as a whole, or "
                    f"first `train {stage.parent}`"
                )
        return found


def plan_stage(plan: Plan, name: str) -> PlannedStage:
    """Return the stage of that name."""
    return next(item for item in plan.stages if item.name == name)


def study_config(shape: Shape, tokenizer: dict[str, Any], *, is_causal: bool = False) -> EncoderConfig:
    """Return the configuration of a shape with the special tokens of the data's tokenizer."""
    bos = tokenizer["bos_id"]
    return config_for(
        "tiny",
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        intermediate_size=shape.mlp,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=shape.max_length,
        rope_theta=shape.rope_theta,
        rms_norm_eps=shape.norm_eps,
        initializer_range=shape.init_std,
        bos_token_id=tokenizer["eos_id"] if bos is None else bos,
        eos_token_id=tokenizer["eos_id"],
        pad_token_id=tokenizer["eos_id"],
        mask_token_id=tokenizer["mask_id"],
        is_causal=is_causal,
    )


def device_name(device: torch.device) -> str:
    """Return what torch calls the device, `cpu` for a processor."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
