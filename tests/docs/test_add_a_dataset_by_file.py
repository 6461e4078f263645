"""docs/add-a-dataset.md does what it says of files: its file is imported, run and scored, all eight kinds."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.evidence.evidence import Evidence, scores_of
from analysis.evidence.settings import Settings
from benchmarks.datasets.column_names import FIELD_NAMES
from benchmarks.datasets.local_dataset import load_dataset, verify_dataset
from benchmarks.finetuning.tokenization import texts_of
from benchmarks.own_datasets.definition_file import read_definitions
from clm_or_mlm.__main__ import main
from tests.benchmarks.tiny import make_tokenizer, save_model

PAGE = Path(__file__).resolve().parents[2] / "docs/add-a-dataset.md"
NAMES = (
    "reviews",
    "paraphrases",
    "topics",
    "similarity",
    "places",
    "trivia",
    "doubtful",
    "manuals",
)
TOPICS = ("sports", "politics", "music")
THINGS = ("river", "engine", "novel", "tower", "garden", "planet")


def lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def tsv(path: Path, rows: list[dict[str, Any]]) -> None:
    text = [
        "\t".join(rows[0]),
        *("\t".join(str(value) for value in row.values()) for row in rows),
    ]
    path.write_text("\n".join(text) + "\n")


def things(start: int, count: int) -> Iterator[tuple[int, str]]:
    for number in range(start, start + count):
        yield number, f"the {THINGS[number % 6]} number {number}"


def answered(number: int, thing: str, *, without: bool = False) -> dict[str, Any]:
    context = f"Ada found {thing} in Lyon."
    answers = {
        "text": [] if without else ["Lyon"],
        "answer_start": [] if without else [context.index("Lyon")],
    }
    return {
        "id": f"q{number}",
        "question": f"Where is {thing}?",
        "context": context,
        "answers": answers,
    }


def paragraph(row: dict[str, Any]) -> dict[str, Any]:
    """A question as SQuAD's JSON has it."""
    answer = {"text": "Lyon", "answer_start": row["answers"]["answer_start"][0]}
    return {
        "context": row["context"],
        "qas": [{"id": row["id"], "question": row["question"], "answers": [answer]}],
    }


def write_files(folder: Path) -> None:
    """The files that the page's tables name."""
    for part, start, count in (("train", 0, 60), ("test", 60, 12)):
        own = list(things(start, count))
        tsv(
            folder / f"reviews-{part}.tsv",
            [{"body": t, "stars": ("bad", "fair", "good")[n % 3]} for n, t in own],
        )
        tagged = [
            {"text": t, "labels": [TOPICS[i] for i in range(3) if n >> i & 1]}
            for n, t in own
        ]
        lines(folder / f"topics-{part}.jsonl", tagged)
        near = [
            {"sentence1": t, "sentence2": f"a {t}", "score": n % 11 / 2} for n, t in own
        ]
        tsv(folder / f"similarity-{part}.tsv", near)
        words = "".join(
            f"Ada\tO\nsaw\tO\nNew\tB-LOC\n{t.split()[1]}{n}\tI-LOC\n\n" for n, t in own
        )
        (folder / f"places-{part}.bio").write_text(words)
        lines(
            folder / f"doubtful-{part}.jsonl",
            [answered(n, t, without=n % 3 == 0) for n, t in own],
        )
        squad = {"data": [{"paragraphs": [paragraph(answered(n, t)) for n, t in own]}]}
        (folder / f"trivia-{part}.json").write_text(json.dumps(squad))
    for part, start, count in (("train", 0, 60), ("dev", 60, 8), ("test", 70, 8)):
        rows = [
            {"sentence1": t, "sentence2": t[::-1], "label": n % 2}
            for n, t in things(start, count)
        ]
        lines(folder / f"pairs-{part}.jsonl", rows)
    asked = list(things(60, 12))
    lines(
        folder / "manuals-pairs.jsonl",
        [{"query": f"where is {t}", "positive": t} for _, t in things(0, 60)],
    )
    lines(
        folder / "manuals-queries.jsonl",
        [{"_id": f"q{n}", "text": f"find {t}"} for n, t in asked],
    )
    lines(
        folder / "manuals-corpus.jsonl",
        [{"_id": f"d{n}", "title": "", "text": t} for n, t in asked],
    )
    tsv(
        folder / "manuals-qrels.tsv",
        [{"query-id": f"q{n}", "corpus-id": f"d{n}", "score": 1} for n, _ in asked],
    )


@pytest.fixture
def my_toml(tmp_path: Path) -> Path:
    (code,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "my.toml").write_text(code)
    write_files(tmp_path)
    return tmp_path / "my.toml"


