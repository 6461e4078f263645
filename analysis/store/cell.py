"""Reading one cell of a run store: the unit of work that `ingest` spreads over processes and remembers.

Reading processes import this module and no pandas, so that they start quickly.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analysis.store.instances import RunScores, write_cell
from analysis.store.problems import Problem
from analysis.store.scan import Cell, RunFiles, Stamp
from analysis.store.standard_scores import read_standard
from benchmarks.protocol import PAPER
from benchmarks.results_json import ResultsError, read_results
from benchmarks.runs import AGAIN, RESULTS, RUN, RunKey, read_run
from common.errors import UserError
from common.manifest import FILES

__all__ = ["CellResult", "Run", "read_cell"]

_SETTLED_NS = 2_000_000_000
"""A file younger than this is read again next time: a clock tick may hide a second write."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A usable run; the fields are columns of the runs table (`analysis.store.runs_table`), but for `folder`."""

    folder: str
    """Name of its folder."""
    lr: float
    seed: int
    validation_score: float
    test_score: float
    n_validation: int
    n_test: int

    @property
    def counts(self) -> tuple[int, int]:
        """Validation and test instances."""
        return self.n_validation, self.n_test


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """What a cell's files hold."""

    name: str
    """`model/task/dataset`."""
    files: tuple[RunFiles, ...]
    """As they were when the store was scanned."""
    settled: bool
    """Whether equal stamps next time mean equal content."""
    runs: tuple[Run, ...]
    """The usable runs, by learning rate and seed."""
    problems: tuple[Problem, ...] = ()
    """Their paths are relative to `results`."""
    instances: Stamp | None = None
    """The instances file; None when none was written."""


def read_cell(results: Path, cell: Cell, instances: Path | None, protocol: str = PAPER) -> CellResult:
    """Read all runs of a cell by a protocol, and write their per-instance scores when a folder is given for them.

    Of the `standard` protocol only the runs' scores are read; their instances are those of `paper`.
    """
    now = time.time_ns()
    problems: list[Problem] = []
    runs: dict[RunKey, Run] = {}
    scores: list[RunScores] = []
    for key, files in _usual_names_first(cell):
        below = f"{cell.name}/{files.folder}"
        try:
            run, run_scores = _read_run(results / below, key, protocol)
        except ResultsError as error:
            path = below if error.kind == "standard" else f"{below}/{RESULTS}"
            problems.append(Problem(path=path, kind=error.kind, sentence=error.sentence))
            continue
        first = runs.setdefault(key, run)
        if first is run:
            scores.append(run_scores)
        else:
            problems.append(Problem(path=below, kind="duplicate", sentence=_is_again(first, run)))
    written = None
    if instances is not None and runs:
        written = Stamp.of(write_cell(instances, cell.model, cell.dataset, scores).stat())
    stamps = [stamp for files in cell.runs for stamp in (files.results, files.record) if stamp is not None]
    return CellResult(
        name=cell.name,
        files=cell.runs,
        settled=all(now - max(stamp.modified, stamp.changed) > _SETTLED_NS for stamp in stamps),
        runs=tuple(runs[key] for key in sorted(runs)),
        problems=tuple(sorted(problems)),
        instances=written,
    )


def _read_run(folder: Path, key: RunKey, protocol: str) -> tuple[Run, RunScores]:
    record = _manifest(folder)
    validation, test = read_results(folder / RESULTS, _hash_of_results(record))
    paper = validation.score, test.score
    scores = paper if protocol == PAPER else read_standard(record, key)
    run = Run(
        folder=folder.name,
        lr=key.lr,
        seed=key.seed,
        validation_score=scores[0],
        test_score=scores[1],
        n_validation=len(validation.scores),
        n_test=len(test.scores),
    )
    return run, RunScores(lr=key.lr, seed=key.seed, validation=validation.scores, test=test.scores)


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        return read_run(folder)
    except UserError:
        raise ResultsError("changed", f"has a {RUN} that was changed or damaged; {AGAIN}") from None


def _hash_of_results(record: dict[str, Any]) -> str | None:
    """Return the hash that a run recorded, none for a run without a manifest, as in the release."""
    return record.get(FILES, {}).get(RESULTS, "") if record else None


def _usual_names_first(cell: Cell) -> list[tuple[RunKey, RunFiles]]:
    """Return the runs, those whose folders are spelt as in the release first: of two spellings they count."""
    keyed = [
        (RunKey(model=cell.model, dataset=cell.dataset, lr=files.lr, seed=files.seed), files)
        for files in cell.runs
    ]
    return sorted(keyed, key=lambda pair: (pair[1].folder != pair[0].folder.name, pair[1].folder))


def _is_again(first: Run, run: Run) -> str:
    same = replace(run, folder=first.folder) == first
    how = "with the same scores"
    if not same:
        how = f"whose test score is {first.test_score:.4f}, not {run.test_score:.4f}"
    return f"is the run of {first.folder} again, {how}; remove one of them"
