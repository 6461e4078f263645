"""Locks, licences and the SBOM, of this environment and of made-up packages."""

from __future__ import annotations

import json
import re
from importlib.metadata import Distribution, PathDistribution, distributions
from pathlib import Path

import pytest

from common.errors import UserError
from common.provenance import ROOT
from container import inventory
from container.inventory import (
    canonical,
    debian_licences,
    differences,
    main,
    python_licences,
    read_debian_lock,
    read_requirements,
    sbom,
    versions,
)  # fmt: skip
from tests.oracle import Oracle


def test_locked_pins_are_read_for_this_python(tmp_path: Path) -> None:
    pins = read_requirements(ROOT / "requirements" / "analysis.txt")
    assert re.fullmatch(r"\d+\.\d+\.\d+", pins["numpy"])
    # Two versions of these are locked, for other Pythons than this one too.
    assert "scipy" in pins and "contourpy" in pins and "colorama" not in pins
    path = tmp_path / "requirements.txt"
    path.write_text("numpy>=2\n")
    with pytest.raises(UserError, match=r"requirements.txt:1: not a pinned requirement"):
        read_requirements(path)


def test_differences_name_what_is_missing_unexpected_and_other() -> None:
    lines = differences({"a": "1", "b": "1"}, {"b": "2", "c": "1"})
    assert lines == ["a 1 is missing", "c 1 is not expected", "b is 2, expected 1"]


def test_another_set_of_debian_packages_stops_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "debian.lock").write_text("# bookworm 20260101T000000Z\nbash 5.2 00\nzlib1g 1.2 11\n")
    found = {"deb/debian": {"bash": "5.3", "zlib1g": "1.2"}, "pypi": {}}
    monkeypatch.setattr(inventory, "versions", lambda: found)
    monkeypatch.setattr(inventory, "CONTEXT", tmp_path)
    with pytest.raises(
        UserError, match=r"does not hold the packages of debian\.lock: bash is .*; zlib1g is "
    ):
        main([])
    assert not (tmp_path / "sbom.json").exists()


def test_committed_debian_locks_are_complete() -> None:
    for path in (ROOT / "container").glob("debian-*.lock"):
        rows = read_debian_lock(path)
        assert rows["python3.11"][0].startswith("3.11.")
        assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for _, digest in rows.values())


def _package(folder: Path, *lines: str) -> Distribution:
    info = folder / "x-1.dist-info"
    info.mkdir()
    text = "\n".join(("Metadata-Version: 2.4", "Name: x", "Version: 1", *lines)) + "\n"
    (info / "METADATA").write_text(text)
    return PathDistribution(info)


_BSD = "Classifier: License :: OSI Approved :: BSD License"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("License-Expression: MIT OR Apache-2.0", "License: other"), ["MIT OR Apache-2.0"]),
        (("License: long text", _BSD, "Classifier: Topic :: x"), ["BSD License"]),
        (("License: BSD-3-Clause",), ["BSD-3-Clause"]),
        ((), []),
    ],
)
def test_a_python_packages_licences(tmp_path: Path, lines: tuple[str, ...], expected: list[str]) -> None:
    assert python_licences(_package(tmp_path, *lines)) == expected


def test_a_debian_packages_licences(tmp_path: Path) -> None:
    for name, text in (
        ("new", "Format: x\n\nFiles: *\nLicense: GPL-2+\n text\n\nFiles: a\nLicense: MIT\n"),
        ("old", "On Debian systems see /usr/share/common-licenses/LGPL-2.1.\n"),
        ("none", "All rights belong to me.\n"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "copyright").write_text(text)
    found = [debian_licences(name, tmp_path) for name in ("new", "old", "none", "gone")]
    assert found == [["GPL-2+", "MIT"], ["LGPL-2.1"], [f"see {tmp_path}/none/copyright"], []]


def sbom_of_this_environment() -> str:
    packages = versions() | {"deb/debian": {"bash": "5.2.15-2+b1"}}
    licences = {f"pkg:pypi/{canonical(dist.name)}": python_licences(dist) for dist in distributions()}
    licences["pkg:deb/debian/bash"] = ["GPL-3+"]
    hashes = {f"pkg:{kind}/{name}": "0" * 64 for kind, found in packages.items() for name in found}
    document = sbom(packages, hashes, licences, {"commit": "abc"})
    keys = [row["purl"].rpartition("@")[0] for row in document["components"]]
    assert keys == sorted(hashes)
    assert all(row["version"] and row["hashes"] and row["licenses"] for row in document["components"])
    return json.dumps(document)


def test_the_sbom_of_this_environment_is_sorted_without_time() -> None:
    assert "timestamp" not in sbom_of_this_environment()


@pytest.mark.slow
def test_the_sbom_of_this_environment_is_valid_cyclonedx(validators: Oracle, tmp_path: Path) -> None:
    """By the reference library's validator, which is not ours."""
    text = sbom_of_this_environment()
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
