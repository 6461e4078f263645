"""The multiverse as text, Markdown, JSON and CSV."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.claims.catalogue import CLAIMS
from analysis.claims.grades import GRADES
from analysis.claims.multiverse import Forks, Multiverse
from analysis.records import records
from common.tables import Document, Grid

__all__ = ["forks_lines", "multiverse_document"]

SYMBOLS = {grade.name: grade.symbol for grade in GRADES.values()}
"""One character a grade, for tables."""

_GAP = (
    "{0[size]}", "{0[dataset]}", "{0[selection]}", "{0[mlm]:.2f} +- {0[mlm_ci95]:.2f}",
    "{0[clm]:.2f} +- {0[clm_ci95]:.2f}", "{0[gap]:+.2f}",
)  # fmt: skip
"""The columns of a row of gaps, but for where the numbers are from."""


def multiverse_document(multiverse: Multiverse, wanted: Sequence[str]) -> Document:
    """Return a line a claim with a symbol an analysis, and the gaps by selection rule; all analyses as data."""
    return Document(
        body=_body(multiverse, wanted),
        records=_records(multiverse, wanted),
        digits="%.10g",
        data=_data(multiverse, wanted),
        indent=2,
    )


def _records(multiverse: Multiverse, wanted: Sequence[str]) -> pd.DataFrame:
    """Return one row a claim and analysis; those of the other forks have a state in place of a grade."""
    rows = _verdicts(multiverse, wanted)
    if multiverse.forks is not None:
        others = multiverse.forks.analyses
        others = others[others["id"].isin(wanted)].rename(columns={"state": "verdict"})
        rows = pd.concat([rows, others], ignore_index=True)
    return rows


def _data(multiverse: Multiverse, wanted: Sequence[str]) -> dict[str, object]:
    """Return all analyses, the shares that support each claim, and the gaps."""
    content: dict[str, object] = {
        "source": multiverse.source,
        "verdicts": _verdicts(multiverse, wanted).to_dict("records"),
        "shares": _shares(multiverse, wanted).reset_index().to_dict("records"),
        "gaps": multiverse.gaps.to_dict("records"),
    }
    if multiverse.forks is not None:
        analyses = multiverse.forks.analyses
        content["forks"] = {
            "analyses": analyses[analyses["id"].isin(wanted)].to_dict("records"),
            "shares": multiverse.forks.shares.loc[list(wanted)].reset_index().to_dict("records"),
            "single_changes": {name: [list(one) for one in multiverse.forks.flips[name]] for name in wanted},
        }
    return content


def _body(multiverse: Multiverse, wanted: Sequence[str]) -> list[str | Grid]:
    frame, shares = _verdicts(multiverse, wanted), _shares(multiverse, wanted)
    keys = list(dict.fromkeys(records(frame, "protocol", "selection", "interval")))
    with_protocol = frame["protocol"].nunique() > 1
    names = ["/".join(key if with_protocol else key[1:]) for key in keys]
    cells = {
        (name, *key): verdict
        for name, *key, verdict in records(frame, "id", "protocol", "selection", "interval", "verdict")
    }
    lines: list[str | Grid] = [
        f"Verdicts against {multiverse.source} under {len(keys)} analyses (selection rule/interval).",
        "",
    ]
    rows = [["id", "supporting", *map(str, range(1, len(keys) + 1)), "claim"]]
    for name, decided, share in zip(shares.index, shares["decided"], shares["share_supporting"], strict=True):
        supporting = f"{share:.0%} of {int(decided)}" if decided else "-"
        symbols = [SYMBOLS.get(cells.get((name, *key), ""), " ") for key in keys]
        rows.append([str(name), supporting, *symbols, CLAIMS[name].short])
    lines += [
        Grid(rows),
        "",
        f"{', '.join(f'{symbol} {name}' for name, symbol in SYMBOLS.items())}; blank: not among that analysis.",
        "",
        *(f"{number:3d}  {name}" for number, name in enumerate(names, start=1)),
    ]
    if not multiverse.gaps.empty:
        gaps = [["size", "dataset", "rule", "MLM", "CLM", "gap", "from"]]
        for row in multiverse.gaps.to_dict("records"):
            origin = (
                "{0[mlm_from]}"
                if row["mlm_from"] == row["clm_from"]
                else "MLM {0[mlm_from]}; CLM {0[clm_from]}"
            )
            gaps.append([text.format(row) for text in (*_GAP, origin)])
        lines += [
            "",
            "The MLM-CLM gap in points by dataset and selection rule (+- is the paper's interval):",
            "",
            Grid(gaps),
            "",
            "A published cell was made with the seed-wise rule and does not move with the rule in its row.",
        ]
    if multiverse.forks is not None:
        lines += ["", *forks_lines(multiverse.forks, wanted)]
    return lines


def forks_lines(forks: Forks, wanted: Sequence[str]) -> list[str | Grid]:
    """Return the shares of valid and of invalid analyses behind each claim, and the changes that change a verdict."""
    of_claim = forks.analyses[forks.analyses["id"] == forks.analyses["id"].iloc[0]]
    valid = int(of_claim["valid"].sum())
    rows = [["id", "valid: supported", "contradicted", "invalid: supported", "contradicted", "claim"]]
    for name in wanted:
        held = forks.shares.loc[name]
        parts = [
            held[f"{word}_{way}"] for word in ("valid", "invalid") for way in ("supported", "contradicted")
        ]
        rows.append([name, *(f"{part:.0%}" for part in parts), CLAIMS[name].short])
    lines: list[str | Grid] = [
        f"{valid} valid analyses, {len(of_claim) - valid} invalid ones (too narrow an interval, no adjustment, a "
        "weaker claim):",
        "",
        Grid(rows),
        *_fewer(forks),
        "",
        "Single changes to the package's analysis that change a verdict:",
        "",
    ]
    changes = [["id", "changes"]]
    for name in wanted:
        words = [
            f"{fork} {option}: {state}{'' if fine else ' (invalid)'}"
            for fork, option, state, fine in forks.flips[name]
        ]
        changes.append([name, "; ".join(words) or "none"])
    return [*lines, Grid(changes)]


def _fewer(forks: Forks) -> list[str]:
    """Return a sentence on the claims that have fewer analyses than the first."""
    counts = forks.analyses["id"].value_counts(sort=False)
    names = ", ".join(name for name in CLAIMS if counts.get(name, 0) < counts.iloc[0])
    return (
        ["", f"{names}: without the analyses that leave a dataset out, which a spread keeps."]
        if names
        else []
    )


def _verdicts(multiverse: Multiverse, wanted: Sequence[str]) -> pd.DataFrame:
    return multiverse.verdicts[multiverse.verdicts["id"].isin(wanted)]


def _shares(multiverse: Multiverse, wanted: Sequence[str]) -> pd.DataFrame:
    return multiverse.shares().loc[[name for name in CLAIMS if name in wanted]]
