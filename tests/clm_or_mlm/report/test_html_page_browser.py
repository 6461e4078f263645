"""The report in a real headless Chromium: first screen, anchors, pointing, finding, sorting."""

import csv
import io
from typing import Any

import numpy as np
import pytest

from analysis.claims.wording import format_effect
from analysis.sources import PUBLISHED
from clm_or_mlm.report.content import PageContent
from clm_or_mlm.report.small_forest import SmallForest
from paper_figures.figure import FIGURES, FigureInputs
from paper_figures.save import DrawnFigure
from tests.clm_or_mlm.report.window import SIZES, as_read, resize

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
    lead, _, rest = content.answer.headline.partition(": ")
    assert seen(lead, ".answer strong") and seen(rest, ".answer")
    for result in content.strip.comparisons:
        if result.known:
            number = format_effect(result).replace("-", "\u2212").replace(" ", "\u00a0")
            assert seen(number, ".tasks td")
    for way in ("How sure?", "Findings", "Figures", "Tables", "Audit", "Making"):
        assert seen(way, "nav a"), way


@pytest.mark.parametrize("size", SIZES)
def test_marks_are_drawn_at_their_numbers_and_right_supports(
    page: Any, published_content: PageContent, size: str
) -> None:
    resize(page, size)
    places = """marks => marks.map(mark => {
        const box = mark.getBoundingClientRect(), dot = getComputedStyle(mark, "::after");
        return 100 * parseFloat(dot.left) / box.width;
    })"""
    drawn = page.locator(".tasks .mark").evaluate_all(places)
    effects = [
        row.effect for rows in published_content.strip_rows.values() for _, row in rows
    ]
    assert len(drawn) == len(effects) == 12
    slope, intercept = np.polyfit(effects, drawn, 1)
    assert slope > 0
    assert np.allclose(np.array(effects) * slope + intercept, drawn, atol=1), (
        "one linear axis"
    )
    for entry in published_content.findings:
        forest = SmallForest.of(entry.main)
        if forest is None or entry.id == "answer":
            continue
        shown = page.locator(f"#{entry.id} .mark").evaluate_all(places)
        for mark, x in zip(forest.marks.values(), shown, strict=True):
            claimed = mark.result.comparison
            supports = mark.outcome == "holds" and 0 in (claimed.low, claimed.high)
            assert not (supports and x <= forest.zero)


def test_the_contents_mark_the_place(page: Any) -> None:
    current = page.locator("nav [aria-current]")
    assert current.inner_text() == "Answer"
    for way in ("Tables", "Findings"):
        page.get_by_role("link", name=way, exact=True).click()
        page.wait_for_function(
            f"document.querySelector('nav [aria-current]').textContent === '{way}'"
        )


def test_a_tap_or_the_arrow_keys_show_the_numbers_of_a_mark(page: Any) -> None:
    resize(page, "phone")
    label = page.locator("#label")
    assert label.is_hidden()
    page.locator("#F8 .marks").scroll_into_view_if_needed()
    box = page.locator("#F8 .mark").nth(2).bounding_box()
    page.mouse.click(box["x"] + 2, box["y"] + box["height"] / 2)
    assert "on QA, 12k: +2.26 [+1.27, +3.25] points, holds" in as_read(
        label.inner_text()
    )
    page.locator("h1").click()
    assert label.is_hidden()
    page.locator("#figure3 svg").focus()
    page.keyboard.press("ArrowRight")
    first = label.inner_text()
    page.keyboard.press("ArrowRight")
    assert "mean:" in first and "mean:" in label.inner_text() != first
    page.keyboard.press("Escape")
    assert label.is_hidden()


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
    assert said == [
        "\n".join(f"{name}: {value}" for name, value in row.items()) for row in rows
    ]
    assert "model: 610m-mlm40-42k" in said[6] and "mean: 87" in said[6]


def test_every_number_behind_a_finding_opens(page: Any) -> None:
    page.locator("#F8 .why > summary").click()
    assert (
        "610m-clm-3k-mlm40-12k SC average" in page.locator("#F8 .why pre").inner_text()
    )


def test_find_shows_rows_and_clear_shows_all(own_page: Any) -> None:
    page = own_page
    rows, shown = (
        page.locator("tr[data-compares]"),
        page.locator("tr[data-compares]:not([hidden])"),
    )
    total = rows.count()
    page.get_by_label("only rows that differ").check()
    assert 0 < shown.count() < total
    assert shown.evaluate_all(
        "rows => rows.every(row => row.dataset.compares === 'differs')"
    )
    assert page.locator("#count").inner_text() == f"{shown.count()} of {total} rows"
    page.get_by_label("only rows that differ").uncheck()
    page.get_by_role("searchbox").fill("1b clm")
    assert 0 < shown.count() < total
    assert shown.evaluate_all(
        "rows => rows.every(row => row.dataset.text.includes('1b'))"
    )
    assert page.locator("#table-10").is_hidden()
    page.get_by_role("button", name="Clear").click()
    assert shown.count() == total and page.locator("#table-10").is_visible()
    assert page.evaluate("document.activeElement.id") == "find"


@pytest.mark.parametrize(("table", "column"), [("#table-2 table", 2), ("#claims", 5)])
def test_sorting_with_the_keyboard(page: Any, table: str, column: int) -> None:
    page.locator(table).evaluate("table => { table.closest('details').open = true; }")
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
        # What is not known comes last
        assert [key == "" for key in keys] == sorted(key == "" for key in keys)
