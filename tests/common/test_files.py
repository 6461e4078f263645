"""Atomic files: the old one or the new one, never half of either."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from common.files import (
    atomic_folder,
    atomic_path,
    cache_folder,
    remove_leftovers,
    temporary_name,
    write_text,
)
from common.provenance import ROOT
from tests.commands import python


def test_an_error_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.txt"
    write_text(path, "old")
    with pytest.raises(RuntimeError), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.txt"]


def test_a_killed_writer_leaves_the_old_file_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "0" * 200_000)
    program = textwrap.dedent(
        f"""
        from pathlib import Path
        from common.files import write_text
        for i in range(10**6):
            write_text(Path({str(path)!r}), str(i % 10) * 200_000)
        """
    )
    for delay in (0.05, 0.11, 0.17):
        process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
        time.sleep(0.3 + delay)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        text = path.read_text()
        assert len(text) == 200_000
        assert len(set(text)) == 1


def test_files_get_the_usual_permissions(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "x")
    (tmp_path / "b").write_text("x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLM_OR_MLM_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("CLM_OR_MLM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert cache_folder() == tmp_path / "cache" / "clm-or-mlm"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the standard says: ignored
    assert cache_folder() == Path.home() / ".cache" / "clm-or-mlm"


def test_a_folder_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "folder"
    with atomic_folder(path) as temporary:
        (temporary / "a.txt").write_text("old")
    with pytest.raises(RuntimeError), atomic_folder(path) as temporary:
        (temporary / "a.txt").write_text("half")
        raise RuntimeError
    assert (path / "a.txt").read_text() == "old"
    with atomic_folder(path) as temporary:
        (temporary / "b.txt").write_text("new")
    assert [item.name for item in path.iterdir()] == ["b.txt"]
    assert [item.name for item in path.parent.iterdir()] == ["folder"]


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path: Path) -> None:
    program = textwrap.dedent(
        f"""
        import os, signal
        from pathlib import Path
        from common.files import atomic_folder, atomic_path
        with atomic_path(Path({str(tmp_path / "a.txt")!r})) as file, atomic_folder(Path({str(tmp_path / "b")!r})) as b:
            file.write_text("half")
            (b / "c").write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    python("-c", program)
    assert len(list(tmp_path.iterdir())) == 2
    with atomic_path(tmp_path / "a.txt") as mine:
        mine.write_text("mine")
        write_text(tmp_path / "a.txt", "whole")
        assert mine.exists(), "the file of a process that lives stays"
    with atomic_folder(tmp_path / "b") as folder:
        (folder / "c").write_text("whole")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.txt", "b"]


def test_a_folder_that_was_being_replaced_comes_back(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    name = temporary_name("b").replace(f"-{os.getpid()}-", f"-{child.pid}-")
    (tmp_path / f"{name}.old").mkdir()
    (tmp_path / f"{name}.old" / "c").write_text("old")
    remove_leftovers(tmp_path / "b")
    assert [entry.name for entry in tmp_path.iterdir()] == ["b"] and (
        tmp_path / "b" / "c"
    ).read_text() == "old"
