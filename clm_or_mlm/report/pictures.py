"""The figures of the report: drawn by `paper_figures`, their SVGs put into the page with a tooltip for each mark."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

import matplotlib as mpl

from clm_or_mlm.report.downloads import Download
from common.errors import UserError
from common.progress import progress
from paper_figures.drawing.style import paper_style
from paper_figures.figure import FIGURES, Inputs
from paper_figures.save import DrawnFigure

__all__ = ["Picture", "draw_pictures", "inlined"]

_HEADING = 18.0
"""Points at the top of a picture where its heading stands, which the page writes itself."""
_STYLE = 'font-family="DejaVu Sans, Verdana, sans-serif" font-size="7" stroke-linejoin="round" stroke-linecap="butt"'


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure: its picture, its words and its files."""

    name: str
    """File name without its ending."""
    title: str
    caption: str
    alt: str
    drawn: str
    """An SVG element for the page, without heading and caption."""
    csv: Download
    supplementary: bool


def draw_pictures(inputs: Inputs, names: Iterable[str] = tuple(FIGURES)) -> dict[str, Picture]:
    """Return those of the named figures that the inputs allow, by file name, in the order of the names."""
    pictures = {}
    for name in progress(list(names), "figures", unit="figure"):
        try:
            figure = DrawnFigure.of(FIGURES[name].load(), inputs)
        except UserError:
            continue
        pictures[figure.spec.stem] = _picture(figure)
    return pictures


def _picture(figure: DrawnFigure) -> Picture:
    stem, table = figure.spec.stem, figure.csv
    svg = io.StringIO()
    with paper_style():
        mpl.rcParams["svg.fonttype"] = "none"  # text as text: it can be searched, and is small
        figure.spec.draw(figure.data, "", "").savefig(svg, format="svg", metadata={"Date": None})
    rows = csv.DictReader(io.StringIO(table))
    tips = ["\n".join(f"{name}: {value}" for name, value in row.items() if value) for row in rows]
    # The page says once of all its figures what the source says of itself.
    own_words = figure.inputs.source.own_words.replace(" %", "\u00a0%")
    return Picture(
        name=stem,
        title=figure.title,
        caption=figure.caption.removeprefix(own_words).lstrip(),
        alt=figure.alt,
        drawn=inlined(svg.getvalue(), stem, tips),
        csv=Download(name=f"{stem}.csv", label="CSV", content=table),
        supplementary=figure.spec.supplementary,
    )


def inlined(svg: str, name: str, tips: list[str]) -> str:
    """Return an SVG of matplotlib's as an element of a page with others.

    Args:
        svg: drawn with text as text.
        name: what makes its ids, and those of no other picture: `figure3-point-7`.
        tips: the tooltip of each mark, by the number in its id (`paper_figures.figure.point_id`).
    """
    width, height = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0])
    drawing = svg[svg.index('<g id="figure_1">') : svg.rindex("</svg>")]
    # Styles that the whole picture has, and what is there for nothing.
    drawing = re.sub(
        r"font-family: 'DejaVu Sans'; |font-size: 7px; |transform=\"rotate\(-0 .*?\)\"", "", drawing
    )
    drawing = re.sub(r">\s+<", "><", drawing).replace(" \n", " ").replace("\n", " ")
    used = set(re.findall(r'#([\w-]+)["\)]', drawing))

    def named(found: re.Match[str]) -> str:
        return f' id="{name}-{found[1]}"' if found[1] in used or found[1].startswith("point-") else ""

    def explained(found: re.Match[str]) -> str:
        return f"{found[0]}<title>{escape(tips[int(found[1])])}</title>"

    drawing = re.sub(r' id="([^"]+)"', named, drawing)
    drawing = re.sub(r'(?:xlink:)?href="#', f'href="#{name}-', drawing).replace("url(#", f"url(#{name}-")
    drawing = re.sub(rf'<g id="{name}-point-(\d+)">', explained, drawing)
    box = f"0 {_HEADING:g} {width:g} {height - _HEADING:g}"
    return (
        f'<svg class="drawn" role="img" aria-labelledby="h-{name}" data-name="{name}" viewBox="{box}" '
        f"{_STYLE}>{drawing}</svg>"
    )
