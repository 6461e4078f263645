"""Names of series written where the series end, right of a panel, instead of in a legend."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes

from analysis.records import records
from paper_figures.drawing.style import SMALLEST, Look

__all__ = ["names_fit", "write_names"]

_APART = SMALLEST * 1.22
"""Points of the page between two names."""


def names_fit(data: pd.DataFrame, panel: str) -> bool:
    """Return whether that panel holds every series of the data, so that all can be named there."""
    return set(data.loc[data["panel"] == panel, "series"]) == set(data["series"])


def write_names(ax: Axes, rows: pd.DataFrame, look: Mapping[str, Look]) -> None:
    """Write each series' name right of the panel at the height of its last value, moved as far as names would touch.

    Args:
        ax: the panel, with its limits set.
        rows: what it draws, each series by rising x.
        look: the series' looks.
    """
    ends = dict(records(rows, "series", "mean"))
    figure = ax.get_figure(root=True)
    assert figure is not None
    tall = 72 * float(ax.get_position().height * figure.get_size_inches()[1])
    scale = ax.transData + ax.transAxes.inverted()
    wanted = sorted(
        ((float(scale.transform((1.0, value))[1]) * tall, name) for name, value in ends.items()),
        key=lambda place: (place[0], place[1]),
    )
    for (height, name), (asked, _) in zip(_spread(wanted, tall), wanted, strict=True):
        ax.annotate(name, (1, asked / tall), xycoords="axes fraction", xytext=(6, height - asked),
                    textcoords="offset points", va="center", ha="left", fontweight="bold", color=look[name].ink,
                    annotation_clip=False)  # fmt: skip


def _spread(wanted: list[tuple[float, str]], tall: float) -> list[tuple[float, str]]:
    """Return the places moved apart as little as needed, within the panel: neighbours that touch share their middle."""
    blocks: list[tuple[float, list[str]]] = []
    for height, name in wanted:
        blocks.append((height, [name]))
        while len(blocks) > 1:
            (low, under), (high, over) = blocks[-2:]
            reach = _APART * (len(under) + len(over)) / 2
            if high - low >= reach:
                break
            both = [*under, *over]
            middle = (low * len(under) + high * len(over)) / len(both)
            blocks[-2:] = [(middle, both)]
    placed = []
    for middle, names in blocks:
        half = _APART * len(names) / 2
        middle = min(max(middle, half - _APART / 2), tall - half + _APART / 2)
        placed += [(middle + _APART * (rank - (len(names) - 1) / 2), name) for rank, name in enumerate(names)]
    return placed
