"""What a model that reads no input scores on a dataset's test split, by the paper's metric."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from benchmarks.datasets.local_dataset import LocalDataset
from benchmarks.metrics.paper import sentence_f1s
from benchmarks.protocol import FINE_TUNING, Dataset
from benchmarks.ragged import Ragged


def floor_of(found: LocalDataset) -> float:
    """Return the floor in percent; by what rule: `benchmarks.protocol.Task.floor`.

    Of retrieval, it is that of one relevant document a query; more would share their mean gain, without the ideal's.

    Args:
        found: a dataset of one of the four families' own forms, with its test split.
    """
    if found.dataset.form == "IR":
        judged = [
            row
            for row in found.tables["qrels"].to_pylist()
            if row["split"] == "test" and row["relevance"] > 0
        ]
        relevant_per_query = len(judged) / len({row["query_id"] for row in judged})
        gain = float((1 / np.log2(np.arange(FINE_TUNING.cutoff) + 2)).sum())
        return 100 * gain * relevant_per_query / int(found.corpus.num_rows)
    rows = found.tables["test"]
    if found.dataset.form == "SC":
        ((_, most),) = Counter(rows["label"].to_pylist()).most_common(1)
        return 100 * int(most) / int(rows.num_rows)
    if found.dataset.form == "TC":
        gold = Ragged.of(rows["tags"].to_pylist())
        return 100 * float(
            sentence_f1s(Ragged(np.zeros_like(gold.values), gold.offsets), gold).mean()
        )
    return 100 * float(
        np.mean([not answers for answers in rows["answers"].to_pylist()])
    )


def with_floor(found: LocalDataset) -> Dataset:
    """Return the dataset, one's own with the floor of its headline metric where that is a family's rule."""
    dataset, headline = found.dataset, found.dataset.headline
    if not dataset.is_own or dataset.floor is not None:
        return dataset
    if headline == "entity_f1":
        return replace(dataset, floor=0.0)
    has_rule = headline in ("accuracy", "ndcg_at_10") or dataset.form == "QA"
    return replace(dataset, floor=round(floor_of(found), 2)) if has_rule else dataset
