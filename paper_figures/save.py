"""A figure's files: PDF, PNG and SVG with the same bytes for the same data, CSV, alt text, record, provenance.

Nothing in them depends on the clock, the locale, the folder, the user's matplotlib settings or the command. Only
`figure3.provenance.json` names the command, the code and where the source was.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.sources import Source
from common.errors import UserError
from common.files import sha256_bytes, write_bytes
from common.manifest import write_manifest
from common.plain_text import redacted
from common.progress import progress
from common.provenance import provenance, provenance_path
from common.registry import Registry
from common.tables import csv_text
from paper_figures.figure import FigureSpec, Inputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FORMATS", "DrawnFigure", "FigureResult", "draw_figures", "formats_named", "picture", "rounded"]

_PACKAGES = ("matplotlib", "numpy", "scipy", "pandas", "statsmodels", "pillow", "fonttools")
_PERCENTAGES = ("mean", "low", "high", "effect", "region_low", "region_high", "gap")
"""Columns in percent or in points of percent."""
_DIGITS = 6


@dataclass(frozen=True, kw_only=True)
class PictureFormat:
    """A format that matplotlib writes, without a date or a version of matplotlib."""

    name: str
    """As matplotlib calls it; the ending of the file."""
    title: str = ""
    """What the format calls the title; empty where matplotlib writes none."""
    description: str = ""
    left_out: tuple[str, ...]
    """What matplotlib would write too."""


FORMATS: Registry[PictureFormat] = Registry(
    "format",
    [
        PictureFormat(
            name="pdf", title="Title", description="Subject", left_out=("Creator", "Producer", "CreationDate")
        ),
        PictureFormat(name="png", title="Title", description="Description", left_out=("Software",)),
        PictureFormat(name="svg", left_out=("Date", "Creator", "Format", "Type")),
    ],
)
"""Formats of a picture, in the order in which they are written."""


def formats_named(names: Iterable[str]) -> tuple[PictureFormat, ...]:
    """Return the formats of those names in the order of `FORMATS`; `UserError` for an unknown one."""
    chosen = {FORMATS[name].name for name in names}
    return tuple(form for name, form in FORMATS.items() if name in chosen)


def picture(figure: Figure, form: PictureFormat, *, title: str, description: str) -> bytes:
    """Return the bytes of `figure` in a format; call it within `style.paper_style`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    metadata = dict.fromkeys(form.left_out)
    if form.title:
        metadata = {form.title: title, form.description: description} | metadata
    figure.savefig(buffer, format=form.name, metadata=metadata)
    if form.title:
        return buffer.getvalue()
    # The two elements of an SVG that screen readers and browsers' tooltips read.
    about = f"<title>{escape(title)}</title>\n <desc>{escape(description)}</desc>\n <defs>"
    text = buffer.getvalue().decode("utf-8").replace("<defs>", about, 1)
    return text.replace("<svg ", '<svg role="img" ', 1).encode("utf-8")


