"""The panels of a figure, drawn again from its data: shapes with places, for a template to write as SVG.

What the CSV says decides how a panel is drawn: training curves (`range`), single scores around their mean (`sd`), lines
over numbers, or groups by name. Scores of one task share their range, whatever the panel.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from benchmarks.protocol import TASKS
from clm_or_mlm.report.scales import Scale, linear, logarithmic, number

__all__ = ["HEIGHT", "WIDTH", "Mark", "Panel", "draw_panels"]

WIDTH, HEIGHT = 330, 236
_LEFT, _TOP, _BOTTOM = 38, 10, 40
_LETTER, _LINE = 6.3, 12.0
"""Width of a letter and distance of lines, for labels that must not touch."""
_DODGE = 5.0
_MOST_TIPS = 80
_LEAST_SPAN = 2.0
_SHAPES = ("circle", "square", "triangle", "diamond")


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A point that can be pointed at."""

    x: float
    y: float
    tip: str
    look: str
    shape: str = "circle"
    low: float | None = None
    """Where its interval ends; None without one."""
    high: float | None = None
    small: bool = False


@dataclass(kw_only=True)
class Panel:
    """A panel's shapes; lengths in units of the drawing."""

    title: str
    unit: str
    x_label: str
    right: float
    """Where the plot ends and the labels of its series begin."""
    bottom: float = HEIGHT - _BOTTOM
    left: float = _LEFT
    x_ticks: list[tuple[float, str]] = field(default_factory=list)
    y_ticks: list[tuple[float, str]] = field(default_factory=list)
    bands: list[tuple[str, str]] = field(default_factory=list)
    """Look and corners."""
    lines: list[tuple[str, str]] = field(default_factory=list)
    """Look and corners."""
    marks: list[Mark] = field(default_factory=list)
    labels: list[tuple[float, str, str]] = field(default_factory=list)
    """y, look and text, at the right of the plot."""
    zero: float | None = None
    """Where a line at 0 is."""

    @property
    def x_middle(self) -> float:
        """The middle of the x label: below the plot, or of the drawing where the label is longer than the plot."""
        fits = _LETTER * len(self.x_label) <= self.right - self.left
        return (self.left + self.right) / 2 if fits else WIDTH / 2


@dataclass(frozen=True, kw_only=True)
class _Frame:
    """What the panels of a figure share."""

    looks: Mapping[str, tuple[str, str]]
    """Look and shape of each series."""
    x_label: str
    log_x: bool
    expected: Mapping[str, Sequence[float]]


def draw_panels(
    data: pd.DataFrame, *, x_label: str, log_x: bool, expected: Mapping[str, Sequence[float]]
) -> list[Panel]:
    """Return a figure's panels.

    Args:
        data: what it draws (`paper_figures.figure_data.COLUMNS`).
        x_label: what its x axis shows.
        log_x: whether that is logarithmic.
        expected: for each series the x of all its points in the paper.
    """
    frame = _Frame(looks=_looks(_series(data)), x_label=x_label, log_x=log_x, expected=expected)
    ranges: dict[str, Scale] = {}
    for metric, rows in data.groupby(data["panel"].map(_metric), sort=False):
        ranges[str(metric)] = _y_scale(rows)
    return [
        _kind(rows)(str(name), rows, ranges[_metric(str(name))], frame)
        for name, rows in data.groupby("panel", sort=False)
    ]


def _kind(rows: pd.DataFrame) -> Callable[[str, pd.DataFrame, Scale, _Frame], Panel]:
    intervals = set(rows["interval"])
    if "range" in intervals:
        return _curves
    if intervals & {"sd", "single"}:
        return _spread
    return _groups if pd.to_numeric(rows["x"], errors="coerce").isna().any() else _lines


def _metric(panel: str) -> str:
    return panel.split(":")[0].strip() if panel.split(":")[0] in TASKS else ""


def _series(data: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(str(name) for name in data["series"] if not str(name).count(": ")))


