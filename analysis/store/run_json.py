"""The standard protocol's score of a run, from the `run.json` that `benchmarks` writes next to `results.json`."""

from __future__ import annotations

from pathlib import Path

import orjson

from analysis.store.results_json import ResultsError
from benchmarks.protocol import DATASETS
from benchmarks.runs import RUN, SPLITS, RunKey

__all__ = ["read_standard"]


def read_standard(folder: Path, key: RunKey) -> tuple[float, float]:
    """Return the validation and the test score of a run by its dataset's headline metric, in [0, 1].

    Raises:
        ResultsError: no `run.json`, or one without that metric or of another run.
    """
    try:
        content = orjson.loads((folder / RUN).read_bytes())
    except FileNotFoundError:
        raise ResultsError(
            "standard", f"holds no {RUN}, so its standard metrics are not known; evaluate it with benchmarks"
        ) from None
    except OSError as error:
        raise ResultsError("unreadable", f"has a {RUN} that cannot be read ({error.strerror})") from None
    except orjson.JSONDecodeError:
        raise ResultsError("standard", f"has a {RUN} that is no JSON; evaluate the run again") from None
    dataset = DATASETS[key.dataset]
    metric = dataset.headline
    content = content if isinstance(content, dict) else {}
    for name in ("dataset", "lr", "seed"):
        if name in content and content[name] != getattr(key, name):
            raise ResultsError(
                "standard",
                f"has a {RUN} of another run: its {name} is {content[name]}, not {getattr(key, name)}",
            )
    # A correlation, which only datasets of one's own have, can be negative.
    least = 0 if dataset.in_paper else -1
    validation, test = (_score(content, split, metric, least) for split in SPLITS)
    return validation, test


def _score(content: dict[str, object], split: str, metric: str, least: int) -> float:
    splits = content.get("standard")
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
