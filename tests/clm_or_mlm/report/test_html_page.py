"""The report in a real headless Chromium: content, filter, sort, links, no console errors, no network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from analysis.sources import Source, open_source
from analysis.statistics.scores import Settings
from clm_or_mlm.report.content import gather
from clm_or_mlm.report.html_page import render_page

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def quick(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fewer trials of the coverage: the page's form does not hang on them."""
    patch = pytest.MonkeyPatch()
    patch.setattr("clm_or_mlm.report.content.COVERAGE_TRIALS", 200)
    patch.setattr("clm_or_mlm.report.content.COVERAGE_RESAMPLES", 100)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def published(figures: Path, quick: None) -> str:
    content = gather(open_source("published"), figures, Settings())
    return render_page(content, {"source": "published"})


@pytest.fixture(scope="module")
def with_runs(own: Source, own_figures: Path, quick: None) -> str:
    settings = Settings(interval="bootstrap", resamples=500)
    content = gather(own, own_figures, settings)
    return render_page(content, {"source": "mine"})


def test_page_holds_every_published_cell(published: str) -> None:
    from analysis.published_cells import published_cells

    for cell in published_cells().itertuples():
        assert f"{cell.mean:.2f} ± {cell.ci95:.2f}" in published
    for name in ("F1", "F15", "Table 17.", "figure3", "2,373,120"):
        assert name in published


def test_page_is_self_contained_and_escaped(with_runs: str) -> None:
    assert "&lt;my&gt; runs" in with_runs
    for loading in ('src="http', "src='http", "@import", "url(http", '<link rel="stylesheet"'):
        assert loading not in with_runs


