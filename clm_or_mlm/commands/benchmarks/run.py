"""`python -m benchmarks run`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from analysis.statistics.scores import Settings, run_scores
from benchmarks.protocol import AVERAGE
from benchmarks.runs import RunKey
from benchmarks.sweep.run import run_grid
from benchmarks.sweep.run_state import read_score
from clm_or_mlm.commands.benchmarks.options import RunOptions

__all__ = ["run", "score_lines"]

log = logging.getLogger(__name__)


def run(*, options: RunOptions, retry_failed: bool = False) -> int:
    """Fine-tune a model with the paper's protocol and write its runs.

    exit code: 0 all runs are there; 3 some failed; 4 some are being done by another process;
    2 wrong input; 130 interrupted. The same command resumes where an earlier one stopped.

    Args:
        retry_failed: try runs that failed again
    """
    request = options.request(retry_failed=retry_failed)
    state = run_grid(request)
    for key, reason in state.failed.items():
        log.warning("failed: %s: %s", key.folder, reason)
    lines = list(score_lines(request.store, state.done))
    lines.sort(key=lambda line: request.datasets.index(line.split()[0]))
    done, failed = len(state.done), len(state.failed)
    total = done + failed + state.missing
    lines.append(f"{request.name}: {done} of {total} runs done, {failed} failed, {state.missing} left")
    sys.stdout.write("\n".join(lines) + "\n")
    return state.exit_code


def score_lines(store: Path, keys: Sequence[RunKey]) -> Iterator[str]:
    """Yield a line for each dataset with its score by the paper's rule, from the runs that are done."""
    rows = [
        {"model": key.model, "task": key.task, "dataset": key.dataset, "lr": key.lr, "seed": key.seed,
         "validation_score": score[0], "test_score": score[1]}
        for key in keys if (score := read_score(store, key)) is not None
    ]  # fmt: skip
    if not rows:
        return
    scores = run_scores(pd.DataFrame(rows), Settings(), source=str(store))
    for row in scores[scores["dataset"] != AVERAGE].to_dict("records"):
        half = f" +- {(row['high'] - row['low']) / 2:.2f}" if row["n_seeds"] > 1 else ""
        over = f"{row['n_seeds']} seeds, each" if row["n_seeds"] > 1 else "1 seed,"
        yield f"{row['dataset']:14}{row['mean']:6.2f}{half}  ({over} at its best validation score)"
