"""Datasets that are defined already, in the folder `ready`: `--datasets xnli`, or `glue-cola` for one of a file.

Standard library only; the page is docs/add-a-dataset.md.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.own_datasets.definition_file import Definition, read_definitions
from common.errors import UserError, nearest

__all__ = ["READY", "definitions_of", "ready_files", "ready_text"]

READY = Path(__file__).resolve().parent / "ready"
"""The folder of the files."""


def ready_files() -> dict[str, Path]:
    """Return the ready files by what they are called."""
    return {path.stem: path for path in sorted(READY.glob("*.toml"))}


def definitions_of(given: Path) -> list[Definition]:
    """Return the datasets of a file of one's own, of a ready file, or the one dataset of a ready file.

    Args:
        given: a path, or a name such as `xnli`, `xnli-de` or `xnli_de`; a file in the working folder wins.

    Raises:
        UserError: it is neither; or the file says something that is not understood.
    """
    files, name = ready_files(), str(given)
    if given.is_file() or given.suffix or given.name != name:
        return read_definitions(given)
    if name in files:
        return read_definitions(files[name])
    wanted = name.replace("-", "_")
    for path in files.values():
        if wanted.startswith(path.stem.replace("-", "_")):
            found = read_definitions(path)
            if chosen := [definition for definition in found if definition.name == wanted]:
                return chosen
            known = [definition.name for definition in found]
            raise UserError(
                f"{path.stem} has no dataset {name!r}{nearest(wanted, known)}; one of {', '.join(known)}"
            )
    raise UserError(
        f"there is no file {given}, and no ready file of that name{nearest(name, files)}; one of {', '.join(files)}"
    )


def ready_text() -> str:
    """Return a line for each dataset that is ready: its file, kind, metric and repositories with their revisions."""
    lines = []
    for stem, path in ready_files().items():
        for definition in read_definitions(path):
            places = ", ".join(f"{part['repo']}@{part['revision'][:12]}" for part in definition.sources)
            kind, metric = definition.kind.name, definition.headline
            lines.append(
                f"{stem:11} {definition.name:22} {kind:10} {metric:11} {definition.title:26} {places}"
            )
    return "\n".join(lines)