def test_equal_content_gives_equal_bytes(figures: Path, published: str) -> None:
    content = gather(open_source("published"), figures, Settings())
    assert render_page(content, {"source": "published"}) == published


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine (Debian's package chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


def opened(browser: object, html: str, tmp_path: Path, **context: object) -> tuple[object, list[str]]:
    path = tmp_path / "index.html"
    path.write_text(html, encoding="utf-8")
    errors: list[str] = []
    page = browser.new_context(**context).new_page()  # type: ignore[attr-defined]
    page.on(
        "console",
        lambda message: errors.append(message.text) if message.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "request",
        lambda request: None if request.url.startswith(("file:", "data:")) else errors.append(request.url),
    )
    page.goto(path.as_uri())
    return page, errors


def test_opens_without_errors_or_network(browser: object, with_runs: str, tmp_path: Path) -> None:
    page, errors = opened(browser, with_runs, tmp_path)
    assert "CLM or MLM" in page.title()
    assert page.locator("figure img").first.evaluate("image => image.complete && image.naturalWidth > 100")
    assert errors == []


def test_every_inner_link_leads_somewhere(
    browser: object, published: str, with_runs: str, tmp_path: Path
) -> None:
    # Without runs the audit compares no cell, so it has no row for each table that links to it.
    for text, fewest in ((with_runs, 20), (published, 5)):
        page, _ = opened(browser, text, tmp_path)
        targets = page.eval_on_selector_all(
            "a[href^='#']", "links => links.map(link => link.getAttribute('href'))"
        )
        assert len(targets) > fewest
        for target in targets:
            assert page.locator(f"[id='{target[1:]}']").count() == 1, target


def test_without_runs_no_count_of_cells_is_printed(published: str, with_runs: str) -> None:
    assert "so no cell was compared" in published and "Cells by table and status" not in published
    assert "Cells by table and status" in with_runs and ">Distinct<" in with_runs


def test_filter_for_differing_rows(browser: object, with_runs: str, tmp_path: Path) -> None:
    page, errors = opened(browser, with_runs, tmp_path)
    rows = page.locator("tr[data-compares]")
    total = rows.count()
    page.get_by_label("only rows that differ").check()
    shown = page.locator("tr[data-compares]:not([hidden])")
    assert 0 < shown.count() < total
    assert shown.evaluate_all("rows => rows.every(row => row.dataset.compares === 'differs')")
    assert page.locator("#count").inner_text() == f"{shown.count()} of {total} rows"
    page.get_by_label("only rows that differ").uncheck()
    page.get_by_role("searchbox").fill("1b clm")
    assert shown.evaluate_all("rows => rows.every(row => row.dataset.text.includes('1b'))")
    assert page.locator("#table-10").is_hidden()
    page.get_by_role("searchbox").fill("")
    assert shown.count() == total
    assert errors == []


def test_sorting_by_a_column_with_the_keyboard(browser: object, published: str, tmp_path: Path) -> None:
    page, errors = opened(browser, published, tmp_path)
    heading = page.locator("#table-2 thead th").nth(2)
    heading.locator("button").focus()
    page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    read = "cells => cells.map(cell => Number(cell.dataset.sort))"
    values = page.locator("#table-2 tbody td:nth-child(3)").evaluate_all(read)
    assert values == sorted(values)
    page.keyboard.press("Enter")
    values = page.locator("#table-2 tbody td:nth-child(3)").evaluate_all(read)
    assert values == sorted(values, reverse=True)
    assert errors == []


def test_tab_reaches_the_skip_link_first(browser: object, published: str, tmp_path: Path) -> None:
    page, _ = opened(browser, published, tmp_path)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"


def test_images_and_tables_speak_to_a_screen_reader(browser: object, published: str, tmp_path: Path) -> None:
    page, _ = opened(browser, published, tmp_path)
    assert page.locator("img:not([alt])").count() == 0
    assert page.locator("table:not(:has(caption)):not([id=claims])").count() == 0
    assert page.locator("thead th:not([scope])").count() == 0
    levels = page.eval_on_selector_all("h1, h2, h3", "heads => heads.map(head => Number(head.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_in_both_schemes(
    browser: object, with_runs: str, tmp_path: Path, scheme: str
) -> None:
    page, _ = opened(browser, with_runs, tmp_path, color_scheme=scheme)
    page.locator("#open-all").click()

    def luminance(colour: str) -> float:
        parts = [float(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    for selector in (
        ".lead",
        ".supported",
        ".inconclusive",
        ".contradicted",
        ".recomputed",
        ".mark",
        "a",
        "td",
        ".tag",
    ):
        for found in page.locator(selector).all()[:1]:
            text, ground = found.evaluate(
                """element => {
                    let ground = element;
                    const back = () => getComputedStyle(ground).backgroundColor;
                    while (back() === 'rgba(0, 0, 0, 0)') ground = ground.parentElement;
                    return [getComputedStyle(element).color, back()];
                }"""
            )
            bright, dim = sorted((luminance(text), luminance(ground)), reverse=True)
            assert (bright + 0.05) / (dim + 0.05) >= 4.5, (selector, text, ground)


def test_a_phone_does_not_scroll_sideways(browser: object, with_runs: str, tmp_path: Path) -> None:
    page, _ = opened(browser, with_runs, tmp_path, viewport={"width": 375, "height": 800})
    page.locator("#open-all").click()
    wide = """() => [...document.querySelectorAll('main *, header *')].filter(
        element => !element.closest('.scroll, pre, .hidden') && element.getBoundingClientRect().right > innerWidth
    ).map(element => element.outerHTML.slice(0, 120))"""
    assert page.evaluate(wide) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_phone_shows_figures_at_a_size_that_can_be_read(
    browser: object, published: str, tmp_path: Path
) -> None:
    page, _ = opened(browser, published, tmp_path, viewport={"width": 375, "height": 800})
    wide, seen = page.evaluate(
        "[document.querySelector('figure img').offsetWidth, document.querySelector('figure').offsetWidth]"
    )
    assert seen <= 375 < 600 < wide


def test_paper_is_wide_enough_for_every_table(browser: object, with_runs: str, tmp_path: Path) -> None:
    """A4 less Chromium's margins is 718 pixels wide."""
    page, _ = opened(browser, with_runs, tmp_path, viewport={"width": 718, "height": 1000})
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    wide = """() => [...document.querySelectorAll('table, figure')].filter(
        element => element.getBoundingClientRect().right > innerWidth + 1
    ).map(element => element.innerText.slice(0, 60) + element.getBoundingClientRect().right)"""
    assert page.evaluate(wide) == []


def test_print_opens_every_table(browser: object, published: str, tmp_path: Path) -> None:
    page, _ = opened(browser, published, tmp_path)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details.table:not([open])").count() == 0
