"""lm-evaluation-harness: `results_*.json`. Scores in [0, 1]."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from analysis.exchange.results import EXTENSION, Result, dataset_named, number, read_extension

__all__ = ["read", "write"]

_NAMES = {"accuracy": "acc"}
"""Its names of metrics that differ from Hugging Face's."""
_HEADLINES = ("acc", "ndcg_at_10", "f1")
"""Of another maker's metrics on a known dataset the one that is read: accuracy before F1, which QQP has too."""


def write(model: str, results: Sequence[Result]) -> Iterator[tuple[str, str]]:
    """Yield the harness' file of a model.

    Its standard error is one over test instances, which we do not give: the interval over seeds is in the extension.
    """
    metrics = {one.dataset: _NAMES.get(one.metric, one.metric) for one in results}
    content: dict[str, Any] = {
        "results": {
            one.dataset: {
                "alias": one.dataset, f"{metrics[one.dataset]},none": one.score,
                f"{metrics[one.dataset]}_stderr,none": "N/A",
            }
            for one in results
        },
        "group_subtasks": {one.dataset: [] for one in results},
        "configs": {one.dataset: {"task": one.dataset, "test_split": "test"} for one in results},
        "versions": {one.dataset: "Yaml" for one in results},
        "n-shot": {one.dataset: 0 for one in results},
        "higher_is_better": {name: {metric: True} for name, metric in metrics.items()},
        "n-samples": {
            one.dataset: {"original": one.instances, "effective": one.instances}
            for one in results if one.instances
        },
        "config": {"model": "clm-or-mlm", "model_args": f"pretrained={model}"},
        "model_name": model,
        EXTENSION: {one.dataset: one.record for one in results},
    }  # fmt: skip
    yield "results_clm-or-mlm.json", json.dumps(content, indent=1) + "\n"


def read(path: Path, content: Any) -> list[Result] | None:
    """Return the results of a file of the harness; None: it is something else."""
    if (
        not isinstance(content, dict)
        or not isinstance(content.get("results"), dict)
        or "versions" not in content
    ):
        return None
    arguments = str((content.get("config") or {}).get("model_args", ""))
    model = str(content.get("model_name") or arguments.removeprefix("pretrained=").partition(",")[0])
    found = []
    for task, scores in content["results"].items():
        extension = read_extension((content.get(EXTENSION) or {}).get(task), str(path))
        own = extension.definition if extension else {}
        if not (dataset := dataset_named(task, own=own)) or not isinstance(scores, dict):
            continue
        values = {name.partition(",")[0]: value for name, value in reversed(scores.items())}
        wanted = (
            _HEADLINES
            if extension is None
            else [name for name in values if name not in ("alias", "sample_len")]
        )
        metric = next((name for name in wanted if name in values and not name.endswith("_stderr")), None)
        if metric:
            score = number(values[metric], f"{path}: {metric} of {task}")
            count = (content.get("n-samples") or {}).get(task, {}).get("effective")
            found.append(
                Result(model=model, dataset=dataset, score=score, extension=extension, instances=count)
            )
    return found
