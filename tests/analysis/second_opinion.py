"""The published analysis once more: cells, Welch's test, statements and Holm's counts by scipy, statsmodels and loops.

`tests.analysis.independent_checks` holds them against what is printed.
"""

import csv
import io
import json
import math
from contextlib import redirect_stdout
from functools import cache
from typing import Any

from scipy import stats

from analysis.claims.catalogue import FINDINGS
from analysis.claims.statements import AtLeast, Node
from analysis.evidence.contrasts import Contrast, Spread
from clm_or_mlm.__main__ import main as command
from common.provenance import ROOT
from tests.analysis.adjusted import multipletests

Cells = dict[tuple[str, str, str], tuple[float, float]]
"""Mean and half-width by (model, task, dataset)."""


TASKS = {
    "SC": ("sst2", "qqp", "mnli_m"),
    "TC": ("ontonotes", "conll2003_en", "uner_en"),
    "QA": ("squad", "squad_v2", "record"),
    "IR": ("nq", "msmarco", "mldr_en"),
}
MARGINS = {"SC": 0.5, "TC": 0.25, "QA": 1.0, "IR": 0.5}
SPLITS = {12: (3, 6, 9), 22: (5, 11, 17), 42: (10, 21, 32)}
"""By budget the thousands of steps of CLM that are 25, 50 and 75 % of it."""


def printed(*words: str) -> str:
    """Return what a command prints."""
    with redirect_stdout(io.StringIO()) as out:
        command(list(words))
    return out.getvalue()


@cache
def findings() -> dict[str, dict[str, Any]]:
    """Return by id what `claims` says of every finding."""
    return {
        one["id"]: one
        for one in json.loads(printed("claims", "--format", "json"))["findings"]
    }


@cache
def published() -> Cells:
    """Return the printed cells, each once."""
    with (ROOT / "analysis" / "data" / "published_scores.csv").open(
        encoding="utf-8"
    ) as file:
        return {
            (row["model"], row["task"], row["dataset"]): (
                float(row["mean"]),
                float(row["ci95"]),
            )
            for row in csv.DictReader(file)
        }


def two_ps(contrast: Contrast, cells: Cells) -> tuple[float, float]:
    """Return p for and against by Welch's test, written out, with scipy's t distribution."""
    effect, error, df = welch(
        [(term.weight, *cells[term.cell]) for term in contrast.terms]
    )
    t = stats.t(df)
    # Of "at most the end"
    above = [t.sf((effect - end) / error) for end in (contrast.low, contrast.high)]
    # Of "at least the end"
    below = [t.cdf((effect - end) / error) for end in (contrast.low, contrast.high)]
    if math.isfinite(contrast.low) and math.isfinite(contrast.high):
        return max(above[0], below[1]), min(1.0, 2 * min(below[0], above[1]))
    if contrast.margin:  # one direction alone
        return above[0], min(1.0, 2 * below[0])
    if math.isfinite(contrast.low):
        return min(1.0, 2 * above[0]), min(1.0, 2 * below[0])
    return min(1.0, 2 * below[1]), min(1.0, 2 * above[1])


def welch(
    values: list[tuple[float, float, float]], added: float = 0.0
) -> tuple[float, float, float]:
    """Return effect, error and degrees of freedom of (weight, mean, half-width)s of five seeds each."""
    variances = [(weight * max(half, 0.005) / 1.96) ** 2 for weight, _, half in values]
    total, own = sum(variances) + added, sum(v**2 / 4 for v in variances)
    return (
        sum(weight * mean for weight, mean, _ in values),
        math.sqrt(total),
        total**2 / own,
    )


def parts_of(node: Node) -> list[Node]:
    """Return the parts that a finding counts."""
    if isinstance(node, AtLeast) and node.count == len(node.parts) and not node.whole:
        return [one for part in node.parts for one in parts_of(part)]
    return [node]


def units_of(node: Node) -> list[Node]:
    """Return the same, or the parts of another rule."""
    return (
        list(node.parts)
        if isinstance(node, AtLeast) and parts_of(node) == [node]
        else parts_of(node)
    )


def statement_ps(node: Node, cells: Cells) -> tuple[float, float]:
    """Return p for and against a statement: partial conjunctions, by sorting."""
    if not isinstance(node, AtLeast):
        assert isinstance(node, Contrast)
        return two_ps(node, cells)
    nodes = list(node.parts)
    if node.count == len(nodes):
        nodes = [one for part in node.parts for one in parts_of(part)]
    need = len(nodes) if node.count == len(node.parts) else node.count
    fors, againsts = zip(*(statement_ps(one, cells) for one in nodes), strict=True)
    total = len(nodes)
    refuse = total - need + 1
    return (
        min(1.0, (total - need + 1) * sorted(fors)[need - 1]),
        min(1.0, (total - refuse + 1) * sorted(againsts)[refuse - 1]),
    )


DECIDABLE = [
    name
    for name, finding in FINDINGS.items()
    if not any(isinstance(part, Spread) for part in parts_of(finding.body))
]


def shown(ps: list[float]) -> int:
    """Return how many statements hold, by Holm's procedure at 5 %."""
    return int(multipletests(ps, alpha=0.05, method="holm")[0].sum())


def shown_parts(name: str, side: int) -> int:
    """Return how many parts of a finding hold (side 0) or fail (1), with those of what it was chosen among."""
    own, *rivals = (
        units_of(body) for body in (FINDINGS[name].body, *FINDINGS[name].rivals)
    )
    ps = [
        statement_ps(unit, published())[side]
        for units in (own, *rivals)
        for unit in units
    ]
    return int(multipletests(ps, method="holm")[0][: len(own)].sum())
