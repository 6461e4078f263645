"""The report's content as one HTML page: no script is needed to read it, none is fetched to use it."""

from __future__ import annotations

import json
import math
from collections import Counter

import jinja2

from analysis.claims.grades import GRADES
from analysis.precision.coverage import KINDS
from analysis.tables.audit import STATUSES
from analysis.tables.build import Cell
from analysis.tables.render import recomputed_text
from benchmarks.protocol import AVERAGE, DATASETS
from clm_or_mlm.report.content import Content

__all__ = ["render_page"]

_PLOT_WIDTH = 240.0
_PLOT_PAD = 6.0


def render_page(content: Content, provenance: dict[str, object]) -> str:
    """Return the page; equal content and provenance give equal text."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("clm_or_mlm.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters |= {"published": _published, "recomputed": _recomputed}
    forest, axis = _forest(content)
    return environment.get_template("page.html").render(
        content=content,
        verdicts=Counter(str(claim["verdict"]) for claim in content.claims),
        verdict_names=tuple(GRADES),
        statuses=STATUSES,
        summary=content.audit.summary(),
        forest=forest,
        axis=axis,
        coverage=_coverage(content),
        has_runs=content.n_runs > 0,
        selection_words=content.settings.rule.words,
        tables_compared=_compared(content),
        provenance=json.dumps(provenance, indent=1, ensure_ascii=False),
    )


def _published(cell: Cell) -> str:
    return f"{cell.published[0]:.2f} ± {cell.published[1]:.2f}" if cell.published else "-"


def _recomputed(cell: Cell) -> str:
    return recomputed_text(cell, " ({} seeds)")


def _forest(content: Content) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Return, by claim id, where a forest plot puts effect, interval and zero, and the positions of whole points.

    Positions are pixels on one common axis. Only effects in points of score share it; the others are numbers alone.
    """
    shown = {
        str(claim["id"]): (float(claim["effect"]), float(claim["low"]), float(claim["high"]))  # type: ignore[arg-type]
        for claim in content.claims
        if claim["unit"] == "points" and None not in (claim["effect"], claim["low"], claim["high"])
    }
    if not shown:
        return {}, {}
    left = min(0.0, *(low for _, low, _ in shown.values()))
    right = max(0.0, *(high for _, _, high in shown.values()))
    scale = (_PLOT_WIDTH - 2 * _PLOT_PAD) / (right - left)

    def pixel(value: float) -> float:
        return round(_PLOT_PAD + (value - left) * scale, 1)

    places = {
        name: {"effect": pixel(effect), "low": pixel(low), "high": pixel(high), "zero": pixel(0.0)}
        for name, (effect, low, high) in shown.items()
    }
    ends = {f"{value:+d}": pixel(value) for value in (math.ceil(left), math.floor(right)) if value}
    return places, ends | {"0": pixel(0.0)}


def _coverage(content: Content) -> list[tuple[str, list[tuple[str, list[str]]], list[str]]]:
    """Return, for each target, its rows (dataset title, coverage of each interval in percent) and the kinds."""
    kinds = list(KINDS)
    blocks = []
    for target, rows in content.coverage.groupby("target", sort=False):
        lines = [
            (
                "Mean" if name == AVERAGE else DATASETS[name].title,
                ["-" if math.isnan(value) else f"{100 * value:.1f}" for value in values],
            )
            for name, values in zip(rows["dataset"].tolist(), rows[kinds].to_numpy().tolist(), strict=True)
        ]
        blocks.append((str(target), lines, kinds))
    return blocks


def _compared(content: Content) -> dict[int, str]:
    """Return, by table, how many of its cells differ, as words."""
    words = {}
    for table, rows in content.tables:
        counts = Counter(row.compares for row in rows)
        differing = sum(
            audited is not None and audited.agreement == "differs" for row in rows for _, audited in row.cells
        )
        if rows and counts["none"] < len(rows):
            words[table.number] = f"{differing} cells differ" if differing != 1 else "1 cell differs"
    return words
