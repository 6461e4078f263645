"""`clm-or-mlm datasets`: what is there, as a model sees it, and whether it is whole."""

from pathlib import Path

import pytest

from benchmarks.datasets.listing import dataset_table, examples_of, show_text
from benchmarks.datasets.local_dataset import load
from benchmarks.datasets.synthetic import make_synthetic
from benchmarks.own_datasets.definition_file import read_definitions
from benchmarks.protocol import DATASETS
from common.errors import UserError
from tests.benchmarks.command import command
from tests.flips import flip

main = command("datasets")


def test_list(data: Path, tmp_path: Path) -> None:
    rows = dataset_table(data).rows
    assert len(rows) == 1 + len(DATASETS)
    assert list(rows[1][:6]) == ["sst2", "SC", "96", "24", "24", "synthetic"]
    assert list(rows[10][:6]) == ["nq", "IR", "-", "24", "24", "synthetic"]
    assert all("absent" in row for row in dataset_table(tmp_path).rows[1:])


@pytest.mark.parametrize("name", DATASETS)
def test_show_every_family(data: Path, name: str) -> None:
    text = show_text(data, name)
    manifest = load(data, name).manifest
    assert manifest.content in text
    assert text.count("\n  -> ") == 3
    assert "24 validation, 24 test" in text
    assert all(f"rows of {table}: {info.rows}" in text for table, info in manifest.tables.items())


def test_examples_are_what_a_model_reads(data: Path) -> None:
    found = load(data, "mnli_m")
    row = found.tables["validation"].to_pylist()[0]
    text, target = next(examples_of(found, "validation", 1))
    assert text == f"Premise: {row['first']}\nHypothesis: {row['second']}"
    assert target == f"label {found.labels[row['label']]}"
    row = load(data, "squad").tables["test"].to_pylist()[0]
    text, target = next(examples_of(load(data, "squad"), "test", 1))
    assert text == f"Question: {row['question']}\nContext: {row['context']}"
    assert target == f"{row['answers'][0]['text']!r} at {row['answers'][0]['start']}"
    text, _ = next(examples_of(load(data, "nq"), "test", 1))
    document = load(data, "nq").corpus.to_pylist()[24]
    assert text.endswith(f"\nDocument: {document['title']}. {document['text']}")
    text, target = next(examples_of(load(data, "msmarco"), "train", 1))
    assert text.startswith("Query: where is the ")
    assert "\nDocument: " in text
    with pytest.raises(UserError, match="nq has no training split; its models train on msmarco"):
        list(examples_of(load(data, "nq"), "train", 1))


def test_words_of_an_entity_are_shown_wherever_o_stands_among_the_labels(tmp_path: Path) -> None:
    definition = tmp_path / "places.toml"
    definition.write_text(
        '[places]\nkind = "tags"\nlabels = ["B-LOC", "I-LOC", "O"]\n'
        'files = {train = "train.bio", validation = "rest.bio", test = "rest.bio"}\n'
    )
    for name, town in (("train.bio", "Paris"), ("rest.bio", "Rome")):
        (tmp_path / name).write_text(f"{town} B-LOC\nis O\nbig O\n\nSo O\n")
    command("import")(["places", "--datasets", str(definition), "--out", str(tmp_path / "data")])
    found = load(tmp_path / "data", read_definitions(definition)[0])
    assert [target for _, target in examples_of(found, "train", 2)] == ["Paris/B-LOC", "no entity"]


def test_so_many_examples_are_shown_and_long_ones_are_cut(data: Path) -> None:
    assert "\n  -> " not in show_text(data, "sst2", count=0)
    assert show_text(data, "sst2", count=99).count("\n  -> ") == 24
    assert "more characters]" in show_text(data, "mldr_en")


def test_verify_finds_a_flipped_byte(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_synthetic(tmp_path, "sst2", train=20, evaluation=6)
    make_synthetic(tmp_path, "squad", train=20, evaluation=6)
    assert main(["verify", "--data", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "sst2: intact\nsquad: intact\n"
    flip(tmp_path / "squad/train.parquet")
    assert main(["verify", "--data", str(tmp_path)]) == 1
    assert "train.parquet: its content has changed" in capsys.readouterr().out
    with pytest.raises(UserError, match="fetch or import squad again with --replace"):
        main(["show", "squad", "--data", str(tmp_path)])
