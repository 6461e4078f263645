"""What an image holds: Debian and Python packages, changed files, the source tree; as an SBOM.

Runs inside the image, from the standard library and `common` alone. The SBOM is CycloneDX 1.5 without time
stamps, so that equal images have equal files.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from common.cli import run
from common.errors import UserError
from common.files import sha256_file, write_text
from container.licences import debian_licences, python_licences

__all__ = [
    "altered_files", "blob_id", "debian_hashes", "debian_packages", "differences", "inventory",
    "python_packages", "read_debian_lock", "read_requirements", "sbom", "source_files", "wheel_hashes",
]  # fmt: skip

ROOT = Path(__file__).resolve().parent.parent
_SKIP = {"__pycache__", ".git", ".venv", "build"}


def canonical(name: str) -> str:
    """Return a Python package's name in the one spelling that lock files use."""
    return re.sub(r"[-_.]+", "-", name).lower()


def python_packages() -> dict[str, str]:
    """Return the version of every installed Python package by canonical name."""
    return {canonical(dist.name): dist.version for dist in metadata.distributions()}


def debian_packages() -> dict[str, str]:
    """Return the version of every Debian package by name; empty where there is no dpkg."""
    try:
        answer = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Abbrev}\n"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return {}
    rows = [line.split() for line in answer.stdout.splitlines()]
    return {row[0]: row[1] for row in rows if row[2].startswith("i")}


def debian_hashes(archives: Path = Path("/var/cache/apt/archives")) -> dict[str, str]:
    """Return the SHA-256 of each Debian package file that the build downloaded, by package name."""
    return {path.name.split("_")[0]: sha256_file(path) for path in sorted(archives.glob("*.deb"))}


def wheel_hashes(folders: Iterable[Path], packages: Mapping[str, str]) -> dict[str, str]:
    """Return the SHA-256 of the wheel that each Python package was installed from, by name.

    Args:
        folders: where the wheels are.
        packages: versions by name.
    """
    found = {}
    for folder in folders:
        for path in sorted(folder.glob("*.whl")):
            name, version = path.name.split("-")[:2]
            if packages.get(canonical(name)) == version:
                found[canonical(name)] = sha256_file(path)
    return found


def altered_files() -> list[str]:
    """Return installed files whose content is not what the package's own record says, or that are gone."""
    found = []
    for dist in metadata.distributions():
        for file in dist.files or ():
            # Bytecode is written by the installer, even where a wheel brought some.
            if file.hash is None or file.hash.mode != "sha256" or file.suffix == ".pyc":
                continue
            path = Path(str(file.locate()))
            digest = bytes.fromhex(sha256_file(path)) if path.is_file() else b""
            if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
                found.append(f"{canonical(dist.name)}: {file}")
    return sorted(found)


def blob_id(content: bytes) -> str:
    """Return the name git gives to a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def source_files(root: Path = ROOT) -> dict[str, str]:
    """Return git's name for the content of every file under `root`, by relative path."""
    found = {}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - _SKIP)
        for name in sorted(names):
            path = Path(folder, name)
            content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
            found[path.relative_to(root).as_posix()] = blob_id(content)
    return found


