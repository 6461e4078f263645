"""Which run's weights a store keeps: of each cell the one with the best validation score. Light: no torch.

encoders/<model>/<task>/<dataset>/lr1e-04_sd0/      config.json, model.safetensors, tokenizer, manifest, README.md
"""

from __future__ import annotations

import logging
from pathlib import Path

from benchmarks.protocol import Dataset
from benchmarks.runs import RunKey, found_keys
from benchmarks.sweep.status import counted_scores_of, state_of
from common.description import description_hash
from common.errors import UserError
from common.manifest import FILES, MANIFEST, check_files, read_manifest

log = logging.getLogger(__name__)

CARD = "README.md"
_REMEDY = "run this command again to make it again"


def kept_folder(store: Path, key: RunKey) -> Path:
    """Return where the weights of a run are while it is the best of its cell."""
    return store / "encoders" / key.folder


def best_run(store: Path, model: str, dataset: Dataset) -> RunKey | None:
    """Return the run of a cell with the best validation score, of equal ones that of the lowest rate, then seed."""
    done = [
        (scores[0], -key.lr, -key.seed, key)
        for key in found_keys(store, model, dataset)
        if (scores := counted_scores_of(store, key, dataset)) is not None
    ]
    return max(done)[-1] if done else None


def is_lost(store: Path, key: RunKey, dataset: Dataset) -> bool:
    """Return whether a run is the best of its cell and its weights are not there."""
    return best_run(store, key.model, dataset) == key and not is_kept(store, key)


def is_kept(store: Path, key: RunKey) -> bool:
    """Return whether the weights of a run that is done are there, undamaged, and made by what its description says.

    Raises:
        UserError: something else is in their place.
    """
    folder = kept_folder(store, key)
    try:
        record = read_manifest(folder / MANIFEST, _REMEDY)
        check_files(folder, record[FILES], _REMEDY)
    except FileNotFoundError:
        if folder.exists():
            raise UserError(
                f"{folder} is no encoder that --keep wrote; move it elsewhere, for the best run's weights go there"
            ) from None
        return False
    except UserError as error:
        log.warning("%s; it will be made again", error)
        return False
    state = state_of(store, key)
    return record.get("description_sha256") == description_hash(state.description or {})
