"""What a model that reads no input scores on a dataset's test split, by the paper's metric."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import comb

import numpy as np

from benchmarks.datasets.local_dataset import LocalDataset
from benchmarks.metrics.paper import ndcgs, sentence_f1s
from benchmarks.protocol import FINE_TUNING, Dataset
from benchmarks.ragged import Ragged


def floor_of(found: LocalDataset) -> float:
    """Return the floor in percent; by what rule: `benchmarks.protocol.Task.floor`.

    Of retrieval, that is one ranking for all queries: a random one, or that of the documents that answer most
    validation queries where it is higher, as in a set of many questions and few answers.

    Args:
        found: a dataset of one of the four families' own forms, with its test split.

    >>> import pathlib, tempfile
    >>> from benchmarks.datasets.local_dataset import load_dataset
    >>> from benchmarks.datasets.synthetic import make_synthetic
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = make_synthetic(folder, "sst2", train=8, evaluation=8)
    >>> floor_of(load_dataset(folder, "sst2"))
    50.0
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
        # D1: O counts as a tag, so predicting O everywhere scores 1 on a sentence without entities.
        outside = Ragged(np.zeros_like(gold.values), gold.offsets)
        return 100 * float(sentence_f1s(outside, gold).mean())
    # No answer at all scores 1 for a question without an answer, and 0 for the others.
    unanswered = [not answers for answers in rows["answers"].to_pylist()]
    return 100 * float(np.mean(unanswered))


def _ranking_floor(found: LocalDataset) -> float:
    """Return the mean NDCG of one ranking for all test queries."""
    documents = set(found.corpus["id"].to_pylist())
    answers: dict[str, dict[str, list[str]]] = {"validation": {}, "test": {}}
    for row in found.tables["qrels"].to_pylist():
        if row["relevance"] > 0:
            of_query = answers[row["split"]].setdefault(row["query_id"], [])
            if row["doc_id"] in documents:
                of_query.append(row["doc_id"])
    asked = list(answers["test"].values())
    # A random ranking is the best blind guess only where each document answers a single query.
    floor = np.mean([_random_ndcg(len(right), len(documents)) for right in asked])
    times_right = Counter[str]()
    for right in answers["validation"].values():
        times_right.update(right)
    # The most frequent answers of validation: those of the test queries would be a look at their answers (18 % for
    # ten documents of 25 queries).
    usual = times_right.most_common(FINE_TUNING.cutoff)
    if usual:
        documents_shown = [document for document, _ in usual]
        times_of_shown = [float(times) for _, times in usual]
        similarities = np.array([times_of_shown] * len(asked))
        relevances = np.zeros(similarities.shape, dtype=np.int64)
        for row, right in enumerate(asked):
            relevances[row] = [document in right for document in documents_shown]
        scores = ndcgs(similarities, relevances)
        floor = max(floor, scores.mean())
    return float(floor)


def _random_ndcg(relevant: int, documents: int) -> float:
    """Return the expected NDCG of a random ranking; the ideal has only the retrieved documents (`paper.ndcgs`)."""
    depth = min(FINE_TUNING.cutoff, documents)
    discounts = 1 / np.log2(np.arange(depth) + 2)
    rankings = comb(documents, depth)
    expected = 0.0
    for retrieved in range(1, min(relevant, depth) + 1):
        others = comb(documents - relevant, depth - retrieved)
        share = comb(relevant, retrieved) * others / rankings
        gain = retrieved * discounts.mean()
        expected += share * gain / discounts[:retrieved].sum()
    return expected


def with_floor(found: LocalDataset) -> Dataset:
    """Return the dataset, one's own with the floor of its headline metric where that is a family's rule.

    >>> import pathlib, tempfile
    >>> from benchmarks.datasets.local_dataset import load_dataset
    >>> from benchmarks.datasets.synthetic import make_synthetic
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = make_synthetic(folder, "sst2", train=8, evaluation=8)
    >>> with_floor(load_dataset(folder, "sst2")).floor  # the paper's own is known
    50.92
    """
    dataset = found.dataset
    headline = dataset.headline
    if not dataset.is_own or dataset.floor is not None:
        return dataset
    # The trivial prediction, O everywhere, finds no entity.
    if headline == "entity_f1":
        return replace(dataset, floor=0.0)
    has_rule = headline in ("accuracy", "ndcg_at_10") or dataset.form == "QA"
    if not has_rule:
        return dataset
    return replace(dataset, floor=round(floor_of(found), 2))
