"""The version: one place, and what else states it agrees."""

from __future__ import annotations

import json

import pytest
import yaml

from clm_or_mlm.__main__ import main
from clm_or_mlm.rooms import ROOMS, main_of
from clm_or_mlm.version import VERSION
from common.provenance import ROOT


def test_what_archives_read_has_the_version_and_the_licence() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    codemeta, zenodo = (
        json.loads((ROOT / name).read_text("utf-8")) for name in ("codemeta.json", ".zenodo.json")
    )
    assert citation["version"] == codemeta["version"] == zenodo["version"] == VERSION
    assert citation["license"] == zenodo["license"] == codemeta["license"].rpartition("/")[2] == "Apache-2.0"
    assert citation["title"] == zenodo["title"] and codemeta["name"] == "clm-or-mlm"
    assert codemeta["referencePublication"]["url"] == citation["preferred-citation"]["url"]
    assert zenodo["related_identifiers"][0]["identifier"] in codemeta["description"].replace(
        "arXiv ", "arXiv:"
    )


@pytest.mark.parametrize("room", ROOMS)
def test_every_program_states_it(room: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main_of(room)(["--version"]) == main(["--version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second and first.startswith(f"clm-or-mlm {VERSION} (commit ")
