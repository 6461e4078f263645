"""What README's door and docs/compare.md say of tables of scores is what the command does."""

import re

import pytest

from analysis.comparisons.table_options import ROLES
from clm_or_mlm.__main__ import main
from common.provenance import ROOT


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_readmes_door_prints_its_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    door = page("README.md").split("## Your own scores")[1].split("\n| I want")[0]
    _, command, said = re.findall(r"^    (.+)$", door, flags=re.MULTILINE)
    assert main(command.split()[1:]) == 0
    assert capsys.readouterr().out.splitlines()[0] == said


def test_the_page_lists_each_title_of_each_role() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|;]+)", page("docs/compare.md"), re.M))
    for role, listed in rows.items():
        titles = {title.strip() for title in listed.split(",")}
        assert titles == {*ROLES[role]} - {"n_instances"}, role
    assert {"model", "dataset", "seed", "score", "sd", "se", "n"} == {*rows}
