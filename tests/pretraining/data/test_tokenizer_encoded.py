from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.errors import UserError
from pretraining.data.corpus import Document
from pretraining.data.tokenizer import encoded, load_tokenizer, train_tokenizer
from tests.pretraining.documents import make_documents

TEXTS = make_documents(40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer")
    train_tokenizer(TEXTS, 300).save(path)
    return path


def groups(size: int) -> Iterator[list[Document]]:
    for first in range(0, len(TEXTS), size):
        yield [Document(text=text, file=0, row=0, read_bytes=0) for text in TEXTS[first : first + size]]


@pytest.mark.parametrize("workers", [0, 2])
def test_groups_come_in_order_with_digests_and_tokens(folder: Path, workers: int) -> None:
    encoder = load_tokenizer(str(folder))
    pairs = list(encoded(groups(3), str(folder), encoder, workers))
    assert [document.text for group, _ in pairs for document in group] == TEXTS
    results = [result for _, encodings in pairs for result in encodings]
    assert [digest for digest, _ in results] == [
        hashlib.blake2b(text.encode(), digest_size=16).digest() for text in TEXTS
    ]
    expected = encoder.encode_batch(TEXTS)
    assert all((tokens == ids).all() for (_, tokens), ids in zip(results, expected, strict=True))


def children() -> list[int]:
    me = os.getpid()
    return [int(pid) for pid in Path(f"/proc/{me}/task/{me}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")
def test_a_killed_worker_is_reported_and_none_is_left(folder: Path) -> None:
    before = set(children())
    results = encoded(groups(1), str(folder), load_tokenizer(str(folder)), 1)
    next(results)
    workers = [pid for pid in children() if pid not in before and b"spawn_main" in cmdline(pid)]
    assert len(workers) == 1
    os.kill(workers[0], signal.SIGKILL)
    with pytest.raises(UserError, match="a worker process was killed"):
        list(results)
    deadline = time.monotonic() + 20
    while workers[0] in children() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert workers[0] not in children()


def cmdline(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
