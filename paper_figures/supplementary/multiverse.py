"""Every verdict under every analysis, as a grid; below it what the selection rule does to the MLM-CLM gaps."""

from __future__ import annotations

import math
from itertools import cycle

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis.claims.catalogue import CLAIMS
from analysis.claims.grades import GRADES, UNDECIDABLE
from analysis.claims.multiverse import Multiverse, explore
from analysis.records import records
from analysis.sources import standard_of
from analysis.statistics.learning_rate_selection import SELECTIONS
from benchmarks.protocol import DATASETS
from paper_figures.drawing.layout import (
    CAPTION_LINE,
    TITLE_SIZE,
    caption_lines,
    inches,
    wrapped,
    write_caption,
    write_heading,
)
from paper_figures.drawing.points import point_id
from paper_figures.drawing.style import GREY, INK, LIGHT, PAPER
from paper_figures.figure_types import SupplementaryFigure
from paper_figures.inputs import Inputs
from paper_figures.supplementary.claims import COLORS

__all__ = ["FIGURE", "multiverse_data"]

_WIDTH, _EDGE, _PAD = 7.2, 0.1, 0.1
_ROW, _HEAD, _LINE = 0.2, 0.36, 0.14
_GAP_ROW, _GAP_HEAD, _GAP_TICKS = 0.15, 0.34, 0.26
_WIDEST = 1.25
"""Inches of a column at most."""
_SHARE = "supporting"
_GAPS = "MLM \u2212 CLM (points) by rule for the learning rate; hollow: one of the two is a published cell"
_LEGEND = " ".join(
    f"{grade.symbol}\u00a0{grade.short}\u00a0\u00a0".replace(" ", "\u00a0") for grade in GRADES.values()
)
_SIGNS = {grade.name: grade.symbol for grade in GRADES.values()}
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Markers of the selection rules in their order; they begin again when there are more."""


def multiverse_data(multiverse: Multiverse) -> pd.DataFrame:
    """Return what is drawn: a row a claim and analysis, with the claim's share of supporting analyses."""
    shares = multiverse.shares()["share_supporting"]
    ids = multiverse.verdicts["id"]
    return multiverse.verdicts.assign(share_supporting=[float(shares.get(name, math.nan)) for name in ids])


def draw(multiverse: Multiverse, caption: str) -> Figure:
    """Return the grid of verdicts and, with runs of MLM or CLM, their gap by dataset and selection rule."""
    data, gaps = multiverse_data(multiverse), multiverse.gaps
    names = [name for name in CLAIMS if name in set(data["id"])]
    keys = list(dict.fromkeys(records(data, "protocol", "selection", "interval")))
    pairs = list(dict.fromkeys(records(gaps, "size", "dataset")))
    several = len({key[0] for key in keys}) > 1
    labels = [" / ".join(key if several else key[1:]) for key in keys]
    ids, shorts = (
        max(inches(text, bold=bold) for text in texts)
        for texts, bold in ((names, True), ([CLAIMS[name].short for name in names], False))
    )
    left, share = _EDGE + ids + shorts + 2 * _PAD, inches(_SHARE)
    cell = min(_WIDEST, (_WIDTH - left - share - 2 * _PAD) / len(keys))
    spelled = cell >= max(inches(grade.short) for grade in GRADES.values()) + 0.06
    turned = cell < max(map(inches, labels)) + 0.06
    tall = max(map(inches, labels)) if turned else 0.1
    legend = [] if spelled else wrapped(_LEGEND, _WIDTH - 2 * _EDGE)
    low = _GAP_HEAD + _GAP_ROW * len(pairs) + _GAP_TICKS if pairs else 0.0
    lines = caption_lines(caption)
    foot = 0.12 + CAPTION_LINE * len(lines)
    height = _HEAD + _LINE * len(legend) + tall + 0.1 + _ROW * len(names) + 0.12 + low + foot
    figure = Figure(figsize=(_WIDTH, height))
    base = low + foot + 0.06
    size = cell * len(keys) / _WIDTH, _ROW * len(names) / height
    grid = figure.add_axes((left / _WIDTH, base / height, *size))
    grid.set_xlim(-0.5, len(keys) - 0.5)
    grid.set_ylim(len(names) - 0.5, -0.5)
    grid.grid(visible=False)
    for side in grid.spines.values():
        side.set_visible(False)
    grid.set_yticks([])
    grid.xaxis.tick_top()
    grid.set_xticks(range(len(keys)), labels, rotation=90 if turned else 0)
    grid.tick_params(axis="x", length=0, pad=2)
    places = {name: row for row, name in enumerate(names)}, {key: column for column, key in enumerate(keys)}
    for at, name, key, verdict in zip(
        data.index,
        data["id"],
        records(data, "protocol", "selection", "interval"),
        data["verdict"],
        strict=True,
    ):
        row, column = places[0][name], places[1][key]
        known = verdict != UNDECIDABLE.name
        grid.add_patch(_box(column, row, COLORS[verdict] if known else LIGHT, point_id(at)))
        word = GRADES[verdict].short if spelled else _SIGNS[verdict]
        grid.text(column, row + 0.03, word, ha="center", va="center", color=PAPER if known else GREY)
    shares = dict(records(data, "id", "share_supporting"))
    for row, name in enumerate(names):
        middle = (base + _ROW * (len(names) - 0.5 - row)) / height
        supporting = "\u2013" if math.isnan(shares[name]) else f"{shares[name]:.0%}"
        for x, text, weight in (
            (_EDGE, name, "bold"),
            (_EDGE + ids + _PAD, CLAIMS[name].short, "normal"),
            (left + cell * len(keys) + _PAD, supporting, "normal"),
        ):
            figure.text(x / _WIDTH, middle, text, fontweight=weight, va="center", color=INK)
    top = base + _ROW * len(names)
    figure.text((left + cell * len(keys) + _PAD) / _WIDTH, (top + 0.05) / height, _SHARE, color=GREY)
    write_heading(figure, FIGURE.heading)
    for row, line in enumerate(legend):
        figure.text(_EDGE / _WIDTH, 1 - (_HEAD + _LINE * row) / height, line, color=GREY)
    if pairs:
        _draw_gaps(figure, gaps, pairs, (left, foot + _GAP_TICKS, height))
    write_caption(figure, lines)
    return figure


