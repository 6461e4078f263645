"""The multiverse, and what overturns the verdicts, as text, Markdown, CSV and JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import pandas as pd

from analysis.claims.assessment import Opinion, assess
from analysis.claims.catalogue import CLAIMS
from analysis.claims.grades import GRADES
from analysis.claims.wording import format_p
from analysis.evidence.evidence import Settings
from analysis.records import records
from analysis.sensitivity.evidence import with_errors
from analysis.sensitivity.forks import GRID, Multiverse, explore
from analysis.sensitivity.overturning import MOVED, SPREADS, Overturned, overturn
from analysis.sensitivity.pretraining import SHARINGS, MeasuredSpread, measured_spreads, spreads_of, trunks
from analysis.sensitivity.second_opinion import SCALES, opinion_curve
from analysis.sources import Source, standard_of
from common.tables import Document, Grid, Rows
from pretraining.model_names import parse

__all__ = ["Sensitivity", "multiverse_document", "sensitivity_document", "sensitivity_of"]


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """What overturns each verdict."""

    source: str
    overturned: tuple[Overturned, ...]
    measured: tuple[MeasuredSpread, ...]
    """Spreads between pretrainings that others measured, and the source's own."""
    multiverse: Multiverse
    opinions: Mapping[float, list[Opinion]]
    """The Bayesian second opinion on every claim, by the scale of its prior."""
    tests: tuple[str, ...]
    """How the verdicts that it starts from are tested."""


def sensitivity_of(source: Source, settings: Settings) -> Sensitivity:
    """Return everything about a source, from the analysis of `settings` on.

    Raises:
        UserError: no runs, or an interval or selection rule that the source cannot give.
    """
    settings = source.with_interval(settings)
    multiverse = explore(source, settings, standard=standard_of(source) if source.comparable else None)
    found, instead = with_errors(source, settings)
    return Sensitivity(
        source=source.words, overturned=tuple(overturn(found)),
        measured=(*measured_spreads(), *spreads_of(source)), multiverse=multiverse, opinions=opinion_curve(found),
        tests=tuple(filter(None, (*assess(source, settings, second_opinion=False).tests, instead))),
    )  # fmt: skip


def multiverse_document(multiverse: Multiverse, wanted: Sequence[str]) -> Document:
    """Return the grid with a symbol an analysis, and the gaps by selection rule."""
    frame = multiverse.grid[multiverse.grid["id"].isin(wanted)]
    keys = list(dict.fromkeys(records(frame, *GRID)))
    several = len({key[0] for key in keys}) > 1
    names = ["/".join(key if several else key[1:]) for key in keys]
    symbols = {grade.name: grade.symbol for grade in GRADES.values()}
    cells = {(name, *key): symbols[grade] for name, *key, grade in records(frame, "id", *GRID, "verdict")}
    rows = [["id", "supporting", *map(str, range(1, len(keys) + 1)), "claim"]]
    for name in wanted:
        decided, share = multiverse.supporting[name]
        supporting = f"{share:.0%} of {decided}" if decided else "-"
        rows.append([name, supporting, *(cells.get((name, *key), " ") for key in keys), CLAIMS[name].short])
    body: list[str | Grid] = [
        f"Verdicts against {multiverse.source} under {len(keys)} analyses (selection rule/interval).",
        "",
        Grid(rows),
        "",
        f"{', '.join(f'{symbol} {name}' for name, symbol in symbols.items())}; blank: not part of that analysis.",
        "",
        *(f"{number:3d}  {name}" for number, name in enumerate(names, start=1)),
    ]
    if not multiverse.gaps.empty:
        body += [
            "",
            "The MLM-CLM gap in points by dataset and selection rule (+- is the paper's interval):",
            "",
            Grid(_gap_rows(multiverse.gaps)),
            "",
            "A published cell uses the seed-wise rule, whatever the rule in its row.",
        ]
    shares = [
        {
            "id": name,
            "decided": multiverse.supporting[name][0],
            "share_supporting": multiverse.supporting[name][1],
        }
        for name in wanted
    ]
    data = {
        "source": multiverse.source,
        "analysis": dict(multiverse.base),
        "claims": shares,
        "analyses": frame.to_dict("records"),
        "gaps": multiverse.gaps.to_dict("records"),
    }
    return Document(body=body, records=frame, digits="%.10g", data=data, indent=2)


