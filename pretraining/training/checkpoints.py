"""Checkpoints to resume from: weights and the optimizer's state as safetensors, everything else as JSON.

    <out>/stages/<stage>/step-00010000/{model.safetensors, optimizer.safetensors, state.json}

A folder of that name is complete: it is written under another one and renamed. Nothing else is needed to
resume, since batches, masks and rates follow from the step.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from common.errors import UserError
from common.files import atomic_folder, write_text
from pretraining.training.optimizer import load_optimizer_state, optimizer_state

__all__ = [
    "Checkpoint", "checkpoint_steps", "latest", "load_state", "load_weights", "prune", "restore", "save",
]  # fmt: skip

_NAME = re.compile(r"step-(\d{8})")
_MODEL, _OPTIMIZER, _STATE = "model.safetensors", "optimizer.safetensors", "state.json"


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint on disk."""

    path: Path
    """Its folder."""
    step: int
    """Updates done, counted from random weights."""


def checkpoint_steps(folder: Path) -> list[Checkpoint]:
    """Return the complete checkpoints of a stage's folder by rising step."""
    complete = (
        Checkpoint(path=path, step=int(match[1]))
        for path in folder.glob("step-*")
        if (match := _NAME.fullmatch(path.name)) and (path / _STATE).is_file()
    )
    return sorted(complete, key=lambda item: item.step)


def latest(folder: Path, up_to: int) -> Checkpoint | None:
    """Return the newest checkpoint at or before a step, or None."""
    return next((item for item in reversed(checkpoint_steps(folder)) if item.step <= up_to), None)


def save(
    folder: Path,
    step: int,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    state: Mapping[str, Any],
) -> Checkpoint:
    """Write the checkpoint of a step, whole or not at all.

    Raises:
        UserError: the disk has no room for it; what was there before is untouched.
        OSError: the disk failed otherwise.
    """
    final = folder / f"step-{step:08}"
    if (final / _STATE).is_file():
        return Checkpoint(path=final, step=step)
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    moments = optimizer_state(model, optimizer)
    size = sum(t.numel() * t.element_size() for part in (weights, moments) for t in part.values())
    free = shutil.disk_usage(folder).free
    if free < size * 1.02:
        raise UserError(
            f"{folder}: the checkpoint of step {step} needs {size / 1e9:.3g} GB and {free / 1e9:.3g} GB are free; "
            f"earlier checkpoints are untouched, free some space and run the same command again"
        )
    try:
        with atomic_folder(final) as making:
            save_file(weights, making / _MODEL)
            save_file(moments, making / _OPTIMIZER)
            write_text(making / _STATE, json.dumps({"step": step, **state}, indent=2, sort_keys=True) + "\n")
    except SafetensorError as error:
        raise UserError(
            f"{final}: could not be written: {error}; earlier checkpoints are untouched"
        ) from None
    return Checkpoint(path=final, step=step)


def load_state(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return what the checkpoint records next to its tensors.

    Raises:
        UserError: it cannot be read.
    """
    try:
        state: dict[str, Any] = json.loads((checkpoint.path / _STATE).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{checkpoint.path}: is damaged: {error}; remove it to resume from the one before"
        ) from None
    return state


def load_weights(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """Return the weights, named as in `EuroBertForMaskedLM`, on the CPU."""
    return _load(checkpoint.path / _MODEL)


def restore(checkpoint: Checkpoint, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Put weights and the optimizer's state back, bit for bit.

    Raises:
        UserError: it cannot be read or belongs to another architecture.
    """
    try:
        model.load_state_dict(load_weights(checkpoint))
    except RuntimeError as error:
        first = str(error).splitlines()[-1].strip()
        raise UserError(f"{checkpoint.path}: belongs to another architecture: {first}") from None
    load_optimizer_state(model, optimizer, _load(checkpoint.path / _OPTIMIZER))


def prune(folder: Path, keep: Iterable[int]) -> None:
    """Remove the checkpoints that are neither the newest nor at a step to keep, and what killed runs left."""
    wanted = set(keep)
    for item in checkpoint_steps(folder)[:-1]:
        if item.step not in wanted:
            # Without its state.json a half-removed folder is no checkpoint any more.
            (item.path / _STATE).unlink()
            shutil.rmtree(item.path, ignore_errors=True)
    for path in folder.glob(".step-*.tmp"):
        shutil.rmtree(path, ignore_errors=True)


def _load(path: Path) -> dict[str, torch.Tensor]:
    try:
        tensors: dict[str, torch.Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"{path}: is damaged: {error}; remove its folder to resume from the one before"
        ) from None
    return tensors
