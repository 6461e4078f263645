"""Documents to token ids and digests, in order, on any number of processes; light, since each process imports it."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future

import numpy as np
import numpy.typing as npt

from common.processes import worker_pool
from pretraining.data.corpus import Document
from pretraining.data.tokenizer import TextTokenizer, load_tokenizer

__all__ = ["DIGEST_BYTES", "encoded"]

DIGEST_BYTES = 16
"""Length of a document's BLAKE2b digest."""

Tokens = npt.NDArray[np.int32]
Encoded = list[tuple[bytes, Tokens]]


def encoded(
    groups: Iterator[list[Document]], folder: str, encoder: TextTokenizer, workers: int
) -> Iterator[tuple[list[Document], Encoded]]:
    """Yield each group with the digests and tokens of its texts, in the source's order."""
    if workers == 0:
        for group in groups:
            yield group, _encode(encoder, [document.text for document in group])
        return
    with worker_pool(workers, initializer=_load, arguments=(folder,)) as pool:
        waiting: deque[tuple[list[Document], Future[Encoded]]] = deque()
        for group in groups:
            waiting.append((group, pool.submit(_work, [document.text for document in group])))
            if len(waiting) > 3 * workers:
                done, future = waiting.popleft()
                yield done, future.result()
        for done, future in waiting:
            yield done, future.result()


def _encode(encoder: TextTokenizer, texts: list[str]) -> Encoded:
    digests = [hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).digest() for text in texts]
    return list(zip(digests, encoder.encode_batch(texts), strict=True))


_worker: TextTokenizer | None = None


def _load(folder: str) -> None:
    """Load the tokenizer, to run on one core."""
    global _worker
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _worker = load_tokenizer(folder)


def _work(texts: list[str]) -> Encoded:
    assert _worker is not None
    return _encode(_worker, texts)
