"""Training pairs and triplets of every form are the same pairs, and what is held out of them is asked and judged."""

import re
from typing import Any

import pytest

from benchmarks.datasets.readers.beir import pairs
from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import (
    Put,
    defined,
    inputs_of,
    read,
    rows,
)
from tests.benchmarks.datasets.readers.test_beir import NEGATIVES
from tests.benchmarks.datasets.readers.test_refusals import HEADER


@pytest.mark.parametrize(
    ("text", "expected", "negatives"),
    [
        ("ask\tanswer\nwhy\tso", [("ask", "answer"), ("why", "so")], False),
        (" ask \t answer \n", [("ask", "answer")], False),
        ("query\tpositive\nask\tanswer\n", [("ask", "answer")], False),
        ("anchor\tpositive\tnegative\nask\tanswer\tno\n", [("ask", "answer")], True),
        (
            "ask\tanswer\nquery\tpositive\n",
            [("ask", "answer"), ("query", "positive")],
            False,
        ),
        ("ask me\tyes\tno\n", [("ask me", "yes")], True),
        ("ask 0\tyes\n", [("ask 0", "yes")], False),
        ("ask 0\tyes it is\n", [("ask 0", "yes it is")], False),
        ("query-id\tis a field\n", [("query-id", "is a field")], False),
        ("query-id\tis mine\n", [("query-id", "is mine")], False),
        ("my pid\tyes\n", [("my pid", "yes")], False),
        ("", [], False),
    ],
)
def test_training_lines_have_query_passage_and_maybe_negative(
    put: Put, text: str, expected: list[tuple[str, str]], negatives: bool
) -> None:
    inputs = inputs_of("msmarco")
    found = pairs([put("pairs.tsv", text)], inputs).to_pylist()
    assert [(row["query"], row["positive"]) for row in found] == expected
    assert list(inputs.notes) == ([NEGATIVES] if negatives else [])


@pytest.mark.parametrize(
    "names", [("query", "positive"), ("anchor", "document"), ("sentence1", "sentence2")]
)
@pytest.mark.parametrize("negative", [None, "no"])
def test_training_rows_may_name_their_columns_otherwise(
    put: Put, names: tuple[str, str], negative: str | None
) -> None:
    inputs = inputs_of("msmarco")
    path = put(
        "pairs.jsonl", [{names[0]: "ask", names[1]: "answer", "negative": negative}]
    )
    assert pairs([path], inputs).to_pylist() == [{"query": "ask", "positive": "answer"}]
    assert list(inputs.notes) == ([NEGATIVES] if negative else [])


@pytest.mark.parametrize(
    "text",
    [
        HEADER + "q1\td1\t1\nq1\td2\t0\nq2\td3\t2\n",
        "Query_ID\tDoc_ID\tscore\nq1\td1\t1\nq1\td2\t0\nq2\td3\t2\n",
        "qid pid label\nq1 d1 1\nq1 d2 0\nq2 d3 2\n",
        "q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 2\n",
        "q1 Q0 d1 1\nq1 Q0 d2 0\nq2 Q0 d3 2\n",
    ],
)
def test_training_judgements_become_pairs_of_what_is_relevant(
    put: Put, text: str
) -> None:
    more = put("more.jsonl", [{"query": "ask", "positive": "answer"}])
    inputs = inputs_of(
        "msmarco",
        queries=put("queries.tsv", "q1\tone?\nq2\ttwo?\n"),
        corpus=put("corpus.tsv", "d1\tone\nd3\tthree\n"),
    )
    found = pairs([put("train.tsv", text), more], inputs).to_pylist()
    expected = [("one?", "one"), ("two?", "three"), ("ask", "answer")]
    assert [(row["query"], row["positive"]) for row in found] == expected


TWO_TRIPLETS = "ask\tyes\tno\nwhy\tso\tnever\n"


