"""Figures, pages and a browser for the report, made once."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from analysis.evidence.settings import Settings
from analysis.sources import PUBLISHED, Source
from clm_or_mlm.report.content import PageContent
from clm_or_mlm.report.html_page import render_page
from paper_figures.figure import FigureInputs
from tests.analysis.made_up import random_runs
from tests.clm_or_mlm.report.window import SIZES, as_opened, content_of

CHROMIUM = (
    shutil.which("chromium")
    or shutil.which("google-chrome")
    or shutil.which("chromium-browser")
)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


FEW = ("3", "5", "6", "8")
"""Figures of each kind; Figure 5 needs runs."""


@pytest.fixture(scope="session")
def own() -> Source:
    runs = random_runs(
        models=("610m-clm-42k", "610m-mlm40-42k", "210m-clm-42k", "1b-clm-42k")
    )
    return Source(label="<my> runs", runs=runs)


@pytest.fixture(scope="session")
def published_content() -> PageContent:
    return content_of(FigureInputs(source=PUBLISHED), FEW)


@pytest.fixture(scope="session")
def own_content(own: Source) -> PageContent:
    return content_of(
        FigureInputs(
            source=own, settings=Settings(interval="bootstrap", resamples=200)
        ),
        FEW,
    )


@pytest.fixture(scope="session")
def published(published_content: PageContent) -> str:
    return render_page(
        published_content, {"source": "published", "versions": {"numpy": "2"}}
    )


@pytest.fixture(scope="session")
def with_runs(own_content: PageContent) -> str:
    return render_page(own_content, {"source": "mine"})


@pytest.fixture(scope="session")
def addresses(
    published: str, with_runs: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str]:
    """Where the pages are: of the published cells, of runs."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "published.html").write_text(published, encoding="utf-8")
    (folder / "runs.html").write_text(with_runs, encoding="utf-8")
    return (folder / "published.html").as_uri(), (folder / "runs.html").as_uri()


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
    page = browser.new_context(
        viewport=dict(zip(("width", "height"), SIZES["desk"], strict=True))
    ).new_page()
    page.on(
        "console",
        lambda message: (
            errors.append(message.text)
            if message.type in ("error", "warning")
            else None
        ),
    )
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "request",
        lambda request: (
            None
            if request.url.startswith(("file:", "data:", "blob:"))
            else errors.append(request.url)
        ),
    )
    yield page
    page.context.close()


@pytest.fixture
def page(window: Any, addresses: tuple[str, str], errors: list[str]) -> Iterator[Any]:
    """The page of the published cells as it opens; nothing of a test stays, and none may leave an error."""
    yield from as_opened(window, addresses[0], errors)


@pytest.fixture
def own_page(
    window: Any, addresses: tuple[str, str], errors: list[str]
) -> Iterator[Any]:
    """The page of runs as it opens."""
    yield from as_opened(window, addresses[1], errors)
