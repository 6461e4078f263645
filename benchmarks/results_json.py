"""One `results.json`: its two scores and their per-instance parts, or the reason why it cannot be used."""

from __future__ import annotations

import contextlib
import reprlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from benchmarks.protocol import PAPER, STANDARD, Dataset
from benchmarks.runs import RERUN, RUN, SCORED_SPLITS
from common.files import sha256_bytes
from common.reading import (
    BadJsonError,
    ChangingError,
    UnreadableError,
    read_bounded,
    strict_json,
)

MEAN_TOLERANCE = 1e-6
"""Largest accepted distance between `score` and the mean of `scores_i`: room for a mean taken in float32, a
hundredth of what the paper's two decimals in percent can show."""

_LATER = "ingest again when its run is done"
_QUOTES = 2 * (len(SCORED_SPLITS) + 2 * 2)
"""Quotation marks of a file without other text than its six names: two splits, and `score` and `scores_i` of each."""
_RANGE_TOLERANCE = 1e-9
"""How far outside [0, 1] rounding may put a value: an NDCG of 1.0000000000000002 is 1."""


class ResultsError(Exception):
    """Why a file cannot be used: a kind of `analysis.store.scan.PROBLEM_KINDS` and a sentence without the path."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence


@dataclass(frozen=True, kw_only=True)
class Split:
    """One evaluation of a run."""

    score: float
    """Mean over the instances, in [0, 1]."""
    scores: npt.NDArray[np.float64]
    """(n_instances,) in dataset order."""


def read_results(path: Path, sha256: str | None = None) -> tuple[Split, Split]:
    """Return the evaluations that a file holds, of validation and of test.

    Args:
        path: the file.
        sha256: what its run recorded of it; None where nothing is recorded, as in the release.

    Raises:
        ResultsError: the file is unreadable, changes while it is read, is no usable result, or is not the file that the
            run recorded.
    """
    try:
        content = read_bounded(path)
    except FileNotFoundError:
        if path.is_symlink():
            raise ResultsError(
                "unreadable",
                f"is a link to {path.readlink()}, which is missing; bring that back and ingest again",
            ) from None

        raise ResultsError(
            "unfinished", f"vanished while the store was being read; {_LATER}"
        ) from None
    except ChangingError:
        raise ResultsError(
            "unfinished", f"changed while it was being read; {_LATER}"
        ) from None
    except UnreadableError as error:
        raise ResultsError(
            "unreadable", f"{error.reason}; make it readable and ingest again"
        ) from None

    if sha256 is not None and sha256_bytes(content) != sha256:
        # A cut or broken file gets its own sentence from the parser, before that of the hash.
        _ = parse_results(content)
        raise ResultsError(
            "changed",
            f"is not what its run wrote: its hash differs from {RUN}'s; {RERUN}",
        )

    return parse_results(content)


def counted_scores(
    record: Mapping[str, Any],
    dataset: Dataset,
    protocol: str,
    results: tuple[float, float],
) -> tuple[float, float]:
    """Return the validation and the test score by which a run counts.

    Args:
        record: the run's manifest; empty where there is none, as in the release.
        dataset: the dataset that it was evaluated on.
        protocol: `paper`, `standard`, or the name of a metric in `run.json`.
        results: validation and test score in `results.json`, by the paper's metric.

    Raises:
        ResultsError: no manifest, or one without that metric.
    """
    # The paper has no metric for a dataset of one's own: by the paper's protocol as well, its runs are scored by the
    # standard metric that its definition names. Without a manifest, which has that, the score of results.json counts.
    has_own_metric = dataset.is_own and bool(record)
    if protocol == PAPER and not has_own_metric:
        return results
    if not record:
        raise ResultsError(
            "standard",
            f"has no {RUN}, so its standard metrics are unknown; evaluate the run again",
        )

    metric = dataset.headline if protocol in (PAPER, STANDARD) else protocol
    least = 0
    # A correlation can be negative. Metrics of a dataset of one's own, and one that is asked for by name, may be
    # correlations; the standard metrics of the paper's datasets are not.
    if dataset.is_own or protocol != STANDARD:
        least = -1
    found = []
    for split in SCORED_SPLITS:
        where = f"standard.{split}.{metric}"
        try:
            found.append(float(record[STANDARD][split][metric]))
        except (KeyError, TypeError, ValueError):
            # Where `protocol` is neither `paper` nor `standard`, it is a metric that the user named: say
            # which there are.
            if metric == protocol:
                metrics = dict(record.get(STANDARD, {})).get(split, ())
                held = ", ".join(metrics) or "none"
                raise ResultsError(
                    "left out", f"has no metric {metric!r}, only {held}"
                ) from None

            raise ResultsError(
                "standard", f"has a {RUN} without {where}; evaluate the run again"
            ) from None

        if not least <= found[-1] <= 1:
            raise ResultsError(
                "value",
                f"has a {RUN} with {where} = {found[-1]:g}, outside [{least}, 1]",
            )

    return found[0], found[1]


def parse_results(content: bytes) -> tuple[Split, Split]:
    """Return the evaluations that a file's content holds, of validation and of test.

    Raises:
        ResultsError: it is no JSON, lacks something, or its values contradict each other.
    """
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise _why_not_json(content) from None

    # NumPy counts four times as fast as bytes.count.
    is_quote = np.frombuffer(content, dtype=np.uint8) == ord('"')
    # With more quotes than the six names have, a name may be there twice, which only the strict parser finds.
    # With exactly as many, a name that is there twice has taken the place of another one, and `_split`
    # refuses the file because that other one is not there.
    if np.count_nonzero(is_quote) != _QUOTES:
        try:
            strict_json(content)
        except BadJsonError as error:
            raise ResultsError(
                "broken", f"is not a valid result ({error}); {RERUN}"
            ) from None

    # "true" has a u, "false" an f; no name or number of the file has either.
    may_hold_bools = b"u" in content or b"f" in content
    validation, test = SCORED_SPLITS
    return (
        _split(document, validation, may_hold_bools),
        _split(document, test, may_hold_bools),
    )


def _split(document: Any, name: str, may_hold_bools: bool) -> Split:
    """Return a split of a parsed file, or raise a `ResultsError` that says what is wrong with it."""
    try:
        score, entries = document[name]["score"], document[name]["scores_i"]
    except (KeyError, TypeError, IndexError):
        raise ResultsError(
            "incomplete", f"lacks {name!r} with score and scores_i; {RERUN}"
        ) from None

    if not isinstance(entries, list):
        raise ResultsError(
            "value",
            f"has {name}.scores_i = {reprlib.repr(entries)}, which is not a list",
        )

    if not entries:
        raise ResultsError("incomplete", f"has an empty {name}.scores_i; {RERUN}")
    values = _floats(entries, name, may_hold_bools)
    low, high = float(values.min()), float(values.max())
    is_below = low < -_RANGE_TOLERANCE
    if is_below or high > 1 + _RANGE_TOLERANCE:
        place = int(values.argmin() if is_below else values.argmax())
        raise ResultsError(
            "value", f"has {name}.scores_i[{place}] = {values[place]:g}, outside [0, 1]"
        )

    if isinstance(score, bool) or not isinstance(score, int | float):
        raise ResultsError(
            "value", f"has {name}.score = {reprlib.repr(score)}, which is not a number"
        )

    mean = float(values.sum()) / len(values)
    # `not <=` also refuses nan, which `>` would accept.
    if not abs(score - mean) <= MEAN_TOLERANCE:
        raise ResultsError(
            "mean",
            f"has {name}.score {score:.6f}, but the mean of its {len(values):,} scores_i is {mean:.6f}; "
            f"the run is left out: {RERUN}",
        )

    # A score within the tolerance may lie just outside 0 to 1.
    return Split(score=min(max(float(score), 0.0), 1.0), scores=values)


def _floats(
    entries: list[Any], name: str, may_hold_bools: bool
) -> npt.NDArray[np.float64]:
    """Return the scores of a split's instances; refuse true and false, which Python counts as numbers."""
    has_bools = may_hold_bools and any(isinstance(entry, bool) for entry in entries)
    if not has_bools:
        # Accuracies are only 0 and 1: whole numbers below 256 fit into bytes, the fastest way to an array.
        with contextlib.suppress(TypeError, ValueError):
            return np.frombuffer(bytearray(entries), dtype=np.uint8).astype(np.float64)
        # Unlike NumPy, struct refuses null and "0.5".
        with contextlib.suppress(struct.error):
            return np.frombuffer(struct.pack(f"{len(entries)}d", *entries))

    # Both ways failed, or there are bools: name the first entry that is not a number.
    for place, entry in enumerate(entries):
        if isinstance(entry, bool) or not isinstance(entry, int | float):
            raise ResultsError(
                "value",
                f"has {name}.scores_i[{place}] = {reprlib.repr(entry)}, which is not a number",
            )

    raise AssertionError("the last conversion takes every number")


def _why_not_json(content: bytes) -> ResultsError:
    """Return the error for content that is not JSON, with the cause in words."""
    # Zero bytes count as nothing: a file of zeros alone is called empty.
    text = content.strip(b" \t\r\n\0")
    # Said where only the fast parser of `parse_results` refuses the content, and the strict one does not.
    why = "is not strict JSON"
    if not text:
        why = "is empty"
    elif text.startswith(b"{") and not text.endswith(b"}"):
        why = f"is cut off after {len(content):,} bytes"
    else:
        try:
            strict_json(content)
        except BadJsonError as error:
            why = f"is not JSON ({error})"

    return ResultsError("broken", f"{why}; {RERUN}")
