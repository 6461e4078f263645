"""MTEB: `<model>/<revision>/<task>.json` with `model_meta.json` next to them. Scores in [0, 1]."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from analysis.exchange.results import EXTENSION, Result, dataset_named, number, read_extension
from common.errors import UserError
from common.reading import read_json

__all__ = ["read", "write"]

META = "model_meta.json"
_REVISION = "no_revision_available"
"""MTEB's word."""
_SUBSETS = ("default", "en", "eng-eng", "en-en")
"""Of several subsets of a task the one that is read."""


def write(model: str, results: Sequence[Result]) -> Iterator[tuple[str, str]]:
    """Yield a file for each dataset, and the model's."""
    yield f"{_REVISION}/{META}", _json({"name": model, "revision": _REVISION})
    for one in results:
        assert one.known is not None
        scores = {
            one.metric: one.score, "main_score": one.score, "hf_subset": "default", "languages": ["eng-Latn"],
            EXTENSION: one.record,
        }  # fmt: skip
        yield f"{_REVISION}/{one.dataset}.json", _json({
            "dataset_revision": next((pin.commit for pin in one.known.pins if pin.commit), "not recorded"),
            "task_name": one.dataset, "mteb_version": None, "evaluation_time": None, "kg_co2_emissions": None,
            "scores": {"test": [scores]},
        })  # fmt: skip


def _json(content: object) -> str:
    return json.dumps(content, indent=1) + "\n"


def read(path: Path, content: Any) -> list[Result] | None:
    """Return the result of a task; None: it is something else. Of its splits the test split counts, or else the last.

    Raises:
        UserError: a damaged file, or none that says the model.
    """
    if not isinstance(content, dict) or not {"task_name", "scores"} <= content.keys():
        return None
    splits = content["scores"]
    entries = splits["test"] if "test" in splits else list(splits.values())[-1]
    entry = next((one for name in _SUBSETS for one in entries if one.get("hf_subset") == name), entries[0])
    score = number(entry["main_score"], f"{path}: main_score")
    extension = read_extension(entry.get(EXTENSION), str(path))
    dataset = dataset_named(content["task_name"], own=extension.definition if extension else {})
    try:
        meta = read_json(path.with_name(META), "fetch it again")
    except FileNotFoundError:
        raise UserError(
            f"{path}: the model is unknown, because there is no {META} in this folder; copy that file too"
        ) from None
    return (
        [Result(model=str(meta["name"]), dataset=dataset, score=score, extension=extension)]
        if dataset
        else []
    )
