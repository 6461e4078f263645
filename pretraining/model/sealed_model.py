"""What a model folder's own manifest says of its files: written when it is exported, compared when it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from common.errors import UserError
from common.files import sha256_file
from common.manifest import SEAL, DamagedError, check_file, read_manifest, write_manifest
from common.reading import BadJsonError, read_bounded, strict_json
from pretraining.formats import Format, Hash, Positive

__all__ = ["FILES", "MANIFEST", "check_model", "file_seals", "read_model_manifest", "seal_model"]

MANIFEST = "manifest.json"
"""Name of the manifest in a model's folder."""
FILES = "files"
"""Its key with size and hash of each file that is loaded."""
_REMEDY = "fetch or export the model again"

_Plain = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\z")]


class _Seal(Format):
    bytes: Positive
    sha256: Hash


class _Files(Format):
    files: Annotated[dict[_Plain, _Seal], Field(min_length=1, max_length=10_000)]


def file_seals(folder: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    """Return size and SHA-256 of each of a folder's files."""
    return {
        name: {"bytes": (folder / name).stat().st_size, "sha256": sha256_file(folder / name)}
        for name in sorted(names)
    }


def seal_model(folder: Path, manifest: Mapping[str, Any], files: Mapping[str, Any]) -> None:
    """Write a model's manifest with the seals of its files."""
    write_manifest(folder / MANIFEST, {**manifest, FILES: dict(files)})


def read_model_manifest(folder: Path, remedy: str = _REMEDY) -> dict[str, Any]:
    """Return a sealed manifest.

    Raises:
        FileNotFoundError: there is none.
        UserError: it is not as it was written.
    """
    manifest = read_manifest(folder / MANIFEST, remedy)
    _Files.of({FILES: manifest.get(FILES)}, folder / MANIFEST, remedy)
    return manifest


def check_model(folder: Path, remedy: str = _REMEDY) -> dict[str, Any] | None:
    """Compare the files of a model folder with its manifest, where that is one of this package.

    Each file is hashed once in this process as long as it does not change. What others made has no such manifest.

    Returns:
        The manifest; None where there is none of ours.

    Raises:
        UserError: the manifest or a file is missing or damaged.
    """
    path = folder / MANIFEST
    try:
        content = strict_json(read_bounded(path, 2**28))
    except FileNotFoundError:
        return None
    except BadJsonError as error:
        raise UserError(f"{path}: is damaged ({error}); {remedy}") from None
    if not isinstance(content, dict) or not {SEAL, FILES} & set(content):
        return None
    manifest = read_model_manifest(folder, remedy)
    for name, seal in manifest[FILES].items():
        try:
            check_file(folder / name, seal["sha256"])
        except FileNotFoundError:
            raise UserError(f"{folder / name}: is missing; {remedy}") from None
        except DamagedError as problem:
            raise UserError(f"{folder / name}: is damaged: {problem}; {remedy}") from None
    return manifest
