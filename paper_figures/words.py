"""The words of a figure: its title, its caption, its alt text, and what it says about points that are not there.

A supplementary figure is not in the paper. A source is comparable if its scores are of the kind that the paper prints:
those of a small study, or by other metrics, are not (`Source.kind`), and every title and caption says what they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.evidence.intervals import caption_of
from analysis.records import records
from analysis.store.runs_table import other_sizes
from benchmarks.protocol import TASKS
from common.level import LEVEL_IN_WORDS
from common.plain_text import counted
from paper_figures.figure import FigureInputs, FigureSpec
from pretraining.models import arm_of
from pretraining.paper_models import MODELS


def title(figure: FigureSpec, data: pd.DataFrame, inputs: FigureInputs) -> str:
    """Return the heading of the picture: what it shows; if the source is not comparable, what its scores are first.

    The heading of a supplementary figure is its finding, if it has one.
    """
    finding = figure.finding(data, inputs) if figure.supplementary else ""
    if inputs.source.comparable:
        return finding or figure.heading
    shown = finding or _own_sizes(figure.heading, inputs)
    return f"{inputs.source.kind.title}. {shown}"


def caption(figure: FigureSpec, data: pd.DataFrame, inputs: FigureInputs) -> str:
    """Return the text below the picture: the finding; then, on a new line, how to read it, what is missing, the source.

    The kind of interval, its coverage and the names of missing models are in the alt text.
    """
    sentences = []
    # If the source is not comparable, the first sentence of its note says whose models or metrics these are. A note may
    # begin with a lowercase letter, since elsewhere it follows a colon. If it has one sentence only, `partition` leaves
    # that sentence its full stop.
    whose, _, _ = inputs.source.kind.note.partition(". ")
    if whose:
        sentences.append(f"{whose[0].upper()}{whose[1:].rstrip('.')}.")
    sentences.append(_own_sizes(figure.note, inputs))
    finding = ""

    # A supplementary figure has its finding above it, as its title.
    if not figure.supplementary:
        finding = figure.finding(data, inputs)
        if figure.averaged and not figure.from_logs:
            sentences.append(_bars(data))
        sentences.append(_without_sentence(figure, data))
        if inputs.own_models & set(data["model"]):
            sentences.append(_own_sentences(data, inputs))
            sentences.append("Arrows: intervals beyond the axis.")

    sentences.append(f"Source: {_origin(figure, inputs)}.")
    text = _joined(*sentences)
    if finding:
        text = f"{finding}.\n{text}"

    # With a no-break space, no line ends between a number and its percent sign.
    return text.replace(" %", "\u00a0%")


def _origin(figure: FigureSpec, inputs: FigureInputs) -> str:
    """Return where the numbers of a figure are from, for its caption."""
    source = inputs.source
    if figure.from_logs:
        return "training logs"
    if not source.is_published:
        # The heading begins with the title of another kind of scores: the name of the source need not repeat it.
        return source.name.removeprefix(source.kind.title).lstrip()
    # A supplementary figure rests on cells of many tables, so that none is named.
    tables = "tables" if figure.supplementary else figure.tables
    return f"{tables} of arXiv 2507.00994v4"


def _without_sentence(figure: FigureSpec, data: pd.DataFrame) -> str:
    """Return `Without 3 of 12 models.`, or the model's name where only one is missing; empty when none is."""
    gaps = missing(figure, data)
    if not gaps:
        return ""
    what = f"{len(gaps)} of {len(figure.models)} models"
    if len(gaps) == 1:
        [what] = gaps
    crosses = " (crosses)" if figure.crosses else ""
    return f"Without {what}{crosses}."


def alt_text(figure: FigureSpec, data: pd.DataFrame, inputs: FigureInputs) -> str:
    """Return the alt text: what the picture is, the numbers of each panel, the intervals and the source.

    Last are the models that are missing. The alt text of a supplementary figure has only the kind of scores,
    what is seen, how to read it, and how the numbers were computed (`details`).
    """
    if figure.supplementary:
        details = figure.details(inputs)
        words = inputs.source.kind.words
        return _joined(words, figure.describe(data), figure.note, details)

    reason = "not in this source"
    if figure.from_logs:
        reason = "for lack of a training log"
    elif inputs.source.is_published:
        reason = "not in any published table"

    gaps = missing(figure, data)
    sentences = (
        f"{figure.heading}.",
        inputs.source.kind.words,
        figure.describe(data),
        figure.note,
        _own_sentences(data, inputs),
        source_sentence(figure, data, inputs),
        missing_sentence(gaps, reason),
    )
    return _joined(*sentences)


def _bars(data: pd.DataFrame) -> str:
    """Return a sentence on the bars of the means: `Bars: 95 % intervals (t, 5 seeds).`"""
    # A single seed has no interval.
    with_interval = data[data["low"].notna()]
    if with_interval.empty:
        return "Single seeds, without intervals."
    kinds = ", ".join(dict.fromkeys(with_interval["interval"]))
    low, high = with_interval["n_seeds"].min(), with_interval["n_seeds"].max()
    seeds = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    return f"Bars: {LEVEL_IN_WORDS} intervals ({kinds}, {seeds} seeds)."


def _own_sizes(text: str, inputs: FigureInputs) -> str:
    """Return a text with the sizes of a small study in place of the paper's: `0.23M` for `610M`.

    The models of a small study stand in the places of the paper's (`analysis.store.stand_ins`).
    """
    stand_ins = inputs.source.stand_ins
    if stand_ins is None:
        return text
    for size, own in stand_ins.sizes.items():
        # As a whole word: 1B is not replaced within 11B.
        text = re.sub(rf"\b{size}\b", own, text)
    return text


