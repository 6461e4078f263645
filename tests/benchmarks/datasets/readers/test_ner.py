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

from benchmarks.datasets.readers.ner import (
    iob1_to_iob2,
    sentences,
    tag_rows,
)
from benchmarks.datasets.readers.original_files import Reading
from benchmarks.protocol import get_dataset
from tests.benchmarks.datasets.readers.originals import Put, read, refused, rows

SKIPPED = " (--skip-bad-lines leaves such lines out)"


UNER_TAGS, CONLL_TAGS = (get_dataset(name).label_names for name in ("uner_en", "conll2003_en"))


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
    names = [get_dataset("ontonotes").label_names[tag] for tag in rows(content, "train")[0]["tags"]]
    assert names == ["O", "B-PERSON", "O", "B-GPE", "I-GPE"]


@pytest.mark.parametrize(
    ("name", "text", "documents"),
    [
        (
            "eng.testa",
            "-DOCSTART- -X- O O\n\nEU B-ORG\n\nParis B-LOC\n\n-DOCSTART- -X- O O\n\nRome B-LOC\n",
            ["eng.testa:1", "eng.testa:1", "eng.testa:7"],
        ),
        ("plain.bio", "EU B-ORG\n\nParis B-LOC\n", [None, None]),
        (
            "dev.iob2",
            "# newdoc id = weblog-1\n# sent_id = 1\n1\tEU\tB-ORG\n\n1\tis\tO\n\n# newdoc\n1\tRome\tB-LOC\n",
            ["weblog-1", "weblog-1", "dev.iob2:7"],
        ),
        (
            "x_gold_conll",
            "#begin document (nw/wsj_1); part 000\nd 0 0 EU NN * - - - - (ORG) -\n\n#end document\n"
            "#begin document (nw/wsj_1); part 001\nd 1 0 is NN * - - - - * -\n\n#end document\n"
            "#begin document (nw/wsj_2); part 000\nd 0 0 so NN * - - - - * -\n",
            ["nw/wsj_1", "nw/wsj_1", "nw/wsj_2"],
        ),
    ],
)
def test_a_sentence_has_the_document_that_its_file_names(
    put: Put, name: str, text: str, documents: list[str | None]
) -> None:
    assert [one.document for one in sentences(put(name, text), Reading())] == documents


def test_documents_of_rows_are_in_a_column_and_without_any_there_is_none(put: Put) -> None:
    table = [{"words": ["Ada"], "tags": ["B-PER"], "doc_id": 7}, {"words": ["won"], "tags": ["O"]}]
    named, without = put("a.jsonl", table), put("b.jsonl", [{"words": ["Ada"], "tags": ["B-PER"]}])
    content = read("uner_en", train=without, validation=without, test=named)
    assert [row["document"] for row in rows(content, "test")] == ["7", None]
    assert "document" not in content.tables["train"].column_names


