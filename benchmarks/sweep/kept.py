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
REMEDY = "run this command again to make it again"


def kept_files(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file that --keep wrote into a folder, its manifest last; none without a whole one."""
    try:
        files: dict[str, str] = read_manifest(folder / MANIFEST, REMEDY)[FILES]
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
    # The card's last line has the hash of the text that we wrote; a card that somebody changed is kept.
    content = path.read_bytes() if path.is_file() else b""
    head, tail = _SEAL.split("{}")
    text, _, end = content.rpartition(head.encode())
    return not content or end == f"{sha256_bytes(text)}{tail}".encode()
