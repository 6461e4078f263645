"""`python -m benchmarks status`: models x datasets, what is done, running, failed and missing, and the time left."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from benchmarks.protocol import DATASETS
from benchmarks.runs import cell_keys
from benchmarks.sweep.options import add_grid_options, grid_of, store_of
from benchmarks.sweep.run_state import failure, is_done, is_locked, lock_path, read_record
from common.errors import UserError, nearest
from common.old_parser import Parser

__all__ = ["CellStatus", "cell_status", "main"]


@dataclass(frozen=True, kw_only=True)
class CellStatus:
    """How far one cell is."""

    model: str
    """Model."""
    dataset: str
    """Dataset."""
    runs: int
    """Runs that belong to the cell."""
    done: int
    """Runs with results."""
    failed: dict[str, str]
    """Reason by run, for those that failed."""
    running: bool
    """Whether a process of this machine is at it."""
    seconds_left: float | None
    """Time that the missing runs will take at the pace of the finished ones; None while none is finished."""

    @property
    def missing(self) -> int:
        """Runs that are neither done nor failed."""
        return self.runs - self.done - len(self.failed)


def cell_status(
    store: Path, model: str, dataset: str, lrs: Sequence[float], seeds: Sequence[int]
) -> CellStatus:
    """Return how far a cell is. A fine-tuning that three retrieval datasets share counts in each of them."""
    keys = cell_keys(model, dataset, lrs, seeds)
    done = [key for key in keys if is_done(store, key)]
    failed = {key.folder.name: reason for key in keys if (reason := failure(store, key)) is not None}
    times = [sum(seconds.values()) for key in done if (seconds := read_record(store, key).get("seconds"))]
    missing = len(keys) - len(done) - len(failed)
    return CellStatus(
        model=model,
        dataset=dataset,
        runs=len(keys),
        done=len(done),
        failed=failed,
        running=is_locked(lock_path(store, model, DATASETS[dataset].trained_on)),
        seconds_left=missing * fmean(times) if times else (0.0 if not missing else None),
    )


def main(argv: Sequence[str]) -> int:
    """Print the state of a store; the exit code is 0 when all is done, 3 with failed and 4 with missing runs."""
    parser = Parser(
        prog="python -m benchmarks status",
        description="Show what a run store holds: runs done of those that belong to each cell.",
        epilog="12/30 runs are done; * a process is at it; !2 two failed (their reasons stand below).\n"
        "left: time to compute what is missing, one run after another; less where runs go side by side.\n"
        "exit code: 0 all done; 3 some failed; 4 some missing.",
    )
    parser.add_argument(
        "--model", nargs="+", action="extend", metavar="NAME", help="default: all in the store"
    )
    add_grid_options(parser, data=False)
    parser.add_argument("--json", action="store_true", help="print one JSON list of cells")
    options = parser.parse_args(argv)
    datasets, lrs, seeds = grid_of(options)
    store = store_of(options.out)
    cells = [
        cell_status(store, model, dataset, lrs, seeds)
        for model in _models(store, options.model)
        for dataset in datasets
    ]
    if options.json:
        print(json.dumps([{**dataclasses.asdict(cell), "missing": cell.missing} for cell in cells], indent=1))
    else:
        print(_table(cells, datasets))
    if any(cell.missing for cell in cells):
        return 4
    return 3 if any(cell.failed for cell in cells) else 0


def _models(store: Path, wanted: Sequence[str] | None) -> list[str]:
    folder = store / "results"
    found = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if not found:
        raise UserError(
            f"{folder} holds no runs; name the store with --out, or start with `python -m benchmarks run`"
        )
    for name in wanted or ():
        if name not in found:
            raise UserError(f"{folder} has no model {name!r}{nearest(name, found)}")
    return list(wanted) if wanted else found


def _table(cells: Sequence[CellStatus], datasets: Sequence[str]) -> str:
    rows = [["model", *datasets, "left"]]
    for model in dict.fromkeys(cell.model for cell in cells):
        own = [cell for cell in cells if cell.model == model]
        rows.append([model, *(_word(cell) for cell in own), _left(own)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(w.rjust(n) for w, n in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
    for cell in cells:
        lines += [f"failed: {cell.model} {cell.dataset} {run}: {why}" for run, why in cell.failed.items()]
    total = sum(cell.runs for cell in cells)
    done, failed = sum(cell.done for cell in cells), sum(len(cell.failed) for cell in cells)
    lines.append(f"{done} of {total} runs done, {failed} failed, {total - done - failed} missing")
    return "\n".join(line.rstrip() for line in lines)


def _word(cell: CellStatus) -> str:
    word = "done" if cell.done == cell.runs else f"{cell.done}/{cell.runs}"
    return word + (f"!{len(cell.failed)}" if cell.failed else "") + ("*" if cell.running else "")


def _left(cells: Sequence[CellStatus]) -> str:
    known = [cell.seconds_left for cell in cells if cell.seconds_left is not None]
    hours = sum(known) / 3600
    words = f"{hours:.1f} h" if hours >= 1 or not hours else f"{hours * 60:.0f} min"
    return words if len(known) == len(cells) else f"{words} + ?"
