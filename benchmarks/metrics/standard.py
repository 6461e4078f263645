"""The usual definitions of the four families' metrics; further ones, for datasets of one's own, by libraries.

Datasets with several labels or with a value for each example are not the paper's, so their metric of the `paper`
protocol, whose mean over instances chooses the learning rate, is defined here: F1 of the predicted and the gold set of
labels, and 1 - |error| / (largest - smallest value)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytrec_eval
from seqeval.metrics.sequence_labeling import get_entities

from benchmarks.metrics.metric import (
    METRICS,
    AnswerPredictions,
    ClassPredictions,
    Ints,
    LabelPredictions,
    Metric,
    RankingPredictions,
    Score,
    TagPredictions,
    ValuePredictions,
)
from benchmarks.protocol import PAPER, STANDARD
from benchmarks.ragged import Ragged
from benchmarks.tag_schemes import tag_parts, to_iob2

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def entity_counts(
    predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]
) -> Ints:
    """Count entities as conlleval and seqeval do: an entity is right if its type and both its ends are.

    Args:
        predicted: tags in IOB1 or IOB2 such as `B-PER` of each word of each sentence.
        gold: the gold tags, in the same form.

    Returns:
        For each sentence how many entities are right, predicted, and gold; shape (sentences, 3).

    >>> entity_counts([["B-PER", "I-PER", "O"]], [["B-PER", "I-PER", "B-LOC"]])
    array([[1, 1, 2]])
    """
    counts = np.zeros((len(gold), 3), dtype=np.int64)
    sentences = zip(predicted, gold, strict=True)
    for row, (predicted_tags, gold_tags) in enumerate(sentences):
        predicted_entities = _entities(predicted_tags)
        gold_entities = _entities(gold_tags)
        right = predicted_entities & gold_entities
        counts[row] = len(right), len(predicted_entities), len(gold_entities)
    return counts


def _entities(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """Return the type and the numbers of the first and the last word of each entity of a sentence."""
    # Most sentences have no entity, and the library is slow.
    if all(tag == "O" for tag in tags):
        return set()
    return set(get_entities(list(tags)))


def f1_of_counts(counts: Ints) -> float:
    """Return the micro-F1 of entity counts, shape (sentences, 3); 0 where there is no entity at all.

    >>> f1_of_counts(np.array([[1, 1, 2]]))
    0.6666666666666666
    """
    right, predicted, gold = counts.sum(axis=0).tolist()
    entities = predicted + gold
    return 2.0 * right / entities if entities else 0.0


def squad_scores(predicted: str, answers: Sequence[str]) -> tuple[float, float]:
    """Return the exact match and the F1 of words of a predicted answer, each with the best of the gold answers (QA).

    If a question has no gold answer, the empty answer scores 1 and any other 0, as in SQuAD 2.0's evaluation. Texts of
    every language are normalised by SQuAD's rules, which are English.

    Args:
        predicted: the predicted answer; empty: there is none.
        answers: the gold answers; empty: the question has none.

    >>> squad_scores("the Eiffel Tower", ["Eiffel Tower", "Paris"])
    (1.0, 1.0)
    """
    normalised = [_normalise(answer) for answer in answers]
    # An answer of only articles and punctuation becomes empty; SQuAD's script drops it if there are others.
    golds = [answer for answer in normalised if answer] or [""]
    ours = _normalise(predicted)
    exact = float(ours in golds)
    words = ours.split()
    best_f1 = max(_overlap_f1(words, gold.split()) for gold in golds)
    return exact, best_f1


def ranking_scores(
    run: Mapping[str, Mapping[str, float]],
    qrels: Mapping[str, Mapping[str, int]],
    measure: str,
) -> dict[str, float]:
    """Score a ranking against all judged documents with trec_eval's definitions (IR).

    Args:
        run: for each query, the similarity of each retrieved document.
        qrels: for each query, the judged relevance of each document; graded relevance is used as it is.
        measure: trec_eval's name of a measure and its depth: `ndcg_cut_10`, `recall_100`.

    Returns:
        The score of each query of `qrels`.

    >>> run = {"q1": {"d1": 0.9, "d2": 0.8}}
    >>> ranking_scores(run, {"q1": {"d2": 1}}, "recall_10")
    {'q1': 1.0}
    """
    # pytrec_eval asks for `ndcg_cut.10` and calls the result `ndcg_cut_10`.
    name, _, depth = measure.rpartition("_")
    # Its C code takes only dictionaries, no other mappings.
    judged = {query: dict(relevances) for query, relevances in qrels.items()}
    rankings = {query: dict(ranking) for query, ranking in run.items()}
    evaluator = pytrec_eval.RelevanceEvaluator(judged, {f"{name}.{depth}"})
    results = evaluator.evaluate(rankings)
    scores = {}
    for query in qrels:
        # A query for which nothing was retrieved has no results.
        of_query = results.get(query, {})
        scores[query] = of_query.get(measure, 0.0)

    return scores


def _normalise(text: str) -> str:
    """Lower the case, drop punctuation and articles, and join words by one space, as SQuAD's script does."""
    words = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", words).split())


