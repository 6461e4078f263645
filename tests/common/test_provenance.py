"""What an artefact's side file records."""

from __future__ import annotations

import sys

import pytest

from common.files import sha256_file
from common.provenance import ROOT, lock_hash, provenance


def test_provenance_names_lock_and_command() -> None:
    found = provenance("analysis", ("numpy", "no-such-package"))
    assert found["lock"] == {"name": "requirements/analysis.txt", "sha256": lock_hash("analysis")}
    assert lock_hash("analysis") == sha256_file(ROOT / "requirements" / "analysis.txt")
    assert list(found["versions"]) == ["numpy"]  # type: ignore[call-overload]
    assert lock_hash("none") == "unknown"


def test_provenance_names_the_room_as_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/paper_figures/__main__.py", "3"])
    assert provenance("analysis")["command"] == ["python", "-m", "paper_figures", "3"]
