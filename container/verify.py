"""`python -m container verify`: an image against its record, the locks and the commit that is checked out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from common.errors import UserError
from common.files import sha256_file
from common.manifest import FILES, check_files, read_manifest
from common.provenance import git_commit
from container.build import Image, record_of
from container.inventory import differences, read_debian_lock, read_requirements

__all__ = ["Finding", "report", "verify"]

_REMEDY = "build the image again"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    what: str
    """The thing, in a few words."""
    problems: tuple[str, ...] = ()
    """What differs; empty when nothing does."""
    note: str = ""
    """What was seen, for the line of an agreement."""
    fatal: bool = True
    """Whether a difference makes the image another one; a newer commit of the code does not."""


def verify(image: Image, path: Path | None = None) -> list[Finding]:
    """Return what was compared and what differs: each byte by the record's hash, each package by the SBOM.

    Args:
        image: which of the two it should be.
        path: the image file; `build/<name>.sif` when left out.

    Raises:
        UserError: there is no such file, or no record of its build that can be believed.
    """
    path = path or image.path
    if not path.is_file():
        raise UserError(f"{path} does not exist; build it: python -m container build {image.name}")
    try:
        record = read_manifest(record_of(path), _REMEDY)
        check_files(path.parent, record[FILES], _REMEDY)
    except (FileNotFoundError, UserError) as error:
        return [Finding(what="file", problems=(str(error),))]
    bom = json.loads(path.with_suffix(".sbom.json").read_text("utf-8"))
    listed = {item["purl"].rpartition("@")[0]: item["version"] for item in bom["components"]}
    debian = {name: version for name, (version, _) in read_debian_lock(image.debian_lock).items()}
    locks = {"lock": sha256_file(image.requirements), "Debian lock": sha256_file(image.debian_lock)}
    return [
        Finding(what="file", note=f"sha256 {record[FILES][path.name]}"),
        _compared("image", {"image": image.name}, {"image": record["image"]}),
        _compared("locks", locks, {"lock": record["lock"], "Debian lock": record["debian"]["lock"]}),
        _compared("Python packages", read_requirements(image.requirements), _of(listed, "pkg:pypi/")),
        _compared("Debian packages", debian, _of(listed, "pkg:deb/debian/")),
        _compared("commit", {"commit": git_commit()}, {"commit": record["commit"]}, fatal=False),
    ]


def report(findings: Iterable[Finding]) -> str:
    """Return the findings as text, a line each."""
    lines = []
    for finding in findings:
        word = "ok" if not finding.problems else "DIFFERS" if finding.fatal else "note"
        lines.append(f"{word:8}{finding.what}: {'; '.join(finding.problems) or finding.note}\n")
    return "".join(lines)


def _of(listed: Mapping[str, str], kind: str) -> dict[str, str]:
    return {key.removeprefix(kind): version for key, version in listed.items() if key.startswith(kind)}


def _compared(
    what: str, expected: Mapping[str, str], found: Mapping[str, str], *, fatal: bool = True
) -> Finding:
    problems = tuple(differences(expected, found))
    note = f"{len(found)}, as expected" if len(found) > 1 else next(iter(found.values()))
    return Finding(what=what, problems=problems, note=note, fatal=fatal)
