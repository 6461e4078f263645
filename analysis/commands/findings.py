"""`clm-or-mlm claims` and `sensitivity`: a verdict on each finding of the paper, and what would overturn it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from analysis.claims.titles import ANSWER, TITLES
from analysis.evidence.settings import Settings
from analysis.options import OutFile, SourceOptions
from common.cli import offered
from common.errors import UserError, nearest
from common.tables import PRINTED, write

_NAMES = [ANSWER, *TITLES]
_SHOWN = "what to show"
if TYPE_CHECKING:
    FindingName = str
else:
    FindingName = offered(_NAMES)


def claims(
    findings: Annotated[
        tuple[FindingName, ...], Parameter(show_choices=False, show_default=False)
    ] = (),
    /,
    *,
    source: SourceOptions = SourceOptions(),
    score: Settings = Settings(),
    replicates: bool = False,
    explain: Annotated[bool, Parameter(group=_SHOWN)] = False,
    format: Annotated[str, Parameter(choices=PRINTED, group=_SHOWN)] = "text",
    out: Annotated[OutFile, Parameter(group=_SHOWN)] = None,
) -> None:
    """Judge the paper's findings F1-F17 against a source of scores.

    For each finding, and for the statement that answers the paper's question, it prints a verdict (holds, fails, holds
    in k of n, or open) and how many of its contrasts are shown to hold or to fail (docs/claims.md). The published cells
    are enough for most findings; F7 and F10 need individual runs. The interval determines the test: pooled for runs, t
    for the published cells, or the one that --interval names (crossed also covers test instances).

    examples:
      clm-or-mlm claims
      clm-or-mlm claims F8 --explain
      clm-or-mlm claims --source curves --replicates

    Args:
        findings: show only these; F5 means F5a to F5e
        replicates: test over pretrainings, of the models that were pretrained several times (NAME, NAME-s1, NAME-s2)
        explain: show the contrasts, the numbers used and the reasoning
        format: output format; with --explain, csv has one row per contrast
    """
    # Before a source is opened, so that an unknown name is refused at once.
    wanted = choose(findings)
    from analysis.claims.assessment import assess
    from analysis.claims.pages.explain import verdicts_document

    opened = source.open(need_instances=score.method.needs_instances)
    if replicates:
        from analysis.comparisons.comparison import source_of_arms

        opened = source_of_arms(opened, score.selection)
    assessment = assess(opened, opened.with_interval(score))
    write(verdicts_document(assessment, wanted, explain=explain), format, out)


def choose(ids: Sequence[str] | None) -> list[str]:
    """Return the ids of the findings to show, in their usual order; none stand for all.

    `F5` stands for F5a to F5e, and case does not matter.

    Raises:
        UserError: no such finding.
    """
    if not ids:
        return _NAMES
    chosen: list[str] = []
    for word in ids:
        lower = word.strip().lower()
        matching = []
        for name in _NAMES:
            without_letter = name.lower().rstrip("abcde")  # f5 for F5a
            if lower in (name.lower(), without_letter):
                matching.append(name)

        if not matching:
            raise UserError(
                f"unknown finding {word!r}; the findings are {', '.join(_NAMES)}{nearest(word.upper(), _NAMES)}"
            )

        chosen += matching

    return [name for name in _NAMES if name in chosen]


def sensitivity(
    *,
    source: SourceOptions = SourceOptions(),
    score: Settings = Settings(),
    format: Annotated[str, Parameter(choices=PRINTED)] = "text",
    out: OutFile = None,
) -> None:
    """Print what would overturn each verdict on the paper's findings.

    It prints how far another pretraining would have to move scores to overturn a verdict, for models with and without a
    shared trunk, next to the spread between pretrainings that others measured. It starts from the verdicts of `claims`,
    which use the pooled interval for runs and t for the published cells, unless --interval names another. The spread
    of your own pretrainings is in `compare --replicates`.

    example: clm-or-mlm sensitivity --format markdown --out sensitivity.md

    Args:
        format: output format; csv has one row per finding and sharing
    """
    from analysis.sensitivity.sensitivity_page import (
        sensitivity_document,
        sensitivity_of,
    )

    opened = source.open(need_instances=score.method.needs_instances)
    result = sensitivity_of(opened, opened.with_interval(score))
    write(sensitivity_document(result), format, out)
