"""The standard protocol's score of a run, from the manifest that `benchmarks` writes next to `results.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.protocol import DATASETS
from benchmarks.results_json import ResultsError
from benchmarks.runs import RUN, SPLITS, RunKey
from common.plain_text import visible

__all__ = ["read_standard"]


def read_standard(record: Mapping[str, Any], key: RunKey) -> tuple[float, float]:
    """Return the validation and the test score of a run by its dataset's headline metric, in [0, 1].

    Args:
        record: the run's manifest (`benchmarks.runs.read_run`); empty where it has none.
        key: the run.

    Raises:
        ResultsError: no manifest, or one without that metric, or of another run.
    """
    if not record:
        raise ResultsError(
            "standard", f"holds no {RUN}, so its standard metrics are not known; evaluate it with benchmarks"
        )
    dataset = DATASETS[key.dataset]
    metric = dataset.headline
    for name in ("dataset", "lr", "seed"):
        if name in record and record[name] != getattr(key, name):
            raise ResultsError(
                "standard",
                f"has a {RUN} of another run: its {name} is {visible(str(record[name])[:60])}, "
                f"not {getattr(key, name)}",
            )
    # A correlation, which only datasets of one's own have, can be negative.
    least = 0 if dataset.in_paper else -1
    validation, test = (_score(record, split, metric, least) for split in SPLITS)
    return validation, test


def _score(record: Mapping[str, Any], split: str, metric: str, least: int) -> float:
    splits = record.get("standard")
    metrics = splits.get(split) if isinstance(splits, dict) else None
    value = metrics.get(metric) if isinstance(metrics, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ResultsError(
            "standard", f"has a {RUN} without standard.{split}.{metric}; evaluate the run again"
        )
    if not least <= value <= 1:
        raise ResultsError(
            "value", f"has a {RUN} with standard.{split}.{metric} = {value:g}, outside [{least}, 1]"
        )
    return float(value)
