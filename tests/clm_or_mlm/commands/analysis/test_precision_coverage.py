"""`clm-or-mlm coverage`."""

from __future__ import annotations

import json

from analysis.__main__ import main


def test_the_command_prints_every_format(capsys, tmp_path):
    for form in ("text", "markdown", "csv", "json"):
        assert main(["coverage", "--trials", "100", "--format", form]) == 0
        text = capsys.readouterr().out
        assert "crossed" in text
        if form == "json":
            assert len(json.loads(text)) == 26
    out = tmp_path / "coverage.md"
    assert main(["coverage", "--trials", "100", "--out", str(out)]) == 0
    assert "MS MARCO" in out.read_text()