def _box(column: int, row: int, color: str, name: str) -> Rectangle:
    return Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, color=color, linewidth=0, gid=name)


def _draw_gaps(
    figure: Figure, gaps: pd.DataFrame, pairs: list[tuple[str, str]], place: tuple[float, float, float]
) -> None:
    """Draw MLM - CLM by dataset and rule; `place`: left and bottom of the axes and height of the figure, in inches."""
    left, bottom, height = place
    tall = _GAP_ROW * len(pairs)
    ax = figure.add_axes((left / _WIDTH, bottom / height, 3.2 / _WIDTH, tall / height))
    ax.set_ylim(len(pairs) - 0.5, -0.5)
    ax.grid(axis="x", color=LIGHT)
    ax.grid(axis="y", visible=False)
    ax.axvline(0, color=INK, linewidth=0.8)
    ax.set_yticks(range(len(pairs)), [f"{DATASETS[name].title}, {size.upper()}" for size, name in pairs])
    places = {pair: row for row, pair in enumerate(pairs)}
    rules = list(SELECTIONS)
    for rank, (rule, marker) in enumerate(zip(rules, cycle(_MARKERS))):
        rows = gaps[gaps["selection"] == rule]
        whole = rows["mlm_from"].str.startswith("runs") & rows["clm_from"].str.startswith("runs")
        heights = [places[pair] for pair in records(rows, "size", "dataset")]
        colors = [INK if known else PAPER for known in whole]
        offset = 0.4 * rank / max(1, len(rules) - 1) - 0.2
        ax.scatter(
            rows["gap"], [y + offset for y in heights], marker=marker, s=13, c=colors, edgecolors=INK,
            linewidths=0.7, label=rule, zorder=3,
        )  # fmt: skip
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handletextpad=0.2)
    figure.text(_EDGE / _WIDTH, (bottom + tall + 0.1) / height, _GAPS, fontsize=TITLE_SIZE, fontweight="bold")


def describe(multiverse: Multiverse) -> str:
    """Return what is seen, in sentences."""
    data, gaps = multiverse_data(multiverse), multiverse.gaps
    count = len(set(records(data, "protocol", "selection", "interval")))
    lines = [f"Grid of verdicts, a row a finding and a column an analysis; {count} analyses."]
    for name, share in dict(records(data, "id", "share_supporting")).items():
        if not math.isnan(share):
            lines.append(f"{name}: {share:.0%} of the analyses in which it can be decided support it.")
    for size, name in dict.fromkeys(records(gaps, "size", "dataset")):
        rows = gaps[(gaps["size"] == size) & (gaps["dataset"] == name)]
        by_rule = ", ".join(f"{rule} {gap:+.2f}" for rule, gap in records(rows, "selection", "gap"))
        lines.append(f"MLM-CLM gap on {DATASETS[name].title} at {size} by rule: {by_rule}.")
    return " ".join(lines)


def _collect(inputs: Inputs) -> Multiverse:
    standard = standard_of(inputs.source) if inputs.source.comparable else None
    return explore(inputs.source, inputs.settings, standard=standard)


FIGURE = SupplementaryFigure(
    name="multiverse",
    title="Does the answer depend on the analyst?",
    collect=_collect,
    draw=draw,
    describe=describe,
    tabulate=multiverse_data,
    note="A column is an analysis: rule for the learning rate / interval; mixed: the mixed-effects model (F1-F4). "
    "Supporting: of the analyses in which the claim can be decided, the share that supports it; verdicts after "
    "Holm's adjustment within one analysis, not over the analyses. Rules: docs/claims.md.",
)
