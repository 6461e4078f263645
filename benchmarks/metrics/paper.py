"""The paper's metrics, one score an instance, exactly as its code computed them. NumPy only.

Three of the four are not what their names say elsewhere; `benchmarks.metrics.standard` has the usual ones and
docs/deviations.md (D1-D3) explains the difference. All scores are in [0, 1]; a run's score is their mean.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics.metric import (
    METRICS,
    AnswerPredictions,
    ClassPredictions,
    Ints,
    Metric,
    RankingPredictions,
    Score,
    TagPredictions,
)
from benchmarks.protocol import PAPER
from benchmarks.ragged import Ragged

Floats = NDArray[np.float64]


def vote_words(predicted: Ints, words: Ints) -> tuple[Ints, Ints]:
    """Return each word's tag by majority vote over its sub-tokens (TC).

    A tie goes to the tag that comes first in Python's set of the votes, as in the paper's code; for small
    numbers that is nearly always the smallest, which is O.

    Args:
        predicted: predicted tag of each sub-token, shape (tokens,).
        words: number of each sub-token's word, not decreasing, negative where there is none.

    Returns:
        The numbers of the words that have sub-tokens, ascending, and the tag of each.

    >>> numbers, tags = vote_words(np.array([0, 1, 1, 0]), np.array([0, 1, 1, 1]))
    >>> numbers.tolist(), tags.tolist()
    ([0, 1], [0, 1])
    """
    predicted, words = predicted[words >= 0], words[words >= 0]
    if not len(words):
        return words, predicted
    numbers, starts = np.unique(words, return_index=True)
    tags = int(predicted.max()) + 1
    # Each pair of a word and a tag as one number; its count is the number of the word's votes for the tag.
    pairs, counts = np.unique(words * tags + predicted, return_counts=True)
    pair_word = np.searchsorted(numbers, pairs // tags)
    most = np.zeros(len(numbers), dtype=np.int64)
    np.maximum.at(most, pair_word, counts)
    winners = counts == most[pair_word]
    voted = np.zeros(len(numbers), dtype=np.int64)
    voted[pair_word[winners]] = pairs[winners] % tags
    ends = np.append(starts[1:], len(words))
    tags_with_most = np.bincount(pair_word[winners], minlength=len(numbers))
    # Ties are decided as in the paper's code, by the order of a Python set.
    for word in np.flatnonzero(tags_with_most > 1):
        votes = predicted[starts[word] : ends[word]].tolist()
        voted[word] = max(set(votes), key=votes.count)
    return numbers, voted


def sentence_f1s(predicted: Ragged, gold: Ragged) -> Floats:
    """Return each sentence's macro-F1 over word tags, O included (TC).

    The mean is over the tags that occur in the sentence's gold or predicted tags, as
    `sklearn.metrics.f1_score(average="macro")` takes it; a sentence of O tagged as O scores 1, and so does a
    sentence without words.

    Args:
        predicted: tag of each word, one row per sentence.
        gold: the gold tags, in rows of the same lengths.

    >>> sentence_f1s(Ragged.of([[0, 1, 0]]), Ragged.of([[0, 1, 1]]))  # tag 0: 2/3, tag 1: 2/3
    array([0.66666667])
    """
    if not len(gold.values):
        return np.ones(len(gold))
    tags = int(max(predicted.values.max(), gold.values.max())) + 1
    # Sentence and tag as one number, so that all sentences are counted at once.
    sentence = gold.row_of * tags
    predicted_key = sentence + predicted.values
    gold_key = sentence + gold.values
    size = len(gold) * tags
    hits = np.bincount(gold_key[predicted_key == gold_key], minlength=size)
    occurrences = np.bincount(gold_key, minlength=size)
    occurrences += np.bincount(predicted_key, minlength=size)
    f1 = np.zeros(size)
    np.divide(2.0 * hits, occurrences, out=f1, where=occurrences > 0)
    total = f1.reshape(len(gold), tags).sum(axis=1)
    present = (occurrences > 0).reshape(len(gold), tags).sum(axis=1)
    scores = np.ones(len(gold))
    np.divide(total, present, out=scores, where=present > 0)
    return scores


def position_f1s(predicted: Ragged, gold: Ragged) -> Floats:
    """Return each question's F1 between sets of sub-token positions (QA).

    An empty set counts as position 0: abstaining where there is no answer scores 1, and so does predicting
    position 0 alone. The rows hold the padding too, as the paper's code does not leave it out.

    Args:
        predicted: truthy where a position is predicted to be in the answer; a row is a padded sequence.
        gold: the positions of the first gold answer, in rows of the same lengths.

    >>> position_f1s(Ragged.of([[0, 1, 1, 0]]), Ragged.of([[0, 0, 1, 0]]))
    array([0.66666667])
    """
    rows = len(gold)
    chosen, wanted = predicted.values.astype(bool), gold.values.astype(bool)
    row = gold.row_of
    n_chosen = np.bincount(row[chosen], minlength=rows)
    n_wanted = np.bincount(row[wanted], minlength=rows)
    both = np.bincount(row[chosen & wanted], minlength=rows)
    # D2: as in the paper's code, an empty set (no answer, or an answer that was cut off) stands for position 0.
    first = gold.offsets[:-1]
    both = np.where(n_chosen == 0, wanted[first], both)
    both = np.where(n_wanted == 0, chosen[first], both)
    both = np.where((n_chosen == 0) & (n_wanted == 0), 1, both)
    sizes = np.maximum(n_chosen, 1) + np.maximum(n_wanted, 1)
    scores: Floats = 2.0 * both / sizes
    return scores


def ndcgs(similarities: Floats, relevances: Ints) -> Floats:
    """Return each query's NDCG over its retrieved documents alone (IR).

    The ideal ranking sorts the relevances of the retrieved documents, so relevant documents that were not
    retrieved cost nothing: one of three at rank 1 scores 1. Equal similarities share the mean gain of their
    places, as in `sklearn.metrics.ndcg_score`.

    Args:
        similarities: similarities of the retrieved documents, best first, shape (queries, depth).
        relevances: relevances of the same documents, 0 or 1, same shape.

    >>> ndcgs(np.array([[0.9, 0.8, 0.7]]), np.array([[0, 1, 0]])).round(3)
    array([0.631])
    """
    queries, depth = similarities.shape
    gains = relevances.astype(np.float64)
    discounts = 1.0 / np.log2(np.arange(depth) + 2.0)
    # Documents of equal similarity are a group; groups of all queries are numbered through.
    group = np.zeros((queries, depth), dtype=np.int64)
    group[:, 1:] = np.cumsum(np.diff(similarities, axis=1) != 0, axis=1)
    group += np.arange(queries)[:, None] * depth
    numbers = group.ravel()
    size = queries * depth
    members = np.bincount(numbers, minlength=size)
    gain_of_group = np.bincount(numbers, weights=gains.ravel(), minlength=size)
    places = np.broadcast_to(discounts, group.shape).ravel()
    discount_of_group = np.bincount(numbers, weights=places, minlength=size)
    shared = gain_of_group * discount_of_group / np.maximum(members, 1)
    dcg = shared.reshape(queries, depth).sum(axis=1)
    # D3: the paper's ideal ranking has only the retrieved documents.
    ideal = -np.sort(-gains, axis=1) @ discounts
    scores = np.zeros(queries)
    np.divide(dcg, ideal, out=scores, where=ideal > 0)
    return scores


def _accuracy(made: ClassPredictions) -> Score:
    """Score 1 where an example's predicted class is the gold one and 0 elsewhere; also QQP's score."""
    right = (made.predicted == made.gold).astype(np.int64)
    return Score.mean_of(Metric.SCORES_I, right.tolist())


def _sentence_f1(made: TagPredictions) -> Score:
    """Score sentences by their words' votes; words without sub-tokens, cut off or lost, do not count."""
    # D1: words vote, and O is a tag as any other.
    words, voted = vote_words(made.tokens, made.words)
    per_sentence = np.bincount(made.gold.row_of[words], minlength=len(made.gold))
    offsets = np.concatenate([[0], np.cumsum(per_sentence)])
    predicted = Ragged(voted, offsets)
    gold = Ragged(made.gold.values[words].astype(np.int64), offsets)
    scores = sentence_f1s(predicted, gold)
    return Score.mean_of(Metric.SCORES_I, scores.tolist())


def _position_f1(made: AnswerPredictions) -> Score:
    return Score.mean_of(Metric.SCORES_I, position_f1s(made.chosen, made.gold).tolist())


def _ndcg(made: RankingPredictions) -> Score:
    relevances = []
    for query, ranked in zip(made.query_ids, made.paper_documents, strict=True):
        judged = made.qrels[query]
        # Every grade counts as 1: TREC DL's grades 1 to 3 are equally relevant here.
        relevances.append([judged.get(document, 0) >= 1 for document in ranked])
    is_relevant = np.array(relevances).astype(np.int64)
    scores = ndcgs(made.paper_similarities, is_relevant)
    return Score.mean_of(Metric.SCORES_I, scores.tolist())


for _metric in (
    Metric(key="accuracy", protocol=PAPER, task="SC", compute=_accuracy),
    Metric(key="macro_f1", protocol=PAPER, task="TC", compute=_sentence_f1),
    Metric(key="position_f1", protocol=PAPER, task="QA", compute=_position_f1),
    Metric(key="ndcg_at_10", protocol=PAPER, task="IR", compute=_ndcg),
):
    METRICS.register(_metric)
