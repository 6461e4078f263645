"""The site of `make docs`: it has every page, no dead link, asks no other host, and its search finds words."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from common.provenance import ROOT
from tests.clm_or_mlm.report.conftest import browser  # noqa: F401
from tests.docs.diagrams import IMAGES, pipeline, trunks
from tests.docs.test_pages import PAGES

PYTHON = ROOT / ".venv" / "docs" / "bin" / "python"
CONFIGURATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_every_page_is_in_the_navigation() -> None:
    named = set(re.findall(r"([\w/-]+\.md)$", CONFIGURATION, flags=re.MULTILINE))
    made = {"index.md", "gallery.md", "tutorial.md", "python.md"}
    assert (
        named - made == {page.removeprefix("docs/") for page in PAGES[1:]}
        and made <= named
    )


def test_the_diagrams_are_drawn_from_the_code_as_it_is() -> None:
    for drawn in (pipeline, trunks):
        assert (IMAGES / f"{drawn.__name__}.svg").read_text(encoding="utf-8") == drawn()


def built(out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    if not PYTHON.is_file():
        pytest.skip("needs .venv/docs: make docs installs it")
    words = [PYTHON, "-m", "mkdocs", "build", "--site-dir", out, *more]
    environment = os.environ | {
        "NO_MKDOCS_2_WARNING": "1",
        "http_proxy": "http://127.0.0.1:9",
    }
    return subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = built(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_it_asks_no_other_host_and_has_the_reference(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<(script|link|img)[^>]+(src|href)=.?https?:", text), path
    reference = (site / "python.html").read_text(encoding="utf-8")
    assert all(
        f'id="clm_or_mlm.api.{name}"' in reference
        for name in ("load", "scores", "claims", "compare")
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("masking ratio", "build-an-encoder"),
        ("resume", "pretraining"),
        ("interval", "claims"),
    ],
)
def test_search_works_where_the_page_is_opened_as_a_file(
    site: Path,
    browser: Any,  # noqa: F811
    words: str,
    page: str,
) -> None:
    shown = browser.new_page(viewport={"width": 1280, "height": 900})
    asked: list[str] = []
    shown.on("request", lambda request: asked.append(request.url))
    shown.goto((site / "index.html").as_uri())
    shown.locator(".md-search__input").fill(words)
    shown.wait_for_selector(".md-search-result__item h1")
    found = [
        link.get_attribute("href")
        for link in shown.locator(".md-search-result__link").all()
    ]
    assert any(page in str(address) for address in found), found
    assert [
        url for url in asked if not url.startswith(("file:", "data:", "blob:"))
    ] == []
    shown.close()


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
    configuration.write_text(
        CONFIGURATION.replace("docs_dir: docs", f"docs_dir: {tmp_path / 'docs'}")
    )
    done = built(tmp_path / "out", "--config-file", str(configuration))
    assert done.returncode and "nothing.md" in done.stdout + done.stderr
