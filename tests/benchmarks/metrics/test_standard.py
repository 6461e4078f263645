import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import f1_score as seqeval_f1
from torchmetrics.functional.text import squad as torchmetrics_squad

from benchmarks.metrics import standard
from benchmarks.metrics.metric import (
    METRICS,
    AnswerPredictions,
    ClassPredictions,
    RankingPredictions,
    Score,
    TagPredictions,
)
from benchmarks.ragged import Ragged

SEEDS = st.integers(0, 2**32 - 1)
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def scored(name: str, predictions: object) -> Score:
    score: Score = METRICS[f"standard {name}"].compute(predictions)
    return score


@pytest.mark.parametrize(
    ("predicted", "gold", "f1", "accuracy"),
    [
        ([1], [1], 1.0, 1.0),
        ([0], [0], 0.0, 1.0),
        ([1], [0], 0.0, 0.0),
        ([0], [1], 0.0, 0.0),
        ([1, 1, 0, 0, 0], [1, 0, 1, 0, 0], 0.5, 0.6),
        ([1, 1, 1, 0], [1, 0, 0, 0], 0.5, 0.5),
    ],
)
def test_classes_by_hand(
    predicted: list[int], gold: list[int], f1: float, accuracy: float
) -> None:
    made = ClassPredictions(predicted=np.array(predicted), gold=np.array(gold))
    assert (
        METRICS["standard SC f1"].on_request
        and not METRICS["standard SC accuracy"].on_request
    )
    assert scored("SC f1", made) == Score(value=f1)
    assert scored("SC accuracy", made) == Score(
        value=accuracy, instances={"predicted": predicted}
    )


@pytest.mark.parametrize(
    ("predicted", "gold", "counts"),
    [
        ([], [], [0, 0, 0]),
        (["O"], ["O"], [0, 0, 0]),
        (["B-PER"], ["B-PER"], [1, 1, 1]),
        (["B-PER"], ["O"], [0, 1, 0]),
        (["O"], ["B-PER"], [0, 0, 1]),
        (["B-PER"], ["B-LOC"], [0, 1, 1]),
        (["B-PER", "B-PER"], ["B-PER", "I-PER"], [0, 2, 1]),
        (["B-PER", "B-PER"], ["B-PER", "B-PER"], [2, 2, 2]),
        (
            ["I-PER", "O", "B-LOC"],
            ["B-PER", "O", "I-LOC"],
            [2, 2, 2],
        ),  # a beginning need not be marked
    ],
)
def test_entities_by_hand(
    predicted: list[str], gold: list[str], counts: list[int]
) -> None:
    """Between two other sentences, whose entities are theirs alone."""
    found = standard.entity_counts(
        [["B-LOC"], predicted, ["O"]], [["B-LOC"], gold, ["B-LOC"]]
    )
    assert found.tolist() == [[1, 1, 1], counts, [0, 0, 1]]
    right, made, true = counts
    assert standard.f1_of_counts(np.array([counts])) == (
        2 * right / (made + true) if made + true else 0
    )


@pytest.mark.parametrize(
    ("names", "outside"),
    [(("B-PER", "O", "I-PER"), 1), (("B-PER", "B-LOC", "I-PER"), 0)],
)
def test_word_has_its_first_sub_tokens_tag_or_o(
    names: tuple[str, ...], outside: int
) -> None:
    """Where no tag is O, a word without sub-tokens has the first one."""
    # Word 2 and the last one have no sub-token
    predicted = [[0, 2, outside], [2, outside]]
    made = TagPredictions(
        tokens=np.array([2, 0, 1, 2, 0, 2, 1]),
        words=np.array([-1, 0, 0, 1, -1, 3, 3]),
        gold=Ragged.of([[0, 2, 1], [2, 0]]),
        names=names,
    )
    expected = standard.entity_counts(
        [[names[tag] for tag in row] for row in predicted],
        [[names[tag] for tag in row] for row in made.gold],
    )
    score = scored("TC entity_f1", made)
    assert score.instances == {
        "entities_right": expected[:, 0].tolist(),
        "entities_predicted": expected[:, 1].tolist(),
        "entities_gold": expected[:, 2].tolist(),
    }
    assert score.value == pytest.approx(
        2 * expected[:, 0].sum() / expected[:, 1:].sum()
    )


def answers(texts: list[str], golds: list[list[str]]) -> AnswerPredictions:
    rows = Ragged.of([[0]] * len(golds))
    return AnswerPredictions(chosen=rows, gold=rows, texts=texts, answers=golds)


def test_answers_are_scored_one_by_one_and_kept() -> None:
    made = answers(
        ["Broncos of Denver", "", "red house"],
        [["Denver Broncos"], [], ["house", "the red"]],
    )
    assert scored("QA exact_match", made) == Score(
        value=pytest.approx(1 / 3), instances={"exact_match": [0.0, 1.0, 0.0]}
    )
    assert scored("QA f1", made) == Score(
        value=pytest.approx((0.8 + 1 + 2 / 3) / 3),
        instances={"f1": pytest.approx([0.8, 1.0, 2 / 3]), "predicted": made.texts},
    )


