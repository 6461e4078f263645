"""Hugging Face: the model-index of a model card's front matter, and `.eval_results/*.yaml`. Scores in percent.

Written as JSON, which YAML holds; another maker's YAML is read by PyYAML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.exchange.results import EXTENSION, Result, dataset_named, number, read_extension
from common.errors import UserError, first_line
from common.reading import BadJsonError, strict_json

__all__ = ["read", "write"]

_TASKS = {
    "SC": "text-classification", "TC": "token-classification", "QA": "question-answering", "IR": "text-retrieval",
}  # fmt: skip


def write(model: str, results: Sequence[Result]) -> Iterator[tuple[str, str]]:
    """Yield a model's card, and a file of `.eval_results` for each dataset with a repository of its own on the hub."""
    index = [{"name": model, "results": [_entry(one) for one in results]}]
    yield "README.md", f"---\n{_json({'model-index': index})}\n---\n"
    for one in results:
        repo, config = _hub(one)
        if "/" in repo:
            notes = f"{one.metric} in percent, {one.record['protocol']} protocol of clm-or-mlm"
            entry = {"dataset": {"id": repo, "task_id": config}, "value": one.score * 100, "notes": notes}
            yield f".eval_results/{one.dataset}.yaml", _json([entry]) + "\n"


def _json(content: object) -> str:
    text = json.dumps(content, indent=1, ensure_ascii=False)
    return re.sub(r"(?m)^( +\d)(e-\d+,?)$", r"\1.0\2", text)  # 1e-05 is a word to YAML


def _hub(one: Result) -> tuple[str, str]:
    """Return the dataset's repository, or else its name, and its configuration."""
    assert one.known is not None
    return next((pin.repo for pin in one.known.pins), one.dataset), one.dataset


def _entry(one: Result) -> dict[str, Any]:
    assert one.known is not None
    repo, config = _hub(one)
    return {
        "task": {"type": _TASKS[one.known.task]},
        "dataset": {"type": repo, "name": one.known.title, "config": config, "split": "test"},
        "metrics": [
            {"type": one.metric, "value": one.score * 100, "args": {EXTENSION: one.record}},
        ],
    }


def read(path: Path, content: bytes) -> list[Result] | None:
    """Return the results of a model card or an `.eval_results` file; None: it is neither."""
    text = content.decode(errors="replace")
    if path.suffix == ".md":
        parts = text.split("---\n", 2)
        if parts[0].strip() or len(parts) < 3 or "model-index" not in parts[1]:
            return None
        text = parts[1]
    loaded = _load(path, text)
    if isinstance(loaded, dict):
        found = [one for item in loaded["model-index"] for one in _of_index(item, path)]
    else:
        name = path.resolve().parent.parent.name
        found = [
            Result(model=name, dataset=dataset, score=number(entry["value"], f"{path}: value"))
            for entry in loaded
            if (dataset := dataset_named(entry["dataset"].get("task_id"), entry["dataset"]["id"]))
        ]
    # The hub holds fractions and percent; a file has one of them.
    scale = 100 if any(one.score > 1 for one in found) else 1
    return [replace(one, score=one.score / scale) for one in found]


def _of_index(item: dict[str, Any], path: Path) -> Iterator[Result]:
    for result in item["results"]:
        place, metric = result["dataset"], result["metrics"][0]
        repo = str(place["type"]).rpartition("/")[2]
        extension = read_extension((metric.get("args") or {}).get(EXTENSION), str(path))
        own = extension.definition if extension else {}
        if dataset := dataset_named(place.get("config"), place["name"], repo, own=own):
            score = number(metric["value"], f"{path}: the value of {dataset}")
            yield Result(model=str(item["name"]), dataset=dataset, score=score, extension=extension)


def _load(path: Path, text: str) -> Any:
    try:
        return strict_json(text.encode())
    except BadJsonError:
        try:  # the small environment lacks it, and reads what this package wrote without
            import yaml  # type: ignore[import-untyped]
        except ModuleNotFoundError:
            raise UserError(f"{path}: reading this YAML needs PyYAML: pip install pyyaml") from None
        try:
            return yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise UserError(f"{path}: not valid YAML ({first_line(error)})") from None
