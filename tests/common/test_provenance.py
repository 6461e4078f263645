"""What an artefact's side file records."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from common.errors import UserError
from common.files import sha256_file
from common.provenance import (
    ROOT,
    lock_hash,
    provenance,
    provenance_path,
    read_provenance,
    write_provenance,
)


def test_provenance_names_lock_and_command() -> None:
    found = provenance("analysis", ("numpy", "no-such-package"))
    assert found["lock"] == {"name": "requirements/analysis.txt", "sha256": lock_hash("analysis")}
    assert lock_hash("analysis") == sha256_file(ROOT / "requirements" / "analysis.txt")
    assert list(found["versions"]) == ["numpy"]  # type: ignore[call-overload]
    assert lock_hash("none") == "unknown"


def test_provenance_names_the_room_as_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/paper_figures/__main__.py", "3"])
    assert provenance("analysis")["command"] == ["python", "-m", "paper_figures", "3"]


def test_a_file_and_a_folder_have_theirs_in_a_place_of_its_own(tmp_path: Path) -> None:
    assert provenance_path(tmp_path, folder=True) == tmp_path / "provenance.json"
    assert provenance_path(tmp_path / "figure3.svg") == tmp_path / "figure3.provenance.json"
    assert provenance_path(tmp_path / "610m.v1.csv") == tmp_path / "610m.v1.provenance.json"


def test_what_is_written_is_read_and_a_changed_one_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "provenance.json"
    assert read_provenance(path) == {}
    write_provenance(path, {"seconds": {"tuning": 1.5}}, {"a.json": "0" * 64})
    assert read_provenance(path) == {"seconds": {"tuning": 1.5}, "files": {"a.json": "0" * 64}}
    whole = path.read_text()
    for damaged in (whole.replace("1.5", "2.5"), whole[:-20], "{}", "[]", '{"files": 1}', "\x00"):
        path.write_text(damaged)
        with pytest.raises(UserError, match=r"provenance\.json: is "):
            read_provenance(path)


def test_no_secret_of_the_command_line_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["x", "--url", "https://me:HUSH@host/x", "--seed", "1"])
    command = provenance("analysis")["command"]
    assert isinstance(command, list) and "HUSH" not in " ".join(command)
    assert command[-2:] == ["--seed", "1"]
