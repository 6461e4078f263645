"""`python -m benchmarks status`."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from benchmarks.sweep.request import store_of
from benchmarks.sweep.status import grid_status, status_code, status_json, status_table
from clm_or_mlm.commands.benchmarks.options import GridOptions
from common.cli import MANY

__all__ = ["status"]


def status(
    *,
    model: Annotated[tuple[str, ...], MANY, Parameter(metavar="NAME")] = (),
    grid: GridOptions = GridOptions(),
    json: bool = False,
) -> int:
    """Show what a run store holds: runs done of those that belong to each cell.

    12/30 runs are done; * a process is doing it; !2 two failed (their reasons are below).
    left: time to compute what is missing, one run after another; less where runs are computed side by side.
    exit code: 0 all done; 3 some failed; 4 some missing.

    Args:
        model: default: all in the store
        json: print one JSON list of cells
    """
    datasets, lrs, seeds = grid.grid()
    cells = grid_status(store_of(grid.out), model, datasets, lrs, seeds)
    sys.stdout.write((status_json(cells) if json else status_table(cells, datasets)) + "\n")
    return status_code(cells)
