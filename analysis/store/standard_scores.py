"""The standard protocol's score of a run, from the `run.json` that `benchmarks` writes next to `results.json`."""

from __future__ import annotations

from pathlib import Path

from benchmarks.protocol import DATASETS
from benchmarks.results_json import AGAIN, ResultsError
from benchmarks.runs import MOST_RECORD, RUN, SPLITS, RunKey
from common.files import sha256_bytes
from common.plain_text import visible
from common.reading import BadJsonError, UnreadableError, read_bounded, strict_json

__all__ = ["read_standard"]


def read_standard(folder: Path, key: RunKey, sha256: str | None = None) -> tuple[float, float]:
    """Return the validation and the test score of a run by its dataset's headline metric, in [0, 1].

    Args:
        folder: the run's.
        key: the run.
        sha256: what its provenance recorded of the file; None where nothing is recorded.

    Raises:
        ResultsError: no `run.json`, or one without that metric, of another run, or changed since it was written.
    """
    try:
        text = read_bounded(folder / RUN, MOST_RECORD)
        content = strict_json(text)
    except FileNotFoundError:
        raise ResultsError(
            "standard", f"holds no {RUN}, so its standard metrics are not known; evaluate it with benchmarks"
        ) from None
    except UnreadableError as error:
        raise ResultsError("unreadable", f"has a {RUN} that {error.reason}") from None
    except BadJsonError as error:
        raise ResultsError("standard", f"has a {RUN} that is no JSON ({error}); {AGAIN}") from None
    if sha256 is not None and sha256_bytes(text) != sha256:
        raise ResultsError("changed", f"has a {RUN} that is not what its run wrote; {AGAIN}")
    dataset = DATASETS[key.dataset]
    metric = dataset.headline
    content = content if isinstance(content, dict) else {}
    for name in ("dataset", "lr", "seed"):
        if name in content and content[name] != getattr(key, name):
            raise ResultsError(
                "standard",
                f"has a {RUN} of another run: its {name} is {visible(str(content[name])[:60])}, "
                f"not {getattr(key, name)}",
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
