"""What would overturn the verdicts, as text, Markdown, CSV and JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import pandas as pd

from analysis.claims.assessment import assess
from analysis.claims.pretraining_spread import SHARED_LUCK, measured_spreads, trunks
from analysis.claims.wording import format_p
from analysis.evidence.settings import Settings
from analysis.sensitivity.overturning import (
    MOVED,
    SPREADS,
    Overturned,
    other_margins,
    overturn,
    with_errors,
)
from analysis.sources import Source
from common.tables import Grid, Rows, TableDocument
from pretraining.models import parse


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """What overturns each verdict."""

    source: Source
    overturned: tuple[Overturned, ...]
    margins: Mapping[float, Mapping[str, str]]
    """By factor of the margins the verdicts that are then others, by finding."""
    tests: tuple[str, ...]
    """How the verdicts that it starts from are tested."""

    @property
    def table(self) -> pd.DataFrame:
        """A row for each finding and sharing: `id, verdict, p_holm, sharing`, and the `pretraining_sd` that overturns.

        That spread is in points, and not a number where none does.
        """
        return pd.DataFrame(
            [
                {
                    "id": one.main.id,
                    "verdict": one.main.outcome,
                    "p_holm": one.main.p_holm if one.main.known else math.nan,
                    "sharing": sharing,
                    "pretraining_sd": sd,
                }
                for one in self.overturned
                for sharing, sd in one.spread.items()
            ]
        )


def sensitivity_of(source: Source, settings: Settings) -> Sensitivity:
    """Return everything about a source, from the analysis of `settings` on.

    Raises:
        UserError: an interval or selection rule that the source cannot give.
    """
    settings = source.with_interval(settings)
    result_of, note = with_errors(source, settings)
    tests = assess(source, settings).tests
    return Sensitivity(
        source=source,
        overturned=tuple(overturn(result_of)),
        margins=other_margins(result_of),
        tests=(*tests, note) if note else tests,
    )


def sensitivity_document(sensitivity: Sensitivity) -> TableDocument:
    """Return what overturns each verdict."""
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
        'Verdicts with other margins of "on par" and "comparable":',
        "",
        Grid(_margin_rows(sensitivity)),
        "",
        *sensitivity.tests,
    ]
    return TableDocument(
        body=body, records=sensitivity.table, digits="%.6g", data=_data(sensitivity)
    )


def _data(sensitivity: Sensitivity) -> dict[str, object]:
    """Return the same as JSON has it."""
    findings = [
        {
            "id": one.main.id,
            "verdict": one.main.outcome,
            "p": one.main.p_holm if one.main.known else None,
            "pretraining_sd": dict(one.spread),
            "moved": [
                {
                    "sharing": sharing,
                    "sd": sd,
                    "hold": moved.holds_in,
                    "parts": moved.known,
                    "mean": None
                    if moved.mean is None
                    else [moved.mean.effect, moved.mean.low, moved.mean.high],
                }
                for (sharing, sd), moved in one.moved.items()
            ],
        }
        for one in sensitivity.overturned
    ]
    return {
        "source": sensitivity.source.words,
        "tests": list(sensitivity.tests),
        "trunks": trunks(),
        "measured": [asdict(one) for one in measured_spreads()],
        "margins": {
            f"{factor:g}": found for factor, found in sensitivity.margins.items()
        },
        "findings": findings,
    }


def _trunk_rows() -> Rows:
    """Return each trunk of the paper's design with how many models branch from it, by kind."""
    rows = [["trunk", "models", "of which"]]
    for trunk, names in trunks().items():
        kinds = Counter(parse(name).kind for name in names)
        rows.append(
            [
                trunk,
                str(len(names)),
                ", ".join(f"{count} {kind}" for kind, count in kinds.items()),
            ]
        )
    return rows


def _spread_rows(sensitivity: Sensitivity) -> Rows:
    """Return findings and measured spreads together, by the spread; verdicts that none overturns last."""
    by_spread: list[tuple[float, list[str]]] = []
    for one in sensitivity.overturned:
        if one.decided:
            overturning = [math.inf if sd is None else sd for sd in one.spread.values()]
            shown = [
                f"> {SPREADS[-1]:.0f}" if math.isinf(sd) else f"{sd:.2g}"
                for sd in overturning
            ]
            held = (
                f"up to this spread (Holm's p {format_p(one.main.p_holm)} without it)"
            )
            words = (
                f"{one.main.id}, {one.main.finding.short}: {one.main.outcome} {held}"
            )
            by_spread.append((min(overturning), [*shown, words]))
    for spread in measured_spreads():
        words = (
            f"{spread.network}, {spread.pretrainings} pretrainings, {spread.score} ({spread.varies}): "
            f"{spread.where}"
        )
        by_spread.append((spread.sd, [f"measured {spread.sd:.3g}", "", "", words]))
    return [
        [*SHARED_LUCK, "what"],
        *(row for _, row in sorted(by_spread, key=lambda item: item[0])),
    ]


def _moved_rows(sensitivity: Sensitivity) -> Rows:
    """Return one row per finding with a mean, and one more for each sharing that makes a difference."""
    rows = [["id", "sharing", *(f"sd {sd:g}" for sd in MOVED)]]
    for overturned in sensitivity.overturned:
        by_cells: dict[tuple[str, ...], list[str]] = {}
        for sharing in SHARED_LUCK:
            moved = [overturned.moved[sharing, sd] for sd in MOVED]
            cells = tuple(
                f"{one.holds_in} of {one.known}, [{one.mean.low:+.2f}, {one.mean.high:+.2f}]"
                for one in moved
                if one.mean is not None and one.mean.known
            )
            if cells:
                by_cells.setdefault(cells, []).append(sharing)
        rows += [
            [overturned.main.id, "; ".join(names), *cells]
            for cells, names in by_cells.items()
        ]
    return rows


def _margin_rows(sensitivity: Sensitivity) -> Rows:
    """Return one row per factor of the margins."""
    rows = [["margins", "verdicts that change"]]
    for factor, verdicts in sensitivity.margins.items():
        changed = "; ".join(f"{name} {words}" for name, words in verdicts.items())
        rows.append([f"x {factor:g}", changed or "none"])
    return rows
