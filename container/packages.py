"""What an image holds: Debian and Python packages with versions, hashes and licences, as an SBOM (CycloneDX 1.5).

An SBOM (software bill of materials) is a list of packages in a standard form, here CycloneDX's JSON.
`python -m container.packages KEY=VALUE...` runs at the end of a build, inside the image, and stops it when the Debian
packages are not those of the lock. The SBOM has no time stamps, so that equal images have equal files.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from common.cli import run
from common.errors import UserError
from common.files import sha256_file, write_text

CONTEXT = Path("/context")
"""Where a build shows what was downloaded for it."""

LOCK = "debian.found"
"""File in `CONTEXT` with a line for each installed Debian package, `name version sha256`, as locks have them."""


class Package(NamedTuple):
    """One package."""

    kind: str
    """`pypi` or `deb/debian`."""
    name: str
    version: str
    licence: str
    sha256: str
    """Hash of the file that it was installed from; `unknown` where that file is not at hand."""


def debian_packages(archives: Path = Path("/var/cache/archives")) -> list[Package]:
    """Return the Debian packages that are installed, sorted by name.

    Args:
        archives: folder with the .deb files that they were installed from.
    """
    command = ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Abbrev}\n"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    hashes = {}
    for path in archives.glob("*.deb"):
        # NAME_VERSION_ARCHITECTURE.deb; no name of a package has an underscore.
        name = path.name.split("_")[0]
        hashes[name] = sha256_file(path)

    packages = []
    for line in sorted(text.splitlines()):
        name, version, status = line.split()
        # `ii` is wanted and installed; the status of a package that was removed and left its configuration is
        # `rc`.
        if not status.startswith("i"):
            continue
        licence = f"see /usr/share/doc/{name}/copyright"
        digest = hashes.get(name, "unknown")
        packages.append(Package("deb/debian", name, version, licence, digest))

    return packages


def python_packages(wheels: Path) -> list[Package]:
    """Return the Python packages of this environment, sorted by name.

    Args:
        wheels: folder with the .whl files that they were installed from.
    """
    hashes = {}
    for path in wheels.glob("*.whl"):
        # NAME-VERSION-....whl; the name in it has no hyphen.
        name = _canonical(path.name.split("-")[0])
        hashes[name] = sha256_file(path)

    distributions = {
        _canonical(package.name): package for package in metadata.distributions()
    }
    packages = []
    for name, package in sorted(distributions.items()):
        digest = hashes.get(name, "unknown")
        licence = _licence(package)
        packages.append(Package("pypi", name, package.version, licence, digest))

    return packages


def _canonical(name: str) -> str:
    """Return the one name that all spellings of a Python package's name stand for."""
    # A wheel's file has `_` where its package may have `-` or `.`.
    return re.sub(r"[-_.]+", "-", name).lower()


def _licence(package: metadata.Distribution) -> str:
    """Return a package's licence as its metadata name it: an SPDX expression, else classifiers, else free text."""
    fields = package.metadata.json
    expression = fields.get("license_expression")
    if expression:
        return str(expression)

    # Such as `License :: OSI Approved :: MIT License`, of which the last part is the name.
    names = []
    for line in fields.get("classifier") or []:
        if line.startswith("License :: "):
            names.append(line.rpartition(" :: ")[2])

    if names:
        return " AND ".join(names)
    text = str(fields.get("license") or "").strip()

    # Some packages put the licence's whole text there; its first line has the name.
    first_line = text.partition("\n")[0]
    return first_line[:120] or "unknown: the package names none"


def sbom(packages: Iterable[Package], about: Mapping[str, str]) -> dict[str, Any]:
    """Return packages as a CycloneDX document.

    Args:
        packages: what the image holds.
        about: properties of the image, such as its commit, by name.
    """
    components = []
    for kind, name, version, licence, sha256 in packages:
        # A package URL, the standard name of a package in any ecosystem.
        purl = f"pkg:{kind}/{name}@{version}"
        row: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": name}
        row |= {
            "version": version,
            "purl": purl,
            "licenses": [{"license": {"name": licence}}],
        }
        if sha256 != "unknown":
            row["hashes"] = [{"alg": "SHA-256", "content": sha256}]
        components.append(row)

    properties = [{"name": key, "value": value} for key, value in sorted(about.items())]
    subject = {
        "component": {"type": "container", "name": "clm-or-mlm"},
        "properties": properties,
    }
    head = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1}
    return head | {"metadata": subject, "components": components}


def main(argv: Sequence[str]) -> None:
    """Write the SBOM of the image that is being built, if its Debian packages are those of the lock.

    Args:
        argv: properties of the image, each as KEY=VALUE.

    Raises:
        UserError: other Debian packages are installed.
    """
    debian = debian_packages()
    installed = []
    for package in debian:
        installed.append(f"{package.name} {package.version} {package.sha256}")
    lock = CONTEXT / "debian.lock"

    # There is no lock in the folder if this build is to make a new one.
    if lock.is_file():
        _check_debian(installed, lock)
    write_text(CONTEXT / LOCK, "".join(f"{line}\n" for line in installed))
    packages = [*debian, *python_packages(CONTEXT / "wheels")]
    about = dict(word.split("=", 1) for word in argv)
    text = json.dumps(sbom(packages, about), indent=1)

    # Written into the image, and into the build's folder, from where it goes beside the image.
    for folder in (CONTEXT, Path("/opt/clm-or-mlm")):
        write_text(folder / "sbom.json", f"{text}\n")


def _check_debian(installed: Sequence[str], lock: Path) -> None:
    """Refuse Debian packages that are not those of the lock.

    Args:
        installed: `name version sha256` of each.
        lock: a file of such lines, and comments.
    """
    lines = lock.read_text("utf-8").splitlines()
    locked = {line for line in lines if not line.startswith("#")}
    missing = locked - set(installed)
    others = set(installed) - locked
    if not missing and not others:
        return

    # By name, version and hash of the packages that differ: as in the lock, and as installed.
    old = dict(line.split(" ", 1) for line in missing)
    new = dict(line.split(" ", 1) for line in others)
    changes = []
    for name in sorted(old | new):
        changes.append(f"{name} {old.get(name, 'none')} -> {new.get(name, 'none')}")
    raise UserError(
        f"the mirror does not have the packages in {lock.name}: {'; '.join(changes)}; use a mirror of the recorded "
        "date (--mirror) or record the new set (--relock)"
    )


if __name__ == "__main__":
    run(main)
