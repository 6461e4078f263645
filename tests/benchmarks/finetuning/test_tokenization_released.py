"""Which tokens are of a word and of an answer: as the released code has it, for three kinds of tokenizer."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.datasets.readers.ner import sentences
from benchmarks.datasets.readers.reader import ReaderInputs
from benchmarks.datasets.readers.squad import question_rows
from benchmarks.finetuning import tokenization
from benchmarks.finetuning.tokenization import encode_questions, encode_words
from benchmarks.protocol import get_dataset
from common.embedding import PAPER_READING
from pretraining.data.tokenizer import from_tiktoken
from tests.benchmarks.datasets.test_import_files import REAL
from tests.benchmarks.finetuning.released_rules import Cut, answer_tokens, token_words
from tests.benchmarks.finetuning.tokenizer_kinds import KINDS, train
from tests.benchmarks.tiny import BEGIN, END, make_tokenizer

TEXTS = [
    "Chopin was born in Żelazowa Wola , 46 kilometres west of Warsaw .",
    "The price is 5 € or ₤ 4 — naïve façade , 東京 is the capital of 日本 .",
    "She said : « it is 🙂 » and left \u200b at once .",
]


TOKENIZERS = {kind: train(kind, TEXTS * 4, 330) for kind in KINDS}


CHARACTERS = st.sampled_from("ab e.Ż€東🙂é» ")


SENTENCES = st.lists(
    st.text(CHARACTERS.filter(str.strip), min_size=1, max_size=5),
    min_size=1,
    max_size=7,
)


def check_words(tokenizer: Any, found: list[list[str]], limit: int = 2_028) -> int:
    """Compare sentences with the oracle and return how many tokens there were."""
    all_ids, all_words = encode_words(tokenizer, found, limit)
    for row, words in enumerate(found):
        ids, numbers = token_words(tokenizer, words, limit)
        assert all_ids[row].tolist() == ids, words
        assert all_words[row].tolist() == numbers, words
    return len(all_ids.values)


def check_answers(
    tokenizer: Any, rows: list[dict[str, Any]], limit: int = 2_028
) -> tuple[int, int]:
    """Compare questions with the oracle and return how many tokens there were, and how many were cut."""
    firsts = [
        (row["answers"][0]["start"], row["answers"][0]["text"])
        if row["answers"]
        else None
        for row in rows
    ]
    ours = encode_questions(
        tokenizer,
        [row["question"] for row in rows],
        [row["context"] for row in rows],
        limit,
        [
            None if first is None else (first[0], first[0] + len(first[1]))
            for first in firsts
        ],
    )
    cut = 0
    for number, (row, first) in enumerate(zip(rows, firsts, strict=True)):
        try:
            ids, labels, kinds = answer_tokens(
                tokenizer, row["question"], row["context"], first, limit
            )
        except Cut:
            cut += 1
            continue
        assert ours.ids[number].tolist() == ids, row
        assert ours.gold[number].tolist() == [bool(label) for label in labels], row
        if kinds is not None:
            assert ours.kinds is not None and ours.kinds[number].tolist() == kinds
        assert (ours.kinds is None) == (kinds is None)
    return len(ours.ids.values), cut


@pytest.mark.parametrize("kind", KINDS)
@given(words=SENTENCES, limit=st.integers(1, 30))
def test_words_of_any_sentence(kind: str, words: list[str], limit: int) -> None:
    check_words(TOKENIZERS[kind], [words, [*words, "end"]], limit)


@pytest.mark.parametrize("kind", KINDS)
@given(context=st.text(CHARACTERS, min_size=1, max_size=30), data=st.data())
def test_answers_in_any_context(kind: str, context: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(context) - 1))
    end = data.draw(st.integers(start + 1, len(context)))
    row = {
        "question": "a?",
        "context": context,
        "answers": [{"start": start, "text": context[start:end]}],
    }
    tokenizer = TOKENIZERS[kind]
    room = len(
        tokenizer("Question: a?\nContext: ", add_special_tokens=False)["input_ids"]
    )
    limit = data.draw(st.integers(room + 1, room + 80))
    if tokenizer(context.strip() or "x", add_special_tokens=False)["input_ids"]:
        check_answers(tokenizer, [row], limit)


@pytest.mark.parametrize("kind", KINDS)
def test_the_end_of_text_is_one_token(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    ids = tokenization.encode_texts(tokenizer, ["fox"], 64)[0]
    last = tokenizer.eos_token or tokenizer.sep_token
    assert ids[-1] == tokenizer.convert_tokens_to_ids(last) != tokenizer.unk_token_id


def test_the_cases_that_an_overlap_of_characters_gets_wrong() -> None:
    """A split first letter: the last piece begins the answer. A lone space is of the next word."""
    context = "born in Ňibo here"
    answer = (context.index("Ň"), context.index(" here"))
    for kind in ("llama3", "roberta"):
        tokenizer = TOKENIZERS[kind]
        found = encode_questions(tokenizer, ["where?"], [context], 200, [answer])
        tokens = tokenizer.convert_ids_to_tokens(found.ids[0])
        assert tokens[tokens.index("ĩ") - 1].endswith("Å")  # Ň in two pieces
        assert int(found.gold[0].argmax()) == tokens.index("ĩ")
    roberta = TOKENIZERS["roberta"]
    ids, words = encode_words(roberta, [["x", "Ňi"]], 64)
    tokens = roberta.convert_ids_to_tokens(ids[0])
    assert words[0][tokens.index("Ġ")] == 1


def test_tokens_left_of_a_cut_answer_are_gold() -> None:
    """The released code makes labels that are too long there, and its collator stops."""
    tokenizer = TOKENIZERS["llama3"]
    context = "one two three four five six seven"
    parts = ("Question: a?\nContext: ", "one two three")
    room = sum(
        len(tokenizer(part, add_special_tokens=False)["input_ids"]) for part in parts
    )
    answer = (context.index("two"), len(context))
    with pytest.raises(Cut):
        answer_tokens(tokenizer, "a?", context, (answer[0], context[answer[0] :]), room)
    found = encode_questions(tokenizer, ["a?"], [context], room, [answer])
    assert found.cut.all()
    assert (
        tokenizer.decode(found.ids[0][found.gold[0]]).strip()
        == context[answer[0] :][: len("two three")]
    )


@pytest.fixture(scope="module")
def real_rows() -> list[dict[str, Any]]:
    files = (
        ("squad", "squad_v1.1/train-v1.1.prefix.json.zst"),
        ("squad_v2", "squad_v2.0/dev-v2.0.json.zst"),
    )
    return [
        row
        for name, path in files
        for row in question_rows(
            REAL / path, ReaderInputs(dataset=get_dataset(name), files={})
        )
    ]


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.skipif(
    not REAL.is_dir(),
    reason="REAL_DATA names no folder with original distribution files",
)
@pytest.mark.parametrize("kind", [*KINDS, "llama3-itself"])
def test_no_token_of_all_real_questions_and_sentences_differs(
    kind: str, real_rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    found = [
        row["words"]
        for _, row in sentences(REAL / "uner_english_ewt/en_ewt-ud-test.iob2")
    ]
    assert (len(real_rows), len(found)) == (10_448, 2_077)
    if kind == "llama3-itself":
        text = from_tiktoken(REAL / "tokenizer/llama3-tiktoken/tokenizer.model.zst")
        text.save(tmp_path)
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    else:
        tokenizer = train(kind, [row["context"] for row in real_rows[::10]], 8_000)
    words = check_words(tokenizer, found)
    tokens, cut = check_answers(tokenizer, real_rows)
    assert words > 20_000 and tokens > 1_000_000 and cut == 0
    # With positions for a part of the context
    assert check_answers(tokenizer, real_rows[::5], 200)[1] > 0


TEXT = "The quick brown fox jumps over the lazy dog in Malmo, Sweden."


TOKENIZER = make_tokenizer([TEXT] * 5, size=320)


def text_of(ids: np.ndarray) -> str:
    return str(TOKENIZER.decode(ids.tolist()))


def test_texts_of_single_sentences_and_pairs() -> None:
    assert (
        tokenization.classification_text(get_dataset("sst2"), "a film", None)
        == "a film"
    )
    assert (
        tokenization.classification_text(get_dataset("mnli_m"), "a", "b")
        == "Premise: a\nHypothesis: b"
    )
    assert (
        tokenization.classification_text(get_dataset("qqp"), "a", "b")
        == "Question 1: a\nQuestion 2: b"
    )
    assert tokenization.question_text("who?") == "Question: who?\nContext: "
    assert PAPER_READING.query_text("q") == "Query: q"
    assert PAPER_READING.document_text("text") == "Document: text"
    assert PAPER_READING.document_text("text", "Title") == "Document: Title. text"
    assert PAPER_READING.document_text("text", "") == "Document: text"


def test_an_empty_title_keeps_its_full_stop_in_the_paper() -> None:
    assert tokenization.paper_document_text("text", "") == "Document: . text"
    assert tokenization.paper_document_text("text", "Title") == "Document: Title. text"
    assert tokenization.paper_document_text("text") == "Document: text"


def test_texts_end_in_end_of_text_and_lose_it_when_too_long() -> None:
    ids = tokenization.encode_texts(TOKENIZER, [TEXT, "dog"], 64)
    assert [text_of(row) for row in (ids[0], ids[1])] == [TEXT + END, "dog" + END]
    cut = tokenization.encode_texts(TOKENIZER, [TEXT], len(ids[0]) - 1)[0]
    assert cut.tolist() == ids[0][:-1].tolist()
    assert len(tokenization.encode_texts(TOKENIZER, [], 10)) == 0
    assert (
        len(tokenization.encode_questions(TOKENIZER, [], [], 10, stride=128).ids) == 0
    )


def test_the_papers_retrieval_evaluation_adds_bos_and_no_eos() -> None:
    ids = tokenization.encode_retrieval_paper(TOKENIZER, ["  Query: dog \n"], 64)[0]
    assert text_of(ids) == BEGIN + "Query: dog"
    assert len(tokenization.encode_retrieval_paper(TOKENIZER, [TEXT], 5)[0]) == 5


def test_windows_cover_the_whole_context_and_overlap() -> None:
    context = TEXT * 4
    windows = tokenization.encode_questions(
        TOKENIZER, ["a?", "b?"], [context, "dog"], 60, stride=10
    )
    assert windows.owners.tolist()[-1] == 1 and set(windows.owners.tolist()) == {0, 1}
    covered = np.zeros(len(context), dtype=int)
    for row in np.flatnonzero(windows.owners == 0):
        for start, end in zip(windows.starts[row], windows.ends[row], strict=True):
            if start >= 0:
                covered[start:end] += 1
    assert covered.min() >= 1 and covered.max() >= 2
