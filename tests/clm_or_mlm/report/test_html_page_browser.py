"""The report in a real headless Chromium: first screen, anchors, pointing, finding, sorting."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from analysis.sources import PUBLISHED
from clm_or_mlm.report.content import PageContent
from paper_figures.figure import FIGURES, FigureInputs
from paper_figures.save import DrawnFigure
from tests.clm_or_mlm.report.window import SIZES, resize

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("source", ["published", "own"])
def test_the_first_screen_holds_answer_and_verdicts(
    request: pytest.FixtureRequest, size: str, source: str
) -> None:
    content: PageContent = request.getfixturevalue(f"{source}_content")
    page = request.getfixturevalue("own_page" if source == "own" else "page")
    resize(page, size)
    height = SIZES[size][1]

    def seen(text: str, within: str) -> bool:
        found = page.locator(within).filter(has_text=text).first
        box = found.bounding_box()
        return box is not None and box["y"] >= 0 and box["y"] + box["height"] <= height

    assert seen("Should we still pretrain encoders", "h1")
    for part in (content.answer.headline, content.answer.findings):
        assert seen(part, ".answer")
    for verdict in content.answer.headlines:
        card = page.locator(f".headlines a[href='#{verdict.finding.id}']")
        assert verdict.verdict in card.inner_text() and verdict.finding.short in card.inner_text()
        if verdict.typical is not None and verdict.typical.known:
            assert f"{verdict.typical.effect:+.2f}".replace("-", "\u2212") in card.inner_text()
        box = card.bounding_box()
        assert box["y"] + box["height"] <= height, verdict.finding.id
    for way in ("Findings", "Figures", "Tables", "Audit", "How it was made"):
        assert seen(way, "nav a"), way


def test_every_anchor_lands_at_its_place(page: Any) -> None:
    for size in SIZES:
        resize(page, size)
        wrong = page.evaluate(
            """async () => {
                const frame = () => new Promise(requestAnimationFrame);
                const room = parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop);
                const wrong = [];
                const seen = new Set();
                for (const link of document.querySelectorAll("a[href^='#']")) {
                    if (seen.has(link.hash)) continue;
                    seen.add(link.hash);
                    const target = document.getElementById(link.hash.slice(1));
                    if (!target) { wrong.push([link.hash, "nowhere"]); continue; }
                    link.click();
                    await frame(); await frame();
                    const off = target.getBoundingClientRect().top - room;
                    if (Math.abs(off) > 5 || !target.checkVisibility()) wrong.push([link.hash, off]);
                }
                return seen.size < 25 ? [["links", seen.size]] : wrong;
            }"""
        )
        assert wrong == [], size


def test_every_mark_says_what_the_csv_says_of_it(page: Any) -> None:
    drawn = DrawnFigure.of(FIGURES["3"].load(), FigureInputs(source=PUBLISHED))
    rows = list(csv.DictReader(io.StringIO(drawn.csv)))
    said = page.locator("#figure3 svg [id*='-point-'] > title").all_text_contents()
    assert said == ["\n".join(f"{name}: {value}" for name, value in row.items()) for row in rows]
    assert "model: 610m-mlm40-42k" in said[6] and "mean: 87" in said[6]


def test_every_number_behind_a_finding_opens(page: Any) -> None:
    page.locator("#F8 .why summary").click()
    assert "25 % CLM - MLM alone" in page.locator("#F8 .why pre").inner_text()


def test_find_shows_rows_and_clear_shows_all(own_page: Any) -> None:
    page = own_page
    rows, shown = page.locator("tr[data-compares]"), page.locator("tr[data-compares]:not([hidden])")
    total = rows.count()
    page.get_by_label("only rows that differ").check()
    assert 0 < shown.count() < total
    assert shown.evaluate_all("rows => rows.every(row => row.dataset.compares === 'differs')")
    assert page.locator("#count").inner_text() == f"{shown.count()} of {total} rows"
    page.get_by_label("only rows that differ").uncheck()
    page.get_by_role("searchbox").fill("1b clm")
    assert 0 < shown.count() < total
    assert shown.evaluate_all("rows => rows.every(row => row.dataset.text.includes('1b'))")
    assert page.locator("#table-10").is_hidden()
    page.get_by_role("button", name="Clear").click()
    assert shown.count() == total and page.locator("#table-10").is_visible()
    assert page.evaluate("document.activeElement.id") == "find"


@pytest.mark.parametrize(("table", "column"), [("#table-2 table", 2), ("#claims", 5)])
def test_sorting_with_the_keyboard(page: Any, table: str, column: int) -> None:
    page.locator("#open-all").click()
    heading = page.locator(f"{table} thead th").nth(column)
    heading.locator("button").focus()
    for order, down in (("ascending", False), ("descending", True)):
        page.keyboard.press("Enter")
        assert heading.get_attribute("aria-sort") == order
        keys = page.locator(f"{table} tbody tr").evaluate_all(
            f"rows => rows.map(row => row.cells[{column}].dataset.sort)"
        )
        numbers = [float(key) for key in keys if key]
        assert len(numbers) > 10 and numbers == sorted(numbers, reverse=down)
        assert [key == "" for key in keys] == sorted(
            key == "" for key in keys
        )  # what is not known comes last
