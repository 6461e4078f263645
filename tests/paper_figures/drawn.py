"""Figures of the sources that come with the package, each collected, drawn and written once for all that look at it."""

import tempfile
from functools import cache
from pathlib import Path

from matplotlib.figure import Figure

from analysis.sources import open_source
from paper_figures.figure import FIGURES, FigureInputs
from paper_figures.save import DrawnFigure

PUBLISHED, MINIATURE = (
    FigureInputs(source=open_source(name)) for name in ("published", "miniature")
)
INPUTS = {"published": PUBLISHED, "miniature": MINIATURE}


@cache
def collected(name: str, source: str = "published") -> DrawnFigure:
    """Its data and words; `UserError` where the source does not allow it."""
    return DrawnFigure.of(FIGURES[name].load(), INPUTS[source])


@cache
def picture(name: str, source: str = "published") -> Figure:
    """The picture, which nobody changes."""
    return collected(name, source).drawing


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


@cache
def files(name: str, source: str = "published") -> dict[str, Path]:
    """Its files by their endings, the picture as SVG."""
    paths = collected(name, source).save(Path(_folder().name) / source, ["svg"])
    return {path.name.partition(".")[2]: path for path in paths}
