from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from pretraining.data.corpus import Document
from pretraining.data.tokenizer import encoded, train_tokenizer
from tests.pretraining.documents import make_documents

TEXTS = make_documents(40)


def groups(size: int) -> Iterator[list[Document]]:
    for first in range(0, len(TEXTS), size):
        yield [Document(text=text, file=0, row=0, read_bytes=0) for text in TEXTS[first : first + size]]


@pytest.mark.parametrize("workers", [0, 2])
def test_groups_come_in_order_with_digests_and_tokens(workers: int) -> None:
    encoder = train_tokenizer(TEXTS, 300)
    pairs = list(encoded(groups(3), encoder, workers))
    assert [document.text for group, _ in pairs for document in group] == TEXTS
    results = [result for _, encodings in pairs for result in encodings]
    assert [digest for digest, _ in results] == [
        hashlib.blake2b(text.encode(), digest_size=16).digest() for text in TEXTS
    ]
    expected = encoder.encode_batch(TEXTS)
    assert all((tokens == ids).all() for (_, tokens), ids in zip(results, expected, strict=True))