def sbom(
    python: Mapping[str, str],
    debian: Mapping[str, str],
    hashes: Mapping[str, str],
    about: Mapping[str, str],
    wheels: Mapping[str, str] | None = None,
    licences: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Return the packages as a CycloneDX 1.5 document, sorted, without time stamps.

    Args:
        python: versions of Python packages.
        debian: versions of Debian packages.
        hashes: SHA-256 of each Debian package's file.
        about: properties of the image.
        wheels: SHA-256 of the wheel that each Python package was installed from.
        licences: what `container.licences` found, by the first part of a purl, `pkg:pypi/numpy`.
    """

    def component(kind: str, name: str, version: str) -> dict[str, object]:
        key, known = f"pkg:{kind}/{name}", (wheels or {}) if kind == "pypi" else hashes
        row: dict[str, object] = {
            "type": "library",
            "bom-ref": f"{key}@{version}",
            "name": name,
            "version": version,
        }
        row["purl"] = f"{key}@{version}"
        if name in known:
            row["hashes"] = [{"alg": "SHA-256", "content": known[name]}]
        if licences and key in licences:
            row["licenses"] = licences[key]
        return row

    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {"type": "container", "name": "clm-or-mlm"},
            "properties": [{"name": key, "value": about[key]} for key in sorted(about)],
        },
        "components": [
            *(component("deb/debian", name, debian[name]) for name in sorted(debian)),
            *(component("pypi", name, python[name]) for name in sorted(python)),
        ],
    }


def inventory() -> dict[str, object]:
    """Return everything `verify` compares: packages, altered files, source files, Python."""
    return {
        "python": platform.python_version(),
        "packages": python_packages(),
        "debian": debian_packages(),
        "altered": altered_files(),
        "source": source_files(),
    }


def read_debian_lock(path: Path) -> dict[str, tuple[str, str]]:
    """Return (version, SHA-256) by package from lines of `name version sha256`; `#` starts a comment."""
    rows = [
        line.split() for line in path.read_text("utf-8").splitlines() if line and not line.startswith("#")
    ]
    return {name: (version, digest) for name, version, digest in rows}


_PIN = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?==(?P<version>[^ ;\\]+)(?:\s*;\s*(?P<marker>[^\\]+?))?\s*\\?$"
)


def read_requirements(path: Path) -> dict[str, str]:
    """Return the versions that a hash-locked requirements file pins for this Python and machine.

    Raises:
        UserError: a line that is no pin.
    """
    from packaging.markers import Marker

    pins: dict[str, str] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line or line[0] in "# ":
            continue
        match = _PIN.match(line)
        if match is None:
            raise UserError(f"{path}:{number}: not a pinned requirement: {line}")
        if match["marker"] is None or Marker(match["marker"]).evaluate():
            pins[canonical(match["name"])] = match["version"]
    return pins


def differences(what: str, expected: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Return a line for each name that is missing, unexpected, or there with another value."""
    lines = []
    for name in sorted({*expected, *found}):
        if name not in found:
            lines.append(f"{what} {name} {expected[name]} is missing")
        elif name not in expected:
            lines.append(f"{what} {name} {found[name]} is not expected")
        elif found[name] != expected[name]:
            lines.append(f"{what} {name} is {found[name]}, expected {expected[name]}")
    return lines


def _check(debian_lock: Path | None, debian: Mapping[str, str], hashes: Mapping[str, str]) -> None:
    if debian_lock is None or not debian_lock.is_file():
        return
    lock = read_debian_lock(debian_lock)
    problems = differences("Debian package", {name: version for name, (version, _) in lock.items()}, debian)
    wrong = {name: digest for name, digest in hashes.items() if name in lock and lock[name][1] != digest}
    problems += [f"Debian package {name} has another SHA-256, {wrong[name]}" for name in sorted(wrong)]
    if problems:
        raise UserError(
            f"the mirror does not hold the packages of {debian_lock.name}: {'; '.join(problems)}; "
            "name a mirror of the recorded date (--mirror), or record the new set (--relock)"
        )


def main(argv: Sequence[str]) -> int | None:
    text = "What this image or environment holds."
    parser = argparse.ArgumentParser("python -m container.inventory", description=text, allow_abbrev=False)
    parser.add_argument(
        "--context", type=Path, default=Path("/context"), metavar="DIR", help="what the build has downloaded"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="write an SBOM (CycloneDX JSON) and stop")
    parser.add_argument(
        "--debian-lock", type=Path, metavar="FILE", help="refuse another set of Debian packages"
    )
    parser.add_argument(
        "--about", action="append", default=[], metavar="KEY=VALUE", help="properties to record"
    )
    arguments = parser.parse_args(argv)
    if arguments.write is None:
        json.dump(inventory(), sys.stdout, indent=1, sort_keys=True)
        return None
    debian, hashes = debian_packages(), debian_hashes()
    _check(arguments.debian_lock, debian, hashes)
    python = python_packages()
    wheels = wheel_hashes([arguments.context / name for name in ("wheels", "built", "extra")], python)
    licences = {f"pkg:deb/debian/{name}": debian_licences(name) for name in debian}
    licences |= {
        f"pkg:pypi/{canonical(dist.name)}": python_licences(dist) for dist in metadata.distributions()
    }
    about = dict(word.split("=", 1) for word in arguments.about)
    document = sbom(python, debian, hashes, about, wheels, licences)
    write_text(arguments.write, json.dumps(document, indent=1) + "\n")
    return None


if __name__ == "__main__":
    run(main)
