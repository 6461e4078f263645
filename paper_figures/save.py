"""A figure's files: PDF, PNG and SVG with the same bytes for the same data, CSV, alt text, record, provenance.

Nothing in them depends on the clock, the locale, the folder, the user's matplotlib settings or the command. Only
`figure3.provenance.json` names the command, the code and where the source was.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.sources import Source
from common.errors import UserError
from common.files import sha256_bytes, write_together
from common.manifest import FILES, check_outputs, manifest_text
from common.plain_text import redacted
from common.progress import progress
from common.provenance import provenance, provenance_path
from paper_figures import words
from paper_figures.figure import (
    CLEAR,
    GAPS,
    PICTURE_FORMATS,
    FigureInputs,
    FigureSpec,
    file_stem,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PACKAGES = (
    "matplotlib",
    "numpy",
    "scipy",
    "pandas",
    "statsmodels",
    "pillow",
    "fonttools",
)
_PERCENTAGES = ("mean", "low", "high", "effect", "region_low", "region_high")
"""Columns in percent or in points of percent."""
_DIGITS = 6
"""Significant digits of all other numbers."""


_LEFT_OUT = {
    "pdf": ("Creator", "Producer", "CreationDate"),
    "png": ("Software",),
    "svg": ("Date", "Creator", "Format", "Type"),
}
"""By format the metadata that matplotlib would write and that are left out: dates, and matplotlib's version."""
_LAYOUT = ("GDEF", "GPOS", "GSUB", "MATH")
"""Tables of a font that say how text is laid out."""
_DESCRIPTION = {"pdf": "Subject", "png": "Description"}
"""By format the metadata in which matplotlib writes a description; an SVG gets its own (`picture`)."""


def picture(figure: Figure, form: str, *, title: str, description: str) -> bytes:
    """Return the bytes of `figure` in a format; call it within `style.paper_style`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    # The figure is now drawn in memory, without a window.
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()

    # None tells matplotlib to leave an entry out.
    metadata = dict.fromkeys(_LEFT_OUT[form])
    if form in _DESCRIPTION:
        metadata = {"Title": title, _DESCRIPTION[form]: description} | metadata
    if form == "pdf":
        # matplotlib lets fontTools cut a font to the letters that are used. To cut the layout tables as well would take
        # 50 of 80 ms, and the text of a PDF is laid out already. So fontTools drops these tables, which it does with
        # all on this list. The list is of the whole process; every PDF of this package may have it.
        from fontTools.subset import Options

        # Another version of fontTools may keep its list elsewhere: then a PDF only takes longer.
        dropped = getattr(Options, "_drop_tables_default", ())
        Options._drop_tables_default = sorted({*dropped, *_LAYOUT})

    figure.savefig(buffer, format=form, metadata=metadata)
    if form in _DESCRIPTION:
        return buffer.getvalue()

    # What remains is an SVG. Screen readers and browsers' tooltips read its elements `title` and `desc`. They are put
    # before its first `defs`, with which its content begins, since all metadata are left out.
    about = (
        f"<title>{escape(title)}</title>\n <desc>{escape(description)}</desc>\n <defs>"
    )
    text = buffer.getvalue().decode("utf-8").replace("<defs>", about, 1)

    # With this role, screen readers take it as one picture.
    return text.replace("<svg ", '<svg role="img" ', 1).encode("utf-8")


@dataclass(frozen=True, kw_only=True)
class DrawnFigure:
    """A figure of some inputs: its data, its words, and its picture, drawn once for all who write it."""

    spec: FigureSpec
    inputs: FigureInputs
    data: pd.DataFrame
    """What it collected, with all digits."""
    title: str
    caption: str
    alt: str

    @classmethod
    def of(cls, spec: FigureSpec, inputs: FigureInputs) -> DrawnFigure:
        """Collect a figure's data and find its words; `UserError` where the inputs do not allow the figure."""
        data = spec.collect(inputs)
        return cls(
            spec=spec,
            inputs=inputs,
            data=data,
            title=words.title(spec, data, inputs),
            caption=words.caption(spec, data, inputs),
            alt=words.alt_text(spec, data, inputs),
        )

    @cached_property
    def csv(self) -> str:
        """Its numbers."""
        listed = self.data.drop(columns=[*GAPS, CLEAR], errors="ignore")
        shown = rounded(listed, self.inputs.source)
        # A rounded number is still a binary fraction: twelve digits leave out what binary arithmetic adds.
        return shown.to_csv(index=False, float_format="%.12g")

    @cached_property
    def drawing(self) -> Figure:
        """The picture."""
        from paper_figures.drawing.style import paper_style

        with paper_style():
            return self.spec.draw(self.data, self.title, self.caption)

    def record(self) -> str:
        """Return the figure's words, settings and x axis for programs, as JSON."""
        name = self.spec.name
        # The name of the source, not its path, so that the bytes are the same on every machine.
        source = "logs" if self.spec.from_logs else self.inputs.source.name
        settings = asdict(self.inputs.settings)
        record = {
            # The paper's figures have numbers, the supplementary ones words.
            "figure": int(name) if name.isdecimal() else name,
            "title": self.title,
            "caption": self.caption,
            "source": {"name": source},
            "settings": settings,
            "points": len(self.data),
            "x_axis": self.spec.x_axis,
        }
        text = json.dumps(record, indent=1, ensure_ascii=False)
        return f"{text}\n"

    def save(
        self, folder: Path, formats: Iterable[str] = PICTURE_FORMATS
    ) -> list[Path]:
        """Write its pictures, `.csv` (what is drawn), `.txt` (alt text), `.json` (`record`) and `.provenance.json`.

        Args:
            folder: made when absent; the files are `figure3.pdf` and so on (`file_stem`).
            formats: of the picture, such as `pdf`.

        Returns:
            The files in the order written.

        Raises:
            UserError: files of these names are there, and no earlier call has written them.
        """
        from paper_figures.drawing.style import paper_style

        content_of_ending: dict[str, bytes] = {}
        with paper_style():
            for form in formats:
                content_of_ending[form] = picture(
                    self.drawing, form, title=self.title, description=self.alt
                )

        texts = {"csv": self.csv, "txt": self.alt + "\n", "json": self.record()}
        for ending, text in texts.items():
            content_of_ending[ending] = text.encode("utf-8")
        stem = file_stem(self.spec.name)
        # Contents by path, as they are written; hashes by name, as the provenance lists them.
        files = {}
        hashes = {}
        for ending, content in content_of_ending.items():
            path = folder / f"{stem}.{ending}"
            files[path] = content
            hashes[path.name] = sha256_bytes(content)

        read_from = self.inputs.source.long_label
        if self.spec.from_logs and self.inputs.logs is not None:
            read_from = str(self.inputs.logs)

        # Only the provenance names folders and the command, without passwords that may stand in a path: all other files
        # have the same bytes wherever they are made.
        made_from = {"source": redacted(read_from), **provenance("analysis", _PACKAGES)}
        # All files of the figure share one provenance: any of their endings leads to its path.
        provenance_file = provenance_path(folder / f"{stem}.csv")

        # The hashes in the provenance of an earlier call say which files it wrote: they may be overwritten. The empty
        # text stands for the provenance, whose own hash it does not hold.
        check_outputs(folder, {**hashes, provenance_file.name: ""}, provenance_file)
        manifest = manifest_text({**made_from, FILES: hashes})
        files[provenance_file] = manifest.encode()
        write_together(files)
        return list(files)


