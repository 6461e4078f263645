"""Fine-tuned weights on disk, until all the retrieval datasets that share a fine-tuning are evaluated with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from benchmarks.finetuning.trainer import FineTuningLog
from benchmarks.runs import RunKey
from benchmarks.tasks.base import TaskModel
from common.description import description_hash
from common.errors import UserError
from common.files import atomic_path, sha256_file
from common.manifest import FILES, check_files, read_manifest, write_manifest

__all__ = ["FinetunedWeights"]


@dataclass(frozen=True, kw_only=True)
class FinetunedWeights:
    """The file with the weights of one fine-tuning, and its manifest."""

    path: Path
    """The file."""
    description_sha256: str
    """Hash of all that they depend on."""

    @classmethod
    def of(cls, store: Path, key: RunKey, description: Mapping[str, Any]) -> FinetunedWeights:
        """Return the file of a run's fine-tuning under the description that `run.json` records."""
        what = {**description, "lr": key.lr, "seed": key.seed}
        del what["evaluation_data"]
        path = store / "tuned" / key.model / f"{key.folder.name}.safetensors"
        return cls(path=path, description_sha256=description_hash(what))

    @property
    def _manifest(self) -> Path:
        return self.path.with_suffix(".json")

    def save(self, model: TaskModel, log: FineTuningLog) -> None:
        """Write the weights, then their manifest."""
        with atomic_path(self.path) as temporary:
            save_file(_apart(model.state_dict()), temporary)
        record = {"description_sha256": self.description_sha256, "log": dataclasses.asdict(log)}
        write_manifest(self._manifest, record, {self.path.name: sha256_file(self.path)})

    def restore(self, model: TaskModel) -> FineTuningLog | None:
        """Put the weights into `model` and return their log; None when there are none that fit and are whole."""
        try:
            record = read_manifest(self._manifest, "")
            if record["description_sha256"] != self.description_sha256:
                return None
            check_files(self.path.parent, record[FILES], "")
        except (OSError, UserError):
            return None
        model.load_state_dict(load_file(self.path))
        return FineTuningLog(**{**record["log"], "losses": tuple(record["log"]["losses"])})

    def remove(self) -> None:
        """Delete the weights."""
        self.path.unlink(missing_ok=True)
        self._manifest.unlink(missing_ok=True)


def _apart(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors on the CPU, each in memory of its own: a file cannot hold tied weights (T5's) as they are."""
    apart: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in state.items():
        own = tensor.detach().contiguous().cpu()
        apart[name] = own.clone() if own.untyped_storage().data_ptr() in seen else own
        seen.add(own.untyped_storage().data_ptr())
    return apart
