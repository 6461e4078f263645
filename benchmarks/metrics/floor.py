"""The floor of a dataset: what a model that reads no input scores on its test split, by the paper's metric."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import comb

import numpy as np

from benchmarks.datasets.local_dataset import LocalDataset
from benchmarks.metrics.paper import ndcgs, sentence_f1s
from benchmarks.protocol import FINE_TUNING, Dataset
from benchmarks.ragged import Ragged


def floor_of(local_data: LocalDataset) -> float:
    """Return the floor in percent: the score of the prediction that `benchmarks.protocol.Task.floor` names.

    In sequence classification this is the most frequent class, in token classification no entity, in question answering
    no answer, and in retrieval one ranking for all queries (`_ranking_floor`).

    Args:
        local_data: a dataset of the form SC, TC, QA or IR, with its test split.

    >>> import pathlib, tempfile
    >>> from benchmarks.datasets.local_dataset import load_dataset
    >>> from benchmarks.datasets.synthetic import make_synthetic
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = make_synthetic(folder, "sst2", train=8, evaluation=8)
    >>> floor_of(load_dataset(folder, "sst2"))
    50.0
    """
    if local_data.dataset.form == "IR":
        return 100 * _ranking_floor(local_data)
    rows = local_data.tables["test"]
    if local_data.dataset.form == "SC":
        labels = Counter(rows["label"].to_pylist())
        # `most_common` gives pairs of a label and its count.
        ((_, examples),) = labels.most_common(1)
        return 100 * int(examples) / int(rows.num_rows)

    if local_data.dataset.form == "TC":
        gold = Ragged.of(rows["tags"].to_pylist())
        # D1: O counts as a tag, so predicting O everywhere scores 1 on a sentence without entities.
        # The paper's sets give O the id 0.
        outside = Ragged(np.zeros_like(gold.values), gold.offsets)
        return 100 * float(sentence_f1s(outside, gold).mean())

    # No answer at all scores 1 for a question without an answer, and 0 for the others.
    unanswered = [not answers for answers in rows["answers"].to_pylist()]
    return 100 * float(np.mean(unanswered))


def _ranking_floor(local_data: LocalDataset) -> float:
    """Return the mean NDCG over the test queries of the better of two rankings that are the same for all queries.

    The first is a random ranking. The second has the documents that answer most validation queries. The second is
    better where a few documents answer many queries.
    """
    documents = set(local_data.corpus["id"].to_pylist())
    # By split and query: the ids of the relevant documents that can be found.
    answers: dict[str, dict[str, list[str]]] = {"validation": {}, "test": {}}
    for row in local_data.tables["qrels"].to_pylist():
        if row["relevance"] > 0:
            of_query = answers[row["split"]].setdefault(row["query_id"], [])
            # Without a document that can be found, the query has an empty list here, and scores 0 below.
            if row["doc_id"] in documents:
                of_query.append(row["doc_id"])

    # For each test query its relevant documents.
    test_answers = list(answers["test"].values())
    # The first ranking. A random one is the best blind guess only where each document answers a single query.
    floor = np.mean(
        [_random_ndcg(len(relevant), len(documents)) for relevant in test_answers]
    )
    queries_answered = Counter[str]()
    for relevant in answers["validation"].values():
        queries_answered.update(relevant)

    # The second ranking: the most frequent answers of validation. Those of the test queries would be a look
    # at their answers: of 25 queries with a document each, any ten documents answer ten, which scores 10/25
    # times the mean discount of ten ranks, 18 %.
    # `cutoff` is the depth of the ranking that NDCG looks at.
    most_frequent = queries_answered.most_common(FINE_TUNING.cutoff)
    if most_frequent:
        ranking = [document for document, _ in most_frequent]
        # `ndcgs` takes similarities, best first, and gives documents of equal similarity their mean gain. Numbers of
        # queries stand for similarities here: documents that answer equally many queries are equally likely.
        similarity = [float(queries) for _, queries in most_frequent]
        similarities = np.array([similarity] * len(test_answers))
        relevances = np.zeros(similarities.shape, dtype=np.int64)
        for row, relevant in enumerate(test_answers):
            relevances[row] = [document in relevant for document in ranking]
        scores = ndcgs(similarities, relevances)
        floor = max(floor, scores.mean())

    return float(floor)


def _random_ndcg(relevant: int, documents: int) -> float:
    """Return the expected NDCG of a random ranking for one query, with the ideal ranking of `paper.ndcgs`.

    Args:
        relevant: number of documents that are relevant to the query.
        documents: number of documents in all.
    """
    depth = min(FINE_TUNING.cutoff, documents)
    # The document at rank r counts 1 / log2(r + 1); the array counts ranks from 0.
    discounts = 1 / np.log2(np.arange(depth) + 2)

    # The number of relevant documents among the retrieved ones has a hypergeometric distribution.
    draws = comb(documents, depth)
    expected = 0.0
    for retrieved in range(1, min(relevant, depth) + 1):
        draws_of_others = comb(documents - relevant, depth - retrieved)
        probability = comb(relevant, retrieved) * draws_of_others / draws
        # At random, each relevant document that is retrieved is at every rank with the same probability. The
        # ideal ranking has these documents at the top.
        gain = retrieved * discounts.mean()
        expected += probability * gain / discounts[:retrieved].sum()

    return expected


def with_floor(local_data: LocalDataset) -> Dataset:
    """Return a dataset with its floor: for one of one's own it is computed here if a rule is known for its metric.

    Without a rule the floor stays None. The paper's datasets, and definitions with a floor, are returned as they are.

    >>> import pathlib, tempfile
    >>> from benchmarks.datasets.local_dataset import load_dataset
    >>> from benchmarks.datasets.synthetic import make_synthetic
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = make_synthetic(folder, "sst2", train=8, evaluation=8)
    >>> with_floor(load_dataset(folder, "sst2")).floor  # the paper's own is known
    50.92
    """
    dataset = local_data.dataset
    headline = dataset.headline
    if not dataset.is_own or dataset.floor is not None:
        return dataset

    # The prediction without a look at the input, O everywhere, finds no entity.
    if headline == "entity_f1":
        return replace(dataset, floor=0.0)

    # `floor_of` is for accuracy, NDCG@10, and both metrics of answers, which are the same where no answer is given.
    has_rule = headline in ("accuracy", "ndcg_at_10") or dataset.form == "QA"
    if not has_rule:
        return dataset
    # Two decimals, as the paper's datasets have them.
    return replace(dataset, floor=round(floor_of(local_data), 2))
