"""What the report shows, gathered from a source and from a folder of figures; nothing here knows HTML."""

from __future__ import annotations

import base64
import json
import math
import shlex
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.claims.assessment import assess
from analysis.claims.pages.records import as_record
from analysis.claims.verdicts import Verdict
from analysis.claims.wording import format_effect, format_p, format_typical
from analysis.precision.coverage import COVERAGE_RESAMPLES, COVERAGE_TRIALS, simulate
from analysis.sources import PUBLISHED, Source
from analysis.statistics.scores import Settings
from analysis.tables.audit import Audit, AuditedCell, audit
from analysis.tables.build import Cell, Table, build_table, table_numbers
from common.errors import UserError
from paper_figures.registry import FIGURES, FigureEntry

__all__ = ["Content", "Picture", "TableRow", "gather", "pictures_in", "table_rows"]

_FIRST = "3"
"""The figure that most readers look for; the others follow in the registry's order."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A drawn figure."""

    name: str
    """File name without its ending."""
    title: str
    """First sentence of the alt text."""
    alt: str
    """The whole alt text."""
    data: str
    """The SVG as a base64 data address."""


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A row of a table, and how its cells compare."""

    labels: tuple[str, ...]
    model: str
    cells: tuple[tuple[Cell, AuditedCell | None], ...]

    @property
    def compares(self) -> str:
        """`differs` when a cell does, else `same` when a cell has runs, else `none`."""
        agreements = {audited.agreement for _, audited in self.cells if audited is not None}
        if "differs" in agreements:
            return "differs"
        return "same" if agreements - {None} or any(cell.recomputed for cell, _ in self.cells) else "none"


@dataclass(frozen=True, kw_only=True)
class Content:
    """Everything on the page."""

    source: str
    settings: Settings
    pictures: tuple[Picture, ...]
    missing_pictures: tuple[str, ...]
    tables: tuple[tuple[Table, tuple[TableRow, ...]], ...]
    claims: tuple[dict[str, object], ...]
    """Records of `analysis.claims.pages.records`, with effect and p values as text."""
    claims_tests: tuple[str, str, str]
    """`Assessment.tests`: the test, what it is about, multiplicity."""
    audit: Audit
    coverage: pd.DataFrame
    n_runs: int
    n_models: int


def gather(source: Source, figures: Path, settings: Settings) -> Content:
    """Compute everything the page shows.

    Args:
        source: where the scores come from.
        figures: folder that `python -m paper_figures` filled from the same source.
        settings: selection rule and interval; the published values of tables keep theirs.
    """
    settings = source.settled(settings)
    # Of other networks or metrics than the paper's the audit is of the published cells among themselves.
    audited = audit(source if source.comparable else PUBLISHED, selection=settings.selection)
    scores = None if source.is_published else source.scores(settings)
    by_cell = {(cell.table, cell.model, cell.dataset): cell for cell in audited.cells}
    tables = [build_table(number, scores, source=source) for number in table_numbers()]
    assessment = assess(source, settings)
    pictures = pictures_in(figures, source)
    there = {picture.name for picture in pictures}
    return Content(
        source=source.words,
        settings=settings,
        pictures=pictures,
        missing_pictures=tuple(
            figure.stem for figure in _figures() if not figure.supplementary and figure.stem not in there
        ),
        tables=tuple((table, table_rows(table, by_cell)) for table in tables),
        claims=tuple(_claim(verdict) for verdict in assessment.verdicts),
        claims_tests=assessment.tests,
        audit=audited,
        coverage=simulate(
            source,
            trials=COVERAGE_TRIALS,
            resamples=COVERAGE_RESAMPLES,
            seed=settings.seed,
            selection=settings.selection,
        ),
        n_runs=0 if source.runs is None else len(source.runs),
        n_models=0 if source.runs is None else source.runs["model"].nunique(),
    )


def table_rows(table: Table, audited: dict[tuple[int, str, str], AuditedCell]) -> tuple[TableRow, ...]:
    """Return the rows of a table with their audited cells; none for Table 1, which holds settings."""
    return tuple(
        TableRow(
            labels=labels,
            model=model,
            cells=tuple((cell, audited.get((table.number, cell.model, cell.dataset))) for cell in cells),
        )
        for labels, model, cells in zip(table.labels, table.models, table.cells, strict=False)
    )


def pictures_in(folder: Path, source: Source) -> tuple[Picture, ...]:
    """Return the figures of a folder that were drawn from `source` (or from training logs), the paper's first.

    Raises:
        UserError: the folder holds none.
    """
    pictures = []
    for name in (figure.stem for figure in _figures()):
        svg, text = folder / f"{name}.svg", folder / f"{name}.txt"
        if svg.is_file() and text.is_file() and _drawn_from(folder / f"{name}.json", source.name):
            alt = text.read_text(encoding="utf-8").strip()
            data = base64.b64encode(svg.read_bytes()).decode("ascii")
            pictures.append(Picture(name=name, title=_title(alt), alt=alt, data=data))
    if not pictures:
        raise UserError(
            f"{folder}: holds no figures of {source.label}; draw them with "
            f"`python -m paper_figures all {shlex.join(source.options)} --out {shlex.quote(str(folder))}`"
        )
    return tuple(pictures)


def _figures() -> list[FigureEntry]:
    return sorted(FIGURES.values(), key=lambda figure: figure.name != _FIRST)


def _claim(verdict: Verdict) -> dict[str, object]:
    p, adjusted = (verdict.p, verdict.p_adjusted) if verdict.known else (math.nan, math.nan)
    texts = {
        "effect_text": format_effect(verdict.decisive),
        "typical_text": format_typical(verdict),
        "p_text": format_p(p),
        "holm_text": format_p(adjusted),
    }
    return as_record(verdict) | texts


def _drawn_from(record: Path, source: str) -> bool:
    """Return whether a figure's record names `source`: an older figure of another source is left out."""
    try:
        return json.loads(record.read_text(encoding="utf-8"))["source"]["name"] in (source, "logs")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _title(alt: str) -> str:
    """Return `Figure 3. MLM masking ratio by model size` of a text that begins so."""
    sentences = alt.split(". ")
    return ". ".join(sentences[:2]) if sentences[0].startswith("Figure") else sentences[0]
