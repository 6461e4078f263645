"""Every command's help holds an example, and every example is a call that the command takes."""

from __future__ import annotations

import re
import shlex

import pytest
from cyclopts import App

from clm_or_mlm.examples import EXAMPLES, epilogue
from clm_or_mlm.rooms import ROOMS, main_of
from common.cli import command_name

COMMANDS = [
    *(f"{room.name} {command_name(path)}" for room in ROOMS.values() for path in room.commands),
    *(room.name for room in ROOMS.values() if room.default),
    *(f"benchmarks datasets {name}" for name in ("list", "show", "verify")),
]


def examples_in(text: str, command: str, prefix: str = "python -m") -> list[str]:
    """The calls of a command in its help; the help's lines are broken at the terminal's width."""
    _, _, rest = re.sub(r"\s+", " ", text).partition(f"Usage: {prefix} {command}")
    return re.findall(rf"{prefix} {command}(?= |$)", rest)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_commands_help_holds_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    room, *words = command.split()
    assert not main_of(room)([*words, "--help"])
    assert examples_in(capsys.readouterr().out, command)


def test_every_command_is_in_the_list_and_nothing_else() -> None:
    assert set(EXAMPLES) == set(COMMANDS)


@pytest.mark.parametrize("command", [command for command in COMMANDS if EXAMPLES[command]])
def test_every_example_is_understood(command: str) -> None:
    room, *names = command.split()
    app: App = ROOMS[room].program()
    for name in names:
        app = app[name]
    for words in EXAMPLES[command]:
        given = shlex.split(words)
        if command == "container run":
            given = given[:1]
        app.parse_args(given, print_error=False, exit_on_error=False)


def test_the_installed_program_shows_its_own_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert not main_of("analysis", "clm-or-mlm")(["table", "--help"])
    assert examples_in(capsys.readouterr().out, "analysis table", "clm-or-mlm")
    assert epilogue("benchmarks import") == ""
