"""The version: one place, and what else states it agrees."""

from __future__ import annotations

import re

import pytest

from clm_or_mlm.__main__ import main
from clm_or_mlm.rooms import ROOMS, main_of
from clm_or_mlm.version import VERSION
from common.provenance import ROOT


def test_the_citation_has_the_version() -> None:
    assert re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)[1] == VERSION  # type: ignore[index]


@pytest.mark.parametrize("room", ROOMS)
def test_every_program_states_it(room: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main_of(room)(["--version"]) == main(["--version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second and first.startswith(f"clm-or-mlm {VERSION} (commit ")
