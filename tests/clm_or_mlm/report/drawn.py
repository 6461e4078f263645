"""Figures that are changed for a test, as if they had been drawn so."""

from __future__ import annotations

from pathlib import Path

from common.files import sha256_file
from common.provenance import provenance_path, write_provenance

ENDINGS = ("svg", "csv", "txt", "json")


def seal_figures(folder: Path) -> None:
    """Write the provenance of every figure of a folder."""
    for table in folder.glob("*.csv"):
        files = [table.with_suffix(f".{ending}") for ending in ENDINGS]
        write_provenance(provenance_path(table), {}, {path.name: sha256_file(path) for path in files})
