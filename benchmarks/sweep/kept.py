"""Which run's weights a store keeps: of each cell the one with the best validation score. Light: no torch.

encoders/<model>/<task>/<dataset>/lr1e-04_sd0/      config.json, model.safetensors, tokenizer, manifest, README.md
"""

from __future__ import annotations

from pathlib import Path

from common.errors import UserError
from common.files import sha256_bytes, write_bytes
from common.manifest import (
    FILES,
    MANIFEST,
    read_manifest,
)

CARD = "README.md"
"""The model card of a kept encoder."""
REMEDY = "run this command again to make it again"


def kept_files(folder: Path) -> dict[str, str]:
    """Return the files that --keep wrote into a folder, its manifest last; none without an undamaged manifest.

    Returns:
        The SHA-256 of each file by its path below the folder; empty where any content of the file is ours: of the
        manifest, and of a card that nobody changed. A changed card is left out, for it is not ours to remove.
    """
    try:
        files: dict[str, str] = read_manifest(folder / MANIFEST, REMEDY)[FILES]
    except (FileNotFoundError, UserError):
        return {}
    card = {CARD: ""} if is_unedited(folder / CARD) else {}
    return files | card | {MANIFEST: ""}


_SEAL = "\n<!-- Written by clm-or-mlm, which leaves a changed card alone. {} -->\n"
"""The last line of a card, with the hash of the text above it. The manifest does not have the card's hash, because a
card is written again when the cell has more runs."""


def write_card(path: Path, text: str) -> None:
    """Write a model card with its seal, the last line, unless the same card is there already."""
    sealed = (text + _SEAL.format(sha256_bytes(text.encode()))).encode()
    if not path.is_file() or path.read_bytes() != sealed:
        write_bytes(path, sealed)


def is_unedited(path: Path) -> bool:
    """Return whether a model card is as it was written, or is not there."""
    content = path.read_bytes() if path.is_file() else b""
    # The seal around its hash: what is before it in the file is the text that the hash is of.
    before_hash, after_hash = _SEAL.split("{}")
    text, _, found = content.rpartition(before_hash.encode())
    return not content or found == f"{sha256_bytes(text)}{after_hash}".encode()
