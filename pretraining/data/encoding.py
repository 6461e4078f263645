"""Documents to token ids and digests, in order, on as many processes as wanted; light, for processes start with it."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import numpy.typing as npt

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
    with ProcessPoolExecutor(
        workers,
        mp_context=get_context("spawn"),
        initializer=_start_worker,
        initargs=(folder, os.getpid()),
    ) as pool:
        waiting: deque[tuple[list[Document], Future[Encoded]]] = deque()
        try:
            for group in groups:
                waiting.append((group, pool.submit(_work, [document.text for document in group])))
                if len(waiting) > 3 * workers:
                    done, future = waiting.popleft()
                    yield done, future.result()
            while waiting:
                done, future = waiting.popleft()
                yield done, future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _encode(encoder: TextTokenizer, texts: list[str]) -> Encoded:
    digests = [hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).digest() for text in texts]
    return list(zip(digests, encoder.encode_batch(texts), strict=True))


_worker: TextTokenizer | None = None


def _start_worker(folder: str, parent: int) -> None:
    """Load the tokenizer, to run on one core, and end when the parent was killed."""
    global _worker
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _worker = load_tokenizer(folder)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _work(texts: list[str]) -> Encoded:
    assert _worker is not None
    return _encode(_worker, texts)
