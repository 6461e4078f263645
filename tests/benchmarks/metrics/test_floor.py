"""The score of a prediction without a look at the input, by each family's rule."""

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import f1_score, ndcg_score

from benchmarks.datasets.local_dataset import LocalDataset, load_dataset, write_dataset
from benchmarks.datasets.synthetic import synthetic
from benchmarks.metrics.floor import floor_of, with_floor
from benchmarks.metrics.paper import ndcgs
from benchmarks.protocol import DATASETS, TASKS, DatasetFiles


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LocalDataset]:
    data = tmp_path_factory.mktemp("data")
    for name in ("sst2", "uner_en", "squad_v2", "nq"):
        write_dataset(
            data,
            DATASETS[name],
            synthetic(DATASETS[name], train=8, evaluation=40),
            source={"kind": "made up"},
        )
    return {
        name: load_dataset(data, name) for name in ("sst2", "uner_en", "squad_v2", "nq")
    }


def test_usual_classes_tags_and_answers_are_scored(
    made_up: dict[str, LocalDataset],
) -> None:
    rows = {
        name: one.tables["test"].to_pylist()
        for name, one in made_up.items()
        if name != "nq"
    }
    most = max(Counter(row["label"] for row in rows["sst2"]).values())
    assert floor_of(made_up["sst2"]) == pytest.approx(100 * most / 40)
    tags = [row["tags"] for row in rows["uner_en"]]
    macro = [
        f1_score(one, [0] * len(one), average="macro", zero_division=0) for one in tags
    ]
    assert floor_of(made_up["uner_en"]) == pytest.approx(100 * np.mean(macro))
    silent = sum(not row["answers"] for row in rows["squad_v2"])
    assert 0 < silent < 40 and floor_of(made_up["squad_v2"]) == pytest.approx(
        100 * silent / 40
    )


def of_answers(
    found: LocalDataset, answers: dict[str, list[list[int]]], documents: int
) -> LocalDataset:
    """A retrieval set whose queries are answered by documents of these numbers."""
    names = [f"d{number}" for number in range(documents)]
    corpus = {"id": names, "title": [None] * documents, "text": names}
    judged = [
        {"split": split, "query_id": f"{split}{query}", "doc_id": f"d{document}"}
        for split, rows in answers.items()
        for query, row in enumerate(rows)
        for document in row
    ]
    qrels = pa.Table.from_pylist([each | {"relevance": 1} for each in judged])
    tables = found.tables | {
        "corpus": pa.table(corpus, schema=found.corpus.schema),
        "qrels": qrels,
    }
    return replace(found, tables=tables)


@pytest.mark.parametrize(
    ("relevant", "documents"), [(1, 30), (3, 30), (20, 25), (2, 4)]
)
def test_random_ranking_has_its_expected_ndcg(
    relevant: int, documents: int, made_up: dict[str, LocalDataset]
) -> None:
    answers = {"test": [[*range(relevant)]] * 5, "validation": []}
    floor = floor_of(of_answers(made_up["nq"], answers, documents)) / 100
    rng = np.random.default_rng(0)
    gains = np.zeros((40_000, documents), dtype=np.int64)
    gains[:, :relevant] = 1
    drawn = rng.permuted(gains, axis=1)[:, :10]
    found = drawn.any(axis=1)
    by_rank = np.arange(drawn.shape[1], 0.0, -1)[None]
    # By scikit-learn, over what is retrieved; nothing where none of it is relevant.
    scores = np.array([ndcg_score(row[None], by_rank) for row in drawn[found][:4_000]])
    mean = scores.mean() * found.mean()
    error = scores.std() / len(scores) ** 0.5 + found.std() / len(found) ** 0.5
    assert floor == pytest.approx(mean, abs=4 * error)
    assert 0 < floor <= 1


