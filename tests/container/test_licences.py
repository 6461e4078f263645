"""Licences of packages, in the three ways in which packages say them."""

from __future__ import annotations

import json
from importlib.metadata import Distribution, PathDistribution, distributions
from pathlib import Path

import pytest

from container.inventory import canonical, sbom
from container.licences import debian_licences, python_licences
from tests.oracle import Oracle


def _package(folder: Path, *lines: str) -> Distribution:
    info = folder / "x-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "\n".join(("Metadata-Version: 2.4", "Name: x", "Version: 1", *lines)) + "\n"
    )
    return PathDistribution(info)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("License-Expression: MIT OR Apache-2.0", "License: other"), [{"expression": "MIT OR Apache-2.0"}]),
        (
            (
                "License: long text",
                "Classifier: License :: OSI Approved :: BSD License",
                "Classifier: Topic :: x",
            ),
            [{"license": {"name": "BSD License"}}],
        ),
        (("License: BSD-3-Clause",), [{"license": {"name": "BSD-3-Clause"}}]),
        ((), [{"license": {"name": "unknown: the package names none"}}]),
    ],
)
def test_a_python_packages_licences(tmp_path: Path, lines: tuple[str, ...], expected: object) -> None:
    assert python_licences(_package(tmp_path, *lines)) == expected


def test_a_debian_packages_licences(tmp_path: Path) -> None:
    for name, text in (
        ("new", "Format: x\n\nFiles: *\nLicense: GPL-2+\n text\n\nFiles: a\nLicense: MIT\n"),
        ("old", "On Debian systems see /usr/share/common-licenses/LGPL-2.1.\n"),
        ("none", "All rights belong to me.\n"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "copyright").write_text(text)
    found = {name: debian_licences(name, tmp_path) for name in ("new", "old", "none", "gone")}
    assert found["new"] == [{"license": {"name": "GPL-2+"}}, {"license": {"name": "MIT"}}]
    assert found["old"] == [{"license": {"name": "LGPL-2.1"}}]
    assert found["none"] == [{"license": {"name": f"see {tmp_path}/none/copyright"}}]
    assert found["gone"] == [{"license": {"name": "unknown: the package has no copyright file"}}]


def test_the_sbom_of_this_environment_is_valid_cyclonedx(validators: Oracle, tmp_path: Path) -> None:
    """By the reference library's validator, which is not ours."""
    packages = {canonical(dist.name): dist for dist in distributions()}
    python = {name: dist.version for name, dist in packages.items()}
    licences = {f"pkg:pypi/{name}": python_licences(dist) for name, dist in packages.items()}
    licences["pkg:deb/debian/bash"] = [{"license": {"name": "GPL-3+"}}]
    wheels = dict.fromkeys(python, "0" * 64)
    document = sbom(python, {"bash": "5.2.15-2+b1"}, {"bash": "f" * 64}, {"commit": "abc"}, wheels, licences)
    components = document["components"]
    assert isinstance(components, list)
    assert all(row["hashes"] and row["licenses"] for row in components)
    text = json.dumps(document)
    broken = text.replace('"type": "library"', '"type": "libary"', 1)
    script = """
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    validator = JsonStrictValidator(SchemaVersion.V1_5)
    answer = [str(validator.validate_str(text) or "") for text in given["texts"]]
    """
    good, bad = validators.run(script, folder=tmp_path / "run", texts=[text, broken])
    assert good == ""
    assert "libary" in bad
