"""The seals of runs tables: in the metadata of a Parquet table; of a CSV `runs.csv.sha256` next to it.

`sha256sum -c` can check the latter as well. A table that somebody else wrote has neither and is read as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.files import sha256_bytes, write_text
from common.reading import UnreadableError, read_bounded

__all__ = ["check_seal", "content_seal", "seal_path", "write_seal"]

_MOST = 1 << 12
"""Bytes of the largest seal that is read: a hash and a file name."""


def content_seal(text: str, record: Mapping[str, Any]) -> str:
    """Return the hash of a table as CSV and of what a Parquet file records with it."""
    rest = {name: record.get(name) for name in ("added_models", "protocol")}
    if "datasets" in record:  # few tables have it, and the others keep their seals
        rest["datasets"] = record["datasets"]
    return sha256_bytes(f"{json.dumps(rest, sort_keys=True)}\n{text}".encode())


def seal_path(table: Path) -> Path:
    """Return where a CSV table's seal is."""
    return table.with_name(f"{table.name}.sha256")


def write_seal(table: Path, content: bytes) -> None:
    """Seal a table that was written with this content, unless it went to a device or a pipe."""
    text = f"{sha256_bytes(content)}  {table.name}\n"
    path = seal_path(table)
    if table.is_file() and not (path.is_file() and path.read_bytes() == text.encode()):
        write_text(path, text)


def check_seal(table: Path, content: bytes) -> bool:
    """Return whether a table has a seal, after comparing its content with it.

    Raises:
        UserError: the table was changed since it was written, or its seal was.
    """
    path = seal_path(table)
    try:
        words = read_bounded(path, _MOST).split()
    except FileNotFoundError:
        return False
    except UnreadableError as error:
        raise UserError(
            f"{path}: the seal of a runs table {error.reason}; make both again with ingest"
        ) from None
    if words[:1] != [sha256_bytes(content).encode()]:
        raise UserError(
            f"{table}: was changed since it was written: its seal does not fit; make it again with ingest, or "
            f"delete {path} to have it read as a table of your own"
        )
    return True
