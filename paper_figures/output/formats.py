"""The formats of a picture: PDF, PNG and SVG, none of which holds a date or a version of matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape

from common.registry import Registry

__all__ = ["FORMATS", "PictureFormat", "formats_named"]


def _unchanged(content: bytes, title: str, description: str) -> bytes:
    del title, description
    return content


@dataclass(frozen=True, kw_only=True)
class PictureFormat:
    """A format that matplotlib writes."""

    name: str
    """As matplotlib calls it; the ending of the file."""
    metadata: Callable[[str, str], Mapping[str, str | None]]
    """Title and description -> what is written into the file; None leaves out what matplotlib would write."""
    finish: Callable[[bytes, str, str], bytes] = _unchanged
    """Content, title and description -> the content of the file."""


def _pdf_metadata(title: str, description: str) -> Mapping[str, str | None]:
    about = {"Title": title, "Subject": description}
    return about | dict.fromkeys(("Creator", "Producer", "CreationDate"))


def _png_metadata(title: str, description: str) -> Mapping[str, str | None]:
    return {"Software": None, "Title": title, "Description": description}


def _svg_metadata(title: str, description: str) -> Mapping[str, str | None]:
    del title, description
    return dict.fromkeys(("Date", "Creator", "Format", "Type"))


def _describe_svg(content: bytes, title: str, description: str) -> bytes:
    """Return an SVG with the two elements that screen readers and browsers' tooltips read."""
    elements = f"<title>{escape(title)}</title>\n <desc>{escape(description)}</desc>\n <defs>"
    text = content.decode("utf-8").replace("<defs>", elements, 1)
    return text.replace("<svg ", '<svg role="img" ', 1).encode("utf-8")


FORMATS: Registry[PictureFormat] = Registry(
    "format",
    [
        PictureFormat(name="pdf", metadata=_pdf_metadata),
        PictureFormat(name="png", metadata=_png_metadata),
        PictureFormat(name="svg", metadata=_svg_metadata, finish=_describe_svg),
    ],
)
"""Formats of a picture, in the order in which they are written."""


def formats_named(names: Iterable[str]) -> tuple[PictureFormat, ...]:
    """Return the formats of those names in the order of `FORMATS`; `UserError` for an unknown one."""
    chosen = {FORMATS[name].name for name in names}
    return tuple(form for name, form in FORMATS.items() if name in chosen)
