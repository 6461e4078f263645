"""Every point of every figure drawn from published cells, against the CSV of those cells and in the picture itself."""

import csv
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from scipy import stats

from common.provenance import ROOT
from paper_figures.figure import CLEAR, FIGURE_COLUMNS, GAPS
from tests.paper_figures.drawn import collected, picture
from tests.paper_figures.made_up import STEP_FLOPS

TASKS = ("SC", "TC", "QA", "IR")
SIZES = {"210M": "210m", "610M": "610m", "1B": "1b"}
STEPS = (1, 2, 5, 10, 20, 40)
SPLITS = {12: (3, 6, 9), 22: (5, 11, 17), 42: (10, 21, 32)}


def _mix(budget: int, share: int) -> str:
    if share in (0, 100):
        return f"610m-{'clm' if share else 'mlm40'}-{budget}k"
    return f"610m-clm-{SPLITS[budget][share // 25 - 1]}k-mlm40-{budget}k"


def _start(objective: str, steps: int) -> str:
    return (
        f"610m-{objective}-dec42k-mlm40-{42 + steps}k"
        if steps
        else f"610m-{objective}-42k"
    )


BOTH = {"MLM": "mlm40", "CLM": "clm"}
POINTS: dict[int, dict[tuple[str, float | str], str]] = {
    2: {(o, size): f"{s}-{name}-42k" for o, name in BOTH.items() for size, s in SIZES.items()},
    3: {(size, r): f"{s}-mlm{r}-42k" for size, s in SIZES.items() for r in (20, 30, 40, 50)},
    4: {(o, k): f"610m-{name}-42k-{k}000" for o, name in BOTH.items() for k in STEPS},
    6: {(f"{b}K steps", x): _mix(b, x) for b in SPLITS for x in (0, 25, 50, 75, 100)},
    8: {(f"{o} start", x): _start(n, 22 * (x == "CPT")) for o, n in BOTH.items() for x in ("Base", "CPT")},
    9: {(f"{o} start", k): _start(n, k) for o, n in BOTH.items() for k in (0, 2, 12, 22)},
    10: {(o, k * 1000 * STEP_FLOPS / 1e20): f"610m-{name}-42k-{k}000" for o, name in BOTH.items() for k in STEPS},
    11: {("1B", 0): "1b-mlm40-42k", ("1B", 100): "1b-clm-42k"},
}  # fmt: skip
"""For each figure its points as the paper's captions and axes say: (series, x) -> model."""
FIRST_TABLE = {2: 2, 3: 2, 4: 6, 6: 10, 8: 14, 9: 14, 10: 6, 11: 2}
"""The table of the figure's SC cells; TC, QA and IR follow."""


def _cells() -> dict[tuple[int, str], tuple[float, float]]:
    with (ROOT / "analysis" / "data" / "published_scores.csv").open(newline="") as file:
        return {
            (int(row["table"]), row["model"]): (float(row["mean"]), float(row["ci95"]))
            for row in csv.DictReader(file)
            if row["dataset"] == "average"
        }


CELLS = _cells()


def _expected(number: int) -> Iterator[tuple[str, str, float | str, str, float, float]]:
    """Yield panel, series, x, model, mean and half-width."""
    if number == 1:
        for share in (0, 25, 50, 75, 100):
            yield (
                "SC: CLM share",
                "42K steps",
                share,
                _mix(42, share),
                *CELLS[10, _mix(42, share)],
            )
        for (series, x), model in POINTS[8].items():
            yield "SC: CPT", series, x, model, *CELLS[14, model]
        return
    for offset, task in enumerate(TASKS):
        for (series, x), model in POINTS[number].items():
            yield task, series, x, model, *CELLS[FIRST_TABLE[number] + offset, model]


def _key(x: object) -> object:
    return x if isinstance(x, str) else round(float(x), 6)  # type: ignore[arg-type]


_ASIDE = 0.065
"""How far the two series of a group stand from its middle; groups are 1 apart."""
NUMBERS = (1, 2, 3, 4, 6, 8, 9, 10)


STUDENT = 2.7764451 / 1.96
"""From a printed half-width of five seeds to Student's."""


