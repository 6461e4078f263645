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
from common.files import sha256_bytes, write_bytes
from common.manifest import (
    FILES,
    MANIFEST,
    check_files,
    read_manifest,
    strangers,
)
from common.plain_text import first_of

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
        UserError: they are not, and something else is in their place.
    """
    folder = kept_folder(store, key)
    try:
        record = read_manifest(folder / MANIFEST, _REMEDY)
        check_files(folder, record[FILES], _REMEDY)
        state = state_of(store, key)
        if record.get("description_sha256") == description_hash(
            state.description or {}
        ):
            return True
    except FileNotFoundError:
        pass
    except UserError as error:
        log.warning("%s; it will be made again", error)
    # A damaged file may be replaced, a file of another name may not.
    if others := strangers(folder, dict.fromkeys(written(folder), "")):
        raise UserError(
            f"{folder} holds {first_of(others)}, which --keep did not write; move it elsewhere, for the best "
            "run's weights go there"
        )
    return False


def written(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file that --keep wrote into a folder, its manifest last; none without a whole one."""
    try:
        files: dict[str, str] = read_manifest(folder / MANIFEST, _REMEDY)[FILES]
    except (FileNotFoundError, UserError):
        return {}
    card = {CARD: ""} if is_unedited(folder / CARD) else {}
    return files | card | {MANIFEST: ""}


_SEAL = "\n<!-- Written by clm-or-mlm, which leaves a changed card alone. {} -->\n"
"""The last line of a card; the scores before it grow with the runs, so it is not in the manifest."""


def write_card(path: Path, text: str) -> None:
    """Write a model card with its seal, unless it is there already."""
    sealed = (text + _SEAL.format(sha256_bytes(text.encode()))).encode()
    if not path.is_file() or path.read_bytes() != sealed:
        write_bytes(path, sealed)


def is_unedited(path: Path) -> bool:
    """Return whether a model card is as it was written, or is not there."""
    content = path.read_bytes() if path.is_file() else b""
    head, tail = _SEAL.split("{}")
    text, _, end = content.rpartition(head.encode())
    return not content or end == f"{sha256_bytes(text)}{tail}".encode()
