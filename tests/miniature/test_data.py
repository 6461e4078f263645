"""The data sources that DATA names, what their commands make, and what is taken of a dataset that is too large."""

import dataclasses
import re
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.datasets.local_dataset import load, verify
from clm_or_mlm.__main__ import main
from common.errors import UserError
from miniature.data import (
    MADE_UP,
    DataSource,
    _shortened,
    answer_sentence,
    documents,
    get_data_source,
    write_samples,
)
from miniature.forms import FAMILIES, FORMS, WHOLE_CONTEXTS

FORM = dataclasses.replace(FORMS["quick"], tokens=3_000)


def test_the_made_up_text_is_written_once_and_named_from_the_folder(tmp_path: Path) -> None:
    assert get_data_source(None, FORM) is get_data_source("", FORM) is MADE_UP
    assert MADE_UP.text(FORM, tmp_path) == "raw/text.jsonl"
    before = (tmp_path / "raw/text.jsonl").stat().st_mtime_ns
    assert (tmp_path / "raw/text.jsonl").read_text().count("\n") == 3_000 // 150
    MADE_UP.text(FORM, tmp_path)
    assert (tmp_path / "raw/text.jsonl").stat().st_mtime_ns == before


def test_datasets_are_made_up_in_the_forms_sizes() -> None:
    sizes = {words[1]: words[3::2][:2] for words in MADE_UP.commands(FORM)}
    large, small = ("640", "200"), ("640", "100")
    assert sizes == {"sst2": large, "uner_en": large, "squad": large, "nq": small, "msmarco": small}


def test_a_folder_gives_its_text_and_rows_of_its_datasets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "whole" / "text").mkdir(parents=True)
    with pytest.raises(UserError, match="has no folder sst2"):
        get_data_source(str(tmp_path / "whole"), FORM)
    sizes = ("--train", "40", "--evaluation", "20", "--out", str(tmp_path / "whole"))
    for name in FORM.datasets:
        assert main(["synthetic", name, *sizes]) in (0, None)
    monkeypatch.chdir(tmp_path)
    source = get_data_source("whole", FORM)
    assert source == DataSource(place=tmp_path / "whole"), "jobs work in another folder"
    assert source.text(FORM, tmp_path) == str(tmp_path / "whole" / "text")
    form = dataclasses.replace(FORM, examples=dict.fromkeys(FAMILIES, (10, 4)))
    monkeypatch.setitem(FORMS, "quick", form)
    for words in source.commands(form):
        assert not main(words)
    for name in FORM.datasets:
        assert verify(tmp_path / "data", name) == []
    for name in ("sst2", "uner_en"):
        whole, sample = (load(tmp_path / place, name) for place in ("whole", "data"))
        assert sample.manifest.counts == {"train": 10, "validation": 4, "test": 4}
        assert sample.labels == whole.labels and sample.manifest.source["content"] == whole.manifest.content
        rows = whole.tables["train"].to_pylist()
        assert sample.tables["train"].to_pylist() == [rows[4 * number] for number in range(10)]
    for name in ("nq", "msmarco"):
        found = load(tmp_path / "data", name)
        for split in ("validation", "test"):
            asked = set(found.queries(split)["id"].to_pylist())
            assert len(asked) == 4 and set(found.qrels(split)["query_id"].to_pylist()) == asked
        assert set(found.corpus["id"].to_pylist()) == set(found.tables["qrels"]["doc_id"].to_pylist())
    assert load(tmp_path / "data", "msmarco").train.num_rows == 10


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
    assert answer_sentence("x" * 300, [(7, 1)]) is None
    rows = [
        {"context": context, "answers": [{"text": "May 1999", "start": context.index("May")}]},
        {"context": context, "answers": []},
    ]
    (row,) = _shortened(pa.Table.from_pylist(rows))
    start = row["answers"][0]["start"]
    assert row["context"] == 'Wu" came in May 1999.' and row["context"][start:].startswith("May 1999")


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


def test_long_inputs_keep_the_whole_paragraph(tmp_path: Path) -> None:
    for name in FORM.datasets:
        main(["synthetic", name, "--train", "40", "--evaluation", "20", "--out", str(tmp_path / "whole")])
    whole = set(load(tmp_path / "whole", "squad").tables["train"]["context"].to_pylist())
    for length, kept in ((48, False), (WHOLE_CONTEXTS, True)):
        examples = dict.fromkeys(FAMILIES, (10, 4))
        form = dataclasses.replace(FORMS["quick"], tuning_length=length, examples=examples)
        write_samples(form, tmp_path / "whole", tmp_path / f"{length}")
        contexts = load(tmp_path / f"{length}", "squad").tables["train"]["context"].to_pylist()
        assert (set(contexts) <= whole) is kept
