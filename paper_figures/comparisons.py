"""How the points of a figure compare: by how much one is above another, whether clearly, and the sentences on it.

The data of a figure are a frame with a row for each point and the columns `FIGURE_COLUMNS`: a point stands in a panel,
which is a task, belongs to a series, and shows the score of a model at an x. A line is a series in a panel.

A point is clearly above another if the difference of their scores is significant after Holm's adjustment for all
comparisons that are tested together. A comparison is written as (task, first, second), with the names of two models.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence

import pandas as pd

from analysis.claims.owners import owned_pairs
from analysis.claims.statements import difference
from analysis.records import records
from analysis.statistics.inference import holm
from common.level import ALPHA
from paper_figures.figure import CLEAR, GAPS, FigureInputs

ComparedPoint = Callable[[str, float | str], tuple[str, float | str] | None]
"""A figure's rule: from the series and x of a point to the series and x of the point that it is compared with in the
same panel, or None for a point that is not compared."""


def with_gaps(data: pd.DataFrame, base: float, inputs: FigureInputs) -> pd.DataFrame:
    """Return `data` with the columns `GAPS`: how far a point is above the base point of its line, and the interval.

    A line is a series in a panel; its base point is the one at x = `base`. The columns are nan for the base point
    itself, and for all points of a line without a base point.

    Args:
        data: the points, at least one.
        base: the x of the base points.
        inputs: where the scores come from.
    """
    base_models = {}
    for panel, series, x, model in records(data, "panel", "series", "x", "model"):
        if x == base:
            base_models[panel, series] = model

    gaps = []
    for panel, series, model in records(data, "panel", "series", "model"):
        base_model = base_models.get((panel, series))
        if base_model is None or base_model == model:
            gaps.append((math.nan, math.nan, math.nan))
            continue

        # One mean minus the other would have no interval; a contrast, which is tested as a difference, has one.
        contrast = difference(f"{model} - {base_model}", model, base_model, panel)
        result = inputs.evidence.result(contrast)
        gaps.append((result.effect, result.low, result.high))

    extended = data.copy()
    # `gaps` has a tuple of three numbers for each row; turned around, it has a tuple for each column.
    columns = zip(*gaps, strict=True)
    for name, column in zip(GAPS, columns, strict=True):
        extended[name] = column
    return extended


def with_clear(
    data: pd.DataFrame,
    compared_with: ComparedPoint,
    inputs: FigureInputs,
) -> pd.DataFrame:
    """Return `data` with the column `CLEAR`: whether a point is clearly above the point that it is compared with.

    The column holds None for a point that is not compared, or is compared with a point that is not in the data.

    Args:
        data: the points, whose index is 0, 1, 2 and so on.
        compared_with: the figure's rule.
        inputs: where the scores come from.
    """
    points = list(records(data, "panel", "series", "x", "model"))
    model_at = {}
    for panel, series, x, model in points:
        model_at[panel, series, x] = model

    # From the index of a row to its comparison: the task, the row's model and the model that it is compared with.
    pair_of_row: dict[Hashable, tuple[str, str, str]] = {}
    for row, (panel, series, x, model) in zip(data.index, points, strict=True):
        other_point = compared_with(series, x)
        if other_point is None:
            continue
        other_series, other_x = other_point
        other_model = model_at.get((panel, other_series, other_x))
        if other_model is not None:
            pair_of_row[row] = (panel, model, other_model)

    # All pairs in one call, since Holm's adjustment is for all pairs of the figure.
    is_above = _clearly_above(list(pair_of_row.values()), inputs)
    clear_of_row = dict(zip(pair_of_row, is_above, strict=True))

    # As objects, since a column of booleans cannot hold None. `assign` joins it to `data` by the index, which
    # is 0, 1, 2 and so on in both.
    clear = pd.Series([clear_of_row.get(row) for row in data.index], dtype=object)
    return data.assign(**{CLEAR: clear})


def _clearly_above(
    pairs: Sequence[tuple[str, str, str]], inputs: FigureInputs
) -> list[bool]:
    """Return for each (task, first, second) whether the first model scores clearly above the second.

    The paper's findings are judged by `analysis.claims`, which tests many of these comparisons as parts of a finding.
    What the finding says of such a comparison is returned: the finding has adjusted it already. Only the other
    comparisons are tested here, and Holm's adjustment here is for these together.
    """
    names: set[str] = set()
    for _, first, second in pairs:
        names |= {first, second}

    # Holm's adjustment depends on which comparisons are tested together, and a finding tests others than this figure.
    # A comparison must be clear in the figure exactly where the finding counts it as clear.
    in_findings = owned_pairs(names, inputs.evidence.result)
    only_here = []
    for task, first, second in pairs:
        # A finding's pair has no order: either model may be the first here.
        if (task, frozenset((first, second))) not in in_findings:
            only_here.append((task, first, second))

    are_above = _above_together(only_here, inputs)
    is_above_here = dict(zip(only_here, are_above, strict=True))
    is_above = []
    for task, first, second in pairs:
        pair_of_finding = in_findings.get((task, frozenset((first, second))))
        if pair_of_finding is None:
            is_above.append(is_above_here[task, first, second])
        else:
            # `ahead` is the model that the finding counts as clearly ahead; empty where neither is.
            is_above.append(pair_of_finding.ahead == first)

    return is_above


def _above_together(
    pairs: Sequence[tuple[str, str, str]], inputs: FigureInputs
) -> list[bool]:
    """Return for each (task, first, second) whether the first model is clearly above the second.

    Each comparison is a test of its own; Holm's adjustment is for all comparisons that are given. What the findings say
    of them is not asked (`_clearly_above` asks it).
    """
    ps = []
    for task, first, second in pairs:
        contrast = difference(f"{first} - {second}", first, second, task)
        # The contrast claims that the difference is above 0. The p for it is twice the one-sided p, so that 0.05 goes
        # with the 95 % interval; it is small only if the first model scores higher, not if the second does.
        ps.append(inputs.evidence.result(contrast).p_for)
    return [bool(p <= ALPHA) for p in holm(ps)]


# What figures say is seen (`TaskFigure.said`). Each function takes the data and the inputs, whether it needs them or
# not, and returns a sentence without a full stop, or an empty text if the data allow none.


def count_ahead(
    data: pd.DataFrame, _: FigureInputs, *, pair: tuple[str, str], what: str
) -> str:
    """Return a sentence: for each task, at how many x the first series is clearly above the second.

    Args:
        data: the data of a figure whose rule compares the first series with the second at the same x.
        pair: the names of the first and the second series.
        what: what several x are called, such as `sizes`.
    """
    parts: list[str] = []
    # `CLEAR` is None for all points that are not compared.
    compared = data[data[CLEAR].notna()]
    for task, rows in compared.groupby("panel", sort=False):
        # The noun stands in the first part only: 3 of 3 sizes on SC, 2 of 3 on TC.
        noun = "" if parts else f" {what}"
        n_clear = sum(rows[CLEAR])
        parts.append(f"{n_clear} of {len(rows)}{noun} on {task}")

    if not parts:
        return ""
    first, second = pair
    counts = ", ".join(parts)
    return f"{first} scores clearly above {second} (filled; Holm) at {counts}"


def last_differences(
    data: pd.DataFrame, _: FigureInputs, *, pair: tuple[str, str], when: str
) -> str:
    """Return a sentence: for each task, by how much the first series is above the second at the last x of both.

    Args:
        data: the data of a figure.
        pair: the names of the first and the second series.
        when: what the last x is called, such as `After CPT`.
    """
    first, second = pair
    parts = []
    for task, rows in data.groupby("panel", sort=False):
        # A row for each x, a column for each series; each cell is the mean of one point. Without sorting, the x stay in
        # the order in which they are drawn, so that the last row is the last x (`Base` before `CPT`).
        wide = rows.pivot_table(index="x", columns="series", values="mean", sort=False)
        # A source may lack one of the two series.
        if not set(pair) <= set(wide):
            continue

        # Without the x at which it lacks one of them.
        both = wide[list(pair)].dropna()
        if both.empty:
            continue
        last = both.iloc[-1]
        gap = last[first] - last[second]

        # U+2212 is the minus sign, which is longer than a hyphen; names of tasks have no hyphen.
        parts.append(f"{task} {gap:+.2f}".replace("-", "\u2212"))

    if not parts:
        return ""
    return f"{when}, {first} minus {second} (points): {', '.join(parts)}"


def best_points(data: pd.DataFrame, inputs: FigureInputs, *, x_text: str) -> str:
    """Return a sentence: for each task and series, the x whose scores are not clearly below the highest of the series.

    Such as `Best ratio (210M, 610M): SC 40, 40/50; TC any`: `40/50` are two such x, `any` are all x.

    Args:
        data: the data of a figure of lines.
        inputs: where the scores come from.
        x_text: what an x is, `Best ratio` in the example.
    """
    names = list(dict.fromkeys(data["series"]))
    # A line is a series in a panel.
    lines = []
    for _, rows in data.groupby(["panel", "series"], sort=False):
        lines.append(rows.sort_values("x"))
    # The index in `data` of every point that is clearly below the highest of its line.
    worse = _clearly_worse(lines, inputs)

    # For each task a text for each of its series.
    texts_of_task: dict[str, dict[str, str]] = {}
    for rows in lines:
        task, name = rows["panel"].iloc[0], rows["series"].iloc[0]
        best_xs = [f"{x:g}" for row, x in rows["x"].items() if row not in worse]
        text = "/".join(best_xs)
        # A line of one point says nothing about the best of several: its only x is written.
        if len(rows) > 1 and len(best_xs) == len(rows):
            text = "any"
        texts_of_task.setdefault(task, {})[name] = text

    parts = []
    for task, texts in texts_of_task.items():
        present = [name for name in names if name in texts]
        listed = ", ".join(texts[name] for name in present)
        # A task without some of the series names those that it has.
        if present != names:
            listed = ", ".join(f"{name} {texts[name]}" for name in present)
        # Not `any, any, any`.
        elif set(texts.values()) == {"any"}:
            listed = "any"
        parts.append(f"{task} {listed}")

    return f"{x_text} ({', '.join(names)}): {'; '.join(parts)}"


def _clearly_worse(
    lines: Iterable[pd.DataFrame], inputs: FigureInputs
) -> set[Hashable]:
    """Return the index of every row whose score is clearly below the highest of its line.

    A finding that counts some of these pairs adjusts for other tests. Its count is not taken here, unlike in
    `_clearly_above`: it does not account for a highest point that the scores chose.

    Args:
        lines: the rows of each series in each panel.
        inputs: where the scores come from.
    """
    # Pairs are (task, model with the higher score, model with the lower score).
    pairs: list[tuple[str, str, str]] = []
    pair_with_best: dict[Hashable, tuple[str, str, str]] = {}
    for rows in lines:
        by_score = rows.sort_values("mean", ascending=False)
        task = by_score["panel"].iloc[0]
        ranked = list(by_score["model"])
        best = ranked[0]

        # The scores themselves chose the highest point, and any point might have been it. So all pairs are tested, not
        # only those with the highest: of four points six pairs, not three.
        for higher, lower in itertools.combinations(ranked, 2):
            pairs.append((task, higher, lower))
        for row, model in by_score["model"].items():
            if model != best:
                pair_with_best[row] = (task, best, model)

    is_above = dict(zip(pairs, _above_together(pairs, inputs), strict=True))
    return {row for row, pair in pair_with_best.items() if is_above[pair]}


def above_mlm_alone(data: pd.DataFrame, _: FigureInputs) -> str:
    """Return a sentence: for each share of CLM, how many of its points are clearly above MLM alone (0 % CLM).

    A share has a point for each task and series; each is compared with the point at 0 % of the same task and series.
    """
    # `CLEAR` is None for all points that are not compared.
    compared = data[data[CLEAR].notna()]
    parts = []
    for x, rows in compared.groupby("x"):
        n_clear = sum(rows[CLEAR])
        parts.append(f"{x:g} % CLM in {n_clear} of {len(rows)}")
    if not parts:
        return ""
    return f"Clearly above MLM alone (filled; Holm): {', '.join(parts)} comparisons"
