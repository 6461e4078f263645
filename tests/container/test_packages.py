"""Debian locks, licences and the SBOM, of this environment and of made-up packages."""

import json
import re
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from common.errors import UserError
from common.files import sha256_file
from common.provenance import ROOT
from container import packages
from container.packages import Package, debian_packages, main, python_packages, sbom
from tests.commands import program
from tests.oracle import Oracle

BASH = Package(
    "deb/debian", "bash", "5.2.15-2+b1", "see /usr/share/doc/bash/copyright", "0" * 64
)


def test_debian_packages_have_the_hashes_of_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = program(
        tmp_path / "bin/dpkg-query",
        "printf 'zlib1g 1:1.2 ii \\nbash 5.2 ii \\ngone 1 rc \\n'",
    )
    monkeypatch.setenv("PATH", f"{query.parent}:/usr/bin:/bin")
    (tmp_path / "bash_5.2_amd64.deb").write_text("x")
    found = debian_packages(tmp_path)
    assert [(one.name, one.version) for one in found] == [
        ("bash", "5.2"),
        ("zlib1g", "1:1.2"),
    ]
    assert [one.sha256 for one in found] == [
        sha256_file(tmp_path / "bash_5.2_amd64.deb"),
        "unknown",
    ]


def test_another_set_of_debian_packages_stops_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = f"bash {BASH.version} {BASH.sha256}"
    (tmp_path / "debian.lock").write_text(
        f"# bookworm 20260101T000000Z\n{line}\nzlib1g 1.2 11\n"
    )
    found = [BASH, Package("deb/debian", "zlib1g", "1.3", "", "22")]
    monkeypatch.setattr(packages, "debian_packages", lambda: found)
    monkeypatch.setattr(packages, "CONTEXT", tmp_path)
    message = r"not have the packages in debian\.lock: zlib1g 1\.2 11 -> 1\.3 22; use"
    with pytest.raises(UserError, match=message):
        main([])
    assert not (tmp_path / "sbom.json").exists()


def test_committed_debian_locks_are_complete() -> None:
    for path in (ROOT / "container").glob("debian-*.lock"):
        lines = path.read_text("utf-8").splitlines()[1:]
        assert any(line.startswith("python3.11 3.11.") for line in lines)
        assert all(re.fullmatch(r"\S+ \S+ [0-9a-f]{64}", line) for line in lines)


_BSD = "Classifier: License :: OSI Approved :: BSD License"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ("License-Expression: MIT OR Apache-2.0", "License: other"),
            "MIT OR Apache-2.0",
        ),
        (("License: long text", _BSD, "Classifier: Topic :: x"), "BSD License"),
        (("License: BSD-3-Clause",), "BSD-3-Clause"),
        ((), "unknown: the package names none"),
    ],
)
def test_a_python_packages_licence(
    tmp_path: Path, lines: tuple[str, ...], expected: str
) -> None:
    info = tmp_path / "x-1.dist-info"
    info.mkdir()
    text = "\n".join(("Metadata-Version: 2.4", "Name: x", "Version: 1", *lines)) + "\n"
    (info / "METADATA").write_text(text)
    assert packages._licence(PathDistribution(info)) == expected


def sbom_of_this_environment(folder: Path) -> str:
    found = [BASH, *(one._replace(sha256="0" * 64) for one in python_packages(folder))]
    document = sbom(found, {"commit": "abc"})
    keys = [row["purl"].rpartition("@")[0] for row in document["components"]]
    assert keys == sorted(keys)
    assert all(
        row["version"] and row["hashes"] and row["licenses"]
        for row in document["components"]
    )
    return json.dumps(document)


def test_the_sbom_of_this_environment_is_sorted_without_time(tmp_path: Path) -> None:
    assert "timestamp" not in sbom_of_this_environment(tmp_path)


@pytest.mark.slow
def test_the_sbom_of_this_environment_is_valid_cyclonedx(
    validators: Oracle, tmp_path: Path
) -> None:
    """By the reference library's validator, which is not ours."""
    text = sbom_of_this_environment(tmp_path)
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
