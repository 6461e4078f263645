"""What a figure is (data collected from a source, a picture drawn from it, words), and all figures by name.

A figure is named by the paper's number, such as `3`, or, if it is not in the paper and so supplementary, by a word,
such as `claims`. Its module is imported when it is drawn. The modules of this package have a tuple `FIGURES` and a line
in `_MODULES` below; a figure of a user is added by `FIGURES.register` (docs/extend.md).
"""

from __future__ import annotations

import importlib
import logging
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.evidence.settings import Settings
from benchmarks.protocol import TASKS
from common.errors import UserError, nearest
from common.registry import Registry
from pretraining.paper_models import MODELS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.claims.assessment import Assessment
    from analysis.evidence.evidence import Evidence
    from analysis.sources import Source

FIGURE_COLUMNS = [
    "panel",
    "series",
    "model",
    "x",
    "mean",
    "low",
    "high",
    "n_seeds",
    "interval",
    "source",
]
"""Columns of the data of a figure of the paper, a row for each point: they are its CSV and all that its drawing reads.

panel, series     where the point is drawn; a panel is a task (SC, TC, QA, IR) unless the figure says otherwise
model             the model behind it
x                 its position on the x axis, a number or the name of a group of points
mean, low, high   what is drawn (percent unless the figure says otherwise); low and high are missing where
                  a single seed has no interval
n_seeds, interval, source   as in the scores
"""

GAPS = ("gap", "gap_low", "gap_high")
"""Columns for the second row of a figure's panels: how far a point is above another point of its series, and the ends
of the interval of the difference. They are not in the CSV, which holds the paper's numbers."""

CLEAR = "clear"
"""Column of a figure that compares its points in pairs; it is not in the CSV either. It is True where a point is
clearly above the point that it is compared with, after Holm's adjustment for all pairs of the figure, else False; it is
None for a point that is not compared. Marks are filled where it is True, and the caption counts them."""


def point_id(row: object) -> str:
    """Return the id that the mark of a row of the CSV has in the SVG: `<g id="point-7">`.

    Rows are counted from 0 without the header, as in the index of the frame that is drawn. By the id, a page can show
    the numbers of the row at its mark. Marks that stand for no single row (lines, intervals, curves of losses) have no
    id of this form.
    """
    return f"point-{row}"


def file_stem(name: str) -> str:
    """Return the name of a figure's files without the ending: `figure3`, `claims`."""
    return f"figure{name}" if name.isdecimal() else name


@dataclass(frozen=True, kw_only=True)
class FigureInputs:
    """Where a figure's numbers come from."""

    source: Source
    """Scores, and the runs behind them where there are any."""
    settings: Settings = field(default_factory=Settings)
    """How runs become scores; without an interval the source's default."""
    logs: Path | None = None
    """Folder of training logs; Figure 12 reads it."""

    def __post_init__(self) -> None:
        if self.logs is not None and not self.logs.is_dir():
            raise UserError(
                f"{self.logs}: no such folder; give --logs the output folder of clm-or-mlm train"
            )
        # The way in which a frozen dataclass sets a field of its own.
        object.__setattr__(self, "settings", self.source.with_interval(self.settings))

    @cached_property
    def assessment(self) -> Assessment:
        """The findings judged against the source."""
        # Imported here: only figures of findings need its statistics.
        from analysis.claims.assessment import assess

        return assess(self.source, self.settings)

    @cached_property
    def own_models(self) -> frozenset[str]:
        """Models with runs that the paper does not have, whose scores may stand among its printed ones."""
        runs = self.source.runs
        # Scores of other networks or metrics never stand among the paper's.
        if runs is None or not self.source.comparable:
            return frozenset()
        return frozenset(runs["model"].unique()) - set(MODELS)

    @cached_property
    def evidence(self) -> Evidence:
        """What the averages come from, and any difference between them."""
        return self.source.evidence(self.settings, printed=bool(self.own_models))

    @cached_property
    def averages(self) -> pd.DataFrame:
        """The task averages of the source's scores, as `analysis.evidence.evidence.scores_of` returns them.

        If there are `own_models`, `evidence` also has the averages that the paper prints for models without runs.
        """
        from analysis.evidence.evidence import scores_of
        from analysis.sources import PUBLISHED

        scores = scores_of(self.evidence, source=self.source.name, averages_only=True)
        if self.own_models and self.source.runs is not None:
            with_runs = self.source.runs["model"].unique()
            is_printed = ~scores["model"].isin(with_runs)
            # Rows of printed averages say so in the column `source`, which goes into the CSV.
            origin = scores["source"].mask(is_printed, PUBLISHED.label)
            scores = scores.assign(source=origin)
        return scores


