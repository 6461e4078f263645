"""A figure's files: PDF, PNG and SVG with the same bytes for the same data, CSV, alt text, record, provenance.

Nothing in them depends on the clock, the locale, the folder, the user's matplotlib settings or the command. Only
`figure3.provenance.json` names the command, the code and where the source was.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from common.files import sha256_bytes, write_bytes
from common.plain_text import redacted
from common.provenance import provenance, provenance_path, write_provenance
from common.tables import csv_text
from paper_figures.drawing.style import paper_style
from paper_figures.drawing.themes import THEMES, Theme, recolour
from paper_figures.figure_types import FigureSpec
from paper_figures.inputs import Inputs
from paper_figures.output.captions import alt_text
from paper_figures.output.captions import caption as caption_of
from paper_figures.output.formats import FORMATS, PictureFormat
from paper_figures.output.rounding import rounded
from paper_figures.output.titles import entitle

__all__ = ["picture", "save_figure"]

_PACKAGES = ("matplotlib", "numpy", "scipy", "pandas", "statsmodels", "pillow", "fonttools")


def picture(figure: Figure, form: PictureFormat, *, title: str, description: str) -> bytes:
    """Return the bytes of `figure` in a format; call it within `style.paper_style`."""
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=form.name, metadata=dict(form.metadata(title, description)))
    return form.finish(buffer.getvalue(), title, description)


def save_figure(
    figure: FigureSpec[Any],
    inputs: Inputs,
    folder: Path,
    formats: Iterable[PictureFormat] | None = None,
    themes: Iterable[Theme] = (THEMES["light"],),
) -> list[Path]:
    """Draw a figure and write its pictures, `.csv` (what is drawn), `.txt` (alt text), `.json` and provenance.

    Args:
        figure: the figure.
        inputs: what it is drawn from.
        folder: made when absent; the files are `figure3.pdf` and so on (`FigureSpec.stem`).
        formats: of the picture; None: all.
        themes: of the picture; the dark one is `figure3.dark.svg`.

    Returns:
        The files in the order written.

    Raises:
        UserError: the inputs do not allow the figure.
    """
    data = figure.collect(inputs)
    table = figure.tabulate(data)
    caption, description = caption_of(figure, data, inputs), alt_text(figure, data, inputs)
    with paper_style():
        contents: dict[str, bytes] = {}
        forms = tuple(formats or FORMATS.values())
        for theme in themes:
            drawing = figure.draw(data, caption)
            title = entitle(drawing, figure, inputs)
            recolour(drawing, theme)
            for form in forms:
                made = picture(drawing, form, title=title, description=description)
                contents[f"{theme.suffix}.{form.name}"] = made
    settings = inputs.settings
    record = {
        "figure": int(figure.name) if figure.name.isdecimal() else figure.name,
        "title": title,
        "caption": caption,
        "source": {"name": figure.source_name(inputs)},
        "settings": {
            "selection": settings.selection,
            "interval": settings.interval,
            "resamples": settings.resamples,
            "seed": settings.seed,
        },
        "points": len(table),
        "x_axis": asdict(figure.x_axis),
    }
    texts = {
        "csv": csv_text(rounded(table, inputs.source), digits="%.12g"),
        "txt": description + "\n",
        "json": json.dumps(record, indent=1, ensure_ascii=False) + "\n",
    }
    contents |= {f".{ending}": text.encode("utf-8") for ending, text in texts.items()}
    paths = {folder / f"{figure.stem}{ending}": content for ending, content in contents.items()}
    for path, content in paths.items():
        write_bytes(path, content)
    around = provenance_path(folder / f"{figure.stem}.csv")
    made_from = {"source_given_as": redacted(figure.given_as(inputs)), **provenance("analysis", _PACKAGES)}
    write_provenance(around, made_from, {path.name: sha256_bytes(content) for path, content in paths.items()})
    return [*paths, around]
