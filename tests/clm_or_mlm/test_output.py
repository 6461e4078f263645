"""What a command has to say goes to a file or to standard output."""

from __future__ import annotations

from pathlib import Path

import pytest

from clm_or_mlm.output import write_or_print


def test_text_is_printed_or_written_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_or_print("a ± b\n", None)
    write_or_print("a ± b\n", tmp_path / "new" / "file")
    assert (tmp_path / "new" / "file").read_text("utf-8") == capsys.readouterr().out == "a ± b\n"
    write_or_print(b"\x00\xff", tmp_path / "bytes")
    assert (tmp_path / "bytes").read_bytes() == b"\x00\xff"
