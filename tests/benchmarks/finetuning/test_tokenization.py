from __future__ import annotations

import numpy as np

from benchmarks.finetuning import tokenization
from benchmarks.protocol import get_dataset
from tests.benchmarks.tiny import BEGIN, END, make_tokenizer

TEXT = "The quick brown fox jumps over the lazy dog in Malmo, Sweden."
TOKENIZER = make_tokenizer([TEXT] * 5, size=320)


def text_of(ids: np.ndarray) -> str:
    return str(TOKENIZER.decode(ids.tolist()))


def test_texts_of_single_sentences_and_pairs() -> None:
    assert tokenization.classification_text(get_dataset("sst2"), "a film", None) == "a film"
    assert tokenization.classification_text(get_dataset("mnli_m"), "a", "b") == "Premise: a\nHypothesis: b"
    assert tokenization.classification_text(get_dataset("qqp"), "a", "b") == "Question 1: a\nQuestion 2: b"
    assert tokenization.question_text("who?") == "Question: who?\nContext: "
    assert tokenization.query_text("q") == "Query: q"
    assert tokenization.document_text("text") == "Document: text"
    assert tokenization.document_text("text", "Title") == "Document: Title. text"
    assert tokenization.document_text("text", "") == "Document: text"


def test_an_empty_title_keeps_its_full_stop_in_the_paper() -> None:
    assert tokenization.paper_document_text("text", "") == "Document: . text"
    assert tokenization.paper_document_text("text", "Title") == "Document: Title. text"
    assert tokenization.paper_document_text("text") == "Document: text"


def test_texts_end_in_end_of_text_begin_with_nothing_and_lose_their_end_when_too_long() -> None:
    ids = tokenization.encode_texts(TOKENIZER, [TEXT, "dog"], 64)
    assert [text_of(row) for row in (ids[0], ids[1])] == [TEXT + END, "dog" + END]
    cut = tokenization.encode_texts(TOKENIZER, [TEXT], len(ids[0]) - 1)[0]
    assert cut.tolist() == ids[0][:-1].tolist()
    assert len(tokenization.encode_texts(TOKENIZER, [], 10)) == 0
    assert len(tokenization.encode_questions(TOKENIZER, [], [], 10, stride=128).ids) == 0


def test_the_papers_retrieval_evaluation_adds_bos_and_no_eos() -> None:
    ids = tokenization.encode_retrieval_paper(TOKENIZER, ["  Query: dog \n"], 64)[0]
    assert text_of(ids) == BEGIN + "Query: dog"
    assert len(tokenization.encode_retrieval_paper(TOKENIZER, [TEXT], 5)[0]) == 5


def test_windows_cover_the_whole_context_and_overlap() -> None:
    context = TEXT * 4
    windows = tokenization.encode_questions(TOKENIZER, ["a?", "b?"], [context, "dog"], 60, stride=10)
    assert windows.owners.tolist()[-1] == 1 and set(windows.owners.tolist()) == {0, 1}
    covered = np.zeros(len(context), dtype=int)
    for row in np.flatnonzero(windows.owners == 0):
        for start, end in zip(windows.starts[row], windows.ends[row], strict=True):
            if start >= 0:
                covered[start:end] += 1
    assert covered.min() >= 1 and covered.max() >= 2
