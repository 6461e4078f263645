"""`python -m analysis sensitivity`."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.__main__ import main


def test_it_is_printed_or_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sensitivity"]) == 0
    assert "overturns" in capsys.readouterr().out
    assert main(["sensitivity", "--format", "csv", "--out", str(tmp_path / "forks.csv")]) == 0
    assert (tmp_path / "forks.csv").read_text().startswith("id,interval,selection,margin")
