"""Made-up datasets: in the local form, seeded, and solvable by the rule that made them."""

from pathlib import Path

import pytest

from benchmarks.datasets.local_dataset import load_dataset, verify_dataset
from benchmarks.datasets.synthetic import make_synthetic, synthetic
from benchmarks.protocol import DATASETS, get_dataset
from common.errors import UserError
from tests.benchmarks.command import command

main = command("synthetic")


@pytest.mark.parametrize("name", DATASETS)
def test_every_dataset(name: str, tmp_path: Path) -> None:
    manifest = make_synthetic(tmp_path / "a", name, train=40, evaluation=12, seed=3)
    assert verify_dataset(tmp_path / "a", name) == []
    expected = {"train": 40, "validation": 12, "test": 12}
    assert manifest.counts == {
        split: n for split, n in expected.items() if split in manifest.counts
    }
    assert ("train" in manifest.counts) == (DATASETS[name].trained_on == name)
    again = make_synthetic(tmp_path / "b", name, train=40, evaluation=12, seed=3)
    other = make_synthetic(tmp_path / "c", name, train=40, evaluation=12, seed=4)
    assert again == manifest
    assert other.content != manifest.content


def test_answers_stand_in_their_contexts() -> None:
    for name in ("squad", "squad_v2", "record"):
        rows = synthetic(get_dataset(name)).tables["train"].to_pylist()
        for row in rows:
            for answer in row["answers"]:
                assert row["context"].startswith(answer["text"], answer["start"])
        assert any(not row["answers"] for row in rows) == (name == "squad_v2")


def test_every_label_occurs() -> None:
    for name in ("sst2", "mnli_m", "qqp"):
        content = synthetic(get_dataset(name))
        assert set(content.tables["test"]["label"].to_pylist()) == set(
            range(get_dataset(name).labels or 0)
        )
    for name in ("uner_en", "conll2003_en", "ontonotes"):
        content = synthetic(get_dataset(name))
        assert {
            tag for row in content.tables["train"]["tags"].to_pylist() for tag in row
        } == set(range(get_dataset(name).labels or 0))


def test_words_in_common_find_the_document() -> None:
    """A bag of words answers the retrieval sets: a model that learns anything can."""
    for name in ("msmarco", "nq"):
        tables = synthetic(get_dataset(name)).tables
        docs = {
            row["id"]: set(row["text"].strip(".").split())
            for row in tables["corpus"].to_pylist()
        }
        positives = {
            row["query_id"]: row["doc_id"]
            for row in tables["qrels"].to_pylist()
            if row["relevance"]
        }
        hits = sum(
            max(docs, key=lambda doc: len(docs[doc] & set(row["text"].split())))
            == positives[row["id"]]
            for row in tables["queries"].to_pylist()
        )
        assert hits == tables["queries"].num_rows


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            ["sst2", "nq", "--out", str(tmp_path), "--train", "30", "--evaluation", "5"]
        )
        == 0
    )
    assert "30 train, 5 validation, 5 test, made up" in capsys.readouterr().out
    assert load_dataset(tmp_path, "nq").queries("test").num_rows == 5
    with pytest.raises(UserError, match="at least 1 training and 2 evaluation"):
        main(["sst2", "--out", str(tmp_path), "--evaluation", "1"])
