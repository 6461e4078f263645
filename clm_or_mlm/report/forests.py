"""Forests of the page: comparisons as rows, each with its effect, interval and claimed region on one axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.claims.by_dataset import DatasetReading
from analysis.claims.evidence import Finding
from analysis.claims.verdicts import Verdict
from analysis.claims.wording import format_effect, format_p, says
from benchmarks.protocol import DATASETS
from clm_or_mlm.report.scales import Scale, linear, near_zero, number

__all__ = ["Forest", "ForestRow", "by_dataset_forest", "claim_forest", "overview"]

_WIDEST = 1.5
"""Intervals reach at most so many times the span of the effects beyond it; what is wider is cut, with an arrow."""


@dataclass(frozen=True, kw_only=True)
class ForestRow:
    """A comparison on an axis; places are percent of its length."""

    label: str
    role: str
    """`typical`, `adverse`, `average` or `other`."""
    says: str
    """`holds`, `fails` or `open`, judged alone."""
    text: str
    """Effect and interval."""
    tip: str
    """All that is known of it, for whoever points at it."""
    effect: float
    low: float
    high: float
    region: tuple[float, float]
    """From where to where the claimed region is."""
    cut_low: bool = False
    """Whether the interval is longer than the axis."""
    cut_high: bool = False
    group: str = ""
    """A heading above the row; empty where it is that of the row before."""


@dataclass(frozen=True, kw_only=True)
class Forest:
    """Rows on one axis."""

    rows: tuple[ForestRow, ...]
    ticks: tuple[tuple[str, float], ...]
    """Text and place."""
    unit: str
    zero: float
    """Where no difference is."""
    missing: tuple[str, ...] = ()
    """The comparisons that the source lacks."""


@dataclass(frozen=True, kw_only=True)
class _Entry:
    finding: Finding
    role: str
    label: str = ""
    group: str = ""


def claim_forest(verdict: Verdict) -> Forest | None:
    """Return a claim's forest: its typical effect, then its comparisons in order, the most adverse one marked.

    None where the source knows none of them, or they have no common unit.
    """
    entries = [_Entry(finding=verdict.typical, role="typical")] if verdict.typical is not None else []
    for finding in dict.fromkeys(verdict.tree.findings):
        entries.append(_Entry(finding=finding, role="adverse" if finding is verdict.decisive else "other"))
    return _forest(entries)


def by_dataset_forest(reading: DatasetReading) -> Forest | None:
    """Return the forest of each comparison on each dataset, then on their average; None where none is known."""
    entries = []
    for contrast in reading.contrasts:
        label = contrast.average.comparison.label  # above the first of its rows
        for name, finding in contrast.single.items():
            entries.append(_Entry(finding=finding, role="other", label=DATASETS[name].title, group=label))
            label = ""
        entries.append(_Entry(finding=contrast.average, role="average", label="Average", group=label))
    return _forest(entries)


def overview(verdicts: Iterable[Verdict]) -> dict[str, Forest]:
    """Return for each claim its typical and its most adverse effect, all of one unit on one axis."""
    by_unit: dict[str, dict[str, list[_Entry]]] = {}
    for verdict in verdicts:
        pair = [(verdict.typical, "typical"), (verdict.decisive, "adverse")]
        entries = [_Entry(finding=one, role=role) for one, role in pair if one is not None and one.known]
        if len({entry.finding.comparison.unit for entry in entries}) == 1:
            by_unit.setdefault(entries[0].finding.comparison.unit, {})[verdict.claim.id] = entries
    shown: dict[str, Forest] = {}
    for unit, claims in by_unit.items():
        zero = _no_difference(unit)
        effects = [entry.finding.effect - zero for entries in claims.values() for entry in entries]
        reach = max(1.0, *map(abs, effects))
        scale = linear(zero - 1.2 * reach, zero + 1.2 * reach) if zero else near_zero(1.6 * reach)
        shown |= {name: _on(entries, scale, unit) for name, entries in claims.items()}
    return shown


def _forest(entries: Sequence[_Entry]) -> Forest | None:
    known = [entry.finding for entry in entries if entry.finding.known]
    units = {finding.comparison.unit for finding in known}
    if len(units) != 1:
        return None
    unit = units.pop()
    zero = _no_difference(unit)
    ends = [end for finding in known for end in finding.comparison.ends if math.isfinite(end)]
    effects = [finding.effect for finding in known]
    low, high = min(zero, *ends, *effects), max(zero, *ends, *effects)
    room = _WIDEST * ((high - low) or 1.0)
    low = max(min(low, *(finding.low for finding in known if finding.low == finding.low)), low - room)
    high = min(max(high, *(finding.high for finding in known if finding.high == finding.high)), high + room)
    pad = 0.04 * ((high - low) or 1.0)
    return _on(entries, linear(low - pad, high + pad), unit)


def _on(entries: Sequence[_Entry], scale: Scale, unit: str) -> Forest:
    return Forest(
        rows=tuple(_row(entry, scale) for entry in entries if entry.finding.known),
        ticks=tuple((number(tick), _percent(scale, tick)) for tick in scale.ticks),
        unit=unit,
        zero=_percent(scale, _no_difference(unit)),
        missing=tuple(entry.finding.comparison.label for entry in entries if not entry.finding.known),
    )


def _no_difference(unit: str) -> float:
    return 1.0 if unit.startswith("ratio") else 0.0


def _row(entry: _Entry, scale: Scale) -> ForestRow:
    finding, comparison = entry.finding, entry.finding.comparison
    label = entry.label or comparison.label
    text = format_effect(finding).replace("-", "\u2212")
    low, high = (end if end == end else finding.effect for end in (finding.low, finding.high))
    start, end = (_percent(scale, scale.inside(one)) for one in comparison.ends)
    return ForestRow(
        label=label,
        role=entry.role,
        says=says(finding),
        text=text,
        tip=_tip(finding, label, text),
        group=entry.group,
        effect=_percent(scale, scale.inside(finding.effect)),
        low=_percent(scale, scale.inside(low)),
        high=_percent(scale, scale.inside(high)),
        cut_low=low < scale.low,
        cut_high=high > scale.high,
        region=(start, end),
    )


def _tip(finding: Finding, label: str, text: str) -> str:
    seeds = "-".join(dict.fromkeys(str(count) for count in finding.seeds))
    lines = [
        f"{label}: {text} {finding.comparison.unit}",
        f"claimed {finding.comparison.region}; {says(finding)} judged alone (p for {format_p(finding.p_for)}, against "
        f"{format_p(finding.p_against)})",
        *([f"n = {seeds} seeds"] if seeds else []),
    ]
    return "\n".join(lines)


def _percent(scale: Scale, value: float) -> float:
    return round(100 * scale.at(value), 2)
