"""A run with nothing but its results.json, as the release has them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.runs import RESULTS, RunKey, results_text
from common.files import write_text


def write_results(
    store: Path, key: RunKey, scores: Mapping[str, Sequence[float]]
) -> Path:
    path = store / "results" / key.folder / RESULTS
    write_text(path, results_text(scores))
    return path
