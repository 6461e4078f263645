"""The pages' links lead somewhere, and every page is found from the README."""

from __future__ import annotations

import re

import pytest

from common.provenance import ROOT
from tests.test_imports import ALLOWED

PAGES = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]
INDEX = "docs/README.md"


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not target.startswith(("http://", "https://")):
            assert (path.parent / target).exists(), target


def test_every_page_is_in_the_index_and_the_index_in_the_readme() -> None:
    index = (ROOT / INDEX).read_text(encoding="utf-8")
    linked = re.findall(r"\]\(([^)]+)\)", index)
    assert [page for page in PAGES[1:] if page != INDEX and page.removeprefix("docs/") not in linked] == []
    assert f"({INDEX})" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert index.count("\n## ") == 3


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"(?:`|^    )make ([a-z0-9-]+)", text, flags=re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_the_table_of_rooms_has_every_room_with_its_folders() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[`(\w+)/`\]\(\1\) \|.*\|(.*)\|$", readme, flags=re.MULTILINE)
    folders = {room: set(re.findall(r"`(\w+)`", listed)) for room, listed in rows}
    assert set(ALLOWED) <= set(folders)
    for room in ALLOWED:
        assert folders[room] == {path.parent.name for path in (ROOT / room).glob("*/__init__.py")}, room
