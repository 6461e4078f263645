"""How much of a dataset a model's window cuts off: inputs, and the answers or entities that are behind the cut.

The window is the model's longest input, in tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from benchmarks.datasets.local_dataset import LocalDataset
from benchmarks.finetuning.tokenization import (
    encode_as_written,
    encode_texts,
    encode_words,
    texts_of,
)
from benchmarks.protocol import Dataset
from benchmarks.tag_schemes import tag_parts, to_iob2
from benchmarks.tasks.base import Setting
from benchmarks.tasks.question_answering import encode_table

_WORDS = {"QA": ("contexts", "answers"), "TC": ("sentences", "entities")}
"""For a task: what its inputs are called, and what is lost with the part behind a cut."""
_SLACK = 16
"""Bytes that special tokens may add to a text; a token has at least one."""


def window_cuts(dataset: LocalDataset, setting: Setting) -> str:
    """Return how many inputs of all splits are cut, and what is lost, in words; empty where nothing is cut.

    Lost are entities that begin behind the cut, and answers of which no token is left. Of several gold answers to a
    question, the first counts.
    """
    entry = dataset.dataset
    loaded = setting.loaded
    limit = loaded.limits.labelled

    # Retrieval sets of one's own have the limit of their reading, the paper's that of fine-tuning.
    if entry.task == "IR":
        limit = setting.own_longest if entry.is_own else loaded.limits.retrieval
    inputs, cut, lost = 0, 0, 0
    for name, table in dataset.tables.items():
        # Judgements, which have no text.
        if name == "qrels":
            continue
        may_be_cut = []
        for row in table.to_pylist():
            texts = texts_of(entry, row, setting.reading)
            sizes = [len(text.encode()) for text in texts]
            inputs += len(sizes)
            may_be_cut.append(max(sizes) + _SLACK > limit)

        # Only rows with more bytes than the limit are tokenised: no text has more tokens than bytes.
        long = table.filter(pa.array(may_be_cut, pa.bool_()))
        if long.num_rows:
            # One number for each input that is cut: how many answers or entities it loses.
            for losses in _losses(entry, long, dataset.labels, setting, limit):
                cut += 1
                lost += losses

    if not cut:
        return ""
    input_word, lost_word = _WORDS.get(entry.task, ("texts", ""))
    loss_text = f"; {lost:,} {lost_word} are lost" if lost_word else ""
    return f"{cut:,} of {inputs:,} {input_word} are cut at {limit:,} tokens{loss_text}"


def _losses(
    entry: Dataset,
    table: pa.Table,
    labels: Sequence[str],
    setting: Setting,
    limit: int,
) -> Iterator[int]:
    """Yield for each input that is cut how many answers or entities it loses.

    Args:
        entry: the dataset.
        table: rows of one of its tables.
        labels: names of the dataset's tags by id (token classification).
        setting: the model and how it reads texts.
        limit: the longest input, in tokens.
    """
    loaded = setting.loaded
    if entry.task == "QA":
        # Cut at the limit of the model's labelled inputs, which is `limit` here; a row is a question.
        questions = encode_table(table, loaded)
        for row, answers in enumerate(table["answers"].to_pylist()):
            if questions.cut[row]:
                is_lost = bool(answers) and not questions.gold[row].any()
                yield int(is_lost)
    elif entry.task == "TC":
        sentences = table["words"].to_pylist()
        parts = tag_parts(labels)
        _, words_of_tokens = encode_words(loaded.tokenizer, sentences, limit)
        for row, ids in enumerate(table["tags"].to_pylist()):
            # Words are numbered from 0, so the highest number of a token's word tells how many words are
            # read. With -1, the number of no word, none is read; so it is for a row without any token.
            words_read = int(words_of_tokens[row].max(initial=-1)) + 1
            if words_read < len(sentences[row]):
                tags = to_iob2([labels[number] for number in ids], parts)
                # In IOB2 every entity begins with a B.
                yield sum(tag.startswith("B") for tag in tags[words_read:])
    else:
        texts: list[str] = []
        for row in table.to_pylist():
            texts += texts_of(entry, row, setting.reading)

        # Encoded up to one token more than fits: a text of that length would be cut.
        if entry.is_own_retrieval:
            lengths = encode_as_written(setting.own_tokenizer, texts, limit + 1).lengths
        else:
            tokenizer = loaded.tokenizer
            if entry.task == "IR":
                tokenizer = loaded.retrieval_tokenizer
            lengths = encode_texts(tokenizer, texts, limit + 1).lengths

        # A text that is cut loses neither answers nor entities.
        for length in lengths:
            if length > limit:
                yield 0
