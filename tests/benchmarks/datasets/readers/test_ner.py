"""Sentences of every form; IOB1, brackets, and ids that would be misread."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.datasets.readers.ner import sentences, tag_rows
from benchmarks.protocol import get_dataset
from tests.benchmarks.datasets.readers.originals import (
    Put,
    defined,
    inputs_of,
    read,
    refused,
    rows,
)

UNER_TAGS = get_dataset("uner_en").label_names


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
    assert [row["document"] for _, row in sentences(put(name, text))] == documents


def test_documents_of_rows_come_from_a_column_if_any(
    put: Put,
) -> None:
    table = [
        {"words": ["Ada"], "tags": ["B-PER"], "doc_id": 7},
        {"words": ["won"], "tags": ["O"]},
    ]
    named, without = (
        put("a.jsonl", table),
        put("b.jsonl", [{"words": ["Ada"], "tags": ["B-PER"]}]),
    )
    content = read("uner_en", train=without, validation=without, test=named)
    assert [row["document"] for row in rows(content, "test")] == ["7", None]
    assert "document" not in content.tables["train"].column_names


def spoken(path: Path) -> list[tuple[int, str]]:
    """Return the line where each sentence starts, and `word/tag` of its words."""
    return [
        (
            int(where.removeprefix(f"{path}:")),
            " ".join(
                f"{word}/{tag}"
                for word, tag in zip(row["words"], row["tags"], strict=True)
            ),
        )
        for where, row in sentences(path)
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
        (" New York \tB-LOC\nwon\tO \n", [(1, "New York/B-LOC won/O")]),
        ("Ada\tNNP\tB-PER\n", [(1, "Ada/B-PER")]),
        ("1999\tB-DATE\n2\tO\n", [(1, "1999/B-DATE 2/O")]),
        ("# a comment\nAda O\n", [(2, "Ada/O")]),
        ("Ada O\n# O\n", [(1, "Ada/O #/O")]),
        ("1\tAda\tB-PER\n2\twon\tO\n", [(1, "Ada/B-PER won/O")]),
        ("1\tAda \tB-PER \tx\n\n1\tYes\tO\tx\n", [(1, "Ada/B-PER"), (3, "Yes/O")]),
        ("1-2\tcannot\t_\n1\tcan\tO\n2\tnot\tO\n2.1\tgone\t_\n", [(2, "can/O not/O")]),
        ("1.1\tgone\t_\t-\n1\tcan\tO\t-\n", [(2, "can/O")]),
        ("1\t2-3\tO\t-\n2\t-\tO\t1-2\n", [(1, "2-3/O -/O")]),
        (
            "# id 7 d=train\nAda O\n\n# id 8 d=train\n# O\nwon O\n",
            [(2, "Ada/O"), (5, "#/O won/O")],
        ),
        (
            "# O\n# B-LOC\n\n# so O\n#Oslo B-LOC\nin O\n",
            [(1, "#/O #/B-LOC"), (5, "#Oslo/B-LOC in/O")],
        ),
        (
            "10\u00a0000 O\n\u3000 O\n\u2009x\u2028\tO\n",
            [(1, "10\u00a0000/O \u3000/O \u2009x\u2028/O")],
        ),
        (
            "# text = a\tb\tc\n1\tAda\tO\n#\n# sent\t2\n# text = a\tb\tc\n2\t#\tO\n",
            [(2, "Ada/O #/O")],
        ),
    ],
)
def test_line_is_word_first_tag_last_or_uners_form(
    put: Put, text: str, expected: list[tuple[int, str]]
) -> None:
    assert spoken(put("a.conll", text)) == expected


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
    def line(word: str, tag: str) -> str:
        return f"doc 0 0 {word} NN (S* - - - spk {tag}{' *' * (columns - 12)} -\n"

    text = "".join(
        line(*pair)
        for pair in zip(("one", "two", "three"), entities.split(), strict=True)
    )
    path = put(
        "a_gold_conll",
        f"#begin document (x); part 000\n{text}\n{line('#', '*')}#end document\n",
    )
    one, two, three = tags.split()
    assert spoken(path) == [(2, f"one/{one} two/{two} three/{three}"), (6, "#/O")]


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
    inputs = inputs_of("uner_en")
    found = tag_rows(put("a.conll", text), inputs)
    assert [" ".join(UNER_TAGS[tag] for tag in row["tags"]) for row in found] == kept
    assert list(inputs.notes) == (
        ["IOB1 tags were turned into IOB2"] if is_iob1 else []
    )


@pytest.mark.parametrize("column", ["tags", "ner", "ner_tags"])
def test_ids_count_in_the_names_that_the_file_declares(
    tmp_path: Path, column: str
) -> None:
    alphabetical = sorted(UNER_TAGS)
    tags = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "I-ORG"]]
    ids = [[alphabetical.index(tag) for tag in line] for line in tags]
    table = pa.table({"tokens": [["a"] * 4, ["a"] * 2], column: ids})
    feature = {
        "feature": {"names": alphabetical, "_type": "ClassLabel"},
        "_type": "Sequence",
    }
    metadata = {"huggingface": json.dumps({"info": {"features": {column: feature}}})}
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "x.parquet")
    found = tag_rows(tmp_path / "x.parquet", inputs_of("uner_en"))
    assert [[UNER_TAGS[tag] for tag in row["tags"]] for row in found] == tags


@pytest.mark.parametrize(
    ("inside", "strays", "fine"),
    [(0, 0, True), (50, 1, True), (49, 1, False), (1, 0, True)],
)
def test_unnamed_ids_may_have_one_stray_tag_in_fifty(
    put: Put, inside: int, strays: int, fine: bool
) -> None:
    stray, follows, starts = (
        UNER_TAGS.index("I-LOC"),
        UNER_TAGS.index("I-PER"),
        UNER_TAGS.index("B-PER"),
    )
    tags = [starts, *[follows] * (inside - strays), *[stray] * strays, 0]
    path = put("x.jsonl", [{"words": ["a"] * len(tags), "tags": tags}])
    if fine:
        assert [row["tags"] for row in tag_rows(path, inputs_of("uner_en"))] == [tags]
    else:
        assert "numbers its tags without naming them" in refused(
            lambda: tag_rows(path, inputs_of("uner_en"))
        )


TWO_LAYERS = "1\tAda\tB-A\tO\n2\twon\tO\tB-A\n"


def test_own_words_have_two_columns_or_numbers_say_which(put: Put) -> None:
    labels = ["O", "B-A", "I-A"]
    path = put("x.tsv", TWO_LAYERS)
    files = {"train": path, "validation": path, "test": path}
    said = refused(lambda: read(defined("tags", labels=labels), **files))
    assert (
        "x.tsv:1: the line does not have a word and a tag, but 4 columns; set columns"
        in said
    )
    for tag, expected in ((3, [1, 0]), (4, [0, 1])):
        dataset = defined("tags", labels=labels, columns={"words": 2, "tags": tag})
        row = rows(read(dataset, **files), "test")[0]
        assert (row["words"], row["tags"]) == (["Ada", "won"], expected)
    said = refused(
        lambda: defined("tags", labels=labels, columns={"words": 1, "tags": 0})
    )
    assert "columns: only those of words and tags can be numbers" in said