ASKED = {"query": "ask", "positive": "yes", "negatives": ["no"]}


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "x.tsv",
            TWO_TRIPLETS,
            [ASKED, {"query": "why", "positive": "so", "negatives": ["never"]}],
        ),
        ("x.tsv", "anchor\tpositive\tnegative\nask\tyes\tno\n", [ASKED]),
        ("x.tsv", "negative_1\tquery\tanswer\nno\task\tyes\n", [ASKED]),
        ("x.csv", "anchor,positive,negative\nask,yes,no\n", [ASKED]),
        ("x.csv", "question,answer,negative\nask,yes,no\n", [ASKED]),
        ("x.csv", "query,answer\nask,yes\n", [{"query": "ask", "positive": "yes"}]),
        ("x.jsonl", [{"query": "ask", "positive": "yes", "negatives": "no"}], [ASKED]),
        (
            "x.jsonl",
            [
                {
                    "query": "ask",
                    "answer": "yes",
                    "negative_1": "no",
                    "negative_2": "nay",
                }
            ],
            [{**ASKED, "negatives": ["no", "nay"]}],
        ),
        (
            "x.jsonl",
            [
                {
                    "query": "ask",
                    "pos": ["yes", "ja"],
                    "neg": ["no", "ja", "no", " "],
                    "id": 1,
                }
            ],
            [ASKED, {**ASKED, "positive": "ja"}],
        ),
        (
            "x.jsonl",
            [
                {"anchor": "ask", "positive": "yes", "hard_negatives": ["no"]},
                {"anchor": "a", "positive": "b"},
            ],
            [ASKED, {"query": "a", "positive": "b", "negatives": []}],
        ),
        (
            "x.tsv",
            "1\t10\t11\n2\t12\t10\n",
            [ASKED, {"query": "why", "positive": "so", "negatives": ["yes"]}],
        ),
    ],
)
def test_triplets_of_ones_own_keep_their_negatives(
    put: Put, name: str, content: Any, expected: list[dict[str, Any]]
) -> None:
    """Of a query's negatives, those are left out that are its positives, or are there already."""
    queries, corpus = (
        put("q.tsv", "1\task\n2\twhy\n"),
        put("c.tsv", "10\tyes\n11\tno\n12\tso\n"),
    )
    inputs = inputs_of(
        defined("retrieval", ignore=["id"]), queries=queries, corpus=corpus
    )
    assert pairs([put(name, content)], inputs).to_pylist() == expected


@pytest.mark.parametrize(
    ("query", "negatives"), [("query", "negatives"), ("anchor", "negative")]
)
def test_columns_of_triplets_are_named_by_the_definition(
    put: Put, query: str, negatives: str
) -> None:
    columns = {query: "Frage", "positive": "Antwort", negatives: "falsch"}
    path = put("x.tsv", "Frage\tAntwort\tfalsch\tnegative\nask\tyes\tno\tunread\n")
    inputs = inputs_of(defined("retrieval", columns=columns, ignore=["negative"]))
    assert pairs([path], inputs).to_pylist() == [ASKED]
    assert list(inputs.notes) == ["hard negatives: 1 of 1 pairs"]
    with pytest.raises(
        UserError,
        match=r"x\.csv: there is no column falsch; the columns are 'Frage', 'Antwort'",
    ):
        pairs([put("x.csv", "Frage,Antwort\nask,yes\n")], inputs)


def test_pairs_without_a_text_are_left_out_and_counted(put: Put) -> None:
    inputs = inputs_of(defined("retrieval"))
    path = put("x.csv", 'query,answer,negative\nask,yes,no\nwhy, ,no\n"",so,no\n')
    assert pairs([path], inputs).to_pylist() == [ASKED]
    assert "pairs left out because their query or positive is empty: 2" in inputs.notes


def test_held_out_triplets_are_asked_of_their_negatives_too(put: Put) -> None:
    every = [
        {"query": f"q{i}", "positive": f"p{i}", "negatives": [f"p{i + 1}", f"n{i}"]}
        for i in range(40)
    ]
    content = read(defined("retrieval"), train=put("x.jsonl", every))
    assert "they are asked of their own documents and negatives" in content.splits
    assert "hard negatives: 80 of 40 pairs" in content.notes
    asked, docs = (
        {row["id"]: row["text"] for row in rows(content, name)}
        for name in ("queries", "corpus")
    )
    judged = {
        (asked[row["query_id"]], docs[row["doc_id"]], row["relevance"])
        for row in rows(content, "qrels")
    }
    held = [row for row in every if row["query"] in asked.values()]
    assert judged == {
        (row["query"], text, grade)
        for row in held
        for text, grade in (
            (row["positive"], 1),
            *((text, 0) for text in row["negatives"]),
        )
    }
    trained = rows(content, "pairs")
    assert len(trained) == 36 and trained == [row for row in every if row not in held]