@pytest.mark.parametrize("number", NUMBERS)
def test_every_drawn_value_is_the_published_cell(number: int) -> None:
    data = collected(str(number)).data
    counts = [CLEAR] * (number in (2, 4, 6, 9, 10))
    assert list(data.columns) == [
        *FIGURE_COLUMNS,
        *(GAPS if number in (3, 6) else ()),
        *counts,
    ]
    drawn = {
        (row["panel"], row["series"], _key(row["x"])): (
            row["model"],
            row["mean"],
            row["low"],
            row["high"],
        )
        for row in data.to_dict("records")
    }
    expected = {
        (panel, series, _key(x)): (
            model,
            mean,
            mean - STUDENT * max(half, 0.005),
            mean + STUDENT * max(half, 0.005),
        )
        for panel, series, x, model, mean, half in _expected(number)
    }
    assert drawn.keys() == expected.keys()
    assert len(drawn) == len(data)
    for key, (model, *values) in expected.items():
        assert drawn[key][0] == model
        assert drawn[key][1:] == pytest.approx(values, abs=1e-6)
    assert set(data["n_seeds"]) == {5}
    assert set(data["interval"]) == {"t"}
    assert set(data["source"]) == {"published"}


def _axes(figure: Figure, data: pd.DataFrame) -> Iterator[tuple[Axes, pd.DataFrame]]:
    panels = list(dict.fromkeys(data["panel"]))
    for ax, panel in zip(figure.axes, panels, strict=False):
        yield ax, data[data["panel"] == panel]


def _intervals(ax: Axes) -> list[tuple[float, float, float]]:
    found = []
    for collection in ax.collections:
        assert isinstance(collection, LineCollection)
        for segment in collection.get_segments():
            (x, low), (_, high) = segment
            found.append(
                (round(float(x), 6), round(float(low), 6), round(float(high), 6))
            )
    return sorted(found)


@pytest.mark.parametrize("number", [number for number in NUMBERS if number != 11])
def test_points_lines_and_intervals_stand_at_the_data(number: int) -> None:
    for ax, rows in _axes(picture(str(number)), collected(str(number)).data):
        low, high = ax.get_ylim()
        assert low <= rows["low"].min()
        assert rows["high"].max() <= high
        words = [label.get_text() for label in ax.get_xticklabels()]
        aside = {
            name: _ASIDE * (2 * rank - 1)
            for rank, name in enumerate(dict.fromkeys(rows["series"]))
        }
        at = {
            row: words.index(x) + aside[name] if isinstance(x, str) else float(x)
            for row, x, name in zip(rows.index, rows["x"], rows["series"], strict=True)
        }
        points = {str(line.get_gid()): line for line in ax.lines if line.get_gid()}
        assert points.keys() == {f"point-{row}" for row in rows.index}, (
            "a mark for each row of the CSV"
        )
        for row, mean in rows["mean"].items():
            point = points[f"point-{row}"]
            assert (*point.get_xdata(), *point.get_ydata()) == pytest.approx(
                (at[row], mean)
            )  # type: ignore[misc]
        for series, part in rows.groupby("series", sort=False):
            (line,) = [line for line in ax.lines if line.get_label() == series]
            x, y = (
                np.asarray(line.get_xdata(), float),
                np.asarray(line.get_ydata(), float),
            )
            there = np.isfinite(y)
            assert x[there].tolist() == pytest.approx([at[row] for row in part.index])
            assert y[there].tolist() == pytest.approx(part["mean"].tolist())
        wanted = zip(at.values(), rows["low"], rows["high"], strict=True)
        assert _intervals(ax) == sorted(
            (round(x, 6), round(a, 6), round(b, 6)) for x, a, b in wanted
        )


@pytest.mark.parametrize(("number", "base"), [(3, 20.0), (6, 0.0)])
def test_the_second_row_shows_differences_with_welchs_interval(
    number: int, base: float
) -> None:
    data, drawn = collected(str(number)).data, picture(str(number))
    assert len(drawn.axes) == 8
    xs = sorted(set(data["x"]) - {base})
    for ax, task in zip(drawn.axes[4:], TASKS, strict=True):
        wanted = []
        for series, part in data[data["panel"] == task].groupby("series", sort=False):
            than = part[part["x"] == base].iloc[0]
            (line,) = [line for line in ax.lines if line.get_label() == series]
            others = part[part["x"] != base].to_dict("records")
            # Beside its x, nearer to it than to any other.
            near = {
                min(xs, key=lambda x: abs(x - drawn_at)): (drawn_at, y)
                for drawn_at, y in zip(*line.get_data(), strict=True)
            }
            for row in others:
                by = row["mean"] - than["mean"]
                assert near[row["x"]][1] == pytest.approx(by)
                one, two = (
                    ((end["high"] - end["mean"]) / stats.t.ppf(0.975, 4)) ** 2
                    for end in (row, than)
                )
                half = stats.t.ppf(
                    0.975, 4 * (one + two) ** 2 / (one**2 + two**2)
                ) * np.sqrt(one + two)
                wanted.append((near[row["x"]][0], by - half, by + half))
        assert np.array(_intervals(ax)) == pytest.approx(
            np.array(sorted(wanted)), abs=1e-4
        )
        low, high = ax.get_ylim()
        assert low < 0 < high