def spoken(path: Path, *, skip_bad: bool = False) -> list[tuple[int, str]]:
    """Return the line where each sentence starts, and `word/tag` of its words."""
    found = sentences(path, Reading(skip_bad=skip_bad))
    return [
        (
            int(one.where.removeprefix(f"{path}:")),
            " ".join(f"{w}/{t}" for w, t in zip(one.words, one.tags, strict=True)),
        )
        for one in found
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("\n \n\t\n", []),
        ("Ada B-PER", [(1, "Ada/B-PER")]),
        ("\n\nAda B-PER\nwon O\n\n\nYes O\n", [(3, "Ada/B-PER won/O"), (7, "Yes/O")]),
        ("-DOCSTART- -X- O O\n\nAda NNP I-NP I-PER\n", [(3, "Ada/I-PER")]),
        ("-DOCSTART-\nAda O\n", [(2, "Ada/O")]),
        ("well -DOCSTART-x\n", [(1, "well/-DOCSTART-x")]),
        ("New York\tB-LOC\nwon\tO \n", [(1, "New York/B-LOC won/O")]),
        ("Ada\tNNP\tB-PER\n", [(1, "Ada/B-PER")]),
        ("1999\tB-DATE\n2\tO\n", [(1, "1999/B-DATE 2/O")]),
        ("# a comment\nAda O\n", [(2, "Ada/O")]),
        ("Ada O\n# O\n", [(1, "Ada/O #/O")]),
        ("1\tAda\tB-PER\n2\twon\tO\n", [(1, "Ada/B-PER won/O")]),
        ("1\tAda \tB-PER \tx\n\n1\tYes\tO\tx\n", [(1, "Ada/B-PER"), (3, "Yes/O")]),
        ("1-2\tcannot\t_\n1\tcan\tO\n2\tnot\tO\n2.1\tgone\t_\n", [(2, "can/O not/O")]),
        ("1.1\tgone\t_\t-\n1\tcan\tO\t-\n", [(2, "can/O")]),
        ("1\t2-3\tO\t-\n2\t-\tO\t1-2\n", [(1, "2-3/O -/O")]),
        ("# text = a\tb\tc\n1\tAda\tO\n#\n# sent\t2\n# text = a\tb\tc\n2\t#\tO\n", [(2, "Ada/O #/O")]),
    ],
)
def test_a_line_is_a_word_first_and_its_tag_last_or_uners_index_word_and_tag(
    put: Put, text: str, expected: list[tuple[int, str]]
) -> None:
    assert spoken(put("a.conll", text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Ada O\nRome\n", "Ada\tO\n\tO\n", "Ada\tO\nRome\t\n", "1\tAda\tO\n2\tRome\n", "1\tAda\tO\n2\n",
        "1\tAda\tO\n2\t\tO\n", "1\tAda\tO\n2\tRome\t\n", "1\tAda\tO\nx\tRome\tO\n",
        "1\tAda\tO\nx\tRome\t7\n", "1\tAda\tO\nx\t7\tO\n",
    ],
)  # fmt: skip
def test_a_line_without_word_or_tag_takes_its_sentence_with_it(put: Put, text: str) -> None:
    path = put("a.conll", text + "\n" + text.splitlines()[0] + "\n")
    assert refused(lambda: spoken(path)) == f"{path}:2: the line does not have a word and a tag{SKIPPED}"
    assert spoken(path, skip_bad=True) == [(4, "Ada/O")]


def conll2012(*found: tuple[str, str], columns: int = 13) -> str:
    rest = " *" * (columns - 12) + " -"
    return "".join(f"doc 0 0 {word} NN (S* - - - spk {tag}{rest}\n" for word, tag in found)


@pytest.mark.parametrize(
    ("entities", "tags"),
    [
        ("* * *", "O O O"),
        ("(A) (A) *", "B-A B-A O"),
        ("(A* * *)", "B-A I-A I-A"),
        ("(A* *) (B)", "B-A I-A B-B"),
        ("(A* *) *", "B-A I-A O"),
        ("(WORK_OF_ART* * *", "B-WORK_OF_ART I-WORK_OF_ART I-WORK_OF_ART"),
    ],
)
@pytest.mark.parametrize("columns", [12, 13])
def test_brackets_open_and_close_entities_within_a_sentence(
    put: Put, entities: str, tags: str, columns: int
) -> None:
    text = conll2012(*zip(("one", "two", "three"), entities.split(), strict=True), columns=columns)
    after = conll2012(("next", "*"), columns=columns)
    path = put("a_gold_conll", f"#begin document (x); part 000\n{text}\n{after}#end document\n")
    one, two, three = tags.split()
    assert spoken(path) == [(2, f"one/{one} two/{two} three/{three}"), (6, "next/O")]


def test_a_folder_needs_gold_files(tmp_path: Path, put: Put) -> None:
    put("train/a.txt", "Ada O\n")
    assert (
        refused(
            lambda: read(
                "ontonotes", train=tmp_path / "train", validation=tmp_path / "train", test=tmp_path / "train"
            )
        )
        == f"{tmp_path / 'train'} contains no *_gold_conll files"
    )


@pytest.mark.parametrize(
    ("written", "kept", "is_iob1"),
    [
        (["O O"], ["O O"], False),
        (["B-LOC I-LOC O"], ["B-LOC I-LOC O"], False),
        (["O I-LOC"], ["O B-LOC"], True),
        (["O O", "I-PER I-PER B-PER"], ["O O", "B-PER I-PER B-PER"], True),
        (["I-LOC I-LOC", "O B-LOC"], ["I-LOC I-LOC", "O B-LOC"], False),
        (["I-LOC B-PER"], ["I-LOC B-PER"], False),
    ],
)
def test_a_file_is_iob1_when_b_only_parts_neighbours_of_one_type(
    put: Put, written: list[str], kept: list[str], is_iob1: bool
) -> None:
    text = "\n".join("".join(f"w {tag}\n" for tag in line.split()) for line in written)
    reading = Reading()
    found = tag_rows(put("a.conll", text), UNER_TAGS, reading)
    assert [" ".join(UNER_TAGS[tag] for tag in row["tags"]) for row in found] == kept
    assert reading.notes() == (("IOB1 tags were turned into IOB2",) if is_iob1 else ())