def _overlap_f1(ours: list[str], gold: list[str]) -> float:
    """Return the F1 of two lists of words, in which a word counts as often as it occurs in both."""
    if not ours or not gold:
        return float(ours == gold)
    common = sum((Counter(ours) & Counter(gold)).values())
    return 2.0 * common / (len(ours) + len(gold))


def _accuracy(predictions: ClassPredictions) -> Score:
    value = float((predictions.predicted == predictions.gold).astype(np.int64).mean())
    return Score(value=value, instances={"predicted": predictions.predicted.tolist()})


def _entity_f1(predictions: TagPredictions) -> Score:
    """Score entities by each word's first sub-token; words without sub-tokens are O."""
    with_word = np.flatnonzero(predictions.words >= 0)
    # The words that have sub-tokens, and the place in `with_word` of each one's first sub-token.
    words, first = np.unique(predictions.words[with_word], return_index=True)

    # Every definition of tags has O. Where names lack it, the first tag stands for a word without sub-tokens.
    outside = predictions.names.index("O") if "O" in predictions.names else 0
    tags = np.full(len(predictions.gold.values), outside, dtype=np.int64)

    # A word has the tag of its first sub-token, as usual in the field; the paper's protocol lets sub-tokens vote.
    tags[words] = predictions.tokens[with_word[first]]
    predicted = _in_iob2(Ragged(tags, predictions.gold.offsets), predictions.names)
    counts = entity_counts(predicted, _in_iob2(predictions.gold, predictions.names))
    n_right, n_predicted, n_gold = counts.T.tolist()
    instances = {
        "entities_right": n_right,
        "entities_predicted": n_predicted,
        "entities_gold": n_gold,
    }
    return Score(value=f1_of_counts(counts), instances=instances)


def _in_iob2(tags: Ragged, names: Sequence[str]) -> list[list[str]]:
    """Return the tags of each sentence by name, in IOB2."""
    # Letter and type by tag: `("B", "PER")` for B-PER.
    parts = tag_parts(names)
    sentences = []
    for row in range(len(tags)):
        named = [names[int(tag)] for tag in tags[row]]
        sentences.append(to_iob2(named, parts))
    return sentences


def _squad(predictions: AnswerPredictions) -> list[tuple[float, float]]:
    """Return the exact match and the F1 of each question."""
    scores = []
    for text, answers in zip(predictions.texts, predictions.answers, strict=True):
        scores.append(squad_scores(text, answers))
    return scores


def _exact_match(predictions: AnswerPredictions) -> Score:
    return Score.mean_of("exact_match", [exact for exact, _ in _squad(predictions)])


def _answer_f1(predictions: AnswerPredictions) -> Score:
    score = Score.mean_of("f1", [f1_of_words for _, f1_of_words in _squad(predictions)])
    instances = {**score.instances, "predicted": predictions.texts}
    return Score(value=score.value, instances=instances)


def _trec_eval(key: str, measure: str, predictions: RankingPredictions) -> Score:
    scores = ranking_scores(predictions.run, predictions.qrels, measure)
    return Score.mean_of(key, [scores[query] for query in predictions.query_ids])


def f1(average: str, predictions: ClassPredictions | LabelPredictions) -> float:
    """Return the F1 of all labels together (`micro`), of the second label (`binary`), or the labels' mean (`macro`).

    A label that is neither predicted nor gold counts 0.

    >>> predictions = ClassPredictions(predicted=np.array([0, 1, 1]), gold=np.array([0, 1, 0]))
    >>> round(f1("macro", predictions), 3)
    0.667
    """
    from sklearn.metrics import f1_score

    return float(
        f1_score(
            predictions.gold, predictions.predicted, average=average, zero_division=0.0
        )
    )


