"""What would overturn the verdicts, as text, Markdown, CSV and JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from operator import itemgetter

import pandas as pd

from analysis.claims.assessment import assess
from analysis.claims.judged import JudgedFinding
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
from pretraining.paper_models import parse


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """What overturns each verdict."""

    source: Source
    overturned: tuple[Overturned, ...]
    margins: Mapping[float, Mapping[str, str]]
    """The verdicts that other margins change: by factor of the margins, then by finding, the new verdict."""
    tests: tuple[str, ...]
    """Sentences on how the verdicts are tested before anything is varied."""

    @property
    def table(self) -> pd.DataFrame:
        """A row for each finding and sharing, with columns `id, verdict, p_holm, sharing, pretraining_sd`.

        `pretraining_sd` is the spread between pretrainings, in points, that overturns the verdict; nan where none does.
        """
        rows: list[dict[str, object]] = []
        for overturned in self.overturned:
            main = overturned.main
            # `known` is how many parts of the finding the source has scores for; without any, no p is given.
            p_holm = main.p_holm if main.known else math.nan
            finding = {"id": main.id, "verdict": main.outcome, "p_holm": p_holm}
            for sharing, sd in overturned.spread.items():
                rows.append(finding | {"sharing": sharing, "pretraining_sd": sd})
        return pd.DataFrame(rows)


def sensitivity_of(source: Source, settings: Settings) -> Sensitivity:
    """Return what overturns the verdicts on a source, which are first judged by `settings`.

    Raises:
        UserError: an interval or selection rule that the source cannot give.
    """
    settings = source.with_interval(settings)
    result_of, note = with_errors(source, settings)
    tests: tuple[str, ...] = assess(source, settings).tests
    if note:
        tests = (*tests, note)
    return Sensitivity(
        source=source,
        overturned=tuple(overturn(result_of)),
        margins=other_margins(result_of),
        tests=tests,
    )


def sensitivity_document(sensitivity: Sensitivity) -> TableDocument:
    """Return what overturns each verdict, as a document of four tables with their headings."""
    sharings = "; ".join(f"{luck.name}: {luck.words}" for luck in SHARED_LUCK.values())
    # By heading, in the order of the page.
    sections = {
        "The paper pretrained every model once; models that branch from one trunk share its pretraining:": (
            _trunk_rows()
        ),
        "Spread between pretrainings (standard deviation of a task score, in points) that overturns a verdict, and "
        f"measured spreads. {sharings}.": _spread_rows(sensitivity),
        "Number of parts that hold, and interval of the mean effect, by standard deviation between pretrainings (sd, "
        "in points):": _moved_rows(sensitivity),
        'Verdicts with other margins of "on par" and "comparable":': _margin_rows(
            sensitivity
        ),
    }
    title = f"What overturns the verdicts (source: {sensitivity.source.words})."
    body: list[str | Grid] = [title, ""]
    for heading, rows in sections.items():
        body += [heading, "", Grid(rows), ""]
    body += sensitivity.tests
    return TableDocument(
        body=body, records=sensitivity.table, digits="%.6g", data=_data(sensitivity)
    )


def _data(sensitivity: Sensitivity) -> dict[str, object]:
    """Return what overturns each verdict, as JSON has it."""
    margins = {}
    for factor, verdicts in sensitivity.margins.items():
        margins[f"{factor:g}"] = verdicts
    measured = [asdict(spread) for spread in measured_spreads()]
    findings = [_finding_data(overturned) for overturned in sensitivity.overturned]
    return {
        "source": sensitivity.source.words,
        "tests": list(sensitivity.tests),
        "trunks": trunks(),
        "measured": measured,
        "margins": margins,
        "findings": findings,
    }


def _finding_data(overturned: Overturned) -> dict[str, object]:
    """Return what overturns one verdict as JSON has it."""
    main = overturned.main
    moved = []
    for (sharing, sd), finding in overturned.moved.items():
        moved.append(_moved_data(sharing, sd, finding))
    return {
        "id": main.id,
        "verdict": main.outcome,
        # `known` is how many parts of the finding the source has scores for; without any, no p is given.
        "p": main.p_holm if main.known else None,
        "pretraining_sd": dict(overturned.spread),
        "moved": moved,
    }


def _moved_data(sharing: str, sd: float, moved: JudgedFinding) -> dict[str, object]:
    """Return a finding with a spread between pretrainings as JSON has it.

    `hold` is the number of its parts that hold, and `parts` that of the parts that the source has scores for.
    """
    mean = moved.mean
    numbers = None if mean is None else [mean.effect, mean.low, mean.high]
    return {
        "sharing": sharing,
        "sd": sd,
        "hold": moved.holds_in,
        "parts": moved.known,
        "mean": numbers,
    }


def _trunk_rows() -> Rows:
    """Return each trunk of the paper's design with how many models branch from it, by kind."""
    rows = [["trunk", "models", "of which"]]
    for trunk, names in trunks().items():
        kinds = Counter(parse(name).kind for name in names)
        of_which = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        rows.append([trunk, str(len(names)), of_which])
    return rows


