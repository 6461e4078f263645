"""The claims as a forest plot: for each finding the comparison its verdict hangs on, the others behind it."""

from __future__ import annotations

import math
from collections import Counter

import pandas as pd
from matplotlib.figure import Figure

from analysis.claims.assessment import Assessment
from analysis.claims.evidence import Finding
from analysis.claims.grades import GRADES
from analysis.claims.statements import Contrast
from analysis.claims.wording import format_effect, format_p
from paper_figures.drawing.layout import caption_lines, write_caption
from paper_figures.drawing.style import GREY, INK, LIGHT
from paper_figures.figure_types import SupplementaryFigure
from paper_figures.inputs import Inputs
from paper_figures.output.captions import selection_sentence

__all__ = ["COLORS", "FIGURE", "MARKERS", "claims_data"]

_LOOKS = {
    "supported": ("#1f7a5c", "o"),
    "supported before adjustment": ("#4f9a7f", "p"),
    "mixed": ("#6a51a3", "D"),
    "contradicted": ("#b3261e", "X"),
    "contradicted before adjustment": ("#cf6a5e", "x"),
    "partly supported": ("#2c6fa6", "s"),
    "undecided": ("#9a6b00", "v"),
    "not decidable from this source": ("#8a8a8a", "_"),
}
COLORS = {name: _LOOKS[name][0] for name in GRADES}
"""Of each grade; every one has a mark and a word of its own too."""
MARKERS = {name: _LOOKS[name][1] for name in GRADES}

_ROW = 0.23
_WIDTH = 7.2


def claims_data(assessment: Assessment) -> pd.DataFrame:
    """Return what is drawn.

    Returns:
        Columns `id, claim, verdict, holds, role, contrast, unit, effect, low, high, region_low,
        region_high, p, p_holm`;
        `role` being `decisive` (one row a claim, the most adverse comparison), `typical` (their mean) or `other`.
    """
    rows: list[dict[str, object]] = []
    for verdict in assessment.verdicts:
        holds = f"{verdict.tree.hold} of {len(verdict.tree.units)}" if verdict.known else ""
        base = {
            "id": verdict.claim.id,
            "claim": verdict.claim.short,
            "verdict": verdict.verdict,
            "holds": holds,
        }
        none = {"p": math.nan, "p_holm": math.nan}
        numbers = {"p": verdict.p, "p_holm": verdict.p_adjusted} if verdict.known else none
        rows.append(base | {"role": "decisive"} | _point(verdict.decisive) | numbers)
        if verdict.typical is not None:
            rows.append(base | {"role": "typical"} | _point(verdict.typical) | none)
        others = (finding for finding in verdict.known if finding is not verdict.decisive)
        rows += [base | {"role": "other"} | _point(finding) | none for finding in others]
    return pd.DataFrame(rows)


def _point(finding: Finding) -> dict[str, object]:
    comparison = finding.comparison
    region = (comparison.low, comparison.high) if isinstance(comparison, Contrast) else (-math.inf, 1.0)
    return {
        "contrast": comparison.label, "unit": comparison.unit, "effect": finding.effect, "low": finding.low,
        "high": finding.high, "region_low": region[0], "region_high": region[1],
        "text": format_effect(finding),
    }  # fmt: skip