def matthews(predictions: ClassPredictions) -> float:
    """Return Matthews' correlation of predicted and gold classes; 0 where one of the two is the same throughout.

    >>> predictions = ClassPredictions(predicted=np.array([0, 1, 1]), gold=np.array([0, 1, 0]))
    >>> matthews(predictions)
    0.5
    """
    from sklearn.metrics import matthews_corrcoef

    # ptp is the largest value minus the smallest one.
    both_change = np.ptp(predictions.predicted) > 0 and np.ptp(predictions.gold) > 0
    if not both_change:
        return 0.0
    return float(matthews_corrcoef(predictions.gold, predictions.predicted))


def correlation(kind: str, predictions: ValuePredictions) -> float:
    """Return Pearson's or Spearman's correlation (`pearsonr`, `spearmanr`) of predicted and gold values.

    It is 0 where one of the two is the same throughout, for which it is not defined.

    >>> predicted, gold = np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])
    >>> predictions = ValuePredictions(predicted=predicted, gold=gold, limits=(0.0, 5.0))
    >>> round(correlation("spearmanr", predictions), 3)
    0.5
    """
    from scipy import stats

    # ptp is the largest value minus the smallest one.
    both_change = np.ptp(predictions.predicted) != 0 and np.ptp(predictions.gold) != 0
    if not both_change:
        return 0.0
    correlate = getattr(stats, kind)
    return float(correlate(predictions.predicted, predictions.gold).statistic)


def _whole(compute: Any, predictions: Any) -> Score:
    """Score a split as a whole, by a measure that is no mean over instances."""
    return Score(value=compute(predictions))


def _set_f1s(predictions: LabelPredictions) -> Score:
    """Score each example's set of labels by its F1; 1 where both sets are empty."""
    predicted, gold = predictions.predicted, predictions.gold
    in_both = (predicted & gold).sum(axis=1)
    sizes = predicted.sum(axis=1) + gold.sum(axis=1)
    scores = np.ones(len(sizes))
    np.divide(2.0 * in_both, sizes, out=scores, where=sizes > 0)
    return Score.mean_of(Metric.SCORES_I, scores.tolist())


def _closeness(predictions: ValuePredictions) -> Score:
    """Score each example by 1 - error / (largest - smallest value), 0 for larger errors."""
    low, high = predictions.limits
    error = np.abs(predictions.predicted - predictions.gold) / (high - low)
    near = np.clip(1 - error, 0, 1)
    return Score.mean_of(Metric.SCORES_I, near.tolist())


# Metrics of each kind; those of `_on_request` are for datasets that ask for them.
_standard = partial(Metric, protocol=STANDARD)
_on_request = partial(_standard, task="SC", on_request=True)
_labels = partial(Metric, task="SC", form="SC-labels")
_value = partial(Metric, task="SC", form="SC-value")
# trec_eval's names of the measures of rankings, by the metrics' own.
_ranked = {
    "ndcg_at_10": "ndcg_cut_10",
    "recall_at_10": "recall_10",
    "recall_at_100": "recall_100",
}

for _metric in (
    _standard(key="accuracy", task="SC", compute=_accuracy),
    _on_request(key="f1", compute=partial(_whole, partial(f1, "binary"))),
    _on_request(key="macro_f1", compute=partial(_whole, partial(f1, "macro"))),
    _on_request(key="mcc", compute=partial(_whole, matthews)),
    _labels(key="set_f1", protocol=PAPER, compute=_set_f1s),
    _labels(
        key="micro_f1", protocol=STANDARD, compute=partial(_whole, partial(f1, "micro"))
    ),
    _labels(
        key="macro_f1", protocol=STANDARD, compute=partial(_whole, partial(f1, "macro"))
    ),
    _value(key="closeness", protocol=PAPER, compute=_closeness),
    _value(
        key="pearson",
        protocol=STANDARD,
        compute=partial(_whole, partial(correlation, "pearsonr")),
    ),
    _value(
        key="spearman",
        protocol=STANDARD,
        compute=partial(_whole, partial(correlation, "spearmanr")),
    ),
    _standard(key="entity_f1", task="TC", compute=_entity_f1),
    _standard(key="exact_match", task="QA", compute=_exact_match),
    _standard(key="f1", task="QA", compute=_answer_f1),
    *(
        _standard(key=key, task="IR", compute=partial(_trec_eval, key, name))
        for key, name in _ranked.items()
    ),
):
    METRICS.register(_metric)
