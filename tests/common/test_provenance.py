"""What an artefact's side file records."""

import sys
from pathlib import Path

import pytest

from common.files import sha256_file
from common.provenance import ROOT, provenance, provenance_path


def test_provenance_names_lock_and_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys,
        "argv",
        [
            *("/there/paper_figures/__main__.py", "--url", "https://me:HUSH@host/x"),
            *("3", "--source", "/home/alice/text.txt", "--set=cache=/scratch/alice"),
        ],
    )
    found = provenance("analysis", ("numpy", "no-such-package"))
    lock = ROOT / "requirements" / "analysis.txt"
    assert found["lock"] == {
        "name": "requirements/analysis.txt",
        "sha256": sha256_file(lock),
    }
    assert list(found["versions"]) == ["numpy"]  # type: ignore[call-overload]
    assert found["command"] == [
        "python",
        "-m",
        "paper_figures",
        "--url",
        "https://***@host/x",
        "3",
        "--source",
        "text.txt",
        "--set=cache=alice",
    ]


def test_a_file_and_a_folder_have_theirs_in_a_place_of_its_own(tmp_path: Path) -> None:
    assert provenance_path(tmp_path, folder=True) == tmp_path / "provenance.json"
    assert (
        provenance_path(tmp_path / "figure3.svg")
        == tmp_path / "figure3.provenance.json"
    )
    assert (
        provenance_path(tmp_path / "610m.v1.csv")
        == tmp_path / "610m.v1.provenance.json"
    )
