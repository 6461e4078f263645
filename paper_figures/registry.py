"""All figures by name, the paper's (`3`) and the supplementary ones (`claims`), each imported when it is drawn.

A new figure is a module that defines `FIGURE` and a line here.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from common.errors import UserError, nearest
from common.registry import Registry
from paper_figures.figure import FigureSpec, file_stem

__all__ = ["FIGURES", "LazyFigure", "figures_named"]


@dataclass(frozen=True, kw_only=True)
class LazyFigure:
    """Where a figure is defined."""

    name: str
    """The paper's number, or a word."""
    module: str
    """The module that defines it, as `FIGURE`."""
    part: str = ""
    """Which of several figures of the module, the key in its `FIGURES`; empty for its `FIGURE`."""
    supplementary: bool = False
    """Whether `all` leaves it out, which means the paper's figures."""

    @property
    def stem(self) -> str:
        """Name of its files without the ending (`file_stem`)."""
        return file_stem(self.name)

    def load(self) -> FigureSpec[Any]:
        """Import the module and return its figure."""
        # A backend that is not installed would stop the import of matplotlib; its font search fills the log.
        os.environ.pop("MPLBACKEND", None)
        for name in ("matplotlib", "fontTools"):
            logging.getLogger(name).setLevel(logging.ERROR)
        module = importlib.import_module(self.module)
        figure: FigureSpec[Any] = module.FIGURES[self.part] if self.part else module.FIGURE
        return figure


_PAPER = (
    "overview", "objective", "figure03", "objective", "spread", "two_stage", "spread", "continued", "continued",
    "objective", "two_stage", "losses",
)  # fmt: skip
"""The modules of the paper's figures, from Figure 1 on."""
_ALONE = {"overview", "figure03", "losses"}
_SUPPLEMENTARY = "paper_figures.supplementary"
_CLAIMS = (
    "F1", "F2", "F3", "F4", "F5a", "F5b", "F5c", "F5d", "F5e", "F6", "F7", "F8", "F9", "F10", "F11", "F12", "F13",
    "F14", "F15",
)  # fmt: skip
"""The findings (`analysis.claims.catalogue`), which take too long to import for a list of names."""

FIGURES: Registry[LazyFigure] = Registry(
    "figure",
    [
        *(
            LazyFigure(
                name=f"{number}",
                module=f"paper_figures.figures.{module}",
                part="" if module in _ALONE else f"{number}",
            )
            for number, module in enumerate(_PAPER, start=1)
        ),
        *(
            LazyFigure(
                name=f"forest-{claim.lower()}",
                module=f"{_SUPPLEMENTARY}.forests",
                part=claim,
                supplementary=True,
            )
            for claim in _CLAIMS
        ),
        *(
            LazyFigure(name=word, module=f"{_SUPPLEMENTARY}.{word}", supplementary=True)
            for word in ("claims", "multiverse", "coverage")
        ),
    ],
)
"""All figures in the order in which they are drawn."""


def figures_named(words: Iterable[str]) -> list[LazyFigure]:
    """Return the figures that the words name, each once: `3`, `figure3`, `claims`, or `all` of the paper's.

    The paper's figures come first, in the order of the words.

    Raises:
        UserError: a word names no figure, or there is no word.
    """
    names: dict[str, None] = {}
    words = [word.lower() for word in words]
    if "all" in words:
        names |= dict.fromkeys(name for name, figure in FIGURES.items() if not figure.supplementary)
    for word in words:
        name = word.removeprefix("figure").lstrip("0")
        if name in FIGURES:
            names[name] = None
        elif word != "all":
            near = nearest(name, [*FIGURES, "all"])
            raise UserError(
                f"there is no figure {word!r}{near}; the figures are {', '.join(FIGURES)}, or all"
            )
    if not names:
        raise UserError(f"name the figures to draw: {', '.join(FIGURES)}, or all")
    return sorted((FIGURES[name] for name in names), key=lambda figure: figure.supplementary)
