"""What an image holds: Debian and Python packages with versions, hashes and licences, as an SBOM.

`python -m container.inventory KEY=VALUE...` runs at the end of a build, inside the image. The SBOM is CycloneDX 1.5
without time stamps, so that equal images have equal files.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from common.cli import run
from common.errors import UserError
from common.files import sha256_file, write_text

__all__ = [
    "canonical", "debian_licences", "differences", "python_licences", "read_debian_lock", "read_requirements", "sbom",
    "versions",
]  # fmt: skip

CONTEXT = Path("/context")
"""Where a build shows what was downloaded for it."""
_DOCUMENTS = Path("/usr/share/doc")


def canonical(name: str) -> str:
    """Return a Python package's name in the one spelling that lock files use."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _debian_versions() -> dict[str, str]:
    command = ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Abbrev}\n"]
    try:
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except OSError:  # another system than Debian
        return {}
    rows = [line.split() for line in text.splitlines()]
    return {name: version for name, version, status, *_ in rows if status.startswith("i")}


def versions() -> dict[str, dict[str, str]]:
    """Return the versions of all packages by name, `pypi` and `deb/debian` apart."""
    python = {canonical(dist.name): dist.version for dist in metadata.distributions()}
    return {"deb/debian": _debian_versions(), "pypi": python}


def python_licences(dist: metadata.Distribution) -> list[str]:
    """Return a Python package's licences: its SPDX expression, else its classifiers, else its own first words."""
    fields = dist.metadata.json
    if expression := fields.get("license_expression"):
        return [str(expression)]
    lines = [line for line in fields.get("classifier") or [] if line.startswith("License :: ")]
    own = str(fields.get("license") or "").strip().splitlines()
    return [line.rpartition(" :: ")[2] for line in lines] or [line[:120] for line in own[:1]]


def debian_licences(name: str, documents: Path = _DOCUMENTS) -> list[str]:
    """Return a Debian package's licences: those that its copyright file names, or which file that is."""
    path = documents / name / "copyright"
    text = path.read_text("utf-8", errors="replace") if path.is_file() else ""
    names = re.findall(r"^License:[ \t]*(\S.*)$", text, re.MULTILINE)
    # Not every file is in Debian's machine-readable form; those name the common licences' files.
    names = names or re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9+])", text)
    return sorted({line.strip() for line in names}) or ([f"see {path}"] if text else [])


def sbom(
    packages: Mapping[str, Mapping[str, str]],
    hashes: Mapping[str, str],
    licences: Mapping[str, Sequence[str]],
    about: Mapping[str, str],
) -> dict[str, Any]:
    """Return packages as a CycloneDX 1.5 document, sorted, without time stamps.

    Args:
        packages: as `versions` returns them.
        hashes: SHA-256 of the files that they were installed from, by the first part of a purl, `pkg:pypi/numpy`.
        licences: theirs, by the same.
        about: properties of the image.
    """
    components = []
    for kind, found in sorted(packages.items()):
        for name, version in sorted(found.items()):
            key = f"pkg:{kind}/{name}"
            row: dict[str, Any] = {"type": "library", "bom-ref": f"{key}@{version}", "name": name}
            row |= {"version": version, "purl": f"{key}@{version}"}
            if key in hashes:
                row["hashes"] = [{"alg": "SHA-256", "content": hashes[key]}]
            names = licences.get(key) or ["unknown: the package names none"]
            row["licenses"] = [{"license": {"name": one}} for one in dict.fromkeys(names)]
            components.append(row)
    properties = [{"name": key, "value": value} for key, value in sorted(about.items())]
    subject = {"component": {"type": "container", "name": "clm-or-mlm"}, "properties": properties}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": subject,
        "components": components,
    }


def read_debian_lock(path: Path) -> dict[str, tuple[str, str]]:
    """Return (version, SHA-256) by package from lines of `name version sha256`; `#` starts a comment."""
    lines = path.read_text("utf-8").splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return {name: (version, digest) for name, version, digest in rows}


def read_requirements(path: Path) -> dict[str, str]:
    """Return the versions that a hash-locked requirements file pins for this Python and machine.

    Raises:
        UserError: a line that is no pin.
    """
    from packaging.requirements import Requirement

    pins: dict[str, str] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line or line[0] in "# ":
            continue
        if "==" not in line:
            raise UserError(f"{path}:{number}: not a pinned requirement: {line}")
        one = Requirement(line.rstrip("\\ "))
        if one.marker is None or one.marker.evaluate():
            pins[canonical(one.name)] = str(one.specifier).removeprefix("==")
    return pins


def differences(expected: Mapping[str, object], found: Mapping[str, object]) -> list[str]:
    """Return a clause for each name that is missing, unexpected, or there with another value."""
    lines = [f"{name} {expected[name]} is missing" for name in expected if name not in found]
    lines += [f"{name} {found[name]} is not expected" for name in found if name not in expected]
    lines += [
        f"{name} is {found[name]}, expected {value}"
        for name, value in expected.items()
        if name in found and found[name] != value
    ]
    return lines


def main(argv: Sequence[str]) -> int | None:
    """Write the SBOM of the image that is being built, if its Debian packages are those of the lock."""
    packages = versions()
    debian = packages["deb/debian"]
    archives = Path("/var/cache/apt/archives").glob("*.deb")
    downloaded = {path.name.split("_")[0]: sha256_file(path) for path in archives}
    if (lock := CONTEXT / "debian.lock").is_file():
        found = {name: (version, downloaded.get(name, "unknown")) for name, version in debian.items()}
        if problems := differences(read_debian_lock(lock), found):
            raise UserError(
                f"the mirror does not hold the packages of {lock.name}: {'; '.join(problems)}; "
                "name a mirror of the recorded date (--mirror), or record the new set (--relock)"
            )
    hashes = {f"pkg:deb/debian/{name}": digest for name, digest in downloaded.items()}
    for path in (CONTEXT / "wheels").glob("*.whl"):
        hashes[f"pkg:pypi/{canonical(path.name.split('-')[0])}"] = sha256_file(path)
    licences = {f"pkg:deb/debian/{name}": debian_licences(name) for name in debian}
    for dist in metadata.distributions():
        licences[f"pkg:pypi/{canonical(dist.name)}"] = python_licences(dist)
    about = dict(word.split("=", 1) for word in argv)
    text = json.dumps(sbom(packages, hashes, licences, about), indent=1) + "\n"
    for folder in (CONTEXT, Path("/opt/clm-or-mlm")):
        write_text(folder / "sbom.json", text)
    return None


if __name__ == "__main__":
    run(main)
