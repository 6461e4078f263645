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
        return 100 * _ranking_floor(found)
    rows = found.tables["test"]
    if found.dataset.form == "SC":
        labels = Counter(rows["label"].to_pylist())
        ((_, most),) = labels.most_common(1)
        return 100 * int(most) / int(rows.num_rows)
    if found.dataset.form == "TC":
        gold = Ragged.of(rows["tags"].to_pylist())
        outside = Ragged(np.zeros_like(gold.values), gold.offsets)
        return 100 * float(sentence_f1s(outside, gold).mean())
    unanswered = [not answers for answers in rows["answers"].to_pylist()]
    return 100 * float(np.mean(unanswered))


def _ranking_floor(found: LocalDataset) -> float:
    """Return the expected NDCG of a random ranking of the corpus."""
    relevant = 0
    queries = set()
    for row in found.tables["qrels"].to_pylist():
        if row["split"] == "test" and row["relevance"] > 0:
            relevant += 1
            queries.add(row["query_id"])
    relevant_per_query = relevant / len(queries)
    places = np.arange(FINE_TUNING.cutoff)
    gain = float((1 / np.log2(places + 2)).sum())
    return gain * relevant_per_query / int(found.corpus.num_rows)


def with_floor(found: LocalDataset) -> Dataset:
    """Return the dataset, one's own with the floor of its headline metric where that is a family's rule."""
    dataset, headline = found.dataset, found.dataset.headline
    if not dataset.is_own or dataset.floor is not None:
        return dataset
    if headline == "entity_f1":
        return replace(dataset, floor=0.0)
    has_rule = headline in ("accuracy", "ndcg_at_10") or dataset.form == "QA"
    return replace(dataset, floor=round(floor_of(found), 2)) if has_rule else dataset
