"""The field's usual definitions of the four families' metrics, for whole splits and for each instance."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytrec_eval
from numpy.typing import NDArray
from seqeval.metrics.sequence_labeling import get_entities

__all__ = ["binary_f1", "entity_counts", "f1_of_counts", "ranking_scores", "squad_scores"]

Ints = NDArray[np.int64]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def binary_f1(predicted: Ints, gold: Ints) -> float:
    """Return the F1 of class 1 over a split, 0 when neither side has it (QQP, as GLUE defines it)."""
    hits = int(((predicted == 1) & (gold == 1)).sum())
    occurrences = int((predicted == 1).sum() + (gold == 1).sum())
    return 2.0 * hits / occurrences if occurrences else 0.0


def entity_counts(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> Ints:
    """Count entities as conlleval and seqeval do: right when type and both ends are.

    Args:
        predicted: tag names such as `B-PER` of each word of each sentence.
        gold: the same for the gold tags.

    Returns:
        For each sentence the entities that are right, predicted and gold; shape (sentences, 3).
    """
    counts = np.zeros((len(gold), 3), dtype=np.int64)
    for row, (ours, theirs) in enumerate(zip(predicted, gold, strict=True)):
        found = set(get_entities(list(ours))) if any(tag != "O" for tag in ours) else set()
        true = set(get_entities(list(theirs))) if any(tag != "O" for tag in theirs) else set()
        counts[row] = len(found & true), len(found), len(true)
    return counts


def f1_of_counts(counts: Ints) -> float:
    """Return the micro-F1 of entity counts, shape (sentences, 3); 0 where there is no entity at all."""
    right, predicted, gold = (int(total) for total in counts.sum(axis=0))
    return 2.0 * right / (predicted + gold) if predicted + gold else 0.0


def squad_scores(predicted: str, answers: Sequence[str]) -> tuple[float, float]:
    """Return exact match and F1 of one answer: the best over all gold answers, texts normalised (QA).

    No gold answer means that the question has none; then the empty answer scores 1 and any other 0, as in
    SQuAD 2.0's evaluation.
    """
    golds = [answer for answer in answers if _normalise(answer)] or [""]
    ours = _normalise(predicted)
    exact = max(float(ours == _normalise(gold)) for gold in golds)
    return exact, max(_overlap_f1(ours.split(), _normalise(gold).split()) for gold in golds)


def ranking_scores(
    run: Mapping[str, Mapping[str, float]],
    qrels: Mapping[str, Mapping[str, int]],
    depths: Sequence[int] = (10, 100),
) -> dict[str, dict[str, float]]:
    """Score a ranking against all judged documents with trec_eval's definitions (IR).

    Args:
        run: for each query, the similarity of each retrieved document.
        qrels: for each query, the judged relevance of each document; graded relevance is used as it is.
        depths: cut-offs of the recall; NDCG is cut at 10.

    Returns:
        For each measure (`ndcg_cut_10`, `recall_10`, ...) the score of each query of `qrels`.
    """
    measures = ["ndcg_cut_10", *(f"recall_{depth}" for depth in depths)]
    evaluator = pytrec_eval.RelevanceEvaluator(
        {query: dict(judged) for query, judged in qrels.items()},
        {"ndcg_cut.10", "recall." + ",".join(map(str, depths))},
    )
    found = evaluator.evaluate({query: dict(scores) for query, scores in run.items()})
    return {
        measure: {query: found.get(query, {}).get(measure, 0.0) for query in qrels} for measure in measures
    }


def _normalise(text: str) -> str:
    """Lower the case, drop punctuation and articles, and join words by one space, as SQuAD's script does."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _overlap_f1(ours: list[str], gold: list[str]) -> float:
    if not ours or not gold:
        return float(ours == gold)
    common = sum((Counter(ours) & Counter(gold)).values())
    return 2.0 * common / (len(ours) + len(gold))
