"""The report in a real headless Chromium: first screen, anchors, pointing, finding, sorting, saving, printing."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.__main__ import main
from clm_or_mlm.report.content import Content
from tests.clm_or_mlm.report.window import SIZES, resize


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("source", ["published_content", "own_content"])
def test_the_first_screen_holds_answer_and_verdicts(
    page: Any, own_address: str, request: pytest.FixtureRequest, size: str, source: str
) -> None:
    content: Content = request.getfixturevalue(source)
    if source == "own_content":
        page.goto(own_address)
    resize(page, size)
    height = SIZES[size][1]

    def seen(text: str, within: str) -> bool:
        found = page.locator(within).filter(has_text=text).first
        box = found.bounding_box()
        return box is not None and box["y"] >= 0 and box["y"] + box["height"] <= height

    assert seen("Should we still pretrain encoders", "h1")
    for part in content.answer.sentences:
        assert seen(part, ".answer")
    for verdict in content.answer.headlines:
        card = page.locator(f".headlines a[href='#{verdict.claim.id}']")
        assert verdict.verdict in card.inner_text() and verdict.claim.short in card.inner_text()
        if verdict.typical is not None and verdict.typical.known:
            assert f"{verdict.typical.effect:+.2f}".replace("-", "\u2212") in card.inner_text()
        box = card.bounding_box()
        assert box["y"] + box["height"] <= height, verdict.claim.id
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
                return seen.size < 60 ? [["links", seen.size]] : wrong;
            }"""
        )
        assert wrong == [], size


def test_an_address_with_an_anchor_opens_there_and_stays(page: Any, address: str) -> None:
    for name in ("figure8", "table-16", "F12-why", "multiverse"):
        page.goto("about:blank")
        page.goto(f"{address}#{name}")
        page.wait_for_timeout(150)
        off, shown = page.evaluate(
            """name => {
                const room = parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop);
                const target = document.getElementById(name);
                return [target.getBoundingClientRect().top - room, target.open ?? true];
            }""",
            name,
        )
        assert abs(off) <= 5 and shown, name


def test_pointing_at_a_mark_gives_value_interval_and_seeds(page: Any, figures: Path) -> None:
    drawn = pd.read_csv(figures / "figure3.csv")
    panel = page.locator("#figure3 svg.panel").first
    assert page.locator("#figure3 .mark").count() == len(drawn)
    panel.scroll_into_view_if_needed()
    mark = panel.locator(".mark").nth(2)
    box = mark.locator("path").last.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2 + 3, box["y"] + box["height"] / 2)
    first = drawn.iloc[2]
    said = page.locator("#tip").inner_text()
    assert f"{first['mean']:.2f} [{first['low']:.2f}, {first['high']:.2f}]" in said
    assert "n = 5 seeds" in said and first["model"] in said
    tip = page.locator("#tip").bounding_box()
    assert tip["x"] >= 0 and tip["x"] + tip["width"] <= SIZES["desk"][0]
    page.mouse.move(5, 5)
    assert page.locator("#tip").is_hidden()


def test_pointing_at_a_row_of_a_forest(page: Any) -> None:
    row = page.locator("#F8 .forest tr.adverse").first
    row.scroll_into_view_if_needed()
    row.hover()
    said = page.locator("#tip").inner_text()
    assert "claimed > 0" in said and "n = 5 seeds" in said and "judged alone" in said


def test_a_forest_draws_what_its_numbers_say(page: Any) -> None:
    """The dots' places are a line in the effects, and the claimed region begins at zero."""
    rows = page.locator("#F8 > .forest tr[data-tip]")
    points = rows.evaluate_all(
        """rows => rows.map(row => {
            const strip = row.querySelector(".strip").getBoundingClientRect();
            const middle = box => (box.left + box.right) / 2 - strip.left;
            return [parseFloat(row.lastElementChild.textContent.replace("\\u2212", "-")),
                middle(row.querySelector(".dot").getBoundingClientRect()),
                row.querySelector(".region").getBoundingClientRect().left - strip.left];
        })"""
    )
    assert len(points) == 13
    (a, left, zero), (b, right, _) = min(points), max(points)
    scale = (right - left) / (b - a)
    for effect, place, _ in points:
        assert place == pytest.approx(left + scale * (effect - a), abs=1.5)
    assert zero == pytest.approx(left - scale * a, abs=1.5)
    # The axis is drawn where the dots are: its 0 stands above the beginning of the claimed region.
    ticks = page.locator("#F8 > .forest .ticks i").evaluate_all(
        """marks => marks.map(mark => {
            const [box, strip] = [mark, document.querySelector("#F8 .strip")].map(one => one.getBoundingClientRect());
            return [parseFloat(mark.textContent), (box.left + box.right) / 2 - strip.left];
        })"""
    )
    assert len(ticks) > 3
    for value, place in ticks:
        assert place == pytest.approx(left + scale * (value - a), abs=1.5)


def test_arrow_keys_read_a_panel(page: Any) -> None:
    panel = page.locator("#figure6 svg.panel").nth(1)
    panel.focus()
    page.keyboard.press("ArrowRight")
    first = page.locator("#tip").inner_text()
    page.keyboard.press("ArrowRight")
    second = page.locator("#tip").inner_text()
    assert first and second and first != second
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()
    assert page.locator("#tip").get_attribute("aria-live") == "polite"


def test_a_finding_leads_to_figure_rows_and_explanation(page: Any) -> None:
    article = page.locator("#F8")
    assert article.locator("a[href='#figure6']").count() == 1
    assert article.locator("a[data-find]").all_inner_texts() == [
        "Table 10",
        "Table 11",
        "Table 12",
        "Table 13",
    ]
    article.locator("a[href='#table-10']").click()
    assert page.locator("#find").input_value() == "F8"
    rows = page.locator("tr[data-compares]:not([hidden])")
    assert 0 < rows.count() < 60
    assert rows.evaluate_all("rows => rows.every(row => / f8( |$)/.test(row.dataset.text))")
    assert page.locator("#table-2").is_hidden()
    article.locator("a[href='#F8-why']").click()
    assert "25 % CLM - MLM alone" in page.locator("#F8-why pre").inner_text()


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


def saved(page: Any, name: str, within: str = "body") -> bytes:
    link = page.locator(f"{within} a[data-unpacked='{name}'], {within} a[download='{name}']").first
    link.evaluate(
        "link => { for (let at = link; (at = at.parentElement.closest('details')); ) at.open = true; }"
    )
    with page.expect_download() as waiting:
        link.click()
    assert waiting.value.suggested_filename == name
    return Path(waiting.value.path()).read_bytes()


def test_downloads_are_what_the_commands_write(
    page: Any, figures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("figure3.csv", "figure8.svg", "multiverse.svg"):
        assert saved(page, name) == (figures / name).read_bytes()
    commands = {
        "table10.csv": ["table", "10", "--format", "csv"],
        "table02.tex": ["table", "2", "--format", "latex"],
        "claims.csv": ["claims", "--format", "csv"],
        "letter.md": ["audit", "--letter"],
    }
    for name, command in commands.items():
        content = saved(page, name)
        capsys.readouterr()
        main(command)
        assert content.decode() == capsys.readouterr().out, name
    assert len(list(csv.reader(io.StringIO(saved(page, "comparisons-by-dataset.csv").decode())))) > 500


def test_a_picture_of_another_kind_is_shown_when_opened(page: Any) -> None:
    assert page.locator("#multiverse img").count() == 0
    page.locator("#multiverse > summary").click()
    image = page.locator("#multiverse img")
    image.wait_for()
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth > 100)")
    assert image.get_attribute("alt")
