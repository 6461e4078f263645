"""Atomic files, one-sentence errors, provenance."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from common.cli import run
from common.errors import UserError, nearest
from common.files import atomic_path, cache_folder, sha256_file, write_text
from common.old_parser import Parser
from common.provenance import ROOT, lock_hash, provenance


def call(function: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stop:
        run(function, [])  # type: ignore[arg-type]
    return int(stop.value.code or 0), capsys.readouterr().err


def raising(error: BaseException) -> object:
    def main(argv: object) -> int:
        raise error

    return main


def test_a_user_error_is_one_sentence_and_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    code, err = call(raising(UserError("a.csv: no header; write one")), capsys)
    assert (code, err) == (2, "error: a.csv: no header; write one\n")


def test_a_full_disk_is_told_with_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    code, err = call(raising(OSError(28, "No space left on device", "/x/y")), capsys)
    assert code == 2
    assert err.startswith("error: /x/y: No space left on device; free some space")


def test_a_mistake_of_ours_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        run(raising(ZeroDivisionError()), [])  # type: ignore[arg-type]


def test_interrupt_is_130(capsys: pytest.CaptureFixture[str]) -> None:
    code, err = call(raising(KeyboardInterrupt()), capsys)
    assert code == 130
    assert "goes on from there" in err


def test_typos_get_the_nearest_word_also_in_commands(capsys: pytest.CaptureFixture[str]) -> None:
    parser = Parser(prog="x")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("show").add_argument("--split", choices=("train", "test"))
    for arguments, word in (
        (["shwo"], "show"),
        (["show", "--splt", "train"], "--split"),
        (["show", "--split", "tset"], "test"),
    ):
        with pytest.raises(SystemExit, match="2"):
            parser.parse_args(arguments)
        assert f"did you mean '{word}'?" in capsys.readouterr().err


def test_nearest() -> None:
    assert nearest("publishd", ["published", "released"]) == "; did you mean 'published'?"
    assert nearest("zzz", ["published"]) == ""


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


def test_provenance_names_lock_and_command() -> None:
    found = provenance("analysis", ("numpy", "no-such-package"))
    assert found["lock"] == {"name": "requirements/analysis.txt", "sha256": lock_hash("analysis")}
    assert lock_hash("analysis") == sha256_file(ROOT / "requirements" / "analysis.txt")
    assert list(found["versions"]) == ["numpy"]  # type: ignore[call-overload]
    assert lock_hash("none") == "unknown"


def test_cache_folder_is_the_named_one_or_the_user_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLM_OR_MLM_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("CLM_OR_MLM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert cache_folder() == tmp_path / "cache" / "clm-or-mlm"


def test_provenance_names_the_room_as_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/paper_figures/__main__.py", "3"])
    assert provenance("analysis")["command"] == ["python", "-m", "paper_figures", "3"]
