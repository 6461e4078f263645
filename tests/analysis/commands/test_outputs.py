"""A command's file holds what it would print, in every format."""

from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main

PRINTED = ("text", "markdown", "csv", "json")
COMMANDS = {
    "scores": ("markdown", "csv"),
    "claims F8 --explain": PRINTED,
    "compare 610m-mlm40-42k 610m-clm-42k": (*PRINTED, "latex"),
    "audit": ("markdown", "json"),
}
CASES = [(words, form) for words, forms in COMMANDS.items() for form in forms]


@pytest.mark.parametrize(
    ("words", "form"),
    [
        pytest.param(
            *case, marks=() if case[1] in ("text", "latex") else pytest.mark.slow
        )
        for case in CASES
    ],
)
def test_a_file_holds_what_would_be_printed(
    words: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = [*words.split(), "--format", form]
    assert main(call) == 0
    printed = capsys.readouterr().out
    assert main([*call, "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_text() == printed != ""
