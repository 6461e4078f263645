from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from benchmarks.finetuning import tokenization
from benchmarks.protocol import get_dataset
from common.errors import UserError
from tests.benchmarks.tiny import BEGIN, END, make_tokenizer

TEXT = "The quick brown fox jumps over the lazy dog in Malmo, Sweden."
TOKENIZER = make_tokenizer([TEXT] * 5, size=320)
WORDS = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1), min_size=1, max_size=8
)


def wordpiece() -> PreTrainedTokenizerFast:
    """A BERT-like tokenizer: offsets without spaces, [CLS] and [SEP], no end of text."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{c}" for c in letters), "fox", "##es"]
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]"
    )


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


def test_texts_end_in_end_of_text_and_begin_with_nothing() -> None:
    ids = tokenization.encode_texts(TOKENIZER, [TEXT, "dog"], 64)
    assert text_of(ids[0]) == TEXT + END
    assert text_of(ids[1]) == "dog" + END


def test_a_long_text_loses_its_end_of_text() -> None:
    whole = tokenization.encode_texts(TOKENIZER, [TEXT], 64)[0]
    cut = tokenization.encode_texts(TOKENIZER, [TEXT], len(whole) - 1)[0]
    assert cut.tolist() == whole[:-1].tolist()


def test_the_papers_retrieval_evaluation_adds_bos_and_no_eos() -> None:
    ids = tokenization.encode_retrieval_paper(TOKENIZER, ["  Query: dog \n"], 64)[0]
    assert text_of(ids) == BEGIN + "Query: dog"
    assert len(tokenization.encode_retrieval_paper(TOKENIZER, [TEXT], 5)[0]) == 5


def test_every_sub_token_knows_its_word() -> None:
    sentence = ["quick", "zzz", "dog", "."]
    words = tokenization.encode_words(TOKENIZER, [sentence], 64)
    pieces = TOKENIZER.convert_ids_to_tokens(words.ids[0])
    for number, word in enumerate(sentence):
        joined = "".join(p for p, w in zip(pieces, words.words[0], strict=True) if w == number)
        assert joined.replace("Ġ", "") == word
    assert pieces[-1] == END
    assert words.words[0][-1] == -1


@settings(deadline=None)
@given(sentence=WORDS)
def test_words_are_numbered_in_order_whatever_their_characters(sentence: list[str]) -> None:
    words = tokenization.encode_words(TOKENIZER, [sentence], 2_000).words[0]
    assert words[-1] == -1
    assert sorted(set(words[:-1].tolist())) == list(range(len(sentence)))
    assert (np.diff(words[:-1]) >= 0).all()


def test_words_of_a_wordpiece_tokenizer() -> None:
    words = tokenization.encode_words(wordpiece(), [["Foxes", "xyz", "fox"]], 64)
    assert words.words[0].tolist() == [0, 0, 1, 1, 1, 2, -1]


def test_words_beyond_the_limit_have_no_tokens() -> None:
    assert tokenization.encode_words(TOKENIZER, [["dog"] * 50], 10).words[0].max() < 10


def test_gold_tokens_are_those_that_overlap_the_answer() -> None:
    context = "The quick brown fox jumps over the lazy dog"
    answer = (context.index("brown"), context.index("brown") + len("brown fox"))
    questions, cut = tokenization.encode_questions(TOKENIZER, ["who?"], [context], 200, [answer])
    chosen = questions.gold[0]
    assert text_of(questions.ids[0][chosen]).strip() == "brown fox"
    assert text_of(questions.ids[0]) == f"Question: who?\nContext: {context}{END}"
    assert not cut.any()
    assert not tokenization.encode_questions(TOKENIZER, ["who?"], [context], 200)[0].gold.values.any()


def test_a_long_context_is_cut_and_its_answer_may_be_lost() -> None:
    context = TEXT * 3
    answers = [(len(context) - 5, len(context)), None]
    questions, cut = tokenization.encode_questions(TOKENIZER, ["who?", "who?"], [context, "dog"], 40, answers)
    assert cut.tolist() == [True, False]
    assert len(questions.ids[0]) == 40
    assert not questions.gold[0].any()


def test_windows_cover_the_whole_context_and_overlap() -> None:
    context = TEXT * 4
    windows, owner = tokenization.encode_windows(TOKENIZER, ["a?", "b?"], [context, "dog"], 60, stride=10)
    assert owner.tolist()[-1] == 1 and set(owner.tolist()) == {0, 1}
    covered = np.zeros(len(context), dtype=int)
    for row in np.flatnonzero(owner == 0):
        for start, end in zip(windows.starts[row], windows.ends[row], strict=True):
            if start >= 0:
                covered[start:end] += 1
    assert covered.min() >= 1 and covered.max() >= 2


def test_offsets_stay_inside_the_context() -> None:
    questions, _ = tokenization.encode_questions(TOKENIZER, ["who?"], ["dog"], 200)
    assert questions.ends.values.max() == 3
    assert (questions.starts[0] >= 0).sum() == len(TOKENIZER("dog", add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize("tokenizer", [TOKENIZER, wordpiece()])
def test_the_end_of_text_is_one_token(tokenizer: PreTrainedTokenizerFast) -> None:
    end = tokenization.end_of_text(tokenizer)
    assert end in (END, "[SEP]")
    ids = tokenization.encode_texts(tokenizer, ["fox"], 64)[0]
    assert ids[-1] == tokenizer.convert_tokens_to_ids(end)


def test_nothing_to_encode_gives_no_rows() -> None:
    assert len(tokenization.encode_texts(TOKENIZER, [], 10)) == 0
    assert len(tokenization.encode_windows(TOKENIZER, [], [], 10)[0].ids) == 0


def test_a_question_longer_than_the_limit_is_told() -> None:
    with pytest.raises(UserError, match="a question alone is longer than 12 tokens"):
        tokenization.encode_questions(TOKENIZER, [TEXT], ["dog"], 12)
