"""A figure's files: PDF, PNG and SVG with the same bytes for the same data, CSV, alt text, provenance.

Nothing in a picture depends on the clock, the locale, the folder, the user's matplotlib settings or the command.
Only the `.json` beside it names the command.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from analysis.sources import Source
from analysis.statistics.scores import Settings
from common.errors import UserError, nearest
from common.files import write_bytes
from common.provenance import provenance
from paper_figures.drawing.style import paper_style
from paper_figures.figure_data import Inputs
from paper_figures.output.captions import alt_text, caption
from paper_figures.registry import FORMATS, PaperFigure

__all__ = ["Drawing", "check_formats", "csv_text", "entitle", "picture", "write_drawing", "write_figure"]

_PACKAGES = ("matplotlib", "numpy", "scipy", "pandas", "statsmodels", "pillow", "fonttools")


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure, drawn."""

    name: str | int
    """What the record calls it: the paper's number, or a word."""
    title: str
    data: pd.DataFrame
    """What is drawn, for the CSV."""
    figure: Figure
    caption: str
    description: str
    """What is seen, in sentences."""
    source: str
    """Name of the source by its content."""
    given_as: str
    """The source as the user named it."""
    settings: Settings


def check_formats(names: Sequence[str]) -> tuple[str, ...]:
    """Return the formats in their fixed order; `UserError` for an unknown one."""
    for name in names:
        if name not in FORMATS:
            raise UserError(f"unknown format {name!r}{nearest(name, FORMATS)}; one of {', '.join(FORMATS)}")
    return tuple(name for name in FORMATS if name in names)


def picture(figure: Figure, form: str, *, title: str, description: str) -> bytes:
    """Return the bytes of `figure` in a format of `FORMATS`; call it within `style.paper_style`."""
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    if form == "png":
        figure.savefig(
            buffer, format="png", metadata={"Software": None, "Title": title, "Description": description}
        )
        return buffer.getvalue()
    if form == "pdf":
        about = {
            "Title": title,
            "Subject": description,
            "Creator": None,
            "Producer": None,
            "CreationDate": None,
        }
        figure.savefig(buffer, format="pdf", metadata=about)
        return buffer.getvalue()
    figure.savefig(
        buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
    )
    # Readers of the picture, and browsers' tooltips, look for these two elements, which matplotlib does not write.
    named = f"<title>{escape(title)}</title>\n <desc>{escape(description)}</desc>\n <defs>"
    text = buffer.getvalue().decode("utf-8").replace("<defs>", named, 1)
    return text.replace("<svg ", '<svg role="img" ', 1).encode("utf-8")


def csv_text(data: pd.DataFrame) -> str:
    """Return the drawn data as CSV: full precision, empty fields for what is missing."""
    return data.to_csv(index=False, lineterminator="\n")


def entitle(drawn: Figure, heading: str, source: Source) -> str:
    """Put before the heading that the numbers are not of the paper's kind, where they are not; return the heading."""
    if source.comparable:
        return heading
    whole = f"{source.title}. {heading}"
    for text in drawn.texts:
        if text.get_text() == heading:
            text.set_text(whole)
    return whole


def write_drawing(drawing: Drawing, stem: Path, formats: Sequence[str]) -> list[Path]:
    """Write `STEM.pdf`, `.png`, `.svg`, `.csv`, `.txt` and `.json`; call it within `style.paper_style`.

    Args:
        drawing: what is written.
        stem: path of the files without their endings; its folder is made when absent.
        formats: of the picture.

    Returns:
        The files in the order written.
    """
    record = {
        "figure": drawing.name,
        "title": drawing.title,
        "caption": drawing.caption,
        "source": {"name": drawing.source, "given_as": drawing.given_as},
        "settings": {
            "selection": drawing.settings.selection,
            "interval": drawing.settings.interval,
            "resamples": drawing.settings.resamples,
            "seed": drawing.settings.seed,
        },
        "points": len(drawing.data),
        **provenance("analysis", _PACKAGES),
    }
    contents = {
        form: picture(drawing.figure, form, title=drawing.title, description=drawing.description)
        for form in formats
    }
    texts = {
        "csv": csv_text(drawing.data),
        "txt": drawing.description + "\n",
        "json": json.dumps(record, indent=1, ensure_ascii=False) + "\n",
    }
    contents |= {suffix: text.encode("utf-8") for suffix, text in texts.items()}
    paths = []
    for suffix, content in contents.items():
        paths.append(stem.with_name(f"{stem.name}.{suffix}"))
        write_bytes(paths[-1], content)
    return paths


def write_figure(
    figure: PaperFigure, inputs: Inputs, folder: Path, formats: Sequence[str] = FORMATS
) -> tuple[list[Path], pd.DataFrame]:
    """Draw a figure and write `figureN.*` into `folder`.

    Args:
        figure: which.
        inputs: from what.
        folder: made when absent.
        formats: of the picture.

    Returns:
        The files in the order written, and the drawn data.

    Raises:
        UserError: the inputs do not allow the figure.
    """
    data = figure.collect(inputs)
    line = caption(figure, data, inputs)
    with paper_style():
        drawn = figure.draw(data, line)
        drawing = Drawing(
            name=figure.number,
            title=entitle(drawn, figure.heading, inputs.source),
            data=data,
            figure=drawn,
            caption=line,
            description=alt_text(figure, data, inputs),
            source=str(data["source"].iloc[0]),
            given_as=str(inputs.logs) if figure.measure == "loss" else inputs.source.label,
            settings=inputs.settings,
        )
        return write_drawing(drawing, folder / f"figure{figure.number}", formats), data