@dataclass(frozen=True, kw_only=True)
class FigureSpec(ABC):
    """A figure: inputs to data, data to a picture and to sentences. A kind of figure is a class, a figure an object.

    A figure of the paper, or one like them, shows models: its data have `FIGURE_COLUMNS`.
    """

    name: str
    """The paper's number, or a word."""
    title: str
    """What it shows, in a few words."""
    note: str = ""
    """A sentence of the caption on how to read it."""
    models: tuple[str, ...] = ()
    """The models that it shows; empty: all of the source."""
    tables: str = ""
    """The paper's tables that hold its cells, such as `Tables 2-5`."""
    supplementary: bool = False
    """Whether it is not like the paper's: it reads the whole source, and `all` leaves it out."""
    averaged: bool = True
    """Whether it shows means over seeds with an interval."""
    selected: bool = True
    """Whether the learning rates of its runs were chosen by validation score."""
    from_logs: bool = False
    """Whether it reads training logs in place of scores."""

    @abstractmethod
    def collect(self, inputs: FigureInputs) -> pd.DataFrame:
        """Return what is drawn, which its CSV holds; `UserError` where the source does not allow the figure."""

    @abstractmethod
    def draw(self, data: pd.DataFrame, heading: str, caption: str) -> Figure:
        """Return the picture of what was collected; call it within `drawing.style.paper_style`."""

    @abstractmethod
    def describe(self, data: pd.DataFrame) -> str:
        """Return what is seen, in sentences, for those who do not see it."""

    def finding(self, data: pd.DataFrame, inputs: FigureInputs) -> str:
        """Return in one sentence what is seen, without a full stop; empty where there is nothing to say.

        It is the title of a supplementary figure, and the first line of another's caption.
        """
        del data, inputs
        return ""

    def draw_panel(self, data: pd.DataFrame, panel: str, ax: Axes) -> None:
        """Draw one panel on axes; `UserError` for a figure that has no such panel."""
        del data, panel, ax
        raise UserError(
            f"{self.label} has no such panel; for figures with task panels, task= is one of {', '.join(TASKS)}"
        )

    def details(self, inputs: FigureInputs) -> str:
        """Return sentences of a supplementary figure's alt text on how the numbers were computed."""
        del inputs
        return ""

    @property
    def crosses(self) -> bool:
        """Whether a cross on the axis marks an x without any score."""
        return False

    @property
    def x_axis(self) -> Mapping[str, Any]:
        """What the x axis of all panels shows, for whoever draws the data again.

        Its label, whether it is logarithmic, and for each series the x of all its points in the paper (`expected`): no
        line is drawn across one that is not there.
        """
        return {"label": "", "log": False, "expected": {}}

    @property
    def label(self) -> str:
        """What a sentence calls it: `Figure 3`, or its title."""
        return f"Figure {self.name}" if self.name.isdecimal() else self.title

    @property
    def heading(self) -> str:
        """What stands above the picture: `Figure 3. Title`, or the title."""
        return f"{self.label}. {self.title}" if self.name.isdecimal() else self.title


