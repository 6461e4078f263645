"""`python -m analysis sensitivity`: what would overturn each verdict."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from analysis.sensitivity import report
from clm_or_mlm.options import OutFile, ScoreOptions, SourceOptions
from common.tables import PRINTED, write

__all__ = ["sensitivity"]


def sensitivity(
    *,
    source: SourceOptions = SourceOptions(),
    score: ScoreOptions = ScoreOptions(),
    format: Annotated[str, Parameter(choices=PRINTED)] = "text",
    out: OutFile = None,
) -> None:
    """Print what would overturn each verdict on the paper's findings.

    How far pretraining a model again would have to move its scores; how two models' seeds would have to be correlated
    (which printed cells do not show); and which other margins, adjustments, readings, datasets or intervals change it,
    valid analyses and invalid ones apart. It starts from the verdicts of `claims`: studentised for runs and t for the
    published cells, unless --interval names another.

    Args:
        format: how it is written; csv has one row a claim and analysis
    """
    opened = source.open(need_instances=score.needs_instances())
    result = report.sensitivity_of(opened, score.settings(opened))
    write(report.sensitivity_document(result), format, out)
