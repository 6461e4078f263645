"""Checkpoints to resume from: weights and the optimizer's state as safetensors, everything else as JSON.

    <out>/stages/<stage>/step-00010000/{model.safetensors, optimizer.safetensors, state.json}

A stage is one run of the optimizer with one objective; a step is a number of updates, counted from the start of
pretraining. A folder of that name is complete: it is written under another name and renamed. Nothing else is needed to
resume, since batches, masks and rates follow from the step. `state.json` is a manifest (`common.manifest`): it holds
its own hash and those of the two other files, which are compared before a tensor is used.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from common.errors import UserError
from common.files import atomic_folder, remove_leftovers, sha256_file
from common.manifest import (
    FILES,
    check_files,
    read_manifest,
    strangers,
    write_manifest,
)
from common.plain_text import first_of
from pretraining.training.log import LOG, LogRecord, log_record
from pretraining.training.optimizer import load_optimizer_state, optimizer_state

_NAME = re.compile(r"step-(\d{8})")
_MODEL, _OPTIMIZER, _STATE = "model.safetensors", "optimizer.safetensors", "state.json"
_REMEDY = "remove its folder to resume from the previous checkpoint"
_FORMAT = 3
"""Version of the files' layout."""
LOG_RECORD = "log"
"""Key in `state.json` of the size and hash that the stage's log had at the checkpoint (`LogWriter.record`)."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint on disk."""

    path: Path
    """Its folder."""
    step: int
    """Updates, counted from random weights."""


def checkpoint_steps(folder: Path) -> list[Checkpoint]:
    """Return the complete checkpoints of a stage's folder by rising step."""
    complete = []
    for path in folder.glob("step-*"):
        match = _NAME.fullmatch(path.name)
        # `prune` removes state.json first, so a folder without it is not a checkpoint or is half removed.
        if match and (path / _STATE).is_file():
            complete.append(Checkpoint(path=path, step=int(match[1])))
    return sorted(complete, key=lambda item: item.step)


def check_free(folder: Path) -> None:
    """Refuse, before a stage is trained, a folder of a checkpoint's name with files that this package did not write.

    Args:
        folder: the stage's folder.

    Raises:
        UserError: the sentence names the files.
    """
    for path in folder.glob("step-*"):
        # A complete checkpoint, whose files are compared with their hashes when it is loaded.
        if (path / _STATE).is_file():
            continue
        # {}: without its record, no file there is known to be this package's, except temporary ones.
        others = strangers(path, {})
        if others:
            raise UserError(
                f"{path} holds {first_of(others)} but no {_STATE}, so it is no checkpoint; move it elsewhere, or "
                "choose another --out"
            )


def latest(folder: Path, up_to: int) -> Checkpoint | None:
    """Return the newest checkpoint at or before a step, or None."""
    for checkpoint in reversed(checkpoint_steps(folder)):
        if checkpoint.step <= up_to:
            return checkpoint
    return None


Tensors = Mapping[str, Mapping[str, torch.Tensor]]
"""Content of a checkpoint's two safetensors files: by the file's name, its tensors by their names, on the CPU."""


def tensors_of(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, *, copied: bool = True
) -> Tensors:
    """Return weights and optimizer state on the CPU, by the name of the file that they are saved in.

    Args:
        model: the model.
        optimizer: its optimizer.
        copied: whether to copy all tensors, so that training may go on while they are written. Without a copy, those
            that are on the CPU share their memory with the trained ones.
    """
    state = optimizer_state(model, optimizer)
    by_file: dict[str, dict[str, torch.Tensor]] = {}
    for file, tensors in ((_MODEL, model.state_dict()), (_OPTIMIZER, state)):
        content: dict[str, torch.Tensor] = {}
        storages: set[int] = set()
        for name, tensor in tensors.items():
            storage = tensor.untyped_storage().data_ptr()
            # safetensors refuses two names for one storage. Tied weights share theirs, so the second one is copied.
            must_copy = copied or storage in storages
            storages.add(storage)
            content[name] = tensor.detach().to("cpu", copy=must_copy).contiguous()

        by_file[file] = content

    return by_file


def write_checkpoint(
    folder: Path, step: int, tensors: Tensors, state: Mapping[str, Any]
) -> Checkpoint:
    """Write the checkpoint of a step, whole or not at all.

    Args:
        folder: the stage's folder.
        step: the step.
        tensors: weights and optimizer state, as `tensors_of` returns them.
        state: what `state.json` records besides.

    Raises:
        UserError: the disk has no room for it; what was there before is untouched.
        OSError: the disk failed otherwise.
    """
    final = _place(folder, step)
    try:
        # `making` is a temporary folder, which gets its final name when the block ends well.
        with atomic_folder(final) as making:
            for file, by_name in tensors.items():
                save_file(dict(by_name), making / file)
            files = {file: sha256_file(making / file) for file in tensors}
            content = {"format": _FORMAT, "step": step, **state}
            write_manifest(making / _STATE, content, files)
    except SafetensorError as error:
        raise UserError(
            f"{final} could not be written: {error}; earlier checkpoints are untouched; free some space and run the "
            f"same command again"
        ) from None

    return Checkpoint(path=final, step=step)


FILES_OF = (_MODEL, _OPTIMIZER, _STATE)
"""Files of a checkpoint."""


def _place(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08}"