def _gap_rows(gaps: pd.DataFrame) -> Rows:
    rows = [["size", "dataset", "rule", "MLM", "CLM", "gap", "from"]]
    for row in gaps.to_dict("records"):
        origins = {f"{side.upper()} {row[f'{side}_from']}" for side in ("mlm", "clm")}
        alike = row["mlm_from"] == row["clm_from"]
        rows.append(
            [
                row["size"], row["dataset"], row["selection"],
                *(f"{row[side]:.2f} +- {row[f'{side}_ci95']:.2f}" for side in ("mlm", "clm")), f"{row['gap']:+.2f}",
                row["mlm_from"] if alike else "; ".join(sorted(origins, reverse=True)),
            ]
        )  # fmt: skip
    return rows


def _forks(multiverse: Multiverse) -> list[str | Grid]:
    """Return the shares of valid and of invalid analyses behind each claim, and the changes that change a verdict."""
    words = [(word, state) for word in ("valid", "invalid") for state in ("", "_supported", "_contradicted")]
    rows = [["id", "valid", "supported", "contradicted", "invalid", "supported", "contradicted", "claim"]]
    changes = [["id", "changes"]]
    for name in CLAIMS:
        held = multiverse.shares[name]
        counts = [f"{held[word + state]:{'.0%' if state else '.0f'}}" for word, state in words]
        rows.append([name, *counts, CLAIMS[name].short])
        flips = [
            f"{fork} {option}: {state}{'' if valid else ' (invalid)'}"
            for fork, option, state, valid in multiverse.flips[name]
        ]
        changes.append([name, "; ".join(flips) or "none"])
    return [
        "Shares of the valid analyses, and of the invalid ones (interval too narrow, no adjustment, a weaker claim), "
        "that support or contradict a claim:",
        "",
        Grid(rows),
        "",
        "Single changes to the package's analysis that alter a verdict (rho: correlation of two models' seeds):",
        "",
        Grid(changes),
    ]


def sensitivity_document(result: Sensitivity) -> Document:
    """Return what overturns each verdict: pretrainings, forks; and the second opinion."""
    body: list[str | Grid] = [
        f"What overturns the verdicts (source: {result.source}).",
        "",
        "The paper pretrained every model once; models that branch from one trunk share its pretraining:",
        "",
        Grid(_trunk_rows()),
        "",
        "Spread between pretrainings (standard deviation of a task score, in points) that overturns a verdict, and",
        f"measured spreads. {'; '.join(f'{one.name}: {one.words}' for one in SHARINGS.values())}.",
        "",
        Grid(_spread_rows(result)),
        "",
        "Number of parts that hold, and interval of the mean effect, by standard deviation between pretrainings (sd,",
        "in points):",
        "",
        Grid(_moved_rows(result)),
    ]
    body += [
        "",
        *_forks(result.multiverse),
        "",
        "Second opinion (Bayesian): the probability that a claim holds as a whole, with its parts treated as",
        "independent. Priors are flat, except the one on the spread between datasets. It is half-Cauchy, with a median",
        f"of the margin of practical equivalence times the number in the heading (`claims --opinion`: {SCALES[1]:g}):",
        "",
        Grid(_opinion_rows(result)),
        "",
        *result.tests,
    ]
    return Document(body=body, records=result.multiverse.analyses, digits="%.6g", data=_data(result))


