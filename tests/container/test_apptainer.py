"""The Apptainer command through its Python client, on a made-up program."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.errors import UserError
from common.provenance import ROOT
from container.apptainer import apptainer, labels, stream, version


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


def test_singularity_is_made_an_alias_where_a_site_leaves_it_out(program: Path) -> None:
    pytest.importorskip("spython")
    assert apptainer() == str(program)
    lines = list(stream(["test", "x.sif"]))
    assert "".join(lines).strip() == "test x.sif"


def test_a_command_that_fails_is_one_sentence(program: Path) -> None:
    pytest.importorskip("spython")
    with pytest.raises(UserError, match="apptainer build ended with code 7"):
        list(stream(["build", "x.sif"]))


def test_a_file_that_is_no_image_is_refused(program: Path, tmp_path: Path) -> None:
    pytest.importorskip("spython")
    with pytest.raises(UserError, match="not an image that apptainer can read; build it again"):
        labels(tmp_path / "x.sif")


def test_without_its_client_make_is_named(program: Path) -> None:
    code = (
        "import sys; sys.modules['spython'] = None; sys.modules['spython.main'] = None\n"
        "from pathlib import Path\nfrom common.cli import run\nfrom container.apptainer import labels\n"
        "run(lambda argv: labels(Path('x.sif')))\n"
    )
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "spython is not installed here; run this by `make`" in ended.stderr
