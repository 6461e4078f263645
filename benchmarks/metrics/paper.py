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
    has_word = words >= 0
    predicted, words = predicted[has_word], words[has_word]
    if not len(words):
        return words, predicted

    # The sub-tokens of the word `numbers[i]` are those from `starts[i]` to before `ends[i]`.
    numbers, starts = np.unique(words, return_index=True)
    ends = np.append(starts[1:], len(words))

    # Each pair of a word and a tag becomes one number. How often it occurs is the word's number of votes for the tag.
    n_tags = int(predicted.max()) + 1
    pairs, votes_of_pair = np.unique(words * n_tags + predicted, return_counts=True)

    # The index in `numbers` of each pair's word.
    pair_word = np.searchsorted(numbers, pairs // n_tags)
    most_votes = np.zeros(len(numbers), dtype=np.int64)
    np.maximum.at(most_votes, pair_word, votes_of_pair)
    winners = votes_of_pair == most_votes[pair_word]
    # A word with several winners gets one of them here, and the one that counts in the loop below.
    voted = np.zeros(len(numbers), dtype=np.int64)
    voted[pair_word[winners]] = pairs[winners] % n_tags

    # Where several tags of a word have the most votes, the paper's code decides by the order of a Python set.
    tags_with_most = np.bincount(pair_word[winners], minlength=len(numbers))
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
    n_tags = int(max(predicted.values.max(), gold.values.max())) + 1

    # For each word, its sentence and its tag as one number, so that all sentences are counted at once.
    sentence = gold.row_of * n_tags
    predicted_key = sentence + predicted.values
    gold_key = sentence + gold.values
    size = len(gold) * n_tags
    hits = np.bincount(gold_key[predicted_key == gold_key], minlength=size)

    # F1 is twice the hits over the number of gold and predicted tags together.
    occurrences = np.bincount(gold_key, minlength=size)
    occurrences += np.bincount(predicted_key, minlength=size)
    f1 = np.zeros(size)
    np.divide(2.0 * hits, occurrences, out=f1, where=occurrences > 0)

    # From here by sentence: the mean of F1 over the tags that occur, or 1 where there are none.
    total = f1.reshape(len(gold), n_tags).sum(axis=1)
    n_present = (occurrences > 0).reshape(len(gold), n_tags).sum(axis=1)
    scores = np.ones(len(gold))
    np.divide(total, n_present, out=scores, where=n_present > 0)
    return scores


def position_f1s(predicted: Ragged, gold: Ragged) -> Floats:
    """Return each question's F1 between sets of sub-token positions (QA).

    An empty set counts as the set of position 0. So abstaining scores 1 where there is no answer, and so does
    predicting position 0 alone. Rows include the padding, since the paper's code does not leave it out.

    Args:
        predicted: for each position, whether it is predicted to be in the answer; a row is a padded sequence,
            with one position or more.
        gold: for each position, whether it is in the first gold answer; in rows of the same lengths.

    >>> position_f1s(Ragged.of([[0, 1, 1, 0]]), Ragged.of([[0, 0, 1, 0]]))
    array([0.66666667])
    """
    rows = len(gold)
    is_predicted, is_gold = predicted.values.astype(bool), gold.values.astype(bool)
    row = gold.row_of
    n_predicted = np.bincount(row[is_predicted], minlength=rows)
    n_gold = np.bincount(row[is_gold], minlength=rows)
    n_both = np.bincount(row[is_predicted & is_gold], minlength=rows)

    # D2: as in the paper's code, an empty set (no answer, or an answer that was cut off) stands for position 0. So the
    # two sets share position 0 if the other set has position 0 or is empty as well, and nothing otherwise.
    # `position_0` has the index of each row's position 0 in the values.
    position_0 = gold.offsets[:-1]
    n_both = np.where(n_predicted == 0, is_gold[position_0], n_both)
    n_both = np.where(n_gold == 0, is_predicted[position_0], n_both)
    n_both = np.where((n_predicted == 0) & (n_gold == 0), 1, n_both)
    sizes = np.maximum(n_predicted, 1) + np.maximum(n_gold, 1)
    scores: Floats = 2.0 * n_both / sizes
    return scores


def ndcgs(similarities: Floats, relevances: Ints) -> Floats:
    """Return each query's NDCG over its retrieved documents alone (IR).

    DCG sums the gains of the documents, each discounted by its rank, and NDCG divides it by the DCG of an ideal
    ranking. Here the ideal ranking has only the retrieved documents, so relevant documents that were not retrieved cost
    nothing: one of three at rank 1 scores 1. Documents of equal similarity each get their mean gain, as in
    `sklearn.metrics.ndcg_score`.

    Args:
        similarities: similarities of the retrieved documents, best first, shape (queries, depth).
        relevances: relevances of the same documents, 0 or 1, same shape.

    >>> ndcgs(np.array([[0.9, 0.8, 0.7]]), np.array([[0, 1, 0]])).round(3)
    array([0.631])
    """
    queries, depth = similarities.shape
    gains = relevances.astype(np.float64)
    # The document at rank r is discounted by 1 / log2(r + 1); the array counts ranks from 0.
    discounts = 1.0 / np.log2(np.arange(depth) + 2.0)

    # Documents of equal similarity, which are neighbours, are a group. A query has at most `depth` groups, so its
    # groups are numbered from `depth` times the query's number.
    group = np.zeros((queries, depth), dtype=np.int64)
    group[:, 1:] = np.cumsum(np.diff(similarities, axis=1) != 0, axis=1)
    group += np.arange(queries)[:, None] * depth
    numbers = group.ravel()
    size = queries * depth
    members = np.bincount(numbers, minlength=size)
    gain_of_group = np.bincount(numbers, weights=gains.ravel(), minlength=size)
    discount_of_document = np.broadcast_to(discounts, group.shape).ravel()
    discount_of_group = np.bincount(
        numbers, weights=discount_of_document, minlength=size
    )

    # A group's DCG: its mean gain times the sum of its discounts. Numbers of no group have no members and give 0.
    dcg_of_group = gain_of_group * discount_of_group / np.maximum(members, 1)
    dcg = dcg_of_group.reshape(queries, depth).sum(axis=1)

    # D3: the paper's ideal ranking has only the retrieved documents, here by falling gain.
    ideal = -np.sort(-gains, axis=1) @ discounts
    scores = np.zeros(queries)
    np.divide(dcg, ideal, out=scores, where=ideal > 0)
    return scores


def _accuracy(predictions: ClassPredictions) -> Score:
    """Score 1 where an example's predicted class is the gold one and 0 elsewhere; also QQP's score."""
    right = (predictions.predicted == predictions.gold).astype(np.int64)
    return Score.mean_of(Metric.SCORES_I, right.tolist())


def _sentence_f1(predictions: TagPredictions) -> Score:
    """Score sentences by the tags that the sub-tokens of each word vote for.

    Words without sub-tokens, because the text was cut or the tokenizer drops them, do not count.
    """
    # D1: O is a tag as any other. `words` has the numbers of the words that were voted on, over all sentences.
    words, voted = vote_words(predictions.tokens, predictions.words)
    # How many words of each sentence were voted on.
    per_sentence = np.bincount(
        predictions.gold.row_of[words], minlength=len(predictions.gold)
    )
    offsets = np.concatenate([[0], np.cumsum(per_sentence)])
    predicted = Ragged(voted, offsets)
    gold = Ragged(predictions.gold.values[words].astype(np.int64), offsets)
    scores = sentence_f1s(predicted, gold)
    return Score.mean_of(Metric.SCORES_I, scores.tolist())


def _position_f1(predictions: AnswerPredictions) -> Score:
    return Score.mean_of(
        Metric.SCORES_I, position_f1s(predictions.chosen, predictions.gold).tolist()
    )


def _ndcg(predictions: RankingPredictions) -> Score:
    """Score the ten documents that are retrieved for each query under the paper's tokenisation."""
    relevances = []
    for query, ranked in zip(
        predictions.query_ids, predictions.paper_documents, strict=True
    ):
        judged = predictions.qrels[query]
        # Every grade counts as 1: TREC DL's grades 1 to 3 are equally relevant here.
        relevances.append([judged.get(document, 0) >= 1 for document in ranked])
    is_relevant = np.array(relevances).astype(np.int64)
    scores = ndcgs(predictions.paper_similarities, is_relevant)
    return Score.mean_of(Metric.SCORES_I, scores.tolist())


for _metric in (
    Metric(key="accuracy", protocol=PAPER, task="SC", compute=_accuracy),
    Metric(key="macro_f1", protocol=PAPER, task="TC", compute=_sentence_f1),
    Metric(key="position_f1", protocol=PAPER, task="QA", compute=_position_f1),
    Metric(key="ndcg_at_10", protocol=PAPER, task="IR", compute=_ndcg),
):
    METRICS.register(_metric)
