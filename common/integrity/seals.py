"""Seals: a hash next to what it is of, so that a changed or cut file is noticed when it is read.

A seal finds damage and careless edits. It is no signature: whoever can write the file can seal it again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from common.errors import UserError

__all__ = ["SEAL", "BrokenSealError", "check_seal", "open_sealed", "seal_bytes", "sealed", "sha256_bytes"]

SEAL = "seal"
"""The key of a JSON document with the hash of the rest of it."""
_HEAD = b"sha256 "


class BrokenSealError(UserError):
    """Content that is not what its seal says."""


def sha256_bytes(content: bytes) -> str:
    """Return the SHA-256 of `content`, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON document with its seal as the last key."""
    return {**document, SEAL: _hash(document)}


def check_seal(document: Mapping[str, Any], *, needed: bool = False) -> dict[str, Any]:
    """Return the document without its seal.

    Args:
        document: as read.
        needed: refuse a document without a seal too; else it is one of an earlier version.

    Raises:
        BrokenSealError: it is not what was sealed; the sentence does not name the file.
    """
    rest = {key: value for key, value in document.items() if key != SEAL}
    if SEAL in document:
        if document[SEAL] != _hash(rest):
            raise BrokenSealError("was changed since it was written: its seal does not fit its content")
    elif needed:
        raise BrokenSealError("has no seal")
    return rest


def seal_bytes(content: bytes) -> bytes:
    """Return `content` with a first line that holds its hash."""
    return _HEAD + sha256_bytes(content).encode() + b"\n" + content


def open_sealed(content: bytes) -> bytes:
    """Return what `seal_bytes` sealed.

    Raises:
        BrokenSealError: it is not what was sealed, or was never sealed.
    """
    head, _, rest = content.partition(b"\n")
    if head != _HEAD + sha256_bytes(rest).encode():
        raise BrokenSealError("was changed since it was written: its seal does not fit its content")
    return rest


def _hash(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return sha256_bytes(text.encode("ascii"))
