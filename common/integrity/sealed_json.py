"""Sealed JSON files: believed only byte for byte as they were written, so that no change of a single bit passes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.files import write_text
from common.integrity.doors import BadJsonError, read_bounded, strict_json
from common.integrity.seals import BrokenSealError, check_seal, sealed

__all__ = ["read_sealed", "sealed_text", "write_sealed"]

_MOST_BYTES = 2**28


def sealed_text(content: Mapping[str, Any]) -> str:
    """Return the text of a sealed file."""
    return json.dumps(sealed(content), indent=2, sort_keys=True, allow_nan=False) + "\n"


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """Write a sealed file, atomically."""
    write_text(path, sealed_text(content))


def read_sealed(path: Path, remedy: str) -> dict[str, Any]:
    """Return the content of a sealed file, without its seal.

    Args:
        path: the file.
        remedy: what the user can do about a damaged one, for the message.

    Raises:
        FileNotFoundError: there is none.
        UserError: it is not as it was written; the sentence ends with the remedy.
    """
    data = read_bounded(path, _MOST_BYTES)
    try:
        document = strict_json(data)
        if not isinstance(document, dict):
            raise BadJsonError("it holds no record")
        content = check_seal(document, needed=True)
        if sealed_text(content).encode() != data:
            raise BrokenSealError("is not laid out as it is written")
    except (BadJsonError, BrokenSealError) as error:
        raise BrokenSealError(f"{path}: is damaged, or of an earlier version ({error}); {remedy}") from None
    return content
