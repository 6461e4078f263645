"""A figure's files: PDF, PNG and SVG with the same bytes for the same data, CSV, alt text, provenance.

Nothing in a picture depends on the clock, the locale, the folder, the user's matplotlib settings or the command.
Only the `.json` beside it names the command.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from analysis.sources import Source
from common.errors import UserError, nearest
from common.files import write_bytes, write_text
from common.provenance import provenance
from paper_figures.drawn import Inputs
from paper_figures.figure import FORMATS, PaperFigure
from paper_figures.style import paper_style
from paper_figures.wording import alt_text, caption

__all__ = ["check_formats", "csv_text", "picture", "write_figure"]

_PACKAGES = ("matplotlib", "numpy", "pandas", "pillow", "fonttools")


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


def _entitle(drawn: Figure, heading: str, source: Source) -> str:
    """Put what the models are stand-ins of before the heading; return the heading."""
    if source.stand_ins is None:
        return heading
    whole = f"{source.stand_ins.title}. {heading}"
    for text in drawn.texts:
        if text.get_text() == heading:
            text.set_text(whole)
    return whole


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
    line, spoken = caption(figure, data, inputs), alt_text(figure, data, inputs)
    stem = folder / f"figure{figure.number}"
    paths = []
    with paper_style():
        drawn = figure.draw(data, line)
        heading = _entitle(drawn, figure.heading, inputs.source)
        for form in formats:
            path = stem.with_suffix(f".{form}")
            write_bytes(path, picture(drawn, form, title=heading, description=spoken))
            paths.append(path)
    record = {
        "figure": figure.number,
        "title": heading,
        "caption": line,
        "source": {
            "name": str(data["source"].iloc[0]),
            "given_as": str(inputs.logs) if figure.measure == "loss" else inputs.source.label,
        },
        "settings": {
            "selection": inputs.settings.selection,
            "interval": inputs.settings.interval,
            "resamples": inputs.settings.resamples,
            "seed": inputs.settings.seed,
        },
        "points": len(data),
        **provenance("analysis", _PACKAGES),
    }
    for suffix, text in (
        (".csv", csv_text(data)),
        (".txt", spoken + "\n"),
        (".json", json.dumps(record, indent=1, ensure_ascii=False) + "\n"),
    ):
        write_text(stem.with_suffix(suffix), text)
        paths.append(stem.with_suffix(suffix))
    return paths, data
