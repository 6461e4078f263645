"""What the window cuts is counted, by texts of known length, and said where people look."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets.local_dataset import load_dataset, table
from benchmarks.finetuning.encoders import load_model
from benchmarks.sweep.window import window_cuts
from benchmarks.tasks.base import Setting
from common.embedding import PAPER_READING
from tests.benchmarks.sweep.stores import run, validate
from tests.benchmarks.tiny import CPU

LONG = "the lamp " * 100
TAGGED = ["the"] * 200


def question(context: str, answer: str) -> dict[str, Any]:
    start = context.index(answer)
    return {
        "question": "which?",
        "context": context,
        "answers": [{"text": answer, "start": start}],
    }


CASES = {
    "squad": (
        [
            question(f"{LONG}Oslo", "Oslo"),
            question(f"Oslo {LONG}", "Oslo"),
            question("Oslo", "Oslo"),
        ],
        "6 of 9 contexts are cut at 64 tokens; 3 answers are lost",
    ),
    "conll2003_en": (
        [
            {
                "words": TAGGED,
                "tags": ["B-PER", "I-PER", *["O"] * 195, "B-LOC", "I-LOC", "B-PER"],
            },
            {"words": ["Oslo"], "tags": ["B-LOC"]},
        ],
        "3 of 6 sentences are cut at 64 tokens; 6 entities are lost",
    ),
    "sst2": (
        [
            {"first": LONG, "second": None, "label": 0},
            {"first": "fine", "second": None, "label": 1},
        ],
        "3 of 6 texts are cut at 64 tokens",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_behind_the_cut_is_counted(
    name: str, data: Path, model_folder: Callable[..., Path]
) -> None:
    dataset, loaded = (
        load_dataset(data, name),
        load_model(str(model_folder("ours")), max_length=64),
    )
    setting = Setting(loaded=loaded, device=CPU)
    rows, expected = CASES[name]
    labelled = [
        {
            "id": str(number),
            **row,
            **(
                {"tags": [dataset.labels.index(tag) for tag in row["tags"]]}
                if "tags" in row
                else {}
            ),
        }
        for number, row in enumerate(rows)
    ]
    splits = ("train", "validation", "test")
    tables = {split: table(dataset.dataset.form, split, labelled) for split in splits}
    assert window_cuts(replace(dataset, tables=tables), setting) == expected
    short = {split: tables[split].slice(len(rows) - 1) for split in splits}
    assert window_cuts(replace(dataset, tables=short), setting) == ""


def test_a_long_prompt_is_part_of_what_is_cut(
    data: Path, model_folder: Callable[..., Path]
) -> None:
    loaded = load_model(str(model_folder("ours")), max_length=64)
    prompt = "which of these texts answers the question " * 8
    reading = replace(PAPER_READING, query=prompt)
    setting = Setting(loaded=loaded, device=CPU, reading=reading)
    dataset = load_dataset(data, "nq")
    queries = dataset.tables["queries"]
    cut = window_cuts(replace(dataset, tables={"queries": queries}), setting)
    assert cut.startswith(f"{queries.num_rows} of {queries.num_rows} texts are cut")


def test_the_dry_run_and_each_run_say_what_is_cut(
    data: Path,
    model_folder: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [
        "--model",
        str(model_folder("ours")),
        "--data",
        str(data),
        "--out",
        str(tmp_path / "store"),
    ]
    words += [
        "--dataset",
        "nq",
        "--max-length",
        "8",
        "--device",
        "cpu",
        "--workers",
        "1",
    ]
    words += ["--lr", "1e-3", "--seed", "0", "--steps", "1"]
    assert validate(words) == 0
    shown = capsys.readouterr().out
    assert (
        " documents are searched for each query" in shown
        and " texts are cut at 8 tokens" in shown
    )
    run(words)
    (record,) = (tmp_path / "store").rglob("run.json")
    assert " texts are cut at 8 tokens" in json.loads(record.read_text("utf-8"))["cut"]
