"""What an image holds: Debian and Python packages with versions, hashes and licences, as an SBOM (CycloneDX 1.5).

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
"""File there with a line for each Debian package, `name version sha256`, as locks have them."""


class Package(NamedTuple):
    """One package."""

    kind: str
    """`pypi` or `deb/debian`."""
    name: str
    version: str
    licence: str
    sha256: str
    """Of the file that it was installed from; `unknown` where that was not here."""


def debian_packages(archives: Path = Path("/var/cache/archives")) -> list[Package]:
    """Return the Debian packages that are installed, by name."""
    command = ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Abbrev}\n"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    hashes = {
        path.name.split("_")[0]: sha256_file(path) for path in archives.glob("*.deb")
    }
    rows = sorted(
        line.split()[:2]
        for line in text.splitlines()
        if line.split()[2].startswith("i")
    )
    return [
        Package(
            "deb/debian",
            name,
            version,
            f"see /usr/share/doc/{name}/copyright",
            hashes.get(name, "unknown"),
        )
        for name, version in rows
    ]


def python_packages(wheels: Path) -> list[Package]:
    """Return the Python packages of this environment, by name."""
    hashes = {
        _canonical(path.name.split("-")[0]): sha256_file(path)
        for path in wheels.glob("*.whl")
    }
    distributions = {
        _canonical(package.name): package for package in metadata.distributions()
    }
    return [
        Package(
            "pypi",
            name,
            package.version,
            _licence(package),
            hashes.get(name, "unknown"),
        )
        for name, package in sorted(distributions.items())
    ]


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _licence(package: metadata.Distribution) -> str:
    """Return a package's SPDX expression, else its classifiers, else its own first words."""
    fields = package.metadata.json
    lines = [
        line
        for line in fields.get("classifier") or []
        if line.startswith("License :: ")
    ]
    classifiers = " AND ".join(line.rpartition(" :: ")[2] for line in lines)
    first_words = str(fields.get("license") or "").strip().partition("\n")[0][:120]
    named = fields.get("license_expression") or classifiers or first_words
    return str(named or "unknown: the package names none")


def sbom(packages: Iterable[Package], about: Mapping[str, str]) -> dict[str, Any]:
    """Return packages, and the image's properties, as a CycloneDX document."""
    components = []
    for kind, name, version, licence, sha256 in packages:
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
    """Write the SBOM of the image that is being built, if its Debian packages are those of the lock."""
    debian = debian_packages()
    installed = [
        f"{package.name} {package.version} {package.sha256}" for package in debian
    ]
    if (lock := CONTEXT / "debian.lock").is_file():
        wanted = [
            line
            for line in lock.read_text("utf-8").splitlines()
            if not line.startswith("#")
        ]
        missing, others = (
            sorted(set(wanted) - set(installed)),
            sorted(set(installed) - set(wanted)),
        )
        if missing or others:
            old, new = (
                dict(line.split(" ", 1) for line in lines)
                for lines in (missing, others)
            )
            moved = [
                f"{name} {old.get(name, 'none')} -> {new.get(name, 'none')}"
                for name in sorted(old | new)
            ]
            raise UserError(
                f"the mirror does not have the packages in {lock.name}: {'; '.join(moved)}; use a mirror of the "
                "recorded date (--mirror) or record the new set (--relock)"
            )
    write_text(CONTEXT / LOCK, "".join(f"{line}\n" for line in installed))
    packages = [*debian, *python_packages(CONTEXT / "wheels")]
    text = (
        json.dumps(sbom(packages, dict(word.split("=", 1) for word in argv)), indent=1)
        + "\n"
    )
    for folder in (CONTEXT, Path("/opt/clm-or-mlm")):
        write_text(folder / "sbom.json", text)


if __name__ == "__main__":
    run(main)