def _data(result: Sensitivity) -> dict[str, object]:
    """Return what overturns each verdict, the shares, and the single changes."""
    claims = []
    for place, one in enumerate(result.overturned):
        opinions = {scale: opinions[place] for scale, opinions in result.opinions.items()}
        claims.append(
            {
                "id": one.id, "verdict": one.state, "p": one.p, "pretraining_sd": dict(one.spread),
                "moved": [
                    {
                        "sharing": sharing, "sd": sd, "hold": moved.hold, "parts": moved.parts,
                        "mean": None if moved.mean is None else [moved.mean.effect, moved.mean.low, moved.mean.high],
                    }
                    for (sharing, sd), moved in one.moved.items()
                ],
                "probability": opinions[SCALES[0]].here,
                "probability_over_datasets": {f"{scale:g}": one.over_datasets for scale, one in opinions.items()},
                "analyses": result.multiverse.shares[one.id],
                "flipped_by": [list(change) for change in result.multiverse.flips[one.id]],
            }
        )  # fmt: skip
    return {
        "source": result.source, "analysis": dict(result.multiverse.base), "tests": list(result.tests),
        "trunks": trunks(), "measured": [asdict(one) for one in result.measured], "claims": claims,
    }  # fmt: skip


def _trunk_rows() -> Rows:
    rows = [["trunk", "models", "of which"]]
    for trunk, names in trunks().items():
        kinds = Counter(parse(name).kind for name in names)
        rows.append([trunk, str(len(names)), ", ".join(f"{count} {kind}" for kind, count in kinds.items())])
    return rows


def _spread_rows(result: Sensitivity) -> Rows:
    """Return claims and measured spreads together, by the spread; verdicts that none overturns last."""
    placed: list[tuple[float, list[str]]] = []
    for one in result.overturned:
        if one.decided:
            falls = [math.inf if sd is None else sd for sd in one.spread.values()]
            shown = [f"> {SPREADS[-1]:.0f}" if math.isinf(sd) else f"{sd:.2g}" for sd in falls]
            held = f"up to this spread (Holm's p {format_p(one.p)} without it)"
            words = f"{one.id}, {CLAIMS[one.id].short}: {one.state} {held}"
            placed.append((min(falls), [*shown, words]))
    for seen in result.measured:
        sd = f"{seen.sd:.3g}" + ("" if seen.interval is None else " [{:.2g}, {:.2g}]".format(*seen.interval))
        words = (
            f"{seen.network}, {seen.pretrainings} pretrainings, {seen.score} ({seen.varies}): {seen.where}"
        )
        placed.append((seen.sd, [f"measured {sd}", "", "", words]))
    return [[*SHARINGS, "what"], *(row for _, row in sorted(placed, key=lambda one: one[0]))]


def _moved_rows(result: Sensitivity) -> Rows:
    """Return one row per claim with a mean, and one more for each sharing that makes a difference."""
    rows = [["id", "sharing", *(f"sd {sd:g}" for sd in MOVED)]]
    for one in result.overturned:
        by_cells: dict[tuple[str, ...], list[str]] = {}
        for sharing in SHARINGS:
            moved = [one.moved[sharing, sd] for sd in MOVED]
            cells = tuple(
                f"{at.hold} of {at.parts}, [{at.mean.low:+.2f}, {at.mean.high:+.2f}]"
                for at in moved
                if at.mean is not None and at.mean.known
            )
            if cells:
                by_cells.setdefault(cells, []).append(sharing)
        rows += [[one.id, "; ".join(names), *cells] for cells, names in by_cells.items()]
    return rows


def _opinion_rows(result: Sensitivity) -> Rows:
    rows = [["id", "on these datasets", *(f"over datasets, {scale:g}" for scale in SCALES), "claim"]]
    for opinions in zip(*(result.opinions[scale] for scale in SCALES), strict=True):
        chances = [opinions[0].here, *(one.over_datasets for one in opinions)]
        shown = ["-" if math.isnan(chance) else f"{chance:.2f}" for chance in chances]
        rows.append([opinions[0].id, *shown, CLAIMS[opinions[0].id].short])
    return rows
