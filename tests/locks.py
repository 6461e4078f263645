"""What the hash-locked requirement files pin."""

from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def read_requirements(path: Path) -> dict[str, str]:
    """Return the versions that a hash-locked requirements file pins for this Python and machine."""
    pins: dict[str, str] = {}
    for line in path.read_text("utf-8").splitlines():
        if line and line[0] not in "# ":
            one = Requirement(line.rstrip("\\ "))
            assert "==" in line, line
            if one.marker is None or one.marker.evaluate():
                pins[canonicalize_name(one.name)] = str(one.specifier).removeprefix(
                    "=="
                )
    return pins