def _looks(series: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the colour and the shape of each series: MLM and CLM have their own, others are steps of one ramp."""
    others = [name for name in series if not re.fullmatch("(MLM|CLM)( start)?", name)]
    looks = {}
    for place, name in enumerate(series):
        colour = f"ramp{others.index(name) % 7}" if name in others else name[:3].lower()
        looks[name] = (colour, _SHAPES[place % len(_SHAPES)])
    return looks


def _y_scale(rows: pd.DataFrame) -> Scale:
    values = rows[["mean", "low", "high"]].to_numpy(dtype=float)
    finite = values[pd.notna(values)]
    low, high = float(finite.min()), float(finite.max())
    if set(rows["interval"]) == {"range"}:
        return logarithmic(low, high)
    # An interval of two seeds may be wider than all there is: it is cut at the range of the means, widened.
    means = rows["mean"].dropna()
    if len(means) > 1 and not set(rows["interval"]) & {"sd", "single"}:
        span = max(float(means.max() - means.min()), _LEAST_SPAN)
        low, high = max(low, float(means.min()) - 1.5 * span), min(high, float(means.max()) + 1.5 * span)
    missing = max(0.0, _LEAST_SPAN - (high - low)) / 2
    pad = 0.04 * (high - low + 2 * missing)
    below = low - missing - pad
    return linear(max(below, 0.0) if float(means.min()) > 0 else below, high + missing + pad)


def _panel(name: str, scale: Scale, frame: _Frame, labelled: Sequence[str]) -> Panel:
    head = name.split(":")[0]
    task = TASKS.get(head)
    title = name if task is None else task.title
    if task is not None and ":" in name:
        title = name.split(":", 1)[1].strip()
    right = WIDTH - 10 - _LETTER * max((len(text) for text in labelled), default=0)
    panel = Panel(
        title=title, unit="Loss" if task is None else f"{task.metric} (%)", x_label=frame.x_label, right=right
    )
    panel.y_ticks = [(_y(panel, scale, tick), number(tick)) for tick in scale.ticks]
    return panel


def _y(panel: Panel, scale: Scale, value: float) -> float:
    return round(panel.bottom - scale.at(scale.inside(value)) * (panel.bottom - _TOP), 2)


def _x(panel: Panel, scale: Scale, value: float) -> float:
    return round(panel.left + scale.at(value) * (panel.right - panel.left), 2)


def _tip(series: str, where: str, row: pd.Series) -> str:
    interval = (
        "" if pd.isna(row["low"]) else f" [{number(round(row['low'], 2))}, {number(round(row['high'], 2))}]"
    )
    seeds = int(row["n_seeds"])
    mean = f"{row['mean']:.2f}".replace("-", "\u2212")
    return f"{series}, {where}: {mean}{interval}\nn = {seeds} seed{'s' if seeds != 1 else ''}\n{row['model']}"


def _mark(panel: Panel, scale: Scale, x: float, look: tuple[str, str], tip: str, row: pd.Series) -> Mark:
    low, high = (None if pd.isna(row[end]) else _y(panel, scale, row[end]) for end in ("low", "high"))
    return Mark(
        x=round(x, 2),
        y=_y(panel, scale, row["mean"]),
        tip=tip,
        look=look[0],
        shape=look[1],
        low=low,
        high=high,
    )


def _lines(name: str, rows: pd.DataFrame, scale: Scale, frame: _Frame) -> Panel:
    series = _series(rows)
    panel = _panel(name, scale, frame, series if len(frame.looks) > 1 else ())
    xs = sorted({float(x) for x in rows["x"]} | {x for known in frame.expected.values() for x in known})
    if frame.log_x:
        pad = (xs[-1] / xs[0]) ** 0.05
        across = logarithmic(xs[0] / pad, xs[-1] * pad, xs)
    else:
        pad = 0.05 * (xs[-1] - xs[0])
        across = linear(xs[0] - pad, xs[-1] + pad)
    places = xs if frame.log_x or len(xs) <= 6 else across.ticks
    panel.x_ticks = _apart([(_x(panel, across, x), number(round(x, 2))) for x in places])
    for rank, one in enumerate(series):
        part = rows[rows["series"] == one]
        look, shift = frame.looks[one], (rank - (len(series) - 1) / 2) * _DODGE
        points: dict[float, Mark] = {}
        for _, row in part.iterrows():
            x = float(row["x"])
            tip = _tip(one, f"{frame.x_label or 'x'} {number(round(x, 2))}", row)
            points[x] = _mark(panel, scale, _x(panel, across, x) + shift, look, tip, row)
        panel.marks += points.values()
        panel.lines += [(look[0], corners) for corners in _joined(points, frame.expected.get(one, ()))]
    _label(panel, frame, series)
    return panel


def _joined(points: Mapping[float, Mark], expected: Sequence[float]) -> list[str]:
    """Return the lines through the points, broken where a point of the paper is missing."""
    pieces: list[list[str]] = [[]]
    for x in sorted({*points, *expected}):
        if x in points:
            pieces[-1].append(f"{points[x].x},{points[x].y}")
        else:
            pieces.append([])
    return [" ".join(piece) for piece in pieces if len(piece) > 1]


def _groups(name: str, rows: pd.DataFrame, scale: Scale, frame: _Frame) -> Panel:
    series = _series(rows)
    panel = _panel(name, scale, frame, series if len(frame.looks) > 1 else ())
    groups = list(dict.fromkeys(str(x) for x in rows["x"]))
    width = (panel.right - panel.left) / len(groups)
    panel.x_ticks = [
        (round(panel.left + width * (place + 0.5), 2), text) for place, text in enumerate(groups)
    ]
    panel.x_label = ""
    for rank, one in enumerate(series):
        look, shift = frame.looks[one], (rank - (len(series) - 1) / 2) * 2.4 * _DODGE
        marks = []
        for _, row in rows[rows["series"] == one].iterrows():
            x = panel.x_ticks[groups.index(str(row["x"]))][0] + shift
            marks.append(_mark(panel, scale, x, look, _tip(one, str(row["x"]), row), row))
        panel.marks += marks
        if len(marks) > 1:
            panel.lines.append((f"{look[0]} faint", " ".join(f"{mark.x},{mark.y}" for mark in marks)))
    _label(panel, frame, series)
    return panel


def _spread(name: str, rows: pd.DataFrame, scale: Scale, frame: _Frame) -> Panel:
    panel = _panel(name, scale, frame, ())
    panel.unit = panel.unit.replace("(%)", "less its mean (points)")
    panel.zero = _y(panel, scale, 0.0)
    groups = list(dict.fromkeys(str(x) for x in rows["x"]))
    width = (panel.right - panel.left) / len(groups)
    for place, group in enumerate(groups):
        centre = panel.left + width * (place + 0.5)
        panel.x_ticks.append((round(centre, 2), group))
        look = frame.looks.get(group, ("ramp0", "circle"))
        part = rows[rows["x"].astype(str) == group]
        single = part[part["interval"] == "single"]
        for rank, (_, row) in enumerate(single.iterrows()):
            x = centre + 8 + 50 * (rank + 0.5) / len(single)
            tip = f"{row['series']}: {row['mean']:+.2f}\n{row['model']}".replace("-0.", "\u22120.")
            panel.marks.append(replace(_mark(panel, scale, x, look, tip, row), small=True))
        for _, row in part[part["interval"] == "sd"].iterrows():
            tip = f"{group}: standard deviation {row['high']:.2f} points\nn = {len(single)} scores"
            panel.marks.append(_mark(panel, scale, centre - 14, look, tip, row))
    return panel


def _curves(name: str, rows: pd.DataFrame, scale: Scale, frame: _Frame) -> Panel:
    series = _series(rows)
    panel = _panel(name, scale, frame, series)
    panel.title, panel.unit = name, "Training loss (logarithmic)"
    xs = rows["x"].astype(float)
    across = linear(float(xs.min()), float(xs.max()), ticks=4)
    panel.x_ticks = [(_x(panel, across, x), number(x)) for x in across.ticks]
    for one in series:
        part = rows[rows["series"] == one].sort_values("x")
        look = frame.looks[one]
        x = [_x(panel, across, value) for value in part["x"].astype(float)]
        mean, low, high = (
            [_y(panel, scale, value) for value in part[end]] for end in ("mean", "low", "high")
        )
        corners = [*zip(x, high, strict=True), *reversed(list(zip(x, low, strict=True)))]
        panel.bands.append((look[0], " ".join(f"{a},{b}" for a, b in corners)))
        panel.lines.append((look[0], " ".join(f"{a},{b}" for a, b in zip(x, mean, strict=True))))
        for place in range(0, len(part), math.ceil(len(part) / _MOST_TIPS)):
            row = part.iloc[place]
            values = f"{row['mean']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
            tip = f"{one}, step {row['x']:.2f}K: {values}\n{row['model']}"
            panel.marks.append(
                Mark(x=x[place], y=mean[place], tip=tip, look=f"{look[0]} ghost", shape=look[1])
            )
    _label(panel, frame, series)
    return panel


def _label(panel: Panel, frame: _Frame, series: Sequence[str]) -> None:
    """Write each series' name next to its last point, moved apart where they would touch."""
    if len(frame.looks) < 2:
        return
    wanted = []
    for one in series:
        look = frame.looks[one][0]
        own = [mark for mark in panel.marks if mark.look.split()[0] == look]
        if own:
            wanted.append((max(own, key=lambda mark: mark.x).y, look, one))
    wanted.sort()
    placed: list[float] = []
    for y, _, _ in wanted:
        placed.append(max(y, placed[-1] + _LINE) if placed else max(y, _TOP + 4))
    over = max(0.0, placed[-1] - panel.bottom) if placed else 0.0
    for place in range(len(placed) - 1, -1, -1):
        ceiling = panel.bottom if place == len(placed) - 1 else placed[place + 1] - _LINE
        placed[place] = min(placed[place], ceiling) if over else placed[place]
    panel.labels = [(round(y, 2), look, text) for y, (_, look, text) in zip(placed, wanted, strict=True)]


def _apart(ticks: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Return the ticks whose texts do not touch, the first and the last before others."""
    kept: list[tuple[float, str]] = []
    order = [*ticks[:1], *ticks[:0:-1][:1], *ticks[1:-1]]
    for x, text in order:
        if all(abs(x - other) > _LETTER * (len(text) + len(words)) / 2 + 5 for other, words in kept):
            kept.append((x, text))
    return sorted(kept)