def test_from_the_file_to_a_row_of_scores(
    my_toml: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {definition.name: definition for definition in read_definitions(my_toml)}
    assert tuple(own) == NAMES
    data, out = tmp_path / "data", tmp_path / "out"
    for name in NAMES:
        assert not main(
            ["import", name, "--datasets", str(my_toml), "--out", str(data)]
        )
        assert verify_dataset(data, own[name]) == []
    assert load_dataset(data, own["reviews"]).manifest.counts == {
        "train": 57,
        "validation": 3,
        "test": 12,
    }
    assert load_dataset(data, own["paraphrases"]).manifest.counts == {
        "train": 60,
        "validation": 8,
        "test": 8,
    }
    assert load_dataset(data, own["manuals"]).manifest.counts == {
        "train": 60,
        "validation": 6,
        "test": 6,
    }
    [first, *_] = load_dataset(data, own["reviews"]).tables["train"].to_pylist()
    assert texts_of(own["reviews"], first)[0].startswith("Review: the ")
    model = save_model(
        tmp_path / "tiny", make_tokenizer([text for _, text in things(0, 80)])
    )
    options = [
        "--datasets",
        str(my_toml),
        "--data",
        str(data),
        "--out",
        str(out),
        "--dataset",
        *NAMES,
    ]
    options += ["--lr", "1e-3", "--seed", "0", "--steps", "2", "--model", str(model)]
    assert not main(["benchmarks", "run", *options, "--dry-run"])
    assert (
        main(["benchmarks", "run", *options, "--workers", "1", "--device", "cpu"]) == 0
    )
    # What follows takes the definitions from the store.
    capsys.readouterr()
    # Of the twelve nothing was asked for
    assert main(["benchmarks", "status", "--out", str(out), "--json"]) == 0
    cells = {cell["dataset"]: cell for cell in json.loads(capsys.readouterr().out)}
    assert all(cells[name]["done"] == cells[name]["runs"] == 1 for name in NAMES)
    assert cells.keys() == set(NAMES)
    for name, metric in (("similarity", "pearson"), ("reviews", "macro_f1")):
        (record,) = (out / "results/tiny").glob(f"*/{name}/*/run.json")
        assert json.loads(record.read_text())["steps"] == 2
        value = json.loads(record.read_text())["standard"]["test"][metric]
        main(["scores", "--source", str(out), "--dataset", name])
        shown = capsys.readouterr().out.splitlines()[-1].split(",")
        assert f"{100 * value:.2f}" in [
            f"{float(each):.2f}" for each in shown if re.fullmatch(r"-?[\d.]+", each)
        ]
    (record,) = (out / "results/tiny").glob("*/places/*/run.json")
    assert json.loads(record.read_text())["steps"] == 2  # not the file's one epoch
    for protocol in ("", "standard:"):
        assert not main(["scores", "--source", f"{protocol}{out}"])
        shown = "".join(capsys.readouterr())
        for name in NAMES:
            assert re.search(rf"^tiny,\w+,{name},", shown, re.MULTILINE), name


def test_it_enters_no_average() -> None:
    values = {"sst2": 0.9, "qqp": 0.8, "mnli_m": 0.7, "reviews": 0.1}
    runs = pd.DataFrame(
        [
            {
                "model": "m",
                "task": "SC",
                "dataset": name,
                "lr": 1e-4,
                "seed": seed,
                "validation_score": value,
                "test_score": value,
                "n_validation": 10,
                "n_test": 10,
            }
            for name, value in values.items()
            for seed in range(5)
        ]
    )
    scores = scores_of(Evidence(Settings(), runs=runs), source="x").set_index(
        "dataset"
    )["mean"]
    assert scores["average"] == pytest.approx(80)
    assert scores["reviews"] == pytest.approx(10)


def test_the_page_names_every_default_column() -> None:
    page = PAGE.read_text()
    rows = re.findall(r"^\| `([a-z`, ]+)` \| (.*?) \|", page, re.M)
    text_of = {kind: cell for kinds, cell in rows for kind in kinds.split("`, `")}
    pairs = re.search(r"^- \*\*Pairs\*\*.*?(?=^- )", page, re.M | re.S)
    assert pairs is not None
    for kind, columns in FIELD_NAMES.items():
        text = pairs[0] if kind == "retrieval" else text_of[kind]
        named = re.findall(r"`(\w+)`", text)
        wanted = [name for names in columns.values() for name in names]
        # The ids of questions are a detail of SQuAD's files.
        wanted = [name for name in wanted if name != "id"]
        assert [name for name in named if name in wanted] == wanted, kind
