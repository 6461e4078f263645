"""What would overturn the verdicts, and the verdicts of other analyses, as text, Markdown, CSV and JSON."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass

import pandas as pd

from analysis.claims.assessment import assess
from analysis.claims.catalogue import FINDINGS
from analysis.claims.pretraining_spread import (
    SHARED_LUCK,
    MeasuredSpread,
    measured_spreads,
    spreads_of,
    trunks,
)
from analysis.claims.verdicts import OUTCOMES
from analysis.claims.wording import format_p
from analysis.evidence.evidence import Settings
from analysis.precision.components import components_body, components_table
from analysis.records import records
from analysis.sensitivity.forks import Multiverse, explore
from analysis.sensitivity.overturning import MOVED, SPREADS, Overturned, overturn, with_errors
from analysis.sources import Source, standard_of
from common.tables import Grid, Rows, TableDocument
from pretraining.models import parse

_FEW = 2
"""Analyses that compare next to nothing."""


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """What overturns each verdict."""

    source: Source
    overturned: tuple[Overturned, ...]
    measured: tuple[MeasuredSpread, ...]
    """Spreads between pretrainings that others measured, and the source's own."""
    components: pd.DataFrame
    """What moves a score, where models were pretrained more than once (`components_table`); else empty."""
    multiverse: Multiverse
    tests: tuple[str, ...]
    """How the verdicts that it starts from are tested."""


def sensitivity_of(source: Source, settings: Settings) -> Sensitivity:
    """Return everything about a source, from the analysis of `settings` on.

    Raises:
        UserError: no runs, or an interval or selection rule that the source cannot give.
    """
    settings = source.with_interval(settings)
    multiverse = explore(source, settings, standard=standard_of(source) if source.comparable else None)
    result_of, note = with_errors(source, settings)
    components = pd.DataFrame() if source.runs is None else components_table(source)
    return Sensitivity(
        source=source, overturned=tuple(overturn(result_of)), components=components, multiverse=multiverse,
        measured=(*measured_spreads(), *spreads_of(source, components)),
        tests=tuple(filter(None, (*assess(source, settings).tests, note))),
    )  # fmt: skip


def _analyses(multiverse: Multiverse) -> list[str | Grid]:
    """Return a symbol for each finding and analysis, and the single choices that alter a verdict.

    A source that allows few analyses, such as published cells, gets a sentence in place of the symbols.
    """
    keys = list(dict.fromkeys(records(multiverse.grid, "protocol", "selection", "interval")))
    several_protocols = len({protocol for protocol, _, _ in keys}) > 1
    names = ["/".join(key if several_protocols else key[1:]) for key in keys]
    named_by = "protocol/selection rule/interval" if several_protocols else "selection rule/interval"
    body: list[str | Grid] = [
        f"The source allows only {len(keys)} analyses ({named_by}: {', '.join(names)}), too few to "
        "compare; runs allow more."
    ]
    if len(keys) > _FEW:
        symbols = {one.name: one.symbol for one in OUTCOMES.values()}
        cells = {
            (name, *key): symbols[state]
            for name, *key, state in records(
                multiverse.grid, "id", "protocol", "selection", "interval", "state"
            )
        }
        rows = [["id", *map(str, range(1, len(keys) + 1)), "finding"]]
        rows += [[name, *(cells[name, *key] for key in keys), one.short] for name, one in FINDINGS.items()]
        body = [
            f"Verdicts under {len(keys)} analyses ({named_by}):",
            "",
            Grid(rows),
            "",
            f"{', '.join(f'{symbol} {name}' for name, symbol in symbols.items())}.",
            "",
            *(f"{number:3d}  {name}" for number, name in enumerate(names, start=1)),
        ]
    changes = [["id", "changes"]]
    for name, flips in multiverse.flips.items():
        in_words = [
            f"{fork} {option}: {state}{'' if valid else ' (invalid)'}" for fork, option, state, valid in flips
        ]
        changes.append([name, "; ".join(in_words) or "none"])
    return [
        *body,
        "",
        "Single changes to the package's analysis that alter a verdict (invalid: the interval is known to be too "
        "narrow, or p is not adjusted):",
        "",
        Grid(changes),
    ]


