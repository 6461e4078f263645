"""Outputs go where they are sent: links, devices, pipes; and what the system refuses names the user's file."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from common.files import atomic_folder, atomic_path, write_text
from common.provenance import ROOT

WRITE = (
    "import sys; from pathlib import Path; from common.cli import run; from common.files import write_text\n"
    "print('before'); run(lambda words: write_text(Path(words[0]), 'x' * 100_000 + '\\n'))"
)


def written(path: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", WRITE, str(path)],
        cwd=ROOT,
        text=True,
        stderr=subprocess.PIPE,
        check=False,
        **options,
    )


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("there.txt", "new.txt"):
        (tmp_path / f"to-{name}").symlink_to(Path("deep", name))
    (tmp_path / "deep" / "there.txt").write_text("old")
    for name in ("there.txt", "new.txt"):
        write_text(tmp_path / f"to-{name}", "new")
        assert (tmp_path / f"to-{name}").is_symlink()
        assert (tmp_path / "deep" / name).read_text() == "new"
    (tmp_path / "folder").symlink_to("deep")
    with atomic_folder(tmp_path / "folder") as temporary:
        (temporary / "a").write_text("a")
    assert (tmp_path / "folder").is_symlink() and [p.name for p in (tmp_path / "deep").iterdir()] == ["a"]


def test_devices_are_written_to_and_not_replaced(tmp_path: Path) -> None:
    write_text(Path(os.devnull), "x")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    done = written("/dev/full", stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (
        2, "error: /dev/full: No space left on device; free some space and run the same command again\n",
    )  # fmt: skip
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_a_pipe_gets_all_of_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "x" * 200_000)
    reader.join()
    assert read == ["x" * 200_000] and stat.S_ISFIFO(pipe.stat().st_mode)


def test_every_refusal_names_the_users_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for path, why in (
        (tmp_path / "file" / "below", "File exists"),
        (tmp_path / "folder", "Is a directory"),
        (tmp_path / ("long" * 100), "File name too long"),
    ):
        done = written(path, stdout=subprocess.DEVNULL)
        named = path.parent if path.name == "below" else path
        assert (done.returncode, done.stderr) == (2, f"error: {done.stderr.split(': ')[1]}: {why}\n")
        assert str(named) in done.stderr and ".tmp" not in done.stderr
    real = os.fsync

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("common.files.os.fsync", full)
    with pytest.raises(OSError, match="No space") as error:
        write_text(tmp_path / "a.txt", "x")
    assert error.value.filename == str(tmp_path / "a.txt")
    monkeypatch.setattr("common.files.os.fsync", real)

    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "some temporary file")

    monkeypatch.setattr(Path, "unlink", read_only)
    with pytest.raises(RuntimeError, match="the first error"), atomic_path(tmp_path / "b.txt"):
        raise RuntimeError("the first error")


def test_long_names_are_written_too(tmp_path: Path) -> None:
    path = tmp_path / ("ü" * 120 + ".txt")
    write_text(path, "x")
    assert path.read_text() == "x"
