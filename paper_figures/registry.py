"""A figure of the paper as data and two pure functions: inputs to drawn data, drawn data to a picture."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from common.errors import UserError
from paper_figures.figure_data import Inputs

if TYPE_CHECKING:  # so that the command line can set matplotlib up before it is imported
    from matplotlib.figure import Figure

__all__ = ["FORMATS", "NUMBERS", "PaperFigure", "get_figure"]

FORMATS = ("pdf", "png", "svg")
"""Formats of the picture."""

NUMBERS = tuple(range(1, 13))
"""The paper's figures; `paper_figures.figures.figure03` holds Figure 3."""


@dataclass(frozen=True, kw_only=True)
class PaperFigure:
    """One figure of the paper."""

    number: int
    """As the paper counts."""
    title: str
    """What it shows, in a few words; the heading of the picture."""
    collect: Callable[[Inputs], pd.DataFrame]
    """Inputs -> the drawn data (`drawn.COLUMNS`); `UserError` where the source does not allow the figure."""
    draw: Callable[[pd.DataFrame, str], Figure]
    """Drawn data and caption -> the picture."""
    describe: Callable[[pd.DataFrame], str]
    """Drawn data -> what is seen, in sentences, for those who do not see it."""
    tables: tuple[int, ...] = ()
    """The paper's tables that hold its cells."""
    note: str = ""
    """A sentence of the caption on how to read it."""
    measure: str = "mean"
    """What is drawn of the seeds, for the caption: `mean` (with its interval), `spread` or `loss`."""

    @property
    def heading(self) -> str:
        """`Figure 3.` and the title."""
        return f"Figure {self.number}. {self.title}"


def get_figure(number: int) -> PaperFigure:
    """Return a figure by its number; `UserError` when the paper has none of that number."""
    if number not in NUMBERS:
        raise UserError(f"there is no Figure {number}; the paper has Figures 1 to {NUMBERS[-1]}")
    module = importlib.import_module(f"paper_figures.figures.figure{number:02d}")
    figure: PaperFigure = module.FIGURE
    return figure
