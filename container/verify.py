"""`python -m container verify`: an image against its record, the locks and the commit it says it holds.

Everything is read from the image itself: the packages it has, whether their files are what the packages' own
records say, and its source tree against git's.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from common.errors import UserError
from common.files import sha256_file
from common.provenance import ROOT, git_commit
from container.apptainer import execute, labels
from container.build import Image, record_of
from container.inventory import canonical, differences, read_debian_lock, read_requirements
from container.signing import signature_problem

__all__ = ["Finding", "compare", "report", "signature", "verify"]

_PYTHON = "/opt/clm-or-mlm/env/bin/python"


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
    """Return what was compared and what differs.

    Args:
        image: which of the two it should be.
        path: the image file; `build/<name>.sif` when left out.

    Raises:
        UserError: there is no such file, or it cannot be read as an image.
    """
    path = path or image.path
    if not path.is_file():
        raise UserError(f"{path} does not exist; build it: python -m container build {image.name}")
    findings = [_file(path)]
    found = labels(path)
    inside = json.loads(execute(path, [_PYTHON, "-m", "container.inventory"]))
    bom = json.loads(execute(path, ["cat", "/opt/clm-or-mlm/sbom.json"]))
    findings += [
        _label("image", found.get("clm-or-mlm.image", "none"), image.name),
        _label("lock file", found.get("clm-or-mlm.lock.sha256", "none"), sha256_file(image.requirements)),
        _packages(image, inside["packages"], bom),
        _debian(image, inside["debian"]),
        Finding(
            what="installed files",
            problems=tuple(f"{line} was changed after the installation" for line in inside["altered"][:20]),
            note="as the packages' own records say",
        ),
        _sbom(inside, bom),
        _source(found.get("org.opencontainers.image.revision", "unknown"), inside["source"]),
        _commit(found.get("org.opencontainers.image.revision", "unknown")),
    ]
    return findings


def signature(path: Path, public: Path) -> Finding:
    """Return whether an image bears the signature of a public key's owner, over every byte that it covers."""
    problem = signature_problem(path, public)
    return Finding(what="signature", problems=() if problem is None else (problem,), note=f"by {public}")


def report(findings: Iterable[Finding]) -> str:
    """Return the findings as text, a line each."""
    lines = []
    for finding in findings:
        word = "ok" if not finding.problems else "DIFFERS" if finding.fatal else "note"
        lines.append(f"{word:8}{finding.what}: {'; '.join(finding.problems) or finding.note}\n")
    return "".join(lines)


def compare(first: Path, second: Path) -> Finding:
    """Return whether two images hold the same packages, by their SBOMs."""
    sets = []
    for path in (first, second):
        if not path.is_file():
            raise UserError(f"{path} does not exist")
        bom = json.loads(execute(path, ["cat", "/opt/clm-or-mlm/sbom.json"]))
        sets.append({item["purl"].split("@")[0]: _identity(item) for item in bom["components"]})
    problems = differences("package", sets[0], sets[1])
    return Finding(what="package sets", problems=tuple(problems), note=f"{len(sets[0])} packages in both")


def _identity(item: dict[str, object]) -> str:
    hashes = item.get("hashes")
    return f"{item['version']} {json.dumps(hashes)}" if hashes else str(item["version"])


def _file(path: Path) -> Finding:
    record = record_of(path)
    if not record.is_file():
        return Finding(what="file", problems=(f"{record} is missing, so the image's SHA-256 is not known",))
    expected, found = json.loads(record.read_text("utf-8"))["sha256"], sha256_file(path)
    problem = f"SHA-256 is {found}, {record.name} says {expected}: the file was changed after its build"
    return Finding(what="file", problems=() if found == expected else (problem,), note=f"sha256 {found}")


def _label(what: str, found: str, expected: str) -> Finding:
    problem = f"built for {found}, the repository has {expected}"
    return Finding(what=what, problems=() if found == expected else (problem,), note=expected)


def _packages(image: Image, found: dict[str, str], bom: dict[str, object]) -> Finding:
    expected = read_requirements(image.requirements)
    extra = {canonical(name) for name in _properties(bom).get("extra", "").split() if name}
    found = {name: version for name, version in found.items() if name not in extra}
    problems = differences("package", expected, found)
    return Finding(what="Python packages", problems=tuple(problems), note=f"{len(found)}, all as locked")


def _properties(bom: dict[str, object]) -> dict[str, str]:
    metadata = bom.get("metadata")
    rows = metadata.get("properties", []) if isinstance(metadata, dict) else []
    return {row["name"]: row["value"] for row in rows}


def _debian(image: Image, found: dict[str, str]) -> Finding:
    lock = {name: version for name, (version, _) in read_debian_lock(image.debian_lock).items()}
    problems = differences("Debian package", lock, found)
    return Finding(what="Debian packages", problems=tuple(problems), note=f"{len(found)}, all as locked")


def _sbom(inside: dict[str, dict[str, str]], bom: dict[str, object]) -> Finding:
    components = bom["components"]
    assert isinstance(components, list)
    listed = {item["purl"].split("/", 1)[0] + " " + item["name"]: item["version"] for item in components}
    real = {f"pkg:pypi {name}": version for name, version in inside["packages"].items()}
    real |= {f"pkg:deb {name}": version for name, version in inside["debian"].items()}
    return Finding(
        what="SBOM", problems=tuple(differences("component", listed, real)), note=f"{len(listed)} components"
    )


def _source(commit: str, found: dict[str, str]) -> Finding:
    command = ["git", "-C", str(ROOT), "ls-tree", "-r", "-z", commit]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:
        return Finding(what="source tree", problems=(f"commit {commit} is not in this repository",))
    rows = [line.split("\t", 1) for line in answer.stdout.split("\0") if line]
    expected = {name: head.split()[2] for head, name in rows}
    problems = differences("file", expected, found)
    note = f"{len(found)} files as in commit {commit[:12]}"
    return Finding(what="source tree", problems=tuple(problems[:20]), note=note)


def _commit(commit: str) -> Finding:
    here = git_commit()
    problem = f"the image holds {commit[:12]}, the repository is at {here}"
    return Finding(what="commit", problems=() if here == commit else (problem,), note=commit, fatal=False)
