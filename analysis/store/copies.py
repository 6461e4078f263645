"""Runs that are copies of each other: a made-up replicate, one model's runs under another's name, seeds without effect.

Two fine-tunings never make the same mistakes on hundreds of instances, unless neither looks at its input: a collapsed
run predicts one class, no entity or no answer for all, whatever its model and seed. In the release that is so for the
first checkpoints of Table 8 on SQuAD, SQuAD v2 and ReCoRD. So equal scores count as a copy where they are better than
any prediction that is the same for all inputs, and where enough instances could have gone the other way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.store.cell import CellResult
from benchmarks.protocol import Dataset

__all__ = ["blind_score", "copies"]

_ENOUGH = 100
"""Instances right, and wrong, at least: runs that share four of five mistakes share as many by a chance of 2e-10."""

_BLIND = {"sst2": 0.56, "mnli_m": 0.36, "qqp": 0.64, "squad_v2": 0.52}
_BLIND_IN = {"SC": 0.75, "TC": 0.8, "QA": 0.1, "IR": 0.1}


def blind_score(dataset: Dataset, count: int) -> float:
    """Return the most that a prediction which is the same for all of `count` inputs scores, on the high side.

    Shares of the largest class, and in SQuAD v2 of questions without an answer, of both splits, and four standard
    deviations of a sample's share. The families' own are for data that are not known: sentences without an entity, and
    with one all of whose words are tagged O, in TC.
    """
    return _BLIND.get(dataset.name, _BLIND_IN[dataset.task]) + 2 / math.sqrt(count)


def copies(results: Sequence[CellResult]) -> dict[str, str]:
    """Return runs that have the results of another run, each with that one; both by their folders below `results`.

    Equal losses and standard metrics (details.json), of runs that have them, are a copy whatever the scores.
    """
    seen: dict[tuple[object, ...], str] = {}
    found: dict[str, str] = {}
    for result in results:
        dataset = result.cell.dataset
        for run in result.runs:
            path = f"{result.cell.name}/{run.folder}"
            counts, scores = (run.n_validation, run.n_test), (run.validation_score, run.test_score)
            keys: list[tuple[object, ...]] = [(dataset.name, run.details)] if run.details else []
            for split, (n, score, mark) in enumerate(zip(counts, scores, run.marks, strict=True)):
                if n * min(score, 1 - score) >= _ENOUGH and score > blind_score(dataset, n):
                    keys.append((dataset.name, split, n, score, mark))
            for key in keys:
                if (first := seen.setdefault(key, path)) != path:
                    found.setdefault(path, first)
                    found.setdefault(first, path)
    return found
