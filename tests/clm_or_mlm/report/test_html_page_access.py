"""The report in a real headless Chromium: on a phone, by keyboard, for a screen reader, on paper."""

import re
from typing import Any

import pytest

from tests.clm_or_mlm.report.window import SIZES, resize


@pytest.mark.slow
def test_a_phone_does_not_scroll_sideways(
    page: Any, addresses: tuple[str, str]
) -> None:
    for address in addresses:
        page.goto(address)
        resize(page, "phone")
        page.evaluate(
            "document.querySelectorAll('details').forEach(box => { box.open = true; })"
        )
        wide = """() => [...document.querySelectorAll('main *, header *, nav *')].filter(
            element => !element.closest('.scroll, pre, .hidden, svg')
                && element.getBoundingClientRect().right > innerWidth + 0.5
        ).map(element => element.outerHTML.slice(0, 120))"""
        assert page.evaluate(wide) == []
        assert (
            page.evaluate("document.documentElement.scrollWidth") <= SIZES["phone"][0]
        )
        # A picture is wider than the screen, in a box of its own that scrolls, so that its text can be read.
        assert page.locator("#figure3 svg text").first.bounding_box()["height"] > 9


@pytest.mark.slow
def test_keyboard_focus_begins_at_the_skip_link_and_is_seen(page: Any) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the answer"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    order = []
    for _ in range(9):
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
    sections = [
        "#top",
        "#sure",
        "#findings",
        "#figures",
        "#tables",
        "#audit",
        "#making",
    ]
    assert order[:8] == [*sections, "https://arxiv.org/abs/2507.00994v4"]
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


@pytest.mark.parametrize(("scheme", "size"), [("light", "desk"), ("dark", "phone")])
def test_axe_finds_nothing(page: Any, scheme: str, size: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page.emulate_media(color_scheme=scheme)
    resize(page, size)
    page.evaluate(
        """document.querySelectorAll('#table-2, #intervals, #F1 details, #claims, #sure details, #figure3').forEach(
            box => { (box.closest("details")).open = true; })"""
    )
    found = axe.run(page, options={"resultTypes": ["violations"]}).response[
        "violations"
    ]
    assert [
        (one["id"], [node["html"][:160] for node in one["nodes"][:3]]) for one in found
    ] == []


@pytest.mark.slow
def test_a_phone_is_read_in_a_few_screens_and_opens_all_of_it(
    page: Any, addresses: tuple[str, str]
) -> None:
    resize(page, "phone")
    page.goto(addresses[0])
    assert page.evaluate("document.documentElement.scrollHeight") <= 15_000
    broken = """() => [...document.querySelectorAll('td.number')].filter(cell => {
        const text = cell.firstChild;
        if (!cell.checkVisibility() || !text || !text.textContent.includes('[')) return false;
        const range = document.createRange();
        range.selectNodeContents(text);
        return new Set([...range.getClientRects()].map(box => box.top)).size > 1;
    }).map(cell => cell.innerText)"""
    page.evaluate(
        "document.querySelectorAll('details').forEach(box => { box.open = true; })"
    )
    assert page.evaluate(broken) == [], "an interval is on one line"
    assert (
        page.locator("#figure3 figcaption").is_visible()
        and page.locator("#F8 pre").is_visible()
    )


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
    assert (
        page.locator("h1").bounding_box()["y"] < 100
        and page.locator(".strip").is_visible()
    )
    heads = page.locator("thead:not(.hidden)").evaluate_all(
        "heads => heads.map(head => getComputedStyle(head).display)"
    )
    assert set(heads) == {"table-header-group"}
    assert not re.search(
        r"hover|click|\btap\b", page.locator("body").inner_text(), re.IGNORECASE
    )
    assert page.locator("nav").is_hidden() and page.locator("#filters").is_hidden()
    pages = len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4")))
    assert 5 < pages < 40