@dataclass(frozen=True, kw_only=True)
class LazyFigure:
    """Where a figure is defined."""

    name: str
    """The paper's number, or a word."""
    module: str
    """Below `paper_figures`; its `FIGURES` hold it."""

    @property
    def supplementary(self) -> bool:
        """Whether `all` leaves it out, which means the paper's figures."""
        return self.module.startswith("supplementary.")

    def load(self) -> FigureSpec:
        """Import the module and return its figure.

        Raises:
            LookupError: the module has no figure of this name.
        """
        # The import of matplotlib fails if the backend that MPLBACKEND names is not installed.
        os.environ.pop("MPLBACKEND", None)
        # What these two libraries say about fonts would fill the log.
        for library in ("matplotlib", "fontTools"):
            logging.getLogger(library).setLevel(logging.ERROR)
        figures: tuple[FigureSpec, ...] = importlib.import_module(
            f"paper_figures.{self.module}"
        ).FIGURES
        for figure in figures:
            if figure.name == self.name:
                return figure

        raise LookupError(
            f"figure {self.name!r} is registered in paper_figures/figure.py, but paper_figures.{self.module}.FIGURES "
            "has none of that name; add it there"
        )


_MODULES = {
    "figures.figure1": ("1",),
    "figures.figures2_11": ("2", "3", "4", "6", "8", "9", "10", "11"),
    "figures.figures5_7": ("5", "7"),
    "figures.figure12": ("12",),
    "supplementary.answer_figure": ("answer",),
    "supplementary.findings_figure": ("claims",),
}


def _rank(figure: LazyFigure) -> float:
    """Return a figure's number; for a supplementary figure infinity, so that it comes after all numbers."""
    return int(figure.name) if figure.name.isdecimal() else math.inf


_ALL = [
    LazyFigure(name=name, module=module)
    for module, names in _MODULES.items()
    for name in names
]
FIGURES: Registry[LazyFigure] = Registry("figure", sorted(_ALL, key=_rank))
"""All figures in the order in which they are drawn."""


PICTURE_FORMATS = ("pdf", "png", "svg")
"""Formats of a picture, the endings of its files, in the order in which they are written."""


def names_in_words() -> str:
    """Return the names of all figures, the paper's by their first and last."""
    own = [name for name in FIGURES if not name.isdecimal()]
    return f"1 to 12, all (of these), {', '.join(own)}"


def figures_named(words: Iterable[str]) -> list[LazyFigure]:
    """Return the figures that the words name, each once, in the order of `FIGURES`.

    A word is `3`, `03`, `figure3`, `claims`, or `all` for all figures of the paper.

    Raises:
        UserError: a word names no figure, or there is no word.
    """
    names: set[str] = set()
    of_paper = {name for name, figure in FIGURES.items() if not figure.supplementary}
    for word in map(str.lower, words):
        if word == "all":
            names |= of_paper
            continue

        name = word.removeprefix("figure").lstrip("0")
        if name not in FIGURES:
            raise UserError(
                f"unknown figure {word!r}; use one of {names_in_words()}{nearest(word, FIGURES)}"
            )

        names.add(name)

    if not names:
        raise UserError(f"name the figures to draw: {names_in_words()}")
    return [figure for name, figure in FIGURES.items() if name in names]


def formats_named(names: Iterable[str]) -> tuple[str, ...]:
    """Return the formats of these names, each once, in the order of `PICTURE_FORMATS`.

    Raises:
        UserError: there is no format of a name.
    """
    chosen = set(names)
    unknown = sorted(chosen - set(PICTURE_FORMATS))
    if unknown:
        first = unknown[0]
        # `nearest` returns a guess at what was meant, such as `; did you mean 'png'?`, or an empty text.
        known = f"{', '.join(PICTURE_FORMATS)}{nearest(first, PICTURE_FORMATS)}"
        raise UserError(f"unknown format {first!r}; use one of {known}")
    return tuple(form for form in PICTURE_FORMATS if form in chosen)