def load_state(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the content of a checkpoint's `state.json`: what it records besides its tensors.

    Raises:
        UserError: the file is missing, damaged, of another version or of another checkpoint.
    """
    path = checkpoint.path / _STATE
    try:
        state = read_manifest(path, _REMEDY)
    except FileNotFoundError:
        raise UserError(f"{path} is missing; {_REMEDY}") from None

    if state.get("format") != _FORMAT:
        raise UserError(
            f"{path} was written by another version of this package; continue with that version, or choose "
            "another --out"
        )

    files = set(state.get(FILES, ()))
    if state.get("step") != checkpoint.step or files != {_MODEL, _OPTIMIZER}:
        raise UserError(f"{path} belongs to another checkpoint; {_REMEDY}")
    return state


def is_log_changed(folder: Path, up_to: int) -> bool:
    """Return whether rows of a stage's log have changed since its newest checkpoint at or before a step was written.

    The checkpoint records how many bytes the log had then, and their hash. False where nothing is recorded.
    """
    saved = latest(folder, up_to)
    if saved is None:
        return False
    try:
        state = load_state(saved)
    except UserError:  # a damaged checkpoint is reported where it is loaded
        return False
    record: LogRecord = state.get(LOG_RECORD, {})
    if not record:
        return False
    return log_record(folder / LOG, record["bytes"]) != record


def check_checkpoint(checkpoint: Checkpoint) -> None:
    """Refuse a checkpoint whose two safetensors files do not match their hashes in `state.json`.

    A file that does not change is hashed only once in a process.

    Raises:
        UserError: a file is missing or damaged.
    """
    # Without this check, one changed bit went unnoticed, and training reached a loss of 5.675 instead of 3.797.
    check_files(checkpoint.path, load_state(checkpoint)[FILES], _REMEDY)


def load_weights(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """Return the weights on the CPU, named as in the trained model: `EuroBertForMaskedLM` or `AdaptedModel`.

    Raises:
        UserError: they are missing or damaged.
    """
    check_checkpoint(checkpoint)
    tensors: dict[str, torch.Tensor] = load_file(checkpoint.path / _MODEL)
    return tensors


def restore(
    checkpoint: Checkpoint, model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """Load a checkpoint's weights and optimizer state into a model and its optimizer, bit for bit.

    Raises:
        UserError: the checkpoint cannot be read or belongs to another architecture.
    """
    try:
        model.load_state_dict(load_weights(checkpoint))
    except RuntimeError as error:
        # torch's message has a headline and then a line for each problem; the last one is enough.
        problem = str(error).splitlines()[-1].strip()
        raise UserError(
            f"{checkpoint.path} belongs to another architecture: {problem}"
        ) from None

    try:
        load_optimizer_state(model, optimizer, load_file(checkpoint.path / _OPTIMIZER))
    except (KeyError, ValueError, RuntimeError) as error:
        raise UserError(
            f"{checkpoint.path}: its optimizer state belongs to another model: {error}"
        ) from None


def prune(folder: Path, keep: Iterable[int]) -> None:
    """Remove a stage's checkpoints that are no longer needed, and temporary files that killed processes left.

    Args:
        folder: the stage's folder.
        keep: steps whose checkpoints stay; the newest stays as well.
    """
    wanted = set(keep)
    # The newest checkpoint is the last.
    for item in checkpoint_steps(folder)[:-1]:
        if item.step not in wanted:
            # state.json goes first: without it a half-removed folder no longer counts as a checkpoint.
            (item.path / _STATE).unlink()
            shutil.rmtree(item.path, ignore_errors=True)
    remove_leftovers(folder)


class CheckpointWriter:
    """Writes a stage's checkpoints in a thread, one at a time."""

    def __init__(
        self,
        folder: Path,
        before: Callable[[], None] = lambda: None,
        *,
        background: bool = True,
    ) -> None:
        """Prepare to write into a folder.

        Args:
            folder: the stage's folder.
            before: called before each checkpoint is written; the log's rows go to the disk there, so that no checkpoint
                is ahead of its log.
            background: whether training continues while a checkpoint is written. That needs a copy of the tensors.
        """
        self._folder = folder
        self._before = before
        self._background = background
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None

    def begin(
        self,
        step: int,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        state: Mapping[str, Any],
        keep: Iterable[int],
    ) -> UserError | OSError | None:
        """Begin to write the checkpoint of a step; when it is written, those that are no longer needed are removed.

        Without `background`, this also waits until that is done.

        Args:
            step: the step.
            model: the model.
            optimizer: its optimizer.
            state: what the checkpoint records besides tensors.
            keep: steps whose checkpoints stay.

        Returns:
            The error of a write that has ended: of the checkpoint before this one or, without `background`, of this
            one. None if there was none.
        """
        # Wait for the checkpoint before this one, so that at most one copy of the tensors is in memory.
        problem = self.finish()
        # A checkpoint of this step that exists already stays as it is: training that has resumed from an
        # older one computes the same again.
        is_there = (_place(self._folder, step) / _STATE).is_file()
        if problem is not None or is_there:
            return problem
        tensors = tensors_of(model, optimizer, copied=self._background)

        # This step as well: `prune` keeps the newest checkpoint anyway, but this one is not the newest if training
        # has resumed from an older checkpoint.
        kept_steps = [*keep, step]
        self._pending = self._pool.submit(
            self._write, step, tensors, dict(state), kept_steps
        )
        return None if self._background else self.finish()

    def finish(self) -> UserError | OSError | None:
        """Wait until the checkpoint that was begun is written; return the error of a full or failing disk, or None."""
        # Ctrl-C may interrupt the wait, before `_pending` is cleared: the next call then waits again.
        error = None if self._pending is None else self._pending.exception()
        self._pending = None
        if error is None or isinstance(error, UserError | OSError):
            return error
        raise error

    def _write(
        self, step: int, tensors: Tensors, state: Mapping[str, Any], keep: list[int]
    ) -> None:
        """Write a checkpoint after the log's rows, then remove older ones; run by the thread."""
        self._before()
        write_checkpoint(self._folder, step, tensors, state)
        prune(self._folder, keep)
