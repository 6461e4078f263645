"""Fine-tuned weights on disk, until all the retrieval datasets that share a fine-tuning are evaluated with them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from benchmarks.finetuning.trainer import FineTuningLog
from benchmarks.runs import RunKey
from benchmarks.tasks.base import TaskModel
from common.files import atomic_path

__all__ = ["FinetunedWeights", "weights_path"]


def weights_path(store: Path, key: RunKey) -> Path:
    """Return where the weights of a run's fine-tuning are until every dataset that needs them is evaluated."""
    return store / "tuned" / key.model / f"{key.folder.name}.safetensors"


@dataclass(frozen=True, kw_only=True)
class FinetunedWeights:
    """The file with the weights of one fine-tuning."""

    path: Path
    """The file."""
    fingerprint: str
    """Hash of all that they depend on."""

    @classmethod
    def of(cls, store: Path, key: RunKey, settings: Mapping[str, Any]) -> FinetunedWeights:
        """Return the file of a run's fine-tuning under the settings that `run.json` records."""
        what = {**settings, "lr": key.lr, "seed": key.seed}
        del what["evaluation_data"]
        digest = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()
        return cls(path=weights_path(store, key), fingerprint=digest)

    def save(self, model: TaskModel, record: FineTuningLog) -> None:
        """Write the weights."""
        tensors = _apart(model.state_dict())
        log = json.dumps(dataclasses.asdict(record))
        metadata = {"fingerprint": self.fingerprint, "log": log, "content": _content(tensors, log)}
        with atomic_path(self.path) as temporary:
            save_file(tensors, temporary, metadata)

    def restore(self, model: TaskModel) -> FineTuningLog | None:
        """Put the weights into `model` and return their log; None when there are none that fit and are whole."""
        if not self.path.is_file():
            return None
        try:
            with safe_open(self.path, framework="pt") as file:
                metadata = file.metadata() or {}
                if metadata.get("fingerprint") != self.fingerprint:
                    return None
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError):
            return None
        if metadata.get("content") != _content(tensors, metadata.get("log", "")):
            return None
        model.load_state_dict(tensors)
        content = json.loads(metadata["log"])
        return FineTuningLog(**{**content, "losses": tuple(content["losses"])})

    def remove(self) -> None:
        """Delete the weights."""
        self.path.unlink(missing_ok=True)


def _apart(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors on the CPU, each in memory of its own: a file cannot hold tied weights (T5's) as they are."""
    apart: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in state.items():
        own = tensor.detach().contiguous().cpu()
        apart[name] = own.clone() if own.untyped_storage().data_ptr() in seen else own
        seen.add(own.untyped_storage().data_ptr())
    return apart


def _content(tensors: Mapping[str, Tensor], log: str) -> str:
    digest = hashlib.sha256(log.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
