"""Several figures drawn one after another, each with its files or the reason why it could not be drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.errors import UserError
from common.progress import progress
from paper_figures.figure_types import FigureSpec
from paper_figures.inputs import Inputs
from paper_figures.output.formats import PictureFormat

if TYPE_CHECKING:
    from paper_figures.drawing.themes import Theme

__all__ = ["FigureResult", "draw_figures"]


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
    themes: Sequence[Theme] | None = None,
) -> list[FigureResult]:
    """Draw figures and write their files (`save.save_figure`); one that cannot be drawn does not stop the others.

    Args:
        figures: which.
        inputs: what they are drawn from.
        folder: made when absent.
        formats: of the pictures; None: all.
        themes: of the pictures; None: light.
    """
    # matplotlib, which the loading of a figure has prepared
    from paper_figures.drawing.themes import THEMES
    from paper_figures.output.save import save_figure

    results = []
    for figure in progress(figures, "figures", total=len(figures), unit="figure"):
        try:
            files = save_figure(figure, inputs, folder, formats, themes or (THEMES["light"],))
            results.append(FigureResult(name=figure.name, files=tuple(files)))
        except UserError as error:
            results.append(FigureResult(name=figure.name, problem=error))
    return results
