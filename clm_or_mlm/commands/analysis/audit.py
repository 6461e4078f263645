"""`python -m analysis audit`: every published cell against its runs, and the paper's own arithmetic."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from analysis.tables import audit as audits
from analysis.tables.audit_report import FORMATS, runs_of_stand_ins, verdict
from clm_or_mlm.options import Selection, SourceOptions
from clm_or_mlm.output import OutFile, write_or_print

__all__ = ["audit"]


def audit(
    *,
    source: SourceOptions = SourceOptions(),
    selection: Selection = "seed",
    format: Annotated[str, Parameter(choices=tuple(FORMATS))] = "markdown",
    out: OutFile = None,
) -> int:
    """Compare all 800 published cells with what a source's runs give, and redo the paper's own arithmetic.

    Exit status: 0 when no cell differs, 1 when one does, 2 for a mistake in the call.

    Args:
        selection: learning-rate rule
        format: how it is written
        out: write there instead of to standard output
    """
    opened = source.open()
    if opened.stand_ins is not None:
        sys.stdout.write(runs_of_stand_ins(opened))
        return 0
    result = audits.audit(opened, selection=selection)
    write_or_print(FORMATS[format].show(result), out)
    if out is not None:
        sys.stdout.write(f"{out}: {verdict(result)}\n")
    return 1 if result.differs else 0
