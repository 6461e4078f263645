"""The audit as a document: a page for people, and its cells as data."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from analysis.sources import Source
from analysis.tables.audit import STATUSES, Audit, AuditedCell
from benchmarks.protocol import AVERAGE, DATASETS
from common.tables import Document, fill_template, markdown_table, signed

__all__ = ["AUDIT_FORMATS", "audit_document", "runs_of_stand_ins", "verdict"]

AUDIT_FORMATS = ("markdown", "html", "json")
"""How the audit is printed."""

_TEMPLATE = Path(__file__).parent / "templates" / "audit.html"
_SUMMARY = ("table", "cells", *STATUSES)
_CELLS = ("table", "model", "task", "dataset", "published", "recomputed", "difference", "runs", "status")


def audit_document(result: Audit) -> Document:
    """Return the audit: verdict, summary, arithmetic, cells (without runs no list of cells); as HTML a page."""
    lines = [f"# Audit of arXiv 2507.00994v4 against {result.source}", "", verdict(result)]
    for title, rows in _sections(result):
        head, _, *body = markdown_table(rows)
        lines += ["", f"## {title}", "", head, f"|{'|'.join([' --- '] * len(rows[0]))}|", *body]
    page = partial(
        fill_template, _TEMPLATE, source=result.source, verdict=verdict(result), sections=_sections(result)
    )
    return Document(body=lines, data=result.as_dict(), pages={"html": page})


def runs_of_stand_ins(source: Source) -> Document:
    """Return the runs of a small study: its numbers are of other networks, so that none is compared."""
    assert source.stand_ins is not None
    runs = source.need_runs("the audit")
    own = {paper: name for name, paper in source.stand_ins.models.items()}
    counts = runs.groupby(["model", "dataset"], sort=False, observed=True).size()
    rows = [
        f"{own.get(model, model):32}{model if model in own else '-':32}{dataset:16}{number:>6}"
        for (model, dataset), number in zip(counts.index, counts, strict=True)
    ]
    head = f"Its numbers are not compared with the paper's. It holds {len(runs)} runs:"
    columns = f"{'model':32}{'stands for':32}{'dataset':16}{'runs':>6}"
    return Document(body=[source.own_words, head, "", columns, *rows, ""])


def verdict(result: Audit) -> str:
    """Return the outcome in one or two sentences."""
    counts = result.summary()[-1]
    disagreements = sum(check.status == "differs" for check in result.arithmetic)
    checked = len(result.arithmetic)
    arithmetic = f"{disagreements} of {checked} arithmetic statements disagree with the rest of the paper."
    if not result.has_runs:
        return f"This source holds no runs, so no cell can be recomputed. {arithmetic}"
    listed = ", ".join(f"{counts[status]} {status}" for status in STATUSES)
    of = f"Of {counts['cells']} published scores ({len(result.cells)} cells with their repeats)"
    return f"{of}: {listed}. {arithmetic}"


def _sections(result: Audit) -> list[tuple[str, list[list[str]]]]:
    """Return each section's title and table, the first row its head."""
    summary = [[str(row[name]) for name in _SUMMARY] for row in result.summary()]
    arithmetic = [[c.statement, c.stated, c.recomputed, c.status, c.note] for c in result.arithmetic]
    sections = [
        ("The paper's own arithmetic", [["stated", "value", "recomputed", "status", "note"], *arithmetic]),
    ]
    if result.has_runs:
        sections.insert(0, ("Cells by table", [[*_SUMMARY], *summary]))
    if cells := _cell_rows(result):
        sections.append(("Cells with runs", [[*_CELLS], *cells]))
    return sections


def _cell_rows(result: Audit) -> list[list[str]]:
    return [
        [
            str(cell.table),
            cell.model,
            cell.task,
            "Average" if cell.dataset == AVERAGE else DATASETS[cell.dataset].title,
            f"{cell.published_mean:.2f} ± {cell.published_ci95:.2f}",
            _recomputed(cell),
            "" if cell.difference is None else signed(cell.difference),
            str(cell.n_runs),
            cell.status if cell.agreement in (None, cell.status) else f"{cell.status} ({cell.agreement})",
        ]
        for cell in result.cells
        if cell.n_runs
    ]


def _recomputed(cell: AuditedCell) -> str:
    if cell.mean is None:
        return "-"
    return f"{cell.mean:.2f}" + ("" if cell.ci95 is None else f" ± {cell.ci95:.2f}")