def source_sentence(
    figure: FigureSpec, data: pd.DataFrame, inputs: FigureInputs
) -> str:
    """Return where the numbers come from and what the interval is.

    Such as `Source: published Tables 2-5 of arXiv 2507.00994v4. Task averages, means over 5 seeds; bars: ...` or
    `Source: NAME (1,200 runs of 10 models). ...`.
    """
    if figure.from_logs:
        return "Source: training logs."
    runs = inputs.source.runs

    # The paper's printed points may stand among those of a source of runs (`FigureInputs.averages`).
    is_of_source = data["source"] == inputs.source.name
    of_source, others = data[is_of_source], data[~is_of_source]
    tables = f"published {figure.tables} of arXiv 2507.00994v4"
    where = tables

    # How learning rates were chosen; the paper chose those of its cells.
    chosen = ""
    if runs is not None:
        models = _models_in(of_source)
        n_runs = runs["model"].isin(models).sum()
        size = f"{n_runs:,} runs of {counted(len(models), 'model')}"
        name = inputs.source.name
        if name == "released":
            name = "the authors' released runs"
        rest = f"; the other points are {tables}" if len(others) else ""
        where = f"{name} ({size}){rest}"
        if figure.selected:
            chosen = f", {inputs.settings.rule.words}"

    if not figure.averaged:
        return f"Source: {where}{chosen}."

    # What a point is: over how many seeds it is a mean, and what its bar shows.
    low, high = int(data["n_seeds"].min()), int(data["n_seeds"].max())
    seeds = counted(high, "seed")
    if low < high:
        seeds = f"{low} to {seeds}"
    mean = f"Task averages, means over {seeds}{chosen}"

    # Points from runs and printed points may have intervals of different kinds and coverage. Equal words are said once.
    captions = []
    for part in (of_source, others):
        if len(part):
            captions.append(caption_of(records(part, "n_seeds", "interval")))

    bars = "; for the other points, ".join(dict.fromkeys(captions))
    return f"Source: {where}. {mean}; bars: {bars}."


def _models_in(data: pd.DataFrame) -> list[str]:
    """Return the names of all models that are drawn, each once.

    A point that stands for several models (Figures 5 and 7) has all their names in its column `model`, with spaces.
    """
    # The keys of a dictionary are a set that keeps its order.
    models: dict[str, None] = {}
    for names in data["model"]:
        models |= dict.fromkeys(names.split())
    return list(models)


def _own_sentences(data: pd.DataFrame, inputs: FigureInputs) -> str:
    """Return sentences on models that the paper lacks, on their test sets, and on models pretrained several times."""
    runs = inputs.source.runs
    if runs is None:
        return ""
    models = _models_in(data)
    added = [name for name in models if name not in MODELS]
    sentences = []
    if added and inputs.source.comparable:
        sentences.append(f"Added models, not in the paper: {', '.join(added)}.")
        sentences.append("Their steps and masking ratios are those in their names.")
        if other_sizes(runs[runs["model"].isin(added)]):
            sentences.append(
                "Their test sets differ in size from the paper's, so scores are not comparable."
            )

    # `mine-s1` is the model `mine`, pretrained again: it has runs, and only `mine` is drawn.
    # `repeat` is 0 for a first pretraining.
    for name in runs["model"].unique():
        first_name, repeat = arm_of(name)
        if repeat and first_name in models:
            sentences.append(
                "If a model was pretrained several times, the first is drawn."
            )
            break

    return " ".join(sentences)


def selection_sentence(inputs: FigureInputs) -> str:
    """Return how learning rates were chosen; empty for the published cells, for which the paper chose them."""
    words = inputs.settings.rule.words
    return "" if inputs.source.is_published else f"{words[0].upper()}{words[1:]}."


def missing(figure: FigureSpec, data: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Return the models of a figure that `data` lacks, each with the panels that lack it.

    Where panels are tasks, every panel should show every model. Other panels (Figures 1 and 12) each show some of the
    models, so that a model is only missing if all panels lack it.
    """
    panels = list(dict.fromkeys(data["panel"]))
    are_tasks = set(panels) <= set(TASKS)
    # A task without any point is a panel as well.
    all_panels = list(TASKS) if are_tasks else panels
    drawn = set(records(data, "model", "panel"))
    gaps = {}
    for name in figure.models:
        lacking = tuple(panel for panel in all_panels if (name, panel) not in drawn)
        is_missing = len(lacking) == len(all_panels)
        if are_tasks:
            is_missing = len(lacking) > 0
        if is_missing:
            gaps[name] = lacking

    return gaps


def missing_sentence(gaps: Mapping[str, Sequence[str]], why: str) -> str:
    """Return a sentence such as `Not drawn: 1b-clm-42k (QA) and 1b-mlm40-42k, not in this source.`

    Args:
        gaps: the models that are missing, each with the panels that lack it (`missing`).
        why: the reason, the end of the sentence.

    Returns:
        The sentence; empty when no model is missing.
    """
    if not gaps:
        return ""
    names = []
    for model, panels in gaps.items():
        name = model
        # Not named are all four tasks together, and panels that are not tasks (Figures 1 and 12).
        if set(panels) < set(TASKS):
            name = f"{model} ({', '.join(panels)})"
        names.append(name)

    *others, listed = names
    if others:
        listed = f"{', '.join(others)} and {listed}"
    return f"Not drawn: {listed}, {why}."


def _joined(*parts: str) -> str:
    return " ".join(filter(None, parts))
