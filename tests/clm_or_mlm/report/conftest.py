"""Figures, pages and a browser for the report, made once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis.sources import PUBLISHED, Source
from analysis.statistics.scores_table import Settings
from clm_or_mlm.report.content import Content, gather
from clm_or_mlm.report.html_page import render_page
from paper_figures.inputs import Inputs
from paper_figures.output.formats import formats_named
from paper_figures.output.save import save_figure
from tests.analysis.made_up import random_runs
from tests.clm_or_mlm.report.drawn import ENDINGS, seal_figures
from tests.clm_or_mlm.report.window import SIZES, as_opened
from tests.paper_figures.made_up import paper_figure

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="session")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    for number in (3, 6, 8):
        save_figure(paper_figure(number), Inputs(source=PUBLISHED), folder, formats_named(["svg"]))
    # As any figure of another kind: the page shows its picture.
    for ending in ENDINGS:
        shutil.copy(folder / f"figure3.{ending}", folder / f"multiverse.{ending}")
    (folder / "multiverse.csv").write_text("id,verdict\nF1,supported\n", encoding="utf-8")
    seal_figures(folder)
    return folder


@pytest.fixture(scope="session")
def own() -> Source:
    runs = random_runs(models=("610m-clm-42k", "610m-mlm40-42k", "210m-clm-42k", "1b-clm-42k"))
    return Source(label="<my> runs", runs=runs)


@pytest.fixture(scope="session")
def own_figures(figures: Path, own: Source, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same pictures as if of another source."""
    folder = tmp_path_factory.mktemp("own")
    for path in figures.iterdir():
        text = path.read_text(encoding="utf-8").replace('"name": "published"', f'"name": "{own.name}"')
        text = text.replace('"interval": "t"', '"interval": "bootstrap"').replace(
            '"resamples": 10000', '"resamples": 200'
        )
        (folder / path.name).write_text(text, encoding="utf-8")
    seal_figures(folder)
    return folder


@pytest.fixture(scope="session")
def quick() -> Iterator[None]:
    """Fewer trials of the coverage: the page's form does not hang on them."""
    patch = pytest.MonkeyPatch()
    patch.setattr("clm_or_mlm.report.content.COVERAGE_TRIALS", 20)
    patch.setattr("clm_or_mlm.report.content.COVERAGE_RESAMPLES", 20)
    yield
    patch.undo()


@pytest.fixture(scope="session")
def published_content(figures: Path, quick: None) -> Content:
    return gather(PUBLISHED, figures, Settings())


@pytest.fixture(scope="session")
def own_content(own: Source, own_figures: Path, quick: None) -> Content:
    return gather(own, own_figures, Settings(interval="bootstrap", resamples=200))


@pytest.fixture(scope="session")
def published(published_content: Content) -> str:
    return render_page(published_content, {"source": "published", "versions": {"numpy": "2"}})


@pytest.fixture(scope="session")
def with_runs(own_content: Content) -> str:
    return render_page(own_content, {"source": "mine"})


@pytest.fixture(scope="session")
def address(published: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the page of the published cells is."""
    path = tmp_path_factory.mktemp("published") / "index.html"
    path.write_text(published, encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="session")
def own_address(with_runs: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the page of runs is."""
    path = tmp_path_factory.mktemp("runs") / "index.html"
    path.write_text(with_runs, encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine (Debian's package chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def errors() -> list[str]:
    """Messages of the console, failures of the script, and requests that leave the file."""
    return []


@pytest.fixture(scope="module")
def window(browser: Any, errors: list[str]) -> Iterator[Any]:
    page = browser.new_context(viewport=dict(zip(("width", "height"), SIZES["desk"], strict=True))).new_page()
    page.on(
        "console",
        lambda message: errors.append(message.text) if message.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith(("file:", "data:", "blob:")) else errors.append(request.url)
        ),
    )
    yield page
    page.context.close()


@pytest.fixture
def page(window: Any, address: str, errors: list[str]) -> Iterator[Any]:
    """The page of the published cells as it opens; nothing of a test stays, and none may leave an error."""
    yield from as_opened(window, address, errors)


@pytest.fixture
def own_page(window: Any, own_address: str, errors: list[str]) -> Iterator[Any]:
    """The page of runs as it opens."""
    yield from as_opened(window, own_address, errors)
