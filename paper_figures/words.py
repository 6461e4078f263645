"""The words of a figure: its title, its caption, its alt text, and what it says about points that are not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.evidence.intervals import caption_of
from analysis.records import records
from analysis.store.runs_table import other_sizes
from benchmarks.protocol import TASKS
from common.plain_text import counted
from paper_figures.figure import FigureInputs, FigureSpec
from pretraining.models import MODELS, arm_of

__all__ = [
    "alt_text", "caption", "missing", "missing_sentence", "selection_sentence", "source_sentence", "title",
]  # fmt: skip


def title(figure: FigureSpec, inputs: FigureInputs) -> str:
    """Return what stands above the picture: first that the source is not of the paper's kind, then what it shows."""
    if inputs.source.comparable or figure.simulated:
        return figure.heading
    return f"{inputs.source.title}. {figure.heading}"


def caption(figure: FigureSpec, data: pd.DataFrame, inputs: FigureInputs) -> str:
    """Return the line below the picture: source, how its numbers were computed, how to read it, what is missing."""
    if figure.simulated:
        return figure.note
    if figure.supplementary:
        where = "published cells of arXiv 2507.00994v4" if inputs.source.is_published else inputs.source.name
        return _joined(inputs.source.own_words, f"Source: {where}.", figure.details(inputs), figure.note)
    gaps = missing(figure, data)
    said = missing_sentence(gaps, _why(figure, inputs), "No score" if figure.crosses else "Not drawn")
    crosses = "A cross marks a place without any score." if gaps and figure.crosses else ""
    source = source_sentence(figure, data, inputs)
    own = _own_sentences(data, inputs)
    dodged = figure.dodge and figure.crosses and data.duplicated(["panel", "x"]).any()
    apart = "Points at the same x are drawn side by side." if dodged else ""
    joined = _joined(inputs.source.own_words, source, figure.note, apart, own, said, crosses)
    return joined.replace(" %", "\u00a0%")


def alt_text(figure: FigureSpec, data: pd.DataFrame, inputs: FigureInputs) -> str:
    """Return the alt text: what the picture is, what is seen in each panel with its numbers, and the source."""
    if figure.simulated:
        return figure.describe(data)
    if figure.supplementary:
        return _joined(inputs.source.own_words, figure.describe(data))
    gaps = missing_sentence(missing(figure, data), _why(figure, inputs), most=99)
    source = source_sentence(figure, data, inputs)
    seen = figure.describe(data)
    own = _own_sentences(data, inputs)
    return _joined(f"{figure.heading}.", inputs.source.own_words, seen, figure.note, own, source, gaps)


def source_sentence(figure: FigureSpec, data: pd.DataFrame, inputs: FigureInputs) -> str:
    """Return where the numbers come from and what the interval is."""
    if figure.from_logs:
        return "Source: training logs."
    runs = inputs.source.runs
    where = f"published {figure.tables} of arXiv 2507.00994v4"
    if runs is not None:
        own = data[data["source"] == inputs.source.name]
        drawn = {name for names in own["model"] for name in names.split()}
        size = f"{runs['model'].isin(drawn).sum():,} runs of {counted(len(drawn), 'model')}"
        others = f"; the other points are {where}" if len(own) < len(data) else ""
        name = "the authors' released runs" if inputs.source.name == "released" else inputs.source.name
        where = f"{name} ({size}){others}"
    chosen = "" if runs is None or not figure.selected else f", {inputs.settings.rule.words}"
    if not figure.averaged:
        return f"Source: {where}{chosen}."
    low, high = int(data["n_seeds"].min()), int(data["n_seeds"].max())
    many = f"{low}" if low == high else f"{low} to {high}"
    mean = f"Task averages, means over {many} {'seed' if high == 1 else 'seeds'}{chosen}"
    its = data["source"] == inputs.source.name
    parts = (records(part, "n_seeds", "interval") for part in (data[its], data[~its]) if len(part))
    bars = "; for the other points, ".join(dict.fromkeys(map(caption_of, parts)))
    return f"Source: {where}. {mean}; bars: {bars}."


def _own_sentences(data: pd.DataFrame, inputs: FigureInputs) -> str:
    """Return what the rest of a caption is not about: added models on other test sets, and repeated pretrainings."""
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
            said.append("Their test sets differ in size from the paper's, so scores are not comparable.")
    if any(arm_of(name)[1] and arm_of(name)[0] in drawn for name in runs["model"].unique()):
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
    gaps = {name: tuple(panel for panel in wanted if (name, panel) not in have) for name in figure.models}
    return {
        name: without
        for name, without in gaps.items()
        if without and (of_tasks or len(without) == len(wanted))
    }


def missing_sentence(
    gaps: Mapping[str, Sequence[str]], why: str, what: str = "Not drawn", *, most: int = 4
) -> str:
    """Return `Not drawn: ..., why.` with at most `most` models by name; empty when nothing is missing."""
    if not gaps:
        return ""
    names = [
        f"{model} ({', '.join(panels)})" if len(panels) < len(TASKS) and set(panels) <= set(TASKS) else model
        for model, panels in gaps.items()
    ]
    shown = names if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} other models"]
    *rest, last = shown
    return f"{what}: {', '.join(rest)} and {last}, {why}." if rest else f"{what}: {last}, {why}."


def _why(figure: FigureSpec, inputs: FigureInputs) -> str:
    if figure.from_logs:
        return "for lack of a training log"
    return "not in any published table" if inputs.source.is_published else "not in this source"


def _joined(*parts: str) -> str:
    return " ".join(filter(None, parts))
