"""`clm-or-mlm claims` and `sensitivity`: a verdict on each finding of the paper, and what would overturn it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from analysis.claims.assessment import assess
from analysis.claims.catalogue import FINDINGS
from analysis.claims.pages.dataset_tables import datasets_document
from analysis.claims.pages.explain import verdicts_document
from analysis.evidence.evidence import Settings
from analysis.options import OutFile, SourceOptions
from analysis.sensitivity.forks import explore
from analysis.sensitivity.sensitivity_page import multiverse_document, sensitivity_document, sensitivity_of
from analysis.sources import standard_of
from common.cli import MANY, offered
from common.errors import UserError, nearest
from common.tables import PRINTED, write

__all__ = ["claims", "sensitivity"]

_SHOWN = "what to show"
if TYPE_CHECKING:
    FindingName = str
else:
    FindingName = offered(FINDINGS)


def claims(
    *,
    source: SourceOptions = SourceOptions(),
    score: Settings = Settings(),
    id: Annotated[tuple[FindingName, ...], MANY, Parameter(metavar="F8", group=_SHOWN)] = (),
    explain: Annotated[bool, Parameter(group=_SHOWN)] = False,
    datasets: Annotated[bool, Parameter(group=_SHOWN)] = False,
    multiverse: Annotated[bool, Parameter(group=_SHOWN)] = False,
    format: Annotated[str, Parameter(choices=PRINTED, group=_SHOWN)] = "text",
    out: Annotated[OutFile, Parameter(group=_SHOWN)] = None,
) -> None:
    """Judge the paper's findings F1-F15 against a source of scores.

    For each finding, it prints a grade and how many of its contrasts are shown to hold or to fail (docs/claims.md). The
    published cells are enough for most findings; F7 and F10 need individual runs. The interval determines the test:
    pooled for runs, t for the published cells, or the one that --interval names (crossed also covers test instances).

    examples:
      clm-or-mlm claims
      clm-or-mlm claims --id F8 --explain
      clm-or-mlm claims --source miniature --multiverse

    Args:
        id: show only this finding (may be repeated); F5 means F5a to F5e
        explain: show the contrasts, the numbers used and the reasoning
        datasets: show each finding's contrasts by dataset, how much the datasets differ, and which contrasts
            depend on a single dataset
        multiverse: show every verdict under every selection rule and interval, under both protocols if the runs
            have both, and the choices of these and of the adjustment that alter a verdict
        format: output format; with --explain, csv has one row per contrast
    """
    wanted = choose(id)
    opened = source.open(need_instances=multiverse or score.method.needs_instances)
    settings = opened.with_interval(score)
    if datasets and (multiverse or explain):
        raise UserError("--datasets cannot be combined with --explain or --multiverse; use one of them")
    if multiverse and not opened.comparable and opened.stand_ins is None:
        raise UserError("--multiverse already compares both protocols; leave `standard:` out of --source")
    if multiverse:
        document = multiverse_document(explore(opened, settings, standard=standard_of(opened)), wanted)
    else:
        assessment = assess(opened, settings)
        shown = [verdict for verdict in assessment.verdicts if verdict.finding.id in wanted]
        if datasets:
            document = datasets_document(assessment, shown)
        else:
            document = verdicts_document(assessment, shown, explain=explain)
    write(document, format, out)


def choose(ids: Sequence[str] | None) -> list[str]:
    """Return the ids of the findings to show; `F5` stands for F5a to F5e, case does not matter.

    Raises:
        UserError: no such finding.
    """
    if not ids:
        return list(FINDINGS)
    known = {name.lower(): name for name in FINDINGS}
    wanted: list[str] = []
    for given in ids:
        name = given.strip().lower()
        group = [full for low, full in known.items() if low == name or low.rstrip("abcde") == name]
        if not group:
            raise UserError(
                f"unknown finding {given!r}; the findings are {', '.join(FINDINGS)}{nearest(given.upper(), FINDINGS)}"
            )
        wanted += group
    return [name for name in FINDINGS if name in wanted]


def sensitivity(
    *,
    source: SourceOptions = SourceOptions(),
    score: Settings = Settings(),
    format: Annotated[str, Parameter(choices=PRINTED)] = "text",
    out: OutFile = None,
) -> None:
    """Print what would overturn each verdict on the paper's findings.

    It prints how far another pretraining would have to move scores to overturn a verdict, for models with and without a
    shared trunk, and the spread between pretrainings that others measured. It lists the other protocols, selection
    rules, intervals and adjustments that change a verdict. It starts from the verdicts of `claims`, which use the
    pooled interval for runs and t for the published cells, unless --interval names another. For runs of models that
    were pretrained more than once (NAME, NAME-s1, NAME-s2), it also prints how much a score varies with the
    pretraining, fine-tuning seed, test set and dataset, and what more pretrainings or seeds would buy.

    example: clm-or-mlm sensitivity --format markdown --out sensitivity.md

    Args:
        format: output format; csv has one row per finding and analysis
    """
    opened = source.open(need_instances=score.method.needs_instances)
    result = sensitivity_of(opened, opened.with_interval(score))
    write(sensitivity_document(result), format, out)