def draw_figures(
    figures: Sequence[FigureSpec], inputs: FigureInputs, problems: list[UserError]
) -> Iterator[DrawnFigure]:
    """Yield figures one by one; a figure that cannot be drawn is left out and does not stop the others.

    Args:
        figures: the figures to draw.
        inputs: what they are drawn from.
        problems: for each figure that is left out, the error that says why is added to this list.
    """
    for figure in progress(figures, "figures", total=len(figures), unit="figure"):
        try:
            drawn = DrawnFigure.of(figure, inputs)
        except UserError as error:
            problems.append(error)
        else:
            yield drawn


def rounded(table: pd.DataFrame, source: Source) -> pd.DataFrame:
    """Return a table as its CSV shows it: with the digits that the source knows, and no more.

    Published means and half-widths are printed with two decimals, so no percentage that follows from them is known to
    more. A percentage from runs has four decimals: with fewer than a million test instances, one instance more or less
    shows in them. All other numbers (losses, FLOPs, p values, shares) have six significant digits.
    """
    shown = table.copy()
    decimals = 2 if source.is_published else 4
    # In Figure 12 the column `mean` holds losses, not percentages. Only its data have intervals of this kind.
    are_losses = "range" in set(table.get("interval", ()))
    for name in table.columns:
        column = table[name]
        has_floats = pd.api.types.is_float_dtype(column)
        if has_floats and name in _PERCENTAGES and not are_losses:
            # -0.001 is rounded to -0.0, and -0.0 + 0.0 is 0.0.
            shown[name] = column.round(decimals) + 0.0
        elif has_floats or pd.api.types.is_object_dtype(column):
            # A column of objects may have floats among texts, such as x.
            shown[name] = [_with_digits(value) for value in column]

    return shown


def _with_digits(value: Any) -> Any:
    """Return a float with as many significant digits as a CSV has, anything else as it is."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    return value