@pytest.mark.parametrize(
    ("key", "scores"),
    [
        ("ndcg_at_10", [1 / np.log2(3), 0.0, 1 / (1 + 1 / np.log2(3))]),
        ("recall_at_10", [1.0, 0.0, 0.5]),
        ("recall_at_100", [1.0, 0.0, 1.0]),
    ],
)
def test_rankings_are_scored_in_the_order_of_the_queries(
    key: str, scores: list[float]
) -> None:
    many = [f"d{place}" for place in range(12)]
    documents = [["a", "b", *many[2:]], ["a", "b", *many[2:]], many]
    made = RankingPredictions(
        query_ids=["q", "p", "o"],
        qrels={"o": {"d0": 1, "d11": 1}, "p": {"elsewhere": 1}, "q": {"a": 0, "b": 1}},
        paper_similarities=np.zeros((3, 12)),
        paper_documents=[[] for _ in documents],
        similarities=np.tile(1 - np.arange(12) / 20, (3, 1)),
        documents=documents,
    )
    score = scored(f"IR {key}", made)
    assert score.instances == {key: pytest.approx(scores)}
    assert score.value == pytest.approx(sum(scores) / 3)


@settings(deadline=None)
@given(seed=SEEDS)
def test_entity_f1_equals_seqevals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gold = [rng.choice(TAGS, n).tolist() for n in rng.integers(1, 12, 15)]
    predicted = [
        [t if rng.random() < 0.8 else str(rng.choice(TAGS)) for t in row]
        for row in gold
    ]
    counts = standard.entity_counts(predicted, gold)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = seqeval_f1(gold, predicted)
    assert standard.f1_of_counts(counts) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("predicted", "answers", "exact", "f1"),
    [
        ("The Denver Broncos!", ["denver broncos", "Broncos"], 1.0, 1.0),
        ("Broncos of Denver", ["Denver Broncos"], 0.0, 0.8),
        ("", [], 1.0, 1.0),
        ("Denver", [], 0.0, 0.0),
        ("", ["Denver"], 0.0, 0.0),
        ("a", ["the"], 1.0, 1.0),  # both normalise to nothing
        ("red", ["the", "red"], 1.0, 1.0),
        ("red red house", ["red house house"], 0.0, 2 * 2 / 6),
        ("red", ["house", "big red house"], 0.0, 2 * 1 / 4),
    ],
)
def test_squad_scores_by_hand(
    predicted: str, answers: list[str], exact: float, f1: float
) -> None:
    assert standard.squad_scores(predicted, answers) == pytest.approx((exact, f1))


@given(seed=SEEDS)
def test_squad_scores_equal_torchmetrics(seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = ["the", "Red", "red", "house,", "house", "An", "apple's", "1990", "b"]
    texts = [" ".join(rng.choice(words, rng.integers(1, 6))) for _ in range(4)]
    # SQuAD 2.0's script drops gold answers that normalise to nothing; torchmetrics has SQuAD 1.1's.
    answers = [
        text for text in texts[1:] if set(text.lower().split()) - {"the", "an"}
    ] or ["red"]
    theirs = torchmetrics_squad(
        {"prediction_text": texts[0], "id": "x"},
        {"answers": {"answer_start": [0] * len(answers), "text": answers}, "id": "x"},
    )
    exact, f1 = standard.squad_scores(texts[0], answers)
    assert (exact * 100, f1 * 100) == pytest.approx(
        (float(theirs["exact_match"]), float(theirs["f1"])), abs=1e-3
    )


def test_one_of_three_relevant_at_rank_one_scores_0_469() -> None:
    run = {"q": {f"d{i}": 1.0 - i / 10 for i in range(10)}}
    qrels = {"q": {"d0": 1, "missing1": 1, "missing2": 1, "d5": 0}}
    assert standard.ranking_scores(run, qrels, "ndcg_cut_10")["q"] == pytest.approx(
        0.469, abs=5e-4
    )
    assert standard.ranking_scores(run, qrels, "recall_10")["q"] == pytest.approx(1 / 3)


def test_relevance_grades_count_and_unranked_queries_score_0() -> None:
    qrels = {"q": {"a": 3, "b": 1}, "other": {"a": 1}}
    run = {"q": {"b": 0.9, "a": 0.1}}
    scores = standard.ranking_scores(run, qrels, "ndcg_cut_10")
    expected = (1 / np.log2(2) + 3 / np.log2(3)) / (3 / np.log2(2) + 1 / np.log2(3))
    assert scores["q"] == pytest.approx(expected)
    assert scores["other"] == 0.0
    assert standard.ranking_scores(run, qrels, "recall_100") == {"q": 1.0, "other": 0.0}