@dataclass(frozen=True, kw_only=True)
class DrawnFigure:
    """A figure of some inputs: its data and its words."""

    spec: FigureSpec[Any]
    inputs: Inputs
    data: Any
    """What it collected."""
    table: pd.DataFrame
    """What its CSV holds, with all digits."""
    title: str
    caption: str
    alt: str

    @classmethod
    def of(cls, spec: FigureSpec[Any], inputs: Inputs) -> DrawnFigure:
        """Collect a figure's data and find its words; `UserError` where the inputs do not allow the figure."""
        # The verdicts that entitle a figure, and matplotlib, which the loading of a figure has prepared.
        from paper_figures import words

        data = spec.collect(inputs)
        return cls(
            spec=spec, inputs=inputs, data=data, table=spec.tabulate(data), title=words.title(spec, inputs),
            caption=words.caption(spec, data, inputs), alt=words.alt_text(spec, data, inputs),
        )  # fmt: skip

    @property
    def csv(self) -> str:
        """Its numbers."""
        return csv_text(rounded(self.table, self.inputs.source), digits="%.12g")

    def draw(self) -> Figure:
        """Return the picture; call it within `style.paper_style`."""
        return self.spec.draw(self.data, self.title, self.caption)

    def record(self) -> str:
        """Return what a machine may want to know of it, as JSON."""
        settings = self.inputs.settings
        record = {
            "figure": int(self.spec.name) if self.spec.name.isdecimal() else self.spec.name,
            "title": self.title,
            "caption": self.caption,
            "source": {"name": "logs" if self.spec.from_logs else self.inputs.name},
            "settings": {
                "selection": settings.selection,
                "interval": settings.interval,
                "resamples": settings.resamples,
                "seed": settings.seed,
            },
            "points": len(self.table),
            "x_axis": self.spec.x_axis,
        }
        return json.dumps(record, indent=1, ensure_ascii=False) + "\n"

    def save(self, folder: Path, formats: Iterable[PictureFormat] | None = None) -> list[Path]:
        """Write its pictures, `.csv` (what is drawn), `.txt` (alt text), `.json` and provenance.

        Args:
            folder: made when absent; the files are `figure3.pdf` and so on (`FigureSpec.stem`).
            formats: of the picture; None: all.

        Returns:
            The files in the order written.
        """
        from paper_figures.drawing.style import paper_style

        contents: dict[str, bytes] = {}
        with paper_style():
            drawing = self.draw()
            for form in formats or FORMATS.values():
                contents[form.name] = picture(drawing, form, title=self.title, description=self.alt)
        texts = {"csv": self.csv, "txt": self.alt + "\n", "json": self.record()}
        contents |= {ending: text.encode("utf-8") for ending, text in texts.items()}
        paths = {folder / f"{self.spec.stem}.{ending}": content for ending, content in contents.items()}
        for path, content in paths.items():
            write_bytes(path, content)
        logs = self.inputs.logs if self.spec.from_logs else None
        given = self.inputs.source.given_as if logs is None else str(logs)
        around = provenance_path(folder / f"{self.spec.stem}.csv")
        made_from = {"source_given_as": redacted(given), **provenance("analysis", _PACKAGES)}
        write_manifest(
            around, made_from, {path.name: sha256_bytes(content) for path, content in paths.items()}
        )
        return [*paths, around]


@dataclass(frozen=True, kw_only=True)
class FigureResult:
    """A figure's files, or why there are none."""

    name: str
    """The figure."""
    files: tuple[Path, ...] = ()
    """What was written, in that order."""
    problem: UserError | None = None
    """Why the inputs do not allow the figure."""


def draw_figures(
    figures: Sequence[FigureSpec[Any]],
    inputs: Inputs,
    folder: Path,
    formats: Sequence[PictureFormat] | None = None,
) -> list[FigureResult]:
    """Draw figures and write their files (`DrawnFigure.save`); one that cannot be drawn does not stop the others.

    Args:
        figures: which.
        inputs: what they are drawn from.
        folder: made when absent.
        formats: of the pictures; None: all.
    """
    results = []
    for figure in progress(figures, "figures", total=len(figures), unit="figure"):
        try:
            files = DrawnFigure.of(figure, inputs).save(folder, formats)
            results.append(FigureResult(name=figure.name, files=tuple(files)))
        except UserError as error:
            results.append(FigureResult(name=figure.name, problem=error))
    return results


def rounded(table: pd.DataFrame, source: Source) -> pd.DataFrame:
    """Return a table as its CSV shows it: the digits that the source knows, not what binary arithmetic leaves behind.

    Published means and half-widths are printed with two decimals, so no percentage that follows from them is known to
    more. Of runs a percentage has four: with fewer than a million test instances, one instance more or less shows in
    them. Anything else (losses, FLOPs, p values, shares) has six significant digits.
    """
    shown = table.copy()
    decimals = 2 if source.is_published else 4
    for name in table.columns:
        if pd.api.types.is_float_dtype(table[name]):
            if name in _PERCENTAGES and set(table.get("interval", ())) != {"range"}:
                shown[name] = table[name].round(decimals) + 0.0  # no -0
            else:
                shown[name] = [float(f"{value:.{_DIGITS}g}") for value in table[name]]
        elif pd.api.types.is_object_dtype(table[name]):
            shown[name] = [
                float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value for value in table[name]
            ]
    return shown
