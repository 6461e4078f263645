"""The room's commands: each can be imported and helps; misspelt ones are answered with the nearest."""

from __future__ import annotations

import pytest

from analysis.__main__ import main
from clm_or_mlm.commands.analysis import ROOM
from common.errors import UserError


@pytest.mark.parametrize("command", ROOM.commands)
def test_every_command_helps(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not main([command, "--help"])
    assert f"Usage: python -m analysis {command}" in capsys.readouterr().out


def test_the_room_lists_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert not main([])
    text = capsys.readouterr().out
    assert all(command in text for command in ROOM.commands)


def test_a_misspelt_command_is_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match="unknown command 'ingset'; did you mean 'ingest'"):
        main(["ingset"])
