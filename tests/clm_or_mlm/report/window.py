"""The content of a report, and a browser's window on it, at the size of a desk or of a phone."""

import html
import re
from collections.abc import Iterable, Iterator
from typing import Any

from clm_or_mlm.report.content import PageContent, gather
from paper_figures.figure import FIGURES, FigureInputs
from paper_figures.save import draw_figures

SIZES = {"desk": (1280, 800), "phone": (390, 844)}


def as_read(page: str) -> str:
    """The text of a page without its marks, with usual spaces."""
    return html.unescape(re.sub(r"<[^>]+>", "", page)).replace("\u00a0", " ")


def content_of(inputs: FigureInputs, figures: Iterable[str]) -> PageContent:
    """The content of a page with those of the figures that the inputs allow."""
    return gather(
        inputs, draw_figures([FIGURES[name].load() for name in figures], inputs, [])
    )


def as_opened(window: Any, address: str, errors: list[str]) -> Iterator[Any]:
    errors.clear()
    resize(window, "desk")
    window.emulate_media(media="screen", color_scheme="light")
    window.goto("about:blank")
    window.goto(address)
    yield window
    assert errors == []


def resize(page: Any, name: str) -> None:
    width, height = SIZES[name]
    page.set_viewport_size({"width": width, "height": height})