def test_a_sentence_with_an_unknown_tag_is_named_with_the_nearest_or_left_out(put: Put) -> None:
    path = put("a.conll", "Ada B-PER\n\nin O\nRome B-LOK\n\nYes O\n")
    assert refused(lambda: tag_rows(path, UNER_TAGS, Reading())) == (
        f"{path}:3: the tag 'B-LOK' is not in the tag set O, B-PER, I-PER, B-ORG, I-ORG, B-LOC, I-LOC; "
        f"did you mean 'B-LOC'?{SKIPPED}"
    )
    kept = tag_rows(path, UNER_TAGS, Reading(skip_bad=True))
    assert kept == [{"words": ["Ada"], "tags": [1]}, {"words": ["Yes"], "tags": [0]}]


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"words": ["Ada"]}, "there is no column tags or ner or ner_tags; the columns are 'words'"),
        ({"tags": ["O"]}, "there is no column words or tokens; the columns are 'tags'"),
        ({"words": [], "tags": []}, "there are 0 words and 0 tags"),
        ({"words": ["Ada"], "tags": []}, "there are 1 words and 0 tags"),
        ({"words": ["Ada"], "tags": [0, 0]}, "there are 1 words and 2 tags"),
        ({"words": ["Ada", 7], "tags": [0, 0]}, "a word is not text"),
        ({"words": ["Ada"], "tags": [-1]}, f"the tag '-1' is not in the tag set {', '.join(UNER_TAGS)}"),
        ({"words": ["Ada"], "tags": [7]}, f"the tag '7' is not in the tag set {', '.join(UNER_TAGS)}"),
        ({"words": ["Ada"], "tags": [None]}, f"the tag 'None' is not in the tag set {', '.join(UNER_TAGS)}"),
    ],
    ids=str,
)
def test_a_bad_row_is_named_once_or_left_out(put: Put, bad: dict[str, object], sentence: str) -> None:
    good = {"words": ["Ada", "won"], "tags": [1, 0]}
    path, reading = (
        put("x.jsonl", [good, bad, {"words": ["Rome"], "tags": ["B-LOC"]}]),
        Reading(skip_bad=True),
    )
    assert refused(lambda: tag_rows(path, UNER_TAGS, Reading())) == f"{path}:2: {sentence}{SKIPPED}"
    assert tag_rows(path, UNER_TAGS, reading) == [good, {"words": ["Rome"], "tags": [5]}]
    assert reading.notes() == (f"bad lines left out: 1, the first at x.jsonl:2: {sentence}",)


@pytest.mark.parametrize("column", ["tags", "ner", "ner_tags"])
def test_ids_count_in_the_names_that_the_file_declares(tmp_path: Path, column: str) -> None:
    alphabetical = sorted(UNER_TAGS)
    tags = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "I-ORG"]]
    table = pa.table(
        {
            "tokens": [["a"] * 4, ["a"] * 2],
            column: [[alphabetical.index(tag) for tag in line] for line in tags],
        }
    )
    feature = {"feature": {"names": alphabetical, "_type": "ClassLabel"}, "_type": "Sequence"}
    metadata = {"huggingface": json.dumps({"info": {"features": {column: feature}}})}
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "x.parquet")
    found = tag_rows(tmp_path / "x.parquet", UNER_TAGS, Reading())
    assert [[UNER_TAGS[tag] for tag in row["tags"]] for row in found] == tags


@pytest.mark.parametrize(
    ("inside", "strays", "fine"), [(0, 0, True), (50, 1, True), (49, 1, False), (1, 0, True)]
)
def test_unnamed_ids_may_have_one_stray_in_fifty_tags_inside_entities(
    put: Put, inside: int, strays: int, fine: bool
) -> None:
    stray, follows, starts = UNER_TAGS.index("I-LOC"), UNER_TAGS.index("I-PER"), UNER_TAGS.index("B-PER")
    tags = [starts, *[follows] * (inside - strays), *[stray] * strays, 0]
    path = put("x.jsonl", [{"words": ["a"] * len(tags), "tags": tags}])
    if fine:
        assert [row["tags"] for row in tag_rows(path, UNER_TAGS, Reading())] == [tags]
    else:
        assert refused(lambda: tag_rows(path, UNER_TAGS, Reading())) == (
            f"{path} numbers its tags without naming them; read as O, B-PER, I-PER, B-ORG, I-ORG, B-LOC, I-LOC, "
            f"they are not valid IOB2; import a file with tag names"
        )
