"""`clm-or-mlm sensitivity`."""

from pathlib import Path

import pytest

from analysis.evidence.evidence import Settings
from analysis.sensitivity.sensitivity_page import sensitivity_of
from analysis.sources import PUBLISHED
from clm_or_mlm.__main__ import main


@pytest.mark.slow
def test_it_is_printed_or_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = sensitivity_of(PUBLISHED, PUBLISHED.with_interval(Settings()))
    monkeypatch.setattr("analysis.commands.findings.sensitivity_of", lambda *_, **__: computed)
    assert main(["sensitivity"]) == 0
    said = capsys.readouterr().out
    assert "overturns" in said and "adjustment none: holds" in said
    assert main(["sensitivity", "--format", "csv", "--out", str(tmp_path / "forks.csv")]) == 0
    assert (tmp_path / "forks.csv").read_text().startswith("id,protocol,selection,interval,adjustment")