def _spread_rows(sensitivity: Sensitivity) -> Rows:
    """Return rows of findings and of measured spreads, ordered by spread; verdicts that no spread overturns last.

    A row has a spread for each of the three sharings, then words. A measured spread stands in the first column.
    """
    by_spread: list[tuple[float, list[str]]] = []
    for overturned in sensitivity.overturned:
        if not overturned.decided:
            continue
        main = overturned.main
        p = format_p(main.p_holm)
        words = (
            f"{main.id}, {main.finding.short}: {main.outcome} "
            f"up to this spread (Holm's p {p} without it)"
        )

        # None, where no spread that was tried overturns the verdict, is sorted last.
        spreads = [math.inf if sd is None else sd for sd in overturned.spread.values()]
        shown = [_spread_text(sd) for sd in spreads]
        by_spread.append((min(spreads), [*shown, words]))

    for spread in measured_spreads():
        words = (
            f"{spread.network}, {spread.pretrainings} pretrainings, {spread.score} ({spread.varies}): "
            f"{spread.where}"
        )
        by_spread.append((spread.sd, [f"measured {spread.sd:.3g}", "", "", words]))

    by_spread.sort(key=itemgetter(0))
    header = [*SHARED_LUCK, "what"]
    return [header, *(row for _, row in by_spread)]


def _spread_text(sd: float) -> str:
    """Return a spread that overturns a verdict as text; `> 30`, the largest that was tried, for an infinite one."""
    if math.isinf(sd):
        return f"> {SPREADS[-1]:.0f}"
    return f"{sd:.2g}"


def _moved_rows(sensitivity: Sensitivity) -> Rows:
    """Return the rows of every finding with a mean: one for all sharings that give the same numbers.

    Columns are the spreads of `MOVED`.
    """
    rows = [["id", "sharing", *(f"sd {sd:g}" for sd in MOVED)]]
    for overturned in sensitivity.overturned:
        sharings_of: dict[tuple[str, ...], list[str]] = {}
        for sharing in SHARED_LUCK:
            moved = [overturned.moved[sharing, sd] for sd in MOVED]
            texts = [_moved_text(finding) for finding in moved]
            # Without a mean, the texts of all spreads are empty.
            with_mean = tuple(text for text in texts if text)
            if with_mean:
                sharings_of.setdefault(with_mean, []).append(sharing)

        for texts_of_row, sharings in sharings_of.items():
            rows.append([overturned.main.id, "; ".join(sharings), *texts_of_row])

    return rows


def _moved_text(moved: JudgedFinding) -> str:
    """Return how many parts of a finding hold, and the interval of its mean effect; empty without a mean.

    Such as `11 of 12, [+0.52, +1.90]`: of a finding, `known` is the number of parts that the source scores.
    """
    mean = moved.mean
    if mean is None or not mean.known:
        return ""
    return f"{moved.holds_in} of {moved.known}, [{mean.low:+.2f}, {mean.high:+.2f}]"


def _margin_rows(sensitivity: Sensitivity) -> Rows:
    """Return one row per factor of the margins."""
    rows = [["margins", "verdicts that change"]]
    for factor, verdicts in sensitivity.margins.items():
        changed = "; ".join(f"{name} {words}" for name, words in verdicts.items())
        rows.append([f"x {factor:g}", changed or "none"])
    return rows