def test_usual_answers_of_other_queries_are_a_floor(
    made_up: dict[str, LocalDataset],
) -> None:
    """Of forty documents one answers three of four queries, as a model learns that reads none."""
    validation = [[7]] * 6 + [[3], [5]]
    answers = {"test": [[7]] * 3 + [[11]], "validation": validation}
    floor = floor_of(of_answers(made_up["nq"], answers, 40))
    assert floor == pytest.approx(75.0)
    # Three documents of the test alone say nothing that could have been known.
    apart = {"test": [[1], [2], [11]], "validation": validation}
    gain = (1 / np.log2(np.arange(10) + 2)).sum()
    floor = floor_of(of_answers(made_up["nq"], apart, 40))
    assert floor == pytest.approx(100 * gain / 40)


def test_a_ranking_is_as_good_as_random_ones(made_up: dict[str, LocalDataset]) -> None:
    judged = made_up["nq"].tables["qrels"].to_pylist()
    assert all(
        count == 1
        for count in Counter(
            row["query_id"] for row in judged if row["relevance"]
        ).values()
    )
    documents, rng = made_up["nq"].corpus.num_rows, np.random.default_rng(0)
    relevant = np.zeros((20_000, documents), dtype=np.int64)
    relevant[:, 0] = 1
    first = rng.permuted(relevant, axis=1)[:, :10]
    scores = ndcgs(np.tile(np.arange(10.0)[::-1], (20_000, 1)), first)
    error = scores.std() / 20_000**0.5
    assert floor_of(made_up["nq"]) / 100 == pytest.approx(scores.mean(), abs=4 * error)


@pytest.mark.parametrize(
    ("name", "metric", "known"),
    [
        ("sst2", "accuracy", True),
        ("sst2", "macro_f1", False),
        ("sst2", "f1", False),
        ("uner_en", "entity_f1", False),
        ("squad_v2", "f1", True),
        ("squad_v2", "exact_match", True),
        ("nq", "ndcg_at_10", True),
        ("nq", "recall_at_10", False),
    ],
)
def test_own_datasets_have_a_floor_for_known_metrics(
    made_up: dict[str, LocalDataset], name: str, metric: str, known: bool
) -> None:
    found = made_up[name]
    own = replace(
        found.dataset,
        headline=metric,
        floor=None,
        files=DatasetFiles(content={"kind": "mine"}),
    )
    otherwise = 0.0 if metric == "entity_f1" else None
    assert with_floor(replace(found, dataset=own)).floor == (
        round(floor_of(found), 2) if known else otherwise
    )
    assert with_floor(replace(found, dataset=replace(own, floor=7.0))).floor == 7.0
    assert with_floor(found) is found.dataset


def test_every_family_has_a_rule_and_facts_are_shares() -> None:
    assert len({task.floor for task in TASKS.values()}) == 4
    known = {name: one.floor for name, one in DATASETS.items() if one.floor is not None}
    assert set(known) == {
        "sst2",
        "qqp",
        "mnli_m",
        "uner_en",
        "squad",
        "squad_v2",
        "record",
    }
    assert all(0 <= value < 100 for value in known.values())


@pytest.mark.real_data
def test_facts_of_official_test_splits_follow_their_labels() -> None:
    if not (place := os.environ.get("REAL_DATA")):
        pytest.skip("REAL_DATA is not set")
    labels = [
        line.rpartition("\t")[2]
        for line in Path(place, "sst2/test.tsv").read_text().splitlines()[1:]
    ]
    assert DATASETS["sst2"].floor == pytest.approx(
        100 * max(Counter(labels).values()) / len(labels), abs=0.005
    )
    blocks = (
        Path(place, "uner_english_ewt/en_ewt-ud-test.iob2")
        .read_text()
        .strip()
        .split("\n\n")
    )
    tags = [
        [row.split("\t")[2] for row in one.splitlines() if not row.startswith("#")]
        for one in blocks
    ]
    kinds = Counter(tuple(sorted(one)) for one in tags)
    scores = [
        f1_score(one, ["O"] * len(one), average="macro", zero_division=0)
        for one in kinds
    ]
    mean = np.average(scores, weights=list(kinds.values()))
    assert DATASETS["uner_en"].floor == pytest.approx(100 * mean, abs=0.005)
