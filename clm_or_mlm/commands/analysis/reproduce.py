"""`python -m analysis reproduce`: all that a source allows, ending with what was made and what could not be."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from analysis.statistics.selection import SELECTIONS
from clm_or_mlm import reproduce as reproduction
from clm_or_mlm.options import SourceOptions

__all__ = ["reproduce"]


def reproduce(
    *,
    source: SourceOptions = SourceOptions(),
    selection: Annotated[str, Parameter(choices=tuple(SELECTIONS))] = "seed",
    logs: Annotated[Path | None, Parameter(metavar="DIR")] = None,
    out: Annotated[Path, Parameter(metavar="DIR")] = Path("build"),
) -> int:
    """Make every table and figure that the source allows, and the audit.

    The last lines printed list what was made and what could not be, with reasons.

    Args:
        selection: learning-rate rule
        logs: training logs, for Figure 12
        out: folder that everything is written to
    """
    opened = source.open(need_instances=True)
    outcome = reproduction.reproduce(opened, out, selection=selection, logs=logs)
    sys.stdout.write(outcome.text(out))
    return 0
