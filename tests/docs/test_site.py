"""The site of `make docs`: it has every page, no dead link, asks no other host, and its search finds words."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from common.provenance import ROOT
from tests.docs.diagrams import IMAGES, pipeline, trunks
from tests.docs.test_pages import PAGES

PYTHON = ROOT / ".venv" / "docs" / "bin" / "python"
CONFIGURATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_every_page_is_in_the_navigation() -> None:
    named = set(re.findall(r"([\w/-]+\.md)$", CONFIGURATION, flags=re.MULTILINE))
    made = {"index.md", "gallery.md", "tutorial.md", "python.md"}
    assert named - made == {page.removeprefix("docs/") for page in PAGES[1:]} and made <= named


def test_the_diagrams_are_drawn_from_the_code_as_it_is() -> None:
    for drawn in (pipeline, trunks):
        assert (IMAGES / f"{drawn.__name__}.svg").read_text(encoding="utf-8") == drawn()


def built(out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    if not PYTHON.is_file():
        pytest.skip("needs .venv/docs: make docs installs it")
    words = [PYTHON, "-m", "mkdocs", "build", "--site-dir", out, *more]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "http_proxy": "http://127.0.0.1:9"}
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_it_is_built_without_a_warning_asks_no_other_host_and_its_search_finds_words(tmp_path: Path) -> None:
    done = built(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for path in tmp_path.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<(script|link|img)[^>]+(src|href)=.?https?:", text), path
    entries = json.loads((tmp_path / "search/search_index.json").read_text(encoding="utf-8"))["docs"]
    for words, page in (
        ("masking ratio", "build-an-encoder"), ("resum", "pretraining"), ("interval", "intervals"),
    ):  # fmt: skip
        assert any(words in one["text"].lower() and page in one["location"] for one in entries), words
    reference = (tmp_path / "python.html").read_text(encoding="utf-8")
    assert all(f'id="clm_or_mlm.api.{name}"' in reference for name in ("load", "scores", "claims", "compare"))


@pytest.mark.slow
def test_a_dead_link_fails(tmp_path: Path) -> None:
    for name in ("mkdocs.yml", "README.md", "clm_or_mlm", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "docs").mkdir()
    for path in (ROOT / "docs").iterdir():
        (tmp_path / "docs" / path.name).symlink_to(path)
    page = tmp_path / "docs" / "compare.md"
    text = page.read_text(encoding="utf-8")
    page.unlink()
    page.write_text(text + "\n[nowhere](nothing.md)\n", encoding="utf-8")
    configuration = tmp_path / "own.yml"
    configuration.write_text(CONFIGURATION.replace("docs_dir: docs", f"docs_dir: {tmp_path / 'docs'}"))
    done = built(tmp_path / "out", "--config-file", str(configuration))
    assert done.returncode and "nothing.md" in done.stdout + done.stderr
