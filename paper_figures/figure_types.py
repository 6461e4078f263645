"""What a figure is: data collected from a source, a picture drawn from it, and the words that go with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import pandas as pd

from paper_figures.inputs import Inputs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FigureSpec", "PaperFigure", "SupplementaryFigure", "XAxis", "file_stem"]

T = TypeVar("T")


def file_stem(name: str) -> str:
    """Return the name of a figure's files without the ending: `figure3`, `claims`."""
    return f"figure{name}" if name.isdecimal() else name


def _same(data: pd.DataFrame) -> pd.DataFrame:
    return data


def _no_details(inputs: Inputs) -> str:
    del inputs
    return ""


@dataclass(frozen=True, kw_only=True)
class XAxis:
    """What a figure's x axis shows, for whoever draws its data again."""

    label: str = ""
    log: bool = False
    expected: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """For each series the x of all its points in the paper: no line is drawn across one that is not there."""


@dataclass(frozen=True, kw_only=True)
class FigureSpec(Generic[T]):
    """A figure as data and pure functions: inputs to data of type T, data to a picture and to sentences."""

    supplementary: ClassVar[bool]
    """Whether `all` leaves it out, which means the paper's figures."""

    name: str
    """The paper's number, or a word."""
    title: str
    """What it shows, in a few words."""
    collect: Callable[[Inputs], T]
    """Inputs -> what is drawn; `UserError` where the source does not allow the figure."""
    draw: Callable[[T, str], Figure]
    """Data and caption -> the picture."""
    describe: Callable[[T], str]
    """Data -> what is seen, in sentences, for those who do not see it."""
    draw_panel: Callable[[T, str, Axes], None] | None = None
    """Data, a panel's name and axes -> that panel drawn on them; None for a figure that is drawn whole."""
    claim: str = ""
    """Id of the finding that it shows, by whose verdict it is entitled (`output.titles`); empty: by its topic."""
    note: str = ""
    """A sentence of the caption on how to read it."""
    models: tuple[str, ...] = ()
    """The models that it shows; empty: all of the source."""
    tabulate: Callable[[T], pd.DataFrame] = _same  # type: ignore[assignment]
    """Data -> what the CSV holds; by default the data, which are a frame then."""
    x_axis: XAxis = XAxis()
    """The x axis of all its panels."""
    from_logs: bool = False
    """Whether it reads training logs in place of scores."""

    def load(self) -> FigureSpec[T]:
        """Return the figure itself, so that the registry holds figures as well as names of modules."""
        return self

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
        """What stands above the picture: `Figure 3. Title`, or the title."""
        return f"{self.label}. {self.title}" if self.name.isdecimal() else self.title

    def source_name(self, inputs: Inputs) -> str:
        """Return what its data come from, by content."""
        return "logs" if self.from_logs else inputs.name

    def given_as(self, inputs: Inputs) -> str:
        """Return what its data come from, as the user named it: logs of the source's own go by its name."""
        return str(inputs.logs) if self.from_logs and inputs.logs is not None else inputs.source.given_as


@dataclass(frozen=True, kw_only=True)
class PaperFigure(FigureSpec[pd.DataFrame]):
    """A figure of the paper, or one like them: models by task, or their training losses."""

    supplementary = False

    tables: tuple[int, ...] = ()
    """The paper's tables that hold its cells."""
    crosses: bool = False
    """Whether a cross on the axis marks an x without any score."""
    averaged: bool = True
    """Whether it shows means over seeds with an interval."""
    selected: bool = True
    """Whether the learning rates of its runs were chosen by validation score."""


@dataclass(frozen=True, kw_only=True)
class SupplementaryFigure(FigureSpec[T]):
    """A figure that the paper does not have; it reads the whole source."""

    supplementary = True

    details: Callable[[Inputs], str] = _no_details
    """Inputs -> sentences of the caption on how the numbers were computed."""
