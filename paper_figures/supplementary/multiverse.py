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
from analysis.rows import records
from analysis.sources import standard_of
from analysis.statistics.selection import SELECTIONS
from benchmarks.protocol import DATASETS
from paper_figures.drawing.layout import caption_lines, write_caption
from paper_figures.drawing.style import GREY, INK, LIGHT
from paper_figures.figure_types import SupplementaryFigure
from paper_figures.inputs import Inputs
from paper_figures.supplementary.claims import COLORS

__all__ = ["FIGURE", "multiverse_data"]

_WIDTH, _ROW, _FOOT, _HEAD = 7.2, 0.2, 0.34, 0.98
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
    low = 0.0 if not pairs else 0.55 + 0.15 * len(pairs)
    lines = caption_lines(caption)
    foot = _FOOT + 0.1 * max(0, len(lines) - 3)
    height = _HEAD + _ROW * len(names) + 0.12 + low + foot
    figure = Figure(figsize=(_WIDTH, height))
    cell = min(0.24, 3.4 / len(keys))
    grid = figure.add_axes(
        (2.7 / _WIDTH, (low + foot + 0.06) / height, cell * len(keys) / _WIDTH, _ROW * len(names) / height)
    )
    grid.set_xlim(-0.5, len(keys) - 0.5)
    grid.set_ylim(len(names) - 0.5, -0.5)
    grid.grid(False)
    for side in grid.spines.values():
        side.set_visible(False)
    grid.set_yticks([])
    several = len({key[0] for key in keys}) > 1
    labels = [" / ".join(key if several else key[1:]) for key in keys]
    grid.xaxis.tick_top()
    grid.set_xticks(range(len(keys)), labels, rotation=55, ha="left", fontsize=5.4)
    grid.tick_params(axis="x", length=0, pad=1)
    verdicts = {
        (name, *key): verdict
        for name, *key, verdict in records(data, "id", "protocol", "selection", "interval", "verdict")
    }
    shares = dict(records(data, "id", "share_supporting"))
    base = low + foot + 0.06
    for row, name in enumerate(names):
        for column, key in enumerate(keys):
            verdict = verdicts.get((name, *key))
            if verdict is None:
                continue
            alpha = 0.22 if verdict == UNDECIDABLE.name else 0.9
            grid.add_patch(_box(column, row, COLORS[verdict], alpha))
            ink = GREY if verdict == UNDECIDABLE.name else "white"
            grid.text(column, row + 0.03, _SIGNS[verdict], ha="center", va="center", color=ink, fontsize=6.4)
        middle = (base + _ROW * (len(names) - 0.5 - row)) / height
        figure.text(0.1 / _WIDTH, middle, name, fontsize=6.2, fontweight="bold", va="center", color=INK)
        figure.text(0.4 / _WIDTH, middle, CLAIMS[name].short, fontsize=6.2, va="center", color=INK)
        share = shares[name]
        supporting = "\u2013" if math.isnan(share) else f"{share:.0%}"
        figure.text(
            (2.78 + cell * len(keys)) / _WIDTH, middle, supporting, fontsize=6.2, va="center", color=INK
        )
    top = (base + _ROW * len(names) + 0.05) / height
    figure.text((2.78 + cell * len(keys)) / _WIDTH, top, "supporting", fontsize=5.8, color=GREY)
    figure.text(0.1 / _WIDTH, 1 - 0.2 / height, FIGURE.heading, fontsize=8.6, fontweight="bold")
    legend = "   ".join(f"{grade.symbol} {grade.short}" for grade in GRADES.values())
    figure.text(0.1 / _WIDTH, top, legend, fontsize=5.8, color=GREY)
    if pairs:
        _draw_gaps(figure, gaps, pairs, foot, height)
    write_caption(figure, lines)
    return figure


def _box(column: int, row: int, color: str, alpha: float) -> Rectangle:
    return Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, color=color, alpha=alpha, linewidth=0)


def _draw_gaps(
    figure: Figure, gaps: pd.DataFrame, pairs: list[tuple[str, str]], foot: float, height: float
) -> None:
    ax = figure.add_axes((2.7 / _WIDTH, (foot + 0.26) / height, 3.6 / _WIDTH, 0.15 * len(pairs) / height))
    ax.set_ylim(len(pairs) - 0.5, -0.5)
    ax.grid(axis="x", color=LIGHT)
    ax.grid(axis="y", visible=False)
    ax.axvline(0, color=INK, linewidth=0.8)
    ax.set_yticks(
        range(len(pairs)), [f"{DATASETS[name].title}, {size}" for size, name in pairs], fontsize=5.8
    )
    ax.tick_params(axis="x", labelsize=5.8)
    places = {pair: row for row, pair in enumerate(pairs)}
    rules = list(SELECTIONS)
    for place, (rule, marker) in enumerate(zip(rules, cycle(_MARKERS))):
        rows = gaps[gaps["selection"] == rule]
        whole = rows["mlm_from"].str.startswith("runs") & rows["clm_from"].str.startswith("runs")
        heights = [places[pair] for pair in records(rows, "size", "dataset")]
        colors = [INK if known else "white" for known in whole]
        offset = 0.4 * place / max(1, len(rules) - 1) - 0.2
        ax.scatter(
            rows["gap"], [y + offset for y in heights], marker=marker, s=13, c=colors, edgecolors=INK,
            linewidths=0.7, label=rule, zorder=3,
        )  # fmt: skip
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=5.8, handletextpad=0.2)
    words = "MLM \u2212 CLM in points by selection rule (hollow: one of the two is a published cell)"
    figure.text(2.7 / _WIDTH, (foot - 0.02) / height, words, fontsize=5.8, color=GREY)


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
