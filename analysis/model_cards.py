"""Scores as Hugging Face model cards: the `model-index` in a card's front matter, and `.eval_results/*.yaml`.

Written as JSON, which YAML holds. Scores are in percent. A model card has no words for learning rates, seeds,
validation scores and intervals over seeds: they are in a field of ours, under the metric's `args`.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

import pandas as pd

from analysis.evidence.settings import Settings
from analysis.records import records
from analysis.sources import Source
from benchmarks.own_datasets.definitions import definitions_record
from benchmarks.protocol import AVERAGE
from common.errors import UserError

_FIELD = "clm_or_mlm"
"""The field that holds what a model card has no words for."""
_RUN = ("lr", "seed", "validation_score", "test_score", "n_validation", "n_test")
"""What it holds of each run; a count of 0 is not known, since cards drop nulls."""
_TASKS = {
    "SC": "text-classification", "TC": "token-classification", "QA": "question-answering", "IR": "text-retrieval",
}  # fmt: skip


def model_cards(source: Source, settings: Settings) -> dict[str, str]:
    """Return the files by path: a card for each model, and a file of `.eval_results` for each dataset with a repository
    of its own on the hub.

    Raises:
        UserError: the source's models stand in for the paper's.
    """
    if source.stand_ins is not None:
        raise UserError(
            f"{source.label}: these runs of a small study stand in for the paper's models and would be exported under "
            "the names of those models; give --source a copy of the runs without stand_ins.json"
        )
    runs: dict[tuple[str, str], list[tuple[Any, ...]]] = defaultdict(list)
    if source.runs is not None:
        counted = source.runs.fillna({"n_validation": 0, "n_test": 0})
        for model, dataset, *run in records(counted, "model", "dataset", *_RUN):
            runs[model, dataset].append(tuple(run))
    results_of: dict[str, list[dict[str, Any]]] = defaultdict(list)
    files = {}
    columns = ("model", "task", "dataset", "mean", "low", "high", "n_seeds", "interval")
    for model, task, dataset, mean, low, high, seeds, kind in records(source.scores(settings), *columns):
        if dataset == AVERAGE:
            continue
        entry = source.datasets[dataset]
        bounds = {} if pd.isna(low) else {"low": low / 100, "high": high / 100}
        arguments = {
            "protocol": source.protocol, "task": task, "interval": {"kind": kind, "seeds": seeds} | bounds,
            "runs": runs[model, dataset], "definition": definitions_record([entry]),
        }  # fmt: skip
        metric = {"entity_f1": "f1"}.get(entry.headline, entry.headline)  # the name that the hub knows
        repo = next((pin.repo for pin in entry.files.pins), dataset)
        results_of[model].append({
            "task": {"type": _TASKS[entry.task]},
            "dataset": {"type": repo, "name": entry.title, "config": dataset, "split": "test"},
            "metrics": [
                {
                    "type": metric, "value": mean,
                    "args": {_FIELD: {name: value for name, value in arguments.items() if value}},
                },
            ],
        })  # fmt: skip
        if "/" in repo:
            notes = f"{metric} in percent, {source.protocol} protocol of clm-or-mlm"
            result = {"dataset": {"id": repo, "task_id": dataset}, "value": mean, "notes": notes}
            files[f"{model}/.eval_results/{dataset}.yaml"] = _json([result]) + "\n"
    for model, results in results_of.items():
        front = _json({"model-index": [{"name": model, "results": results}]})
        files[f"{model}/README.md"] = f"---\n{front}\n---\n"
    return files


def _json(content: object) -> str:
    text = json.dumps(content, indent=1, ensure_ascii=False)
    return re.sub(r"(?m)^( +\d)(e-\d+,?)$", r"\1.0\2", text)  # 1e-05 is a word to YAML
