"""The words of a figure: its title, its caption, its alt text, and what it says about points that are not there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.evidence.intervals import caption_of
from analysis.records import records
from analysis.store.runs_table import other_sizes
from benchmarks.protocol import TASKS
from common.plain_text import counted
from paper_figures.figure import FigureInputs, FigureSpec
from pretraining.models import MODELS, arm_of


def title(figure: FigureSpec, data: pd.DataFrame, inputs: FigureInputs) -> str:
    """Return what stands above the picture: first that the source is not of the paper's kind, then what it shows."""
    said = figure.finding(data, inputs) if figure.supplementary else ""
    if inputs.source.comparable:
        return said or figure.heading
    return f"{inputs.source.kind.title}. {said or _own_sizes(figure.heading, inputs)}"


def caption(figure: FigureSpec, data: pd.DataFrame, inputs: FigureInputs) -> str:
    """Return what stands below the picture: what is seen; then, on a new line, how to read it, gaps and the source.

    Interval, coverage and the missing models by name are in the alt text.
    """
    words = inputs.source.kind.note.partition(". ")[0].rstrip(".")
    whose = words and f"{words[0].upper()}{words[1:]}."
    name = inputs.source.name.removeprefix(inputs.source.kind.title).lstrip()
    where = "tables of arXiv 2507.00994v4" if inputs.source.is_published else name
    if figure.supplementary:
        return _joined(
            whose, _own_sizes(figure.note, inputs), f"Source: {where}."
        ).replace(" %", "\u00a0%")
    said, gaps = figure.finding(data, inputs), missing(figure, data)
    lacking = (
        f"{len(gaps)} of {len(figure.models)} models"
        if len(gaps) > 1
        else "".join(gaps)
    )
    some = f"Without {lacking}{' (crosses)' * figure.crosses}." if gaps else ""
    added = (
        "Arrows: intervals beyond the axis."
        if inputs.own_models & set(data["model"])
        else ""
    )
    bars = _bars(data) if figure.averaged and not figure.from_logs else ""
    if figure.from_logs:
        where = "training logs"
    elif inputs.source.is_published:
        where = f"{figure.tables} of arXiv 2507.00994v4"
    own = _own_sentences(data, inputs) if inputs.own_models & set(data["model"]) else ""
    rest = _joined(
        whose,
        _own_sizes(figure.note, inputs),
        bars,
        some,
        own,
        added,
        f"Source: {where}.",
    )
    return (f"{said}.\n{rest}" if said else rest).replace(" %", "\u00a0%")


def alt_text(figure: FigureSpec, data: pd.DataFrame, inputs: FigureInputs) -> str:
    """Return the alt text: what the picture is, what is seen in each panel with its numbers, intervals, the source."""
    if figure.supplementary:
        details = figure.details(inputs)
        return _joined(
            inputs.source.kind.words, figure.describe(data), figure.note, details
        )
    reason = (
        "not in any published table"
        if inputs.source.is_published
        else "not in this source"
    )
    reason = "for lack of a training log" if figure.from_logs else reason
    return _joined(
        f"{figure.heading}.",
        inputs.source.kind.words,
        figure.describe(data),
        figure.note,
        _own_sentences(data, inputs),
        source_sentence(figure, data, inputs),
        missing_sentence(missing(figure, data), reason),
    )


def _bars(data: pd.DataFrame) -> str:
    """Return what the bars of means are: `Bars: 95 % intervals (t, 5 seeds).`"""
    known = data[data["low"].notna()]
    if known.empty:
        return "Single seeds, without intervals."
    seeds = dict.fromkeys((known["n_seeds"].min(), known["n_seeds"].max()))
    kinds = ", ".join(dict.fromkeys(known["interval"]))
    return f"Bars: 95 % intervals ({kinds}, {' to '.join(f'{count:g}' for count in seeds)} seeds)."


def _own_sizes(text: str, inputs: FigureInputs) -> str:
    """Return a text with the sizes of stand-ins in place of the paper's."""
    stand_ins = inputs.source.stand_ins
    for size, own in () if stand_ins is None else stand_ins.sizes.items():
        text = re.sub(rf"\b{size}\b", own, text)
    return text


