"""Samples of original files, and the made-up text."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from miniature.job import Folders
from miniature.recipe import FORMS

from benchmarks.datasets import import_files
from benchmarks.datasets.local_dataset import load
from common.errors import UserError
from miniature.data_source import get_origin
from miniature.grammar import documents
from miniature.local import LocalFiles
from miniature.sampling import answer_sentence, spread

REAL = Path(os.environ.get("REAL_DATA", "/nowhere"))
FORM = FORMS["quick"]


def test_made_up_text_is_the_same_again_and_agrees_in_number() -> None:
    text = list(documents(40))
    assert text == list(documents(40)) and text != list(documents(40, seed=1))
    pairs = re.findall(r"The (\w+?)(s?) near the \w+ (\w+) the", " ".join(text))
    assert len(pairs) > 100
    singular = {"watches", "carries", "repairs", "hides", "paints"}
    assert all((verb in singular) == (not plural) for _, plural, verb in pairs)
    for document in text:
        homes = dict(re.findall(r"The (\w+) lives in (\w+)\.", document))
        person, town = re.search(r"The (\w+) goes home to (\w+)\.", document).groups()  # type: ignore[union-attr]
        assert homes.get(person) == town or document.count(f"The {person} lives") > 1


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"eltec-eng\.chapters\.jsonl: no such file"):
        LocalFiles(tmp_path).text(FORM, Folders(root=tmp_path))
    with pytest.raises(UserError, match=r"sst2/train\.tsv: no such file"):
        LocalFiles(tmp_path).datasets(FORM, Folders(root=tmp_path))
    with pytest.raises(UserError, match="no such folder; give one, or `hub`"):
        get_origin("absent")


def test_a_question_is_asked_of_its_answers_sentence() -> None:
    context = 'It rained. "Dr. Wu" came in May 1999. She left in June.'

    def asked(*answers: str) -> list[tuple[int, int]]:
        return [(context.index(text), len(text)) for text in answers]

    for answer, sentence in (
        ("It", "It rained."), ("May 1999", 'Wu" came in May 1999.'), ("June", "She left in June."),
        ("left in June.", "She left in June."),
    ):  # fmt: skip
        found = answer_sentence(context, asked(answer))
        assert found is not None and context[slice(*found)] == sentence
    assert answer_sentence(context, asked("May 1999", "June")) is None
    long = "x" * 300
    assert answer_sentence(long, [(7, 1)]) is None


def test_rows_are_spread_over_a_file() -> None:
    assert spread(range(10), 4) == [0, 2, 5, 7]
    assert spread(range(3), 4) == [0, 1, 2]


@pytest.mark.real_data
@pytest.mark.skipif(not REAL.is_dir(), reason="REAL_DATA names no folder with original distribution files")
def test_samples_are_read_by_the_usual_import(tmp_path: Path) -> None:
    for job in LocalFiles(REAL).datasets(FORM, Folders(root=tmp_path)):
        assert import_files.main(job.command[2:]) == 0
    counts = {
        name: load(tmp_path / "data", name).manifest.counts for name in ("sst2", "uner_en", "squad", "nq")
    }
    for task, name in (("SC", "sst2"), ("TC", "uner_en"), ("QA", "squad")):
        train, rest = FORM.examples[task]
        assert counts[name] == {"train": train, "validation": rest, "test": rest}
    rest = FORM.examples["IR"][1]
    assert counts["nq"]["validation"] == counts["nq"]["test"] == rest
    pairs = load(tmp_path / "data", "msmarco").tables["pairs"]["query"].to_pylist()
    asked = load(tmp_path / "data", "nq").tables["queries"]["text"].to_pylist()
    assert len(pairs) == FORM.examples["IR"][0] + 100 and not set(pairs) & set(asked)
    squad = json.loads((tmp_path / "raw" / "squad-validation.json").read_text())
    other = json.loads((tmp_path / "raw" / "squad-test.json").read_text())

    def ids(content: dict[str, list[dict[str, list[dict[str, list[dict[str, str]]]]]]]) -> set[str]:
        return {q["id"] for a in content["data"] for p in a["paragraphs"] for q in p["qas"]}

    assert not ids(squad) & ids(other)
