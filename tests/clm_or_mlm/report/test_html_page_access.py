"""The report in a real headless Chromium: on a phone, by keyboard, for a screen reader, on paper."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.clm_or_mlm.report.window import SIZES, resize


@pytest.mark.slow
def test_a_phone_does_not_scroll_sideways(page: Any, addresses: tuple[str, str]) -> None:
    for address in addresses:
        page.goto(address)
        resize(page, "phone")
        page.evaluate("document.querySelectorAll('details').forEach(box => { box.open = true; })")
        wide = """() => [...document.querySelectorAll('main *, header *, nav *')].filter(
            element => !element.closest('.scroll, pre, .hidden, svg')
                && element.getBoundingClientRect().right > innerWidth + 0.5
        ).map(element => element.outerHTML.slice(0, 120))"""
        assert page.evaluate(wide) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES["phone"][0]
        # A picture is wider than the screen, in a box of its own that scrolls, so that its text can be read.
        assert page.locator("#figure3 svg text").first.bounding_box()["height"] > 9


@pytest.mark.slow
def test_the_keyboard_begins_at_the_skip_link_and_sees_where_it_is(page: Any) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the findings"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    order = []
    for _ in range(14):
        page.keyboard.press("Tab")
        name, outline, top = page.evaluate(
            """() => {
                const at = document.activeElement;
                const style = getComputedStyle(at);
                return [at.getAttribute("href"), style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth),
                    at.getBoundingClientRect().top];
            }"""
        )
        assert outline >= 2 and top >= 0, name
        order.append(name)
    assert order[:2] == ["https://arxiv.org/abs/2507.00994v4", "#F8"]
    assert order[7:12] == ["#findings", "#figures", "#tables", "#audit", "#making"]
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_axe_finds_nothing_serious(page: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page.evaluate(
        "document.querySelectorAll('#table-2, #intervals, #F1 details').forEach(box => { box.open = true; })"
    )
    found = axe.run(page, options={"resultTypes": ["violations"]}).response["violations"]
    serious = [
        (one["id"], one["impact"], [node["html"][:160] for node in one["nodes"][:3]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []


@pytest.mark.slow
def test_paper_holds_every_table_and_begins_with_the_answer(own_page: Any) -> None:
    """A4 less its margins is 688 pixels wide."""
    page = own_page
    page.set_viewport_size({"width": 688, "height": 1000})
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details.table:not([open])").count() == 0
    wide = """() => [...document.querySelectorAll('table, figure, article')].filter(
        element => element.checkVisibility() && element.getBoundingClientRect().right > innerWidth + 1
    ).map(element => element.innerText.slice(0, 60) + element.getBoundingClientRect().right)"""
    assert page.evaluate(wide) == []
    assert page.locator("h1").bounding_box()["y"] < 100 and page.locator(".headlines").is_visible()
    assert page.locator("nav").is_hidden() and page.locator("#filters").is_hidden()
    pages = len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4")))
    assert 5 < pages < 40
