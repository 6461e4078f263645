"""A browser's window on the report, at the size of a desk or of a phone."""

import html
import re
from collections.abc import Iterator
from typing import Any

SIZES = {"desk": (1280, 800), "phone": (390, 844)}


def as_read(page: str) -> str:
    """The text of a page without its marks, with usual spaces."""
    return html.unescape(re.sub(r"<[^>]+>", "", page)).replace("\u00a0", " ")


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
