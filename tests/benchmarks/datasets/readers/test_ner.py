"""Sentences of every form; IOB1, brackets, and ids that would be misread."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from benchmarks.datasets.readers.ner import CONLL_TAGS, iob1_to_iob2, sentences
from benchmarks.datasets.readers.original_files import Reading
from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import Put, read, rows

UNER = """# sent_id = 1
# text = Ada in New York
1\tAda\tB-PER\t-\tx
2-3\tcannot\t_\t-\tx
2\tcan\tO\t-\tx
3\tnot\tO\t-\tx

# sent_id = 2
1\t#\tO\t-\tx
2\tNew\tB-LOC\t-\tx
3\tYork\tI-LOC\t-\tx
"""


def test_uner_iob2(put: Put) -> None:
    path = put("en_ewt-ud-train.iob2", UNER)
    content = read("uner_en", train=path, validation=path, test=path)
    assert rows(content, "train") == [
        {"id": "train-0", "words": ["Ada", "can", "not"], "tags": [1, 0, 0]},
        {"id": "train-1", "words": ["#", "New", "York"], "tags": [0, 5, 6]},
    ]


def test_conll2003_iob1_becomes_iob2(put: Put) -> None:
    text = (
        "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\nParis X I-NP I-LOC\nRome X I-NP B-LOC\n"
        "\n\nA B C O\n"
    )
    path = put("eng.train", text)
    content = read("conll2003_en", train=path, validation=path, test=path)
    assert [[CONLL_TAGS[tag] for tag in row["tags"]] for row in rows(content, "test")] == [
        ["B-ORG", "O", "B-LOC", "B-LOC"],
        ["O"],
    ]
    assert "IOB1 tags were turned into IOB2" in content.notes


@given(st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"])))
def test_iob1_to_iob2_keeps_the_entities(tags: list[str]) -> None:
    """seqeval reads IOB1-like and IOB2 tags to the same spans."""
    assert get_entities(iob1_to_iob2(tags)) == get_entities(tags)


def test_conll2012_brackets(tmp_path: Path, put: Put) -> None:
    def line(word: str, entity: str) -> str:
        return f"doc 0 0 {word} NN (S* - - - spk {entity} * -\n"

    text = (
        "#begin document (x); part 000\n"
        + line("Mr.", "*")
        + line("Bush", "(PERSON)")
        + line("saw", "*")
        + line("New", "(GPE*")
        + line("York", "*)")
        + "\n"
        + line("#", "*")
        + "#end document\n"
    )
    put("train/a.v4_gold_conll", text)
    put("train/sub/b.v4_gold_conll", text)
    content = read(
        "ontonotes", train=tmp_path / "train", validation=tmp_path / "train", test=tmp_path / "train"
    )
    assert [row["words"] for row in rows(content, "train")] == [
        ["Mr.", "Bush", "saw", "New", "York"],
        ["#"],
    ] * 2
    names = [content.labels[tag] for tag in rows(content, "train")[0]["tags"]]
    assert names == ["O", "B-PERSON", "O", "B-GPE", "I-GPE"]


def test_ner_bad_lines(put: Put) -> None:
    unknown = put("a.iob2", UNER.replace("B-PER", "B-OTH"))
    with pytest.raises(UserError, match=r"a\.iob2:3: the tag 'B-OTH' is outside the tag set"):
        read("uner_en", train=unknown, validation=unknown, test=unknown)
    good = put("b.iob2", UNER)
    content = read("uner_en", train=unknown, validation=good, test=good, skip_bad=True)
    assert [row["words"] for row in rows(content, "train")] == [["#", "New", "York"]]
    short = put("c.conll", "Ada B-PER\nin\n")
    with pytest.raises(UserError, match=r"c\.conll:2: the line has no word and tag"):
        list(sentences(short, Reading()))
    with pytest.raises(UserError, match="--test FILE"):
        read("uner_en", train=good, validation=good)


def test_ner_hub_rows(tmp_path: Path) -> None:
    table = [{"words": ["Ada", "in", "Rome"], "ner": [1, 0, 5]}, {"words": ["EU", "Bank"], "ner": [3, 4]}]
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "train.parquet")
    path = tmp_path / "train.parquet"
    content = read("conll2003_en", train=path, validation=path, test=path)
    assert [row["tags"] for row in rows(content, "train")] == [[1, 0, 5], [3, 4]]
    named = [{"tokens": ["Ada"], "tags": ["B-PERSON"]}]
    (tmp_path / "train.json").write_text("\n".join(json.dumps(row) for row in named * 2))
    path = tmp_path / "train.json"
    assert rows(read("ontonotes", train=path, validation=path, test=path), "train")[0]["tags"] == [4]


def test_ner_ids_in_an_unknown_order_are_refused(tmp_path: Path) -> None:
    """Alphabetical ids read in CoNLL's order make entities that start inside: that must not pass silently."""
    alphabetical = sorted(CONLL_TAGS)
    row = {"words": ["Ada", "Lovelace", "in", "New", "York"]}
    row["ner"] = [alphabetical.index(tag) for tag in ("B-PER", "I-PER", "O", "B-LOC", "I-LOC")]  # type: ignore[assignment]
    pq.write_table(pa.Table.from_pylist([row] * 5), tmp_path / "x.parquet")
    with pytest.raises(UserError, match="numbers its tags without naming them"):
        read(
            "conll2003_en",
            train=tmp_path / "x.parquet",
            validation=tmp_path / "x.parquet",
            test=tmp_path / "x.parquet",
        )
