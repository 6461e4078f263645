"""The licences of installed packages, from what the packages say themselves, as CycloneDX writes them.

Runs inside an image, from the standard library alone.
"""

from __future__ import annotations

import re
from importlib.metadata import Distribution
from pathlib import Path

__all__ = ["debian_licences", "python_licences"]

Licences = list[dict[str, object]]
"""`[{"expression": ...}]` or `[{"license": {"name": ...}}, ...]`."""

_CLASSIFIER = "License :: OSI Approved :: "


def python_licences(dist: Distribution) -> Licences:
    """Return a Python package's licences: its SPDX expression, else its classifiers, else its own words."""
    fields = dist.metadata.json
    if expression := fields.get("license_expression"):
        return [{"expression": expression}]
    classifiers = [line for line in fields.get("classifier") or [] if line.startswith("License :: ")]
    names = [line.removeprefix(_CLASSIFIER).rpartition(" :: ")[2] for line in classifiers]
    own = str(fields.get("license") or "").strip().splitlines()
    if not names and own:
        # Some packages put the whole text there: its first line names it.
        names = [own[0][:120]]
    return _named(names or ["unknown: the package names none"])


def debian_licences(name: str, documents: Path = Path("/usr/share/doc")) -> Licences:
    """Return a Debian package's licences, from its copyright file: the names that it gives, or which file it is."""
    try:
        text = (documents / name / "copyright").read_text("utf-8", errors="replace")
    except OSError:
        return _named(["unknown: the package has no copyright file"])
    names = re.findall(r"^License:[ \t]*(\S.*)$", text, re.MULTILINE)
    if not names:
        # Not every file is in Debian's machine-readable form; those name the common licences' files.
        names = re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9+])", text)
    return _named(sorted({line.strip() for line in names}) or [f"see {documents / name / 'copyright'}"])


def _named(names: list[str]) -> Licences:
    return [{"license": {"name": name}} for name in dict.fromkeys(names)]
