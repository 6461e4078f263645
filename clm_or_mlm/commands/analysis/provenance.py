"""`python -m analysis provenance`: whether the runs of a store may stand in one table, and which failed and why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from analysis.tables.provenance import audit_provenance, provenance_json, provenance_text

__all__ = ["provenance"]


def provenance(
    store: Path,
    /,
    *,
    logs: Annotated[Path | None, Parameter(metavar="DIR")] = None,
    json: bool = False,
) -> int:
    """Compare what the runs of a store were made with, and list failed runs with the ends of their logs.

    Exit status: 0 all agree; 1 some differ.

    Args:
        store: a run store, or its results folder
        logs: the workflow's logs (default: logs next to results)
        json: print JSON
    """
    result = audit_provenance(store, logs)
    sys.stdout.write((provenance_json if json else provenance_text)(result))
    return 1 if result.mismatches else 0
