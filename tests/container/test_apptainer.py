"""The Apptainer command, on a made-up program."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.errors import UserError
from container.apptainer import apptainer, execute, labels, stream, version


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An `apptainer` that reports a version and echoes all other words, and no `singularity`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    path = folder / "apptainer"
    path.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo apptainer version 1.4.5 && exit\n'
        'echo "$@"\n[ "$1" = build ] && exit 7\n[ "$1" = inspect ] && exit 255\nexit 0\n'
    )
    path.chmod(0o755)
    (folder / "unshare").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin:/bin")
    version.cache_clear()
    yield path
    version.cache_clear()


def test_the_version_is_asked_once(program: Path) -> None:
    assert version() == (1, 4)
    program.unlink()
    assert version() == (1, 4)


def test_no_program_called_singularity_is_needed(program: Path) -> None:
    assert apptainer() == str(program)
    lines = list(stream(["test", "x.sif"]))
    assert "".join(lines).strip() == "test x.sif"


def test_a_command_that_fails_is_one_sentence(program: Path) -> None:
    with pytest.raises(UserError, match="apptainer build ended with code 7"):
        list(stream(["build", "x.sif"]))


def test_a_file_that_is_no_image_is_refused(program: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not an image that apptainer can read; build it again"):
        labels(tmp_path / "x.sif")


def test_output_is_returned_and_a_failure_names_its_last_line(program: Path) -> None:
    assert execute(Path("x.sif"), ["cat", "a"]).split()[-3:] == ["x.sif", "cat", "a"]
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo 1.4 && exit\necho first\necho why >&2\nexit 3\n'
    )
    with pytest.raises(UserError, match=r"x\.sif: cat a \.\.\. failed: why"):
        execute(Path("x.sif"), ["cat", "a"])


def test_labels_are_read_as_apptainer_prints_them(program: Path) -> None:
    answer = '{"data": {"attributes": {"labels": {"a": "1"}}}, "type": "container"}'
    program.write_text(f"#!/bin/sh\n[ $1 = --version ] && echo 1.4 && exit\necho '{answer}'\n")
    assert labels(Path("x.sif")) == {"a": "1"}
