"""What a figure is (data collected from a source, a picture drawn from it, words), and all figures by name.

The paper's (`3`) and the supplementary ones (`claims`) are imported when they are drawn. A new figure is a module that
defines `FIGURE` and an entry of `FIGURES`.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pandas as pd

from analysis.sources import Source
from analysis.statistics.scores_table import Settings
from benchmarks.protocol import AVERAGE
from common.errors import UserError, nearest
from common.registry import Registry

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.claims.assessment import Assessment
    from analysis.claims.verdicts import Verdict

__all__ = [
    "COLUMNS", "FIGURES", "FigureSpec", "Inputs", "LazyFigure", "figures_named", "file_stem", "point_id", "x_axis",
]  # fmt: skip

T = TypeVar("T")

COLUMNS = ["panel", "series", "model", "x", "mean", "low", "high", "n_seeds", "interval", "source"]
"""Of the data of a figure of the paper, which are its CSV and all that its drawing reads.

panel, series     where the point is drawn; a panel is a task (SC, TC, QA, IR) unless the figure says otherwise
model             the model behind it
x                 its position on the x axis, a number or the name of a group of points
mean, low, high   what is drawn (percent unless the figure says otherwise); low and high are missing where
                  a single seed has no interval
n_seeds, interval, source   as in the scores
"""


def point_id(row: object) -> str:
    """Return the id of the mark of a row of the CSV, counted from 0 without the header: `<g id="point-7">` of the SVG.

    A page can attach to it what the row says. Marks that stand for no single row (lines, intervals, curves of losses)
    have no such id. A frame that is drawn has as its index the rows of the CSV.
    """
    return f"point-{row}"


def file_stem(name: str) -> str:
    """Return the name of a figure's files without the ending: `figure3`, `claims`."""
    return f"figure{name}" if name.isdecimal() else name


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Where a figure's numbers come from."""

    source: Source
    """Scores, and the runs behind them where there are any."""
    settings: Settings = field(default_factory=Settings)
    """How runs become scores; without an interval the source's default."""
    logs: Path | None = None
    """Folder of training logs; Figure 12 reads it."""
    second_opinion: bool = False
    """Whether the claims are judged by the mixed-effects models too, which no figure shows."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", self.source.settled(self.settings))

    @property
    def name(self) -> str:
        """The source by its content (`Source.name`)."""
        return self.source.name

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """Verdicts by claim, filled as figures need them for their titles."""
        return {}

    @cached_property
    def assessment(self) -> Assessment:
        """The claims judged against the source."""
        from analysis.claims.assessment import assess  # statistics that most figures do not need

        return assess(self.source, self.settings, second_opinion=self.second_opinion)

    @cached_property
    def coverage(self) -> pd.DataFrame:
        """The coverage of every interval by simulation (`analysis.precision.coverage.simulate`)."""
        from analysis.precision import coverage

        return coverage.simulate(
            self.source,
            trials=coverage.COVERAGE_TRIALS,
            resamples=coverage.COVERAGE_RESAMPLES,
            seed=self.settings.seed,
            selection=self.settings.selection,
        )

    @cached_property
    def averages(self) -> pd.DataFrame:
        """The task averages of the source's scores."""
        scores = self.source.scores(self.settings)
        return scores[scores["dataset"] == AVERAGE].assign(source=self.name)


def _same(data: pd.DataFrame) -> pd.DataFrame:
    return data


def _no_details(inputs: Inputs) -> str:
    del inputs
    return ""


def x_axis(
    label: str = "", *, log: bool = False, expected: Mapping[str, Sequence[float]] | None = None
) -> dict[str, Any]:
    """Return what a figure's x axis shows, for whoever draws its data again.

    Args:
        label: below it.
        log: whether it is logarithmic.
        expected: for each series the x of all its points in the paper: no line is drawn across one that is not there.
    """
    return {"label": label, "log": log, "expected": expected or {}}


@dataclass(frozen=True, kw_only=True)
class FigureSpec(Generic[T]):
    """A figure as data and pure functions: inputs to data of type T, data to a picture and to sentences.

    A figure of the paper, or one like them, shows models: its data have `COLUMNS`.
    """

    name: str
    """The paper's number, or a word."""
    title: str
    """What it shows, in a few words."""
    collect: Callable[[Inputs], T]
    """Inputs -> what is drawn; `UserError` where the source does not allow the figure."""
    draw: Callable[[T, str, str], Figure]
    """Data, heading and caption -> the picture; call it within `drawing.style.paper_style`."""
    describe: Callable[[T], str]
    """Data -> what is seen, in sentences, for those who do not see it."""
    supplementary: bool = False
    """Whether it is not like the paper's: it reads the whole source, and `all` leaves it out."""
    draw_panel: Callable[[T, str, Axes], None] | None = None
    """Data, a panel's name and axes -> that panel drawn on them; None for a figure that is drawn whole."""
    claim: str = ""
    """Id of the finding that it shows, by whose verdict it is entitled (`output.words`); empty: by its topic."""
    note: str = ""
    """A sentence of the caption on how to read it."""
    details: Callable[[Inputs], str] = _no_details
    """Inputs -> sentences of a supplementary figure's caption on how the numbers were computed."""
    models: tuple[str, ...] = ()
    """The models that it shows; empty: all of the source."""
    tables: tuple[int, ...] = ()
    """The paper's tables that hold its cells."""
    tabulate: Callable[[T], pd.DataFrame] = _same  # type: ignore[assignment]
    """Data -> what the CSV holds; by default the data, which are a frame then."""
    x_axis: Mapping[str, Any] = field(default_factory=x_axis)
    """Of all its panels (`x_axis`)."""
    crosses: bool = False
    """Whether a cross on the axis marks an x without any score."""
    averaged: bool = True
    """Whether it shows means over seeds with an interval."""
    selected: bool = True
    """Whether the learning rates of its runs were chosen by validation score."""
    from_logs: bool = False
    """Whether it reads training logs in place of scores."""

    @property
    def stem(self) -> str:
        """Name of its files without the ending."""
        return file_stem(self.name)

    @property
    def label(self) -> str:
        """What a sentence calls it: `Figure 3`, or its title."""
        return f"Figure {self.name}" if self.name.isdecimal() else self.title

    @property
    def heading(self) -> str:
        """What stands above the picture by its topic: `Figure 3. Title`, or the title."""
        return f"{self.label}. {self.title}" if self.name.isdecimal() else self.title


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
