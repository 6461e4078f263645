from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from common.manifest import VerifiedFile
from pretraining.data.shard_index import RECORD, Shard
from pretraining.data.token_stream import TokenStream
from tests.pretraining.data.made_up_shards import SETTINGS, stream


def test_any_span_can_be_read(room: Path, tmp_path: Path) -> None:
    reader = stream(room / "out", "train", tmp_path)
    whole = reader.read(0, reader.tokens)
    shard = RECORD * SETTINGS.shard_records
    for start, stop in [
        (0, 1),
        (RECORD - 1, RECORD + 1),
        (shard - 5, shard + 5),
        (3, 3 * RECORD),
        (whole.size - 1, whole.size),
    ]:
        assert (reader.read(start, stop) == whole[start:stop]).all()
    with pytest.raises(ValueError, match="outside the stream"):
        reader.read(whole.size - 1, whole.size + 1)


def test_threads_that_read_at_once_decompress_each_shard_once(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = stream(room / "out", "train", tmp_path / "alone")
    whole, made = expected.read(0, expected.tokens), []
    decompressed = TokenStream._decompressed

    def slow(self: TokenStream, shard: Shard, folder: Path) -> VerifiedFile:
        made.append(shard.number)
        time.sleep(0.02)
        return decompressed(self, shard, folder)

    monkeypatch.setattr(TokenStream, "_decompressed", slow)
    reader = stream(room / "out", "train", tmp_path / "shared")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: reader.read(0, reader.tokens), range(8)))
    assert all((part == whole).all() for part in found)
    assert sorted(made) == [shard.number for shard in reader.shards] and len(made) > 1


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_streaming_itself_reads_them(room: Path, tmp_path: Path) -> None:
    from streaming import StreamingDataset

    dataset = StreamingDataset(
        remote=str(room / "out/train"),
        local=str(tmp_path / "copy"),
        shuffle=False,
        batch_size=1,
        num_canonical_nodes=1,
        validate_hash="sha256",
    )
    reader = stream(room / "out", "train", tmp_path)
    found = np.concatenate([dataset[number]["tokens"] for number in range(dataset.size)])
    assert (found == reader.read(0, reader.tokens)).all()


def test_the_cache_keeps_its_limit(room: Path, tmp_path: Path) -> None:
    free = TokenStream(room / "out/train", tmp_path / "free")
    whole = free.read(0, free.tokens)
    size = max(path.stat().st_size for path in (tmp_path / "free").glob("*.mds"))
    held = TokenStream(room / "out/train", tmp_path / "held", limit_bytes=2 * size)
    step = RECORD * SETTINGS.shard_records
    for _ in range(2):
        for start in range(0, held.tokens - 10, step):
            assert (held.read(start, start + 10) == whole[start : start + 10]).all()
            assert len(list((tmp_path / "held").glob("*.mds"))) <= 2