def draw(data: pd.DataFrame, caption: str) -> Figure:
    """Return the forest plot: a row a claim, effects in points on an axis that is linear near 0 and then bends.

    Ratios of spreads (F7, F10) are written out, not drawn: they have another unit.
    """
    decisive = data[data["role"] == "decisive"].reset_index(drop=True)
    lines = caption_lines(caption)
    foot = 0.37 + 0.1 * max(3, len(lines))
    height = 0.62 + _ROW * len(decisive) + foot
    figure = Figure(figsize=(_WIDTH, height))
    ax = figure.add_axes((2.55 / _WIDTH, foot / height, 2.3 / _WIDTH, _ROW * len(decisive) / height))
    ax.set_xscale("asinh", linear_width=1.0)
    ax.set_ylim(len(decisive) - 0.5, -0.5)
    in_points = data[~data["unit"].str.startswith("ratio") & data["effect"].notna()]
    reach = max(1.0, float(in_points[["low", "high"]].abs().max().max())) if len(in_points) else 1.0
    ax.set_xlim(-reach * 1.15, reach * 1.15)
    ticks = [tick for tick in (-30, -10, -3, -1, 0, 1, 3, 10, 30) if abs(tick) <= reach * 1.1]
    ax.set_xticks(ticks, [f"{tick:+d}".replace("-", "\u2212") if tick else "0" for tick in ticks])
    ax.set_xticks([], minor=True)
    ax.set_yticks([])
    ax.grid(axis="x", color=LIGHT)
    ax.axvline(0, color=INK, linewidth=0.8)
    for row, record in enumerate(decisive.to_dict("records")):
        color = COLORS[record["verdict"]]
        typical = in_points[(in_points["id"] == record["id"]) & (in_points["role"] == "typical")]
        for _, mean in typical.iterrows():
            ax.plot([mean["low"], mean["high"]], [row + 0.12] * 2, color=INK, linewidth=0.9)
            ax.scatter([mean["effect"]], [row + 0.12], s=10, color=INK, marker="d", zorder=3)
        others = in_points[(in_points["id"] == record["id"]) & (in_points["role"] == "other")]
        ax.scatter(others["effect"], [row + 0.28] * len(others), s=3, color=GREY, alpha=0.45, linewidths=0)
        if math.isfinite(record["effect"]) and not record["unit"].startswith("ratio"):
            for end in (record["region_low"], record["region_high"]):
                if math.isfinite(end) and end:
                    ax.plot([end, end], [row - 0.3, row + 0.16], color=INK, linewidth=0.7, linestyle=":")
            ax.plot([record["low"], record["high"]], [row - 0.06] * 2, color=color, linewidth=1.4)
            marker = MARKERS[record["verdict"]]
            ax.scatter([record["effect"]], [row - 0.06], s=20, color=color, marker=marker, zorder=3)
        middle = (foot + _ROW * (len(decisive) - 0.5 - row)) / height
        word = GRADES[record["verdict"]].short
        ratio = " (ratio)" if record["unit"].startswith("ratio") and math.isfinite(record["effect"]) else ""
        for x, text, ink, weight in (
            (0.1, record["id"], INK, "bold"),
            (0.4, record["claim"], INK, "normal"),
            (4.9, word, color, "bold"),
            (5.72, record["text"].replace("-", "\u2212") + ratio, INK, "normal"),
            (6.72, format_p(record["p_holm"]), GREY, "normal"),
        ):
            figure.text(
                x / _WIDTH, middle, str(text), va="center", fontsize=6.2, color=ink, fontweight=weight
            )
    top = (foot + _ROW * len(decisive) + 0.09) / height
    for x, text in ((4.9, "grade"), (5.72, "most adverse, 95 %"), (6.72, "Holm p")):
        figure.text(x / _WIDTH, top, text, fontsize=5.8, color=GREY)
    figure.text(0.1 / _WIDTH, 1 - 0.2 / height, FIGURE.heading, fontsize=8.6, fontweight="bold")
    axis = "effect (points; slopes: points per 10 % masking)"
    figure.text(3.7 / _WIDTH, (foot - 0.27) / height, axis, ha="center", fontsize=6.6)
    write_caption(figure, lines)
    return figure


def describe(data: pd.DataFrame) -> str:
    """Return what is seen, in sentences."""
    decisive = data[data["role"] == "decisive"]
    counts = Counter(decisive["verdict"])
    tally = ", ".join(f"{counts[name]} {name}" for name in GRADES if counts[name])
    lines = [
        f"{record['id']}, {record['claim']}: {record['verdict']}"
        f"{', holds in at least ' + record['holds'] if record['holds'] else ''}, most adverse {record['text']}."
        for record in decisive.to_dict("records")
    ]
    return f"Forest plot of {len(decisive)} findings: {tally}. " + " ".join(lines)


def _collect(inputs: Inputs) -> pd.DataFrame:
    return claims_data(inputs.assessment)


def _details(inputs: Inputs) -> str:
    return " ".join((selection_sentence(inputs), *inputs.assessment.tests)).lstrip()


FIGURE = SupplementaryFigure(
    name="claims",
    title="Which findings survive a test",
    collect=_collect,
    draw=draw,
    describe=describe,
    details=_details,
    note="Coloured mark: the most adverse comparison, with its interval; black: the mean of the claim's comparisons "
    "in the claimed direction; dotted: ends of the claimed region other "
    "than 0; small dots: the claim's other comparisons. The axis is linear near 0 and logarithmic far from it. "
    "Rules: docs/claims.md.",
)