def sensitivity_document(sensitivity: Sensitivity) -> TableDocument:
    """Return what overturns each verdict: other pretrainings, other analyses; and what moves a score."""
    body: list[str | Grid] = [
        f"What overturns the verdicts (source: {sensitivity.source.words}).",
        "",
        "The paper pretrained every model once; models that branch from one trunk share its pretraining:",
        "",
        Grid(_trunk_rows()),
        "",
        "Spread between pretrainings (standard deviation of a task score, in points) that overturns a verdict, and "
        f"measured spreads. {'; '.join(f'{one.name}: {one.words}' for one in SHARED_LUCK.values())}.",
        "",
        Grid(_spread_rows(sensitivity)),
        "",
        "Number of parts that hold, and interval of the mean effect, by standard deviation between pretrainings (sd, "
        "in points):",
        "",
        Grid(_moved_rows(sensitivity)),
        "",
        *(
            []
            if sensitivity.components.empty
            else [*components_body(sensitivity.components, sensitivity.source), ""]
        ),
        *_analyses(sensitivity.multiverse),
        "",
        *sensitivity.tests,
    ]
    return TableDocument(
        body=body, records=sensitivity.multiverse.analyses, digits="%.6g", data=_data(sensitivity)
    )


def _data(sensitivity: Sensitivity) -> dict[str, object]:
    """Return what overturns each verdict, the single changes, and what moves a score."""
    findings = [
        {
            "id": one.main.id, "verdict": one.main.outcome, "p": one.main.p_holm if one.main.known else None,
            "pretraining_sd": dict(one.spread),
            "moved": [
                {
                    "sharing": sharing, "sd": sd, "hold": moved.holds_in, "parts": moved.parts,
                    "mean": None if mean is None else [mean.effect, mean.low, mean.high],
                }
                for (sharing, sd), (moved, mean) in one.moved.items()
            ],
            "flipped_by": [list(change) for change in sensitivity.multiverse.flips[one.main.id]],
        }
        for one in sensitivity.overturned
    ]  # fmt: skip
    return {
        "source": sensitivity.source.words, "analysis": dict(sensitivity.multiverse.base),
        "tests": list(sensitivity.tests), "trunks": trunks(), "measured": [asdict(one) for one in sensitivity.measured],
        "components": sensitivity.components.to_dict("records"), "findings": findings,
    }  # fmt: skip


def _trunk_rows() -> Rows:
    """Return each trunk of the paper's design with how many models branch from it, by kind."""
    rows = [["trunk", "models", "of which"]]
    for trunk, names in trunks().items():
        kinds = Counter(parse(name).kind for name in names)
        rows.append([trunk, str(len(names)), ", ".join(f"{count} {kind}" for kind, count in kinds.items())])
    return rows


def _spread_rows(sensitivity: Sensitivity) -> Rows:
    """Return findings and measured spreads together, by the spread; verdicts that none overturns last."""
    by_spread: list[tuple[float, list[str]]] = []
    for one in sensitivity.overturned:
        if one.decided:
            overturning = [math.inf if sd is None else sd for sd in one.spread.values()]
            shown = [f"> {SPREADS[-1]:.0f}" if math.isinf(sd) else f"{sd:.2g}" for sd in overturning]
            held = f"up to this spread (Holm's p {format_p(one.main.p_holm)} without it)"
            words = f"{one.main.id}, {FINDINGS[one.main.id].short}: {one.main.outcome} {held}"
            by_spread.append((min(overturning), [*shown, words]))
    for spread in sensitivity.measured:
        interval = "" if spread.interval is None else " [{:.2g}, {:.2g}]".format(*spread.interval)
        words = (
            f"{spread.network}, {spread.pretrainings} pretrainings, {spread.score} ({spread.varies}): "
            f"{spread.where}"
        )
        by_spread.append((spread.sd, [f"measured {spread.sd:.3g}{interval}", "", "", words]))
    return [[*SHARED_LUCK, "what"], *(row for _, row in sorted(by_spread, key=lambda item: item[0]))]


def _moved_rows(sensitivity: Sensitivity) -> Rows:
    """Return one row per finding with a mean, and one more for each sharing that makes a difference."""
    rows = [["id", "sharing", *(f"sd {sd:g}" for sd in MOVED)]]
    for overturned in sensitivity.overturned:
        by_cells: dict[tuple[str, ...], list[str]] = {}
        for sharing in SHARED_LUCK:
            moved = [overturned.moved[sharing, sd] for sd in MOVED]
            cells = tuple(
                f"{finding.holds_in} of {finding.parts}, [{mean.low:+.2f}, {mean.high:+.2f}]"
                for finding, mean in moved
                if mean is not None and not mean.missing
            )
            if cells:
                by_cells.setdefault(cells, []).append(sharing)
        rows += [[overturned.main.id, "; ".join(names), *cells] for cells, names in by_cells.items()]
    return rows
