"""The field's definitions of the four families' metrics; those of datasets of one's own by scikit-learn and SciPy.

Of several labels and of numbers, the score of an instance, whose mean chooses the learning rate, is F1 of the sets of
labels, and 1 minus the error over the length of the range of values."""

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
    """Count entities as conlleval and seqeval do: right when type and both ends are.

    Args:
        predicted: tags in IOB1 or IOB2 such as `B-PER` of each word of each sentence.
        gold: the gold tags, in the same form.

    Returns:
        For each sentence the entities that are right, predicted and gold; shape (sentences, 3).

    >>> entity_counts([["B-PER", "I-PER", "O"]], [["B-PER", "I-PER", "B-LOC"]])
    array([[1, 1, 2]])
    """
    counts = np.zeros((len(gold), 3), dtype=np.int64)
    for row, (ours, theirs) in enumerate(zip(predicted, gold, strict=True)):
        found = _entities(ours)
        true = _entities(theirs)
        counts[row] = len(found & true), len(found), len(true)
    return counts


def _entities(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """Return type, first and last word of each entity of a sentence."""
    # Most sentences have no entity, and asking the library is slow.
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
    """Return exact match and F1 of one answer: the best over all gold answers, texts normalised (QA).

    No gold answer means that the question has none; then the empty answer scores 1 and any other 0, as in
    SQuAD 2.0's evaluation. Texts of every language are normalised by SQuAD's rules, which are English.

    Args:
        predicted: the answer.
        answers: the gold answers.

    >>> squad_scores("the Eiffel Tower", ["Eiffel Tower", "Paris"])
    (1.0, 1.0)
    """
    # An answer of only articles and punctuation becomes empty; SQuAD's script drops it if there are others.
    golds = list(filter(None, map(_normalise, answers))) or [""]
    ours = _normalise(predicted)
    exact = float(ours in golds)
    words = ours.split()
    overlap = max(_overlap_f1(words, gold.split()) for gold in golds)
    return exact, overlap


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
    name, _, depth = measure.rpartition("_")
    # pytrec_eval's C code takes only dictionaries, no other mappings.
    judged = {query: dict(relevances) for query, relevances in qrels.items()}
    rankings = {query: dict(ranking) for query, ranking in run.items()}
    evaluator = pytrec_eval.RelevanceEvaluator(judged, {f"{name}.{depth}"})
    found = evaluator.evaluate(rankings)
    scores = {}
    for query in qrels:
        # A query for which nothing was retrieved is absent.
        of_query = found.get(query, {})
        scores[query] = of_query.get(measure, 0.0)
    return scores


def _normalise(text: str) -> str:
    """Lower the case, drop punctuation and articles, and join words by one space, as SQuAD's script does."""
    words = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", words).split())


def _overlap_f1(ours: list[str], gold: list[str]) -> float:
    if not ours or not gold:
        return float(ours == gold)
    common = sum((Counter(ours) & Counter(gold)).values())
    return 2.0 * common / (len(ours) + len(gold))


def _accuracy(made: ClassPredictions) -> Score:
    value = float((made.predicted == made.gold).astype(np.int64).mean())
    return Score(value=value, instances={"predicted": made.predicted.tolist()})


def _entity_f1(made: TagPredictions) -> Score:
    """Score entities by each word's first sub-token; words without sub-tokens are O."""
    inside = np.flatnonzero(made.words >= 0)
    words, first = np.unique(made.words[inside], return_index=True)
    outside = made.names.index("O") if "O" in made.names else 0
    tags = np.full(len(made.gold.values), outside, dtype=np.int64)
    # A word has the tag of its first sub-token, as usual in the field; the paper's protocol lets sub-tokens vote.
    tags[words] = made.tokens[inside[first]]
    predicted = _in_iob2(Ragged(tags, made.gold.offsets), made.names)
    counts = entity_counts(predicted, _in_iob2(made.gold, made.names))
    right, found, gold = counts.T.tolist()
    instances = {
        "entities_right": right,
        "entities_predicted": found,
        "entities_gold": gold,
    }
    return Score(value=f1_of_counts(counts), instances=instances)


def _in_iob2(tags: Ragged, names: Sequence[str]) -> list[list[str]]:
    """Return the tags of each sentence by name, in IOB2."""
    parts = tag_parts(names)
    sentences = []
    for row in range(len(tags)):
        named = [names[int(tag)] for tag in tags[row]]
        sentences.append(to_iob2(named, parts))
    return sentences


def _squad(made: AnswerPredictions, side: int) -> list[float]:
    scores = []
    for text, answers in zip(made.texts, made.answers, strict=True):
        scores.append(squad_scores(text, answers)[side])
    return scores


def _exact_match(made: AnswerPredictions) -> Score:
    return Score.mean_of("exact_match", _squad(made, 0))


def _answer_f1(made: AnswerPredictions) -> Score:
    score = Score.mean_of("f1", _squad(made, 1))
    instances = {**score.instances, "predicted": made.texts}
    return Score(value=score.value, instances=instances)


def _trec_eval(key: str, measure: str, made: RankingPredictions) -> Score:
    scores = ranking_scores(made.run, made.qrels, measure)
    return Score.mean_of(key, [scores[query] for query in made.query_ids])


def f1(average: str, made: ClassPredictions | LabelPredictions) -> float:
    """Return the F1 of all labels (`micro`), of the second (`binary`), or their mean (`macro`); 0 of none.

    >>> made = ClassPredictions(predicted=np.array([0, 1, 1]), gold=np.array([0, 1, 0]))
    >>> round(f1("macro", made), 3)
    0.667
    """
    from sklearn.metrics import f1_score

    return float(
        f1_score(made.gold, made.predicted, average=average, zero_division=0.0)
    )


def matthews(made: ClassPredictions) -> float:
    """Return Matthews' correlation of classes, 0 where one side never changes.

    >>> made = ClassPredictions(predicted=np.array([0, 1, 1]), gold=np.array([0, 1, 0]))
    >>> matthews(made)
    0.5
    """
    from sklearn.metrics import matthews_corrcoef

    changes = np.ptp(made.predicted) and np.ptp(made.gold)
    return float(matthews_corrcoef(made.gold, made.predicted)) if changes else 0.0


def correlation(kind: str, made: ValuePredictions) -> float:
    """Return Pearson's or Spearman's correlation (`pearsonr`, `spearmanr`); 0 where one side never changes.

    >>> made = ValuePredictions(predicted=np.array([1.0, 2.0, 3.0]), gold=np.array([1.0, 3.0, 2.0]), limits=(0.0, 5.0))
    >>> round(correlation("spearmanr", made), 3)
    0.5
    """
    from scipy import stats

    if not (np.ptp(made.predicted) and np.ptp(made.gold)):
        return 0.0
    correlate = getattr(stats, kind)
    return float(correlate(made.predicted, made.gold).statistic)


def _whole(compute: Any, made: Any) -> Score:
    return Score(value=compute(made))


def _set_f1s(made: LabelPredictions) -> Score:
    """Score each example's set of labels by its F1; 1 where both sets are empty."""
    predicted, gold = made.predicted, made.gold
    both = (predicted & gold).sum(axis=1)
    size = predicted.sum(axis=1) + gold.sum(axis=1)
    scores = np.ones(len(size))
    np.divide(2.0 * both, size, out=scores, where=size > 0)
    return Score.mean_of(Metric.SCORES_I, scores.tolist())


def _closeness(made: ValuePredictions) -> Score:
    """Score each example by 1 - error / (largest - smallest value), 0 for larger errors."""
    low, high = made.limits
    error = np.abs(made.predicted - made.gold) / (high - low)
    near = np.clip(1 - error, 0, 1)
    return Score.mean_of(Metric.SCORES_I, near.tolist())


_standard = partial(Metric, protocol=STANDARD)
_asked = partial(_standard, task="SC", on_request=True)
_labels = partial(Metric, task="SC", form="SC-labels")
_value = partial(Metric, task="SC", form="SC-value")
_ranked = {
    "ndcg_at_10": "ndcg_cut_10",
    "recall_at_10": "recall_10",
    "recall_at_100": "recall_100",
}

for _metric in (
    _standard(key="accuracy", task="SC", compute=_accuracy),
    _asked(key="f1", compute=partial(_whole, partial(f1, "binary"))),
    _asked(key="macro_f1", compute=partial(_whole, partial(f1, "macro"))),
    _asked(key="mcc", compute=partial(_whole, matthews)),
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
