"""`python -m clm_or_mlm`: commands of all rooms, with the room's name where several rooms have one of a name."""

from __future__ import annotations

import pytest

from clm_or_mlm import __main__ as package
from clm_or_mlm.__main__ import main
from common.errors import UserError


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (["table", "--help"], "python -m analysis table"),
        (["train", "--help"], "python -m pretraining train"),
        (["figure", "--help"], "python -m paper_figures"),
        (["benchmarks", "run", "--help"], "python -m benchmarks run"),
        (["container", "run", "--help"], "python -m container run"),
    ],
)
def test_words_reach_the_room(words: list[str], usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    assert f"Usage: {usage}" in capsys.readouterr().out


def test_a_command_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", "10"]) == 0
    short = capsys.readouterr().out
    assert main(["analysis", "table", "10"]) == 0
    assert capsys.readouterr().out == short != ""


def test_no_words_list_commands_and_rooms(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = {line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("│")}
    assert {"train", "table", "figure", *package.ROOMS} <= lines
    assert not {"run", "container:run"} & lines


@pytest.mark.parametrize(
    ("word", "near"), [("tabel", "table"), ("benchmark", "benchmarks"), ("figur", "figure")]
)
def test_a_misspelt_word_is_answered_with_the_nearest(word: str, near: str) -> None:
    with pytest.raises(UserError, match=f"unknown command '{word}'; did you mean '{near}'"):
        main([word])