def source_sentence(
    figure: FigureSpec, data: pd.DataFrame, inputs: FigureInputs
) -> str:
    """Return where the numbers come from and what the interval is."""
    if figure.from_logs:
        return "Source: training logs."
    runs = inputs.source.runs
    where = f"published {figure.tables} of arXiv 2507.00994v4"
    if runs is not None:
        of_source = data[data["source"] == inputs.source.name]
        drawn = {name for names in of_source["model"] for name in names.split()}
        size = f"{runs['model'].isin(drawn).sum():,} runs of {counted(len(drawn), 'model')}"
        others = f"; the other points are {where}" if len(of_source) < len(data) else ""
        name = (
            "the authors' released runs"
            if inputs.source.name == "released"
            else inputs.source.name
        )
        where = f"{name} ({size}){others}"
    chosen = (
        "" if runs is None or not figure.selected else f", {inputs.settings.rule.words}"
    )
    if not figure.averaged:
        return f"Source: {where}{chosen}."
    low, high = int(data["n_seeds"].min()), int(data["n_seeds"].max())
    seeds = f"{low}" if low == high else f"{low} to {high}"
    mean = (
        f"Task averages, means over {seeds} {'seed' if high == 1 else 'seeds'}{chosen}"
    )
    is_own = data["source"] == inputs.source.name
    parts = (
        records(part, "n_seeds", "interval")
        for part in (data[is_own], data[~is_own])
        if len(part)
    )
    bars = "; for the other points, ".join(dict.fromkeys(map(caption_of, parts)))
    return f"Source: {where}. {mean}; bars: {bars}."


def _own_sentences(data: pd.DataFrame, inputs: FigureInputs) -> str:
    """Return a caption's sentences on added models, their test sets, and models that were pretrained several times."""
    drawn = dict.fromkeys(name for names in data["model"] for name in names.split())
    names = [name for name in drawn if name not in MODELS]
    runs = inputs.source.runs
    if runs is None:
        return ""
    said = []
    if names and inputs.source.comparable:
        said.append(f"Added models, not in the paper: {', '.join(names)}.")
        said.append("Their steps and masking ratios are those in their names.")
        if other_sizes(runs[runs["model"].isin(names)]):
            said.append(
                "Their test sets differ in size from the paper's, so scores are not comparable."
            )
    if any(seed and arm in drawn for arm, seed in map(arm_of, runs["model"].unique())):
        said.append("If a model was pretrained several times, the first is drawn.")
    return " ".join(said)


def selection_sentence(inputs: FigureInputs) -> str:
    """Return how learning rates were chosen; empty for the published cells, for which the paper chose them."""
    words = inputs.settings.rule.words
    return "" if inputs.source.is_published else f"{words[0].upper()}{words[1:]}."


def missing(figure: FigureSpec, data: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Return the models of a figure that `data` lacks, wholly or in some panels, each with the panels that lack it."""
    panels = list(dict.fromkeys(data["panel"]))
    of_tasks = set(panels) <= set(TASKS)
    wanted = list(TASKS) if of_tasks else panels
    have = set(records(data, "model", "panel"))
    gaps = {
        name: tuple(panel for panel in wanted if (name, panel) not in have)
        for name in figure.models
    }
    return {
        name: without
        for name, without in gaps.items()
        if without and (of_tasks or len(without) == len(wanted))
    }


def missing_sentence(gaps: Mapping[str, Sequence[str]], why: str) -> str:
    """Return `Not drawn: ..., why.` with every model by name; empty when nothing is missing."""
    if not gaps:
        return ""
    names = [
        f"{model} ({', '.join(panels)})"
        if len(panels) < len(TASKS) and set(panels) <= set(TASKS)
        else model
        for model, panels in gaps.items()
    ]
    *rest, last = names
    return (
        f"Not drawn: {', '.join(rest)} and {last}, {why}."
        if rest
        else f"Not drawn: {last}, {why}."
    )


def _joined(*parts: str) -> str:
    return " ".join(filter(None, parts))
