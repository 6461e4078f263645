"""`python -m container verify`: an image against its record, the locks and the commit that is checked out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from common.errors import UserError
from common.files import sha256_file
from common.manifest import FILES, check_files, read_manifest
from common.provenance import git_commit
from container.build import Image, record_of
from container.doctor import Line, fail, ok, warn
from container.inventory import differences, read_debian_lock, read_requirements

__all__ = ["verify"]

_REMEDY = "build the image again"


def verify(image: Image, path: Path | None = None) -> list[Line]:
    """Return what was compared and what differs: each byte by the record's hash, each package by the SBOM.

    A newer commit of the code does not make an image another one: it is a warning.

    Args:
        image: which of the two it should be.
        path: the image file; `build/<name>.sif` when left out.

    Raises:
        UserError: there is no such file.
    """
    path = path or image.path
    if not path.is_file():
        raise UserError(f"{path} does not exist; build it: python -m container build {image.name}")
    try:
        record = read_manifest(record_of(path), _REMEDY)
        if path.name not in record[FILES]:
            raise UserError(
                f"{record_of(path)} is about {', '.join(record[FILES])}; give the file its name back"
            )
        check_files(path.parent, record[FILES], _REMEDY)
    except (FileNotFoundError, UserError) as error:
        return [fail("file", str(error))]
    bom = json.loads(path.with_suffix(".sbom.json").read_text("utf-8"))
    found: dict[str, dict[str, str]] = {"pypi": {}, "deb/debian": {}}
    for item in bom["components"]:
        found[item["purl"].removeprefix("pkg:").rpartition("/")[0]][item["name"]] = item["version"]
    debian = {name: version for name, (version, _) in read_debian_lock(image.debian_lock).items()}
    here, there = git_commit(), record["commit"]
    return [
        ok("file", f"sha256 {record[FILES][path.name]}"),
        _compared("image", {"image": image.name}, {"image": record["image"]}),
        _compared(
            "locks",
            {"Python": sha256_file(image.requirements), "Debian": sha256_file(image.debian_lock)},
            {"Python": record["lock"], "Debian": record["debian"]["lock"]},
        ),
        _compared("Python packages", read_requirements(image.requirements), found["pypi"]),
        _compared("Debian packages", debian, found["deb/debian"]),
        ok("commit", here)
        if here == there
        else warn("commit", f"the image holds {there}, the repository {here}"),
    ]


def _compared(what: str, expected: Mapping[str, str], found: Mapping[str, str]) -> Line:
    problems = differences(expected, found)
    return fail(what, "; ".join(problems), _REMEDY) if problems else ok(what, f"{len(found)} as expected")
