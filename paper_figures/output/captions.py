"""The words of a figure: its caption line, its alt text, and what it says about points that are not there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch
from typing import Any

import pandas as pd

from analysis.records import records
from analysis.statistics.interval_kinds import caption_of
from benchmarks.protocol import TASKS
from paper_figures.figure_data import Missing, missing
from paper_figures.figure_types import FigureSpec, PaperFigure, SupplementaryFigure
from paper_figures.inputs import Inputs
from paper_figures.output.titles import heading

__all__ = [
    "alt_text",
    "caption",
    "describe_differences",
    "describe_points",
    "missing_sentence",
    "selection_sentence",
    "source_sentence",
]


@singledispatch
def caption(figure: FigureSpec[Any], data: Any, inputs: Inputs) -> str:
    """Return the line below the picture: source, how its numbers were computed, how to read it, what is missing."""
    raise NotImplementedError(f"no captions for a {type(figure).__name__}")


@singledispatch
def alt_text(figure: FigureSpec[Any], data: Any, inputs: Inputs) -> str:
    """Return the alt text: what the picture is, what is seen in each panel with its numbers, and the source."""
    raise NotImplementedError(f"no alt texts for a {type(figure).__name__}")


@caption.register(PaperFigure)
def _paper_caption(figure: PaperFigure, data: pd.DataFrame, inputs: Inputs) -> str:
    gaps = missing(figure, data)
    parts = [
        inputs.source.own_words,
        source_sentence(figure, data, inputs),
        figure.note,
        missing_sentence(gaps, _why(figure, inputs)),
        "Crosses: no score there." if gaps and figure.crosses else "",
    ]
    return " ".join(part for part in parts if part).replace(" %", "\u00a0%")


@caption.register(SupplementaryFigure)
def _supplementary_caption(figure: SupplementaryFigure[Any], data: object, inputs: Inputs) -> str:
    where = "published cells of arXiv 2507.00994v4" if inputs.source.is_published else inputs.name
    parts = (inputs.source.own_words, f"Source: {where}.", figure.details(inputs), figure.note)
    return " ".join(part for part in parts if part)


@alt_text.register(PaperFigure)
def _paper_alt_text(figure: PaperFigure, data: pd.DataFrame, inputs: Inputs) -> str:
    gaps = missing_sentence(missing(figure, data), _why(figure, inputs), most=99)
    return " ".join(
        part for part in (f"{heading(figure, inputs)}.", inputs.source.own_words, figure.describe(data), figure.note,
                          source_sentence(figure, data, inputs), gaps) if part
    )  # fmt: skip


@alt_text.register(SupplementaryFigure)
def _supplementary_alt_text(figure: SupplementaryFigure[Any], data: object, inputs: Inputs) -> str:
    return f"{inputs.source.own_words} {figure.describe(data)}".lstrip()


def source_sentence(figure: PaperFigure, data: pd.DataFrame, inputs: Inputs) -> str:
    """Return where the numbers come from and what the interval is."""
    if figure.from_logs:
        return "Source: training logs."
    runs = inputs.source.runs
    if runs is None:
        where = f"published {_tables(figure.tables)} of arXiv 2507.00994v4"
    else:
        drawn = {name for names in data["model"] for name in names.split()}
        size = f"{runs['model'].isin(drawn).sum():,} runs of {len(drawn):,} model{'' if len(drawn) == 1 else 's'}"
        where = (
            f"the authors' released runs ({size})" if inputs.name == "released" else f"{inputs.name} ({size})"
        )
    chosen = "" if runs is None or not figure.selected else f", {inputs.settings.rule.words}"
    if not figure.averaged:
        return f"Source: {where}{chosen}."
    seeds = data["n_seeds"]
    low, high = int(seeds.min()), int(seeds.max())
    many = f"{low}" if low == high else f"{low} to {high}"
    seeds_word = "seed" if high == 1 else "seeds"
    mean = f"task averages, mean over {many} {seeds_word}{chosen}"
    return f"Source: {where}; {mean}, {caption_of(records(data, 'n_seeds', 'interval'))}."


def selection_sentence(inputs: Inputs) -> str:
    """Return how learning rates were chosen; empty for the published cells, for which the paper chose them."""
    words = inputs.settings.rule.words
    return "" if inputs.source.is_published else f"{words[0].upper()}{words[1:]}."


def missing_sentence(gaps: Sequence[Missing], why: str, *, most: int = 4) -> str:
    """Return `Not drawn: ..., why.` with at most `most` models by name; empty when nothing is missing."""
    if not gaps:
        return ""
    names = [gap.model if len(gap.panels) in (0, len(TASKS)) or not set(gap.panels) <= set(TASKS)
             else f"{gap.model} ({', '.join(gap.panels)})" for gap in gaps]  # fmt: skip
    shown = names if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} other models"]
    return f"Not drawn: {_and(shown)}, {why}."


def describe_points(
    data: pd.DataFrame, *, x_text: Callable[[float], str], panel_text: Callable[[str], str] | None = None
) -> str:
    """Return, for each panel and series, first, last and highest point, in sentences."""
    sentences = []
    for panel, rows in data.groupby("panel", sort=False):
        parts = []
        for series, part in rows.groupby("series", sort=False):
            points = [(float(x), float(mean)) for x, mean in records(part, "x", "mean")]
            (first, start), (last, end) = points[0], points[-1]
            text = f"{series} {start:.2f} at {x_text(first)}"
            if len(points) > 1:
                best, peak = max(points, key=lambda point: point[1])
                text += f", {end:.2f} at {x_text(last)}"
                text += "" if best in (first, last) else f", highest {peak:.2f} at {x_text(best)}"
            parts.append(text)
        sentences.append(f"{_panel(str(panel), panel_text)}: {'; '.join(parts)}.")
    return " ".join(sentences)


def describe_differences(
    data: pd.DataFrame,
    *,
    x_text: Callable[[float | str], str],
    panel_text: Callable[[str], str] | None = None,
) -> str:
    """Return, for each panel, the values at every x and by how much the first series is above the second."""
    sentences = []
    for panel, rows in data.groupby("panel", sort=False):
        names = list(dict.fromkeys(rows["series"]))
        parts = []
        for x in dict.fromkeys(rows["x"]):
            here = {s: m for s, at, m in records(rows, "series", "x", "mean") if at == x}
            text = ", ".join(f"{name} {here[name]:.2f}" for name in names if name in here)
            if len(names) > 1 and names[0] in here and names[1] in here:
                text += f" (difference {here[names[0]] - here[names[1]]:+.2f})"
            parts.append(f"{text} at {x_text(x)}")
        sentences.append(f"{_panel(str(panel), panel_text)}: {'; '.join(parts)}.")
    return " ".join(sentences)


def _why(figure: PaperFigure, inputs: Inputs) -> str:
    if figure.from_logs:
        return "of which there is no log"
    return "which no published table holds" if inputs.source.is_published else "which the source lacks"


def _panel(name: str, text: Callable[[str], str] | None) -> str:
    if text is not None:
        return text(name)
    return f"{TASKS[name].title} ({TASKS[name].metric}, %)" if name in TASKS else name


def _tables(numbers: Sequence[int]) -> str:
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    texts = [f"{a}" if a == b else f"{a}\u2013{b}" for a, b in spans]
    return f"Table{'s' if len(numbers) > 1 else ''} {_and(texts)}"


def _and(names: Iterable[str]) -> str:
    *rest, last = names
    return f"{', '.join(rest)} and {last}" if rest else last
