from __future__ import annotations

import gzip
import time
import typing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streaming import Stream

from common.errors import UserError
from pretraining.data.build_shards import build
from pretraining.data.manifest import verify
from pretraining.data.shard_compression import COMPRESSIONS, Compression
from pretraining.data.shard_index import RECORD, write_index
from pretraining.data.shard_settings import ShardSettings
from pretraining.data.shard_writer import write_shard
from pretraining.data.token_stream import TokenStream
from tests.pretraining.data.made_up_shards import SETTINGS, sources, stream


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
    prepare = Stream.prepare_shard

    def slow(self: Stream, shard: Any) -> int:
        made.append(shard.zip_data.basename)
        time.sleep(0.02)
        return prepare(self, shard)

    monkeypatch.setattr(Stream, "prepare_shard", slow)
    reader = stream(room / "out", "train", tmp_path / "shared")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: reader.read(0, reader.tokens), range(8)))
    assert all((part == whole).all() for part in found)
    assert sorted(made) == [entry.stored.basename for entry in reader.entries] and len(made) > 1


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


def test_uncompressed_shards_hold_the_same(room: Path, tmp_path: Path) -> None:
    plain = ShardSettings(shard_records=3, validation_share=0.05, compression="none")
    build(sources(room), str(room / "tokenizer"), tmp_path / "plain", plain, workers=0)
    ours, theirs = (
        stream(tmp_path / "plain", "train", tmp_path),
        stream(room / "out", "train", tmp_path / "c"),
    )
    assert ours.tokens == theirs.tokens
    assert (ours.read(0, ours.tokens) == theirs.read(0, theirs.tokens)).all()
    assert not (tmp_path / "train").exists()
    assert verify(tmp_path / "plain") == []


def test_a_damaged_shard_is_reported_when_read(room: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(room / "out", copy)
    (copy / "train/shard.00000.mds.zstd").write_bytes(b"nonsense")
    with pytest.raises(UserError, match=r"shard.00000.mds.zstd: is damaged"):
        stream(copy, "train", tmp_path / "cache").read(0, 5)
    (copy / "train/index.json").write_text("{")
    with pytest.raises(UserError, match=r"index.json: is damaged"):
        stream(copy, "train", tmp_path / "cache")
    (copy / "train/index.json").unlink()
    with pytest.raises(UserError, match="no shards here"):
        stream(copy, "train", tmp_path / "cache")


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


@pytest.mark.parametrize("name", [*COMPRESSIONS, "made up"])
def test_every_compression_reads_back(tmp_path: Path, name: str) -> None:
    """A made-up one, too: its index name is one of streaming's. One that is not registered is refused."""
    tokens = np.arange(2 * RECORD + 7, dtype=np.int32)
    made_up = Compression(
        name="made up",
        mds="gz:6",
        suffix=".gz",
        compress=gzip.compress,
    )
    COMPRESSIONS.register(made_up)
    try:
        entry = write_shard(tmp_path / "train", 0, tokens, COMPRESSIONS[name])
        write_index(tmp_path / "train", [entry])
        assert (stream(tmp_path, "train", tmp_path / "cache").read(0, len(tokens)) == tokens).all()
    finally:
        COMPRESSIONS.pop("made up")
    if name == "made up":
        with pytest.raises(UserError, match="compressed by 'gz:6', which is unknown"):
            stream(tmp_path, "train", tmp_path / "cache2")


def test_the_option_names_every_compression() -> None:
    """Written out there, so that a misspelt one is reported before streaming is imported."""
    assert typing.get_args(typing.get_type_hints(ShardSettings)["compression"]) == tuple(COMPRESSIONS)
    with pytest.raises(UserError, match="unknown compression 'made up'"):
        ShardSettings(compression="made up")  # type: ignore[arg-type]
