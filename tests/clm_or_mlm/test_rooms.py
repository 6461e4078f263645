"""Every room's program: each command is there and helps, starts light, and misspelt ones get the nearest."""

from __future__ import annotations

import subprocess
import sys

import pytest

from clm_or_mlm.rooms import ROOMS, main_of
from common.cli import command_name
from common.errors import UserError
from common.provenance import ROOT

COMMANDS = [(room.name, command_name(path)) for room in ROOMS.values() for path in room.commands]


@pytest.mark.parametrize(("room", "command"), COMMANDS)
def test_every_command_helps(room: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not main_of(room)([command, "--help"])
    assert f"Usage: python -m {room} {command}" in capsys.readouterr().out


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_without_words_lists_its_commands(room: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not main_of(room)([])
    text = capsys.readouterr().out
    assert f"Usage: python -m {room}" in text
    assert all(command_name(path) in text for path in ROOMS[room].commands)


def test_a_misspelt_command_is_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match="unknown command 'ingset'; did you mean 'ingest'"):
        main_of("analysis")(["ingset"])


@pytest.mark.parametrize(
    "words", [["benchmarks", "run", "--modle", "x"], ["pretraining", "shards", "--outt", "x"]]
)
def test_a_misspelt_option_is_refused_before_anything_heavy_is_imported(words: list[str]) -> None:
    code = (
        "import sys\nfrom clm_or_mlm.rooms import ROOMS, main_of\n"
        "for room in ROOMS.values():\n    room.default or main_of(room.name)(['--help'])\n"
        f"try:\n    main_of({words[0]!r})({words[1:]!r})\nexcept ValueError as error:\n    print(error)\n"
        "sys.exit(bool({'torch', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "did you mean" in done.stdout.splitlines()[-1]