@pytest.mark.parametrize("corpus", ["", "judged", "all"])
def test_held_out_pairs_are_asked_of_all_documents_on_request(
    corpus: str, put: Put
) -> None:
    """The fifth query's text is also a document of another pair, and no document has two ids."""
    every = [
        {"query": f"q{i}", "positive": f"p{i // 2}", "negatives": [f"q{i // 2}"]}
        for i in range(40)
    ]
    dataset = defined("retrieval", corpus=corpus) if corpus else defined("retrieval")
    content = read(dataset, train=put("x.jsonl", every))
    asked = {row["text"]: row["id"] for row in rows(content, "queries")}
    held = [row for row in every if row["query"] in asked]
    searched = every if corpus == "all" else held
    wanted = {text for row in searched for text in (row["positive"], *row["negatives"])}
    documents = [row["text"] for row in rows(content, "corpus")]
    assert len(documents) == len(wanted) and {*documents} == wanted
    ids = {row["text"]: row["id"] for row in rows(content, "corpus")}
    assert len({*ids.values()}) == len(ids)
    assert all(ids[text] == asked[text] for text in asked.keys() & ids.keys())
    assert len(rows(content, "pairs")) == 36
    whole, own = "of the documents of all pairs and negatives", "of their own documents"
    assert (whole in content.splits) == (corpus == "all")
    assert (own in content.splits) == (corpus != "all")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            [{"query": "a", "positive": "b", "negatives": [1]}],
            ":1: negatives is not text: 1",
        ),
        ([{"query": "a", "pos": [], "neg": ["c"]}], ":1: the row has no positive"),
        ([{"query": "a", "negative": "c"}], ":1: there is no column positive or"),
        *(
            (
                [{"query": "a", "positive": "b", slip: "c"}],
                f":1: nothing is read of the column {slip!r}; did you mean",
            )
            for slip in (
                "negativ",
                "Negative",
                "negatve",
                "hard-negatives",
                "negative 1",
            )
        ),
    ],
)
def test_a_bad_triplet_is_refused(put: Put, content: Any, said: str) -> None:
    with pytest.raises(UserError, match=re.escape("x.jsonl" + said)):
        pairs([put("x.jsonl", content)], inputs_of(defined("retrieval")))


@pytest.mark.parametrize("zero", [0, 0.0, "0", False, -1])
@pytest.mark.parametrize("column", ["label", "score"])
def test_a_pair_with_a_label_of_0_is_refused(
    put: Put, column: str, zero: object
) -> None:
    every = [{"sentence1": "a", "sentence2": "b", column: value} for value in (1, zero)]
    path = put("x.jsonl", every)
    unread = f"x.jsonl:1: nothing is read of the column {column!r}"
    with pytest.raises(UserError, match=re.escape(unread)):
        pairs([path], inputs_of(defined("retrieval")))
    ignored = inputs_of(defined("retrieval", ignore=[column]))
    with pytest.raises(
        UserError, match=rf"x\.jsonl:2: {column} is .*, so that the texts are no pair"
    ):
        pairs([path], ignored)
    assert pairs([put("y.jsonl", every[:1])], ignored).num_rows == 1


def test_a_second_column_of_the_same_kind_is_refused(put: Put) -> None:
    path = put("x.jsonl", [{"query": "a", "positive": "b", "answer": "c"}])
    with pytest.raises(UserError, match="nothing is read of the column 'answer'"):
        pairs([path], inputs_of(defined("retrieval")))


def test_a_number_is_no_negative(put: Put) -> None:
    path = put("x.tsv", "ask\tyes\t1\nwhy\tno\t0\n")
    with pytest.raises(
        UserError, match=r"x\.tsv:1: .*need their names in the first line"
    ):
        pairs([path], inputs_of(defined("retrieval")))


def test_a_querys_own_text_is_not_its_answer(put: Put) -> None:
    """Questions that are all each other's duplicates: those asked for are documents as well, with their ids."""
    questions = [f"a{i}" for i in range(40)]
    every = [{"query": text, "positive": questions} for text in questions]
    content = read(defined("retrieval"), train=put("x.jsonl", every))
    assert "pairs left out because their texts are equal: 40" in content.notes
    asked, docs = (
        {row["id"]: row["text"] for row in rows(content, name)}
        for name in ("queries", "corpus")
    )
    shared = set(asked.values()) & set(docs.values())
    assert (
        shared
        and {asked[identity] for identity in asked.keys() & docs.keys()} == shared
    )
    assert all(
        asked[row["query_id"]] != docs[row["doc_id"]] for row in rows(content, "qrels")
    )
