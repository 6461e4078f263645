import multiprocessing
import os
import random
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from common import files, manifest
from common.errors import UserError
from common.files import temporary_name
from common.manifest import VerifiedFile
from pretraining.data.shard_manifest import RECORD, Shard
from pretraining.data.token_stream import (
    TokenStream,
    cached_shards,
    make_shard_cache_folder,
)
from tests.common.test_files import NOBODY, as_another_user, needs_root
from tests.flips import flips
from tests.pretraining.data.made_up_shards import (
    SETTINGS,
    stream,
    whole_of,
    with_content,
)


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


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
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
    found = np.concatenate(
        [dataset[number]["tokens"] for number in range(dataset.size)]
    )
    assert (found == reader.read(0, reader.tokens)).all()


STEP = RECORD * SETTINGS.shard_records


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_flipped_bit_of_a_shard_passes(
    room: Path, tmp_path: Path, count: int
) -> None:
    copy = Path(shutil.copytree(room / "out", tmp_path / "copy"))

    def believe() -> None:
        with tempfile.TemporaryDirectory(dir=tmp_path) as cache:
            stream(copy, "train", Path(cache)).read(0, 5)

    believe()
    assert flips(copy / "train/shard.00000.mds.zstd", count, believe) == 0


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_flipped_bit_of_a_cached_shard_passes(
    room: Path, tmp_path: Path, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It is made again from the shard, with a warning: in a new process, and in one that has read it already."""
    expected = whole_of(room / "out", tmp_path / "cache")[:5]
    cached = tmp_path / "cache/train/shard.00000.mds"
    generator, running = (
        random.Random(0),
        stream(room / "out", "train", tmp_path / "cache"),
    )
    for number in range(count):
        data = bytearray(cached.read_bytes())
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        cached.write_bytes(data)
        caplog.clear()
        reader = (
            running if number % 2 else stream(room / "out", "train", tmp_path / "cache")
        )
        assert (reader.read(0, 5) == expected).all()
        assert (
            "its content has changed (SHA-256); decompressing it again" in caplog.text
        )


def test_what_has_not_changed_is_hashed_once(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []
    original = manifest.sha256_open

    def counted(descriptor: int) -> str:
        hashed.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        return original(descriptor)

    monkeypatch.setattr(manifest, "sha256_open", counted)
    first = stream(room / "out", "train", tmp_path / "cache")
    for _ in range(3):
        first.read(0, first.tokens)
    # Each shard as it is written, and what this process has put into the cache there.
    assert len(hashed) == 2 * len(first.shards) == len(set(hashed))
    hashed.clear()
    second = stream(room / "out", "train", tmp_path / "cache")
    for _ in range(3):
        second.read(0, second.tokens)
        first.read(0, first.tokens)
    assert sorted(hashed) == [
        f"shard.{number:05}.mds" for number in range(len(second.shards))
    ]


def test_shard_is_opened_once_and_touched_once_a_minute(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    touched: list[Any] = []
    original, touch = VerifiedFile.open, os.utime

    def opens(self: VerifiedFile) -> int:
        opened.append(self.path)
        return original(self)

    def touches(file: Any, **times: Any) -> None:
        touched.append(file)
        touch(file, **times)

    monkeypatch.setattr(VerifiedFile, "open", opens)
    reader = stream(room / "out", "train", tmp_path / "cache")
    whole = reader.read(0, reader.tokens)
    opened.clear()
    monkeypatch.setattr(os, "utime", touches)
    draw, now = random.Random(0), time.time()
    for start in (draw.randrange(reader.tokens - 100) for _ in range(1000)):
        assert (reader.read(start, start + 100) == whole[start : start + 100]).all()
    assert not opened and not touched
    monkeypatch.setattr(time, "time", lambda: now + 61)
    assert (reader.read(0, reader.tokens) == whole).all() and len(touched) == len(
        reader.shards
    )
    monkeypatch.undo()
    # One that another process has removed is made again, and its descriptor is closed.
    gone = reader._descriptors[0]
    Path(f"/proc/self/fd/{gone}").readlink().unlink()
    reader.read(0, 5)
    assert Path(f"/proc/self/fd/{reader._descriptors[0]}").readlink().exists()
    held_open = list(reader._descriptors.values())
    del reader
    assert not any(Path(f"/proc/self/fd/{number}").exists() for number in held_open)


def test_hostile_shards_are_refused(room: Path, tmp_path: Path) -> None:
    """Their hashes fit: what they hold does not."""
    good = zstandard.decompress((room / "out/train/shard.00000.mds.zstd").read_bytes())
    bomb = zstandard.compress(bytes(2**28), 1)
    records = np.frombuffer(good, "<u4", 3, 4)
    wild = bytearray(good)
    wild[4:16] = np.array([2**31, 2**32 - 1, 3], "<u4").tobytes()
    small = bytearray(good)
    small[records[0] + 4] = 1 << 2 | 3
    cases = {
        "offsets elsewhere": (bytes(wild), None),
        "another shape": (bytes(small), None),
        "a bomb": (good, bomb),
        "two frames": (good, zstandard.compress(good, 1) + zstandard.compress(good, 1)),
        "no zstd": (good, b"nonsense"),
        "cut": (good, zstandard.compress(good, 1)[:-9]),
    }
    for name, (content, packed) in cases.items():
        copy = Path(shutil.copytree(room / "out", tmp_path / name))
        with_content(copy / "train", content, packed)
        cache = tmp_path / f"{name} cache"
        with pytest.raises(
            UserError, match=r"is damaged|was not written by `shards`|cannot be read"
        ) as error:
            stream(copy, "train", cache).read(0, 5)
        assert "\n" not in str(error.value)
        size = sum(
            path.stat().st_size
            for path in cached_shards(cache)
            if path.name == "shard.00000.mds"
        )
        assert size in (0, len(good))


def _read(folder: Path, cache: Path, seed: int, limit: float, seconds: float) -> None:
    """What a rank does: read random spans, from a cache that is too small for all ranks together."""
    expected = np.load(cache.parent / "expected.npy")
    reader = TokenStream(folder, cache, limit_bytes=limit)
    generator, end = random.Random(seed), time.monotonic() + seconds
    while time.monotonic() < end:
        start = generator.randrange(reader.tokens - 10)
        assert (reader.read(start, start + 10) == expected[start : start + 10]).all()


@pytest.mark.parametrize("shards", [1.5, 4])
def test_ranks_that_evict_each_others_shards_read_on(
    room: Path, tmp_path: Path, shards: float
) -> None:
    np.save(tmp_path / "expected.npy", whole_of(room / "out", tmp_path / "free"))
    size = max(path.stat().st_size for path in cached_shards(tmp_path / "free"))
    context = multiprocessing.get_context("fork")
    arguments = (room / "out/train", tmp_path / "cache")
    ranks = [
        context.Process(target=_read, args=(*arguments, seed, shards * size, 2))
        for seed in range(4)
    ]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(60)
    assert [rank.exitcode for rank in ranks] == [0] * 4
    assert (
        sum(path.stat().st_size for path in cached_shards(tmp_path / "cache"))
        <= (shards + 4) * size
    )
    assert not list((tmp_path / "cache").glob(".*"))


def test_killed_ranks_leave_nothing_that_is_believed_or_stays(
    room: Path, tmp_path: Path
) -> None:
    np.save(
        tmp_path / "expected.npy", expected := whole_of(room / "out", tmp_path / "free")
    )
    context, generator = multiprocessing.get_context("fork"), random.Random(1)
    for seed in range(10):
        rank = context.Process(
            target=_read,
            args=(room / "out/train", tmp_path / "cache", seed, 20_000, 30),
        )
        rank.start()
        rank.join(generator.uniform(0.02, 0.3))
        rank.kill()
        rank.join()
    assert (whole_of(room / "out", tmp_path / "cache") == expected).all()


def test_left_overs_of_ended_processes_are_removed(room: Path, tmp_path: Path) -> None:
    """Those of this machine at once, those of another once they are a day old."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    mine, theirs = (
        temporary_name("shard").replace(*pair)
        for pair in (
            (f"-{os.getpid()}-", f"-{ended.pid}-"),
            (files._machine(), "abcdef"),
        )
    )
    for name in (mine, theirs):
        (tmp_path / "train" / name).mkdir(parents=True)
        (tmp_path / "train" / name / "shard.00000.mds").write_bytes(b"half")
    whole_of(room / "out", tmp_path)
    assert (
        not (tmp_path / "train" / mine).exists()
        and (tmp_path / "train" / theirs).exists()
    )
    assert cached_shards(
        tmp_path
    ) and tmp_path / "train" / theirs / "shard.00000.mds" not in cached_shards(tmp_path)
    os.utime(tmp_path / "train" / theirs, (0, 0))
    (tmp_path / "train/shard.00000.mds").unlink()
    whole_of(room / "out", tmp_path)
    assert not (tmp_path / "train" / theirs).exists()


def test_the_bound_is_for_all_data_together(room: Path, tmp_path: Path) -> None:
    root = tmp_path / "shards"
    for name in ("first", "second"):
        reader = TokenStream(
            room / "out/train", root / name / "train", root=root, limit_bytes=100_000
        )
        for start in range(0, reader.tokens - 10, STEP):
            reader.read(start, start + 10)
        assert 0 < sum(path.stat().st_size for path in cached_shards(root)) <= 100_000
    assert not list((root / "first/train").glob("*.mds"))
    assert {
        oct(path.stat().st_mode & 0o777) for path in root.rglob("*") if path.is_dir()
    } == {"0o700"}


def test_a_full_disk_evicts_before_it_complains(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = stream(room / "out", "train", tmp_path)
    reader.read(0, 5)
    full, original = {"times": 1}, TokenStream._decompressed

    def failing(self: TokenStream, shard: Shard, folder: Path) -> VerifiedFile:
        full["times"] -= 1
        if full["times"] >= 0:
            raise OSError(28, "No space left on device")
        return original(self, shard, folder)

    monkeypatch.setattr(TokenStream, "_decompressed", failing)
    reader.read(STEP, STEP + 5)
    assert [path.name for path in cached_shards(tmp_path)] == ["shard.00001.mds"]
    full["times"] = 10
    with pytest.raises(
        UserError, match="no space left on device: a decompressed shard needs"
    ):
        reader.read(2 * STEP, 2 * STEP + 5)


@needs_root
def test_another_users_cache_is_refused(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o1777)
        trap = Path(folder, "clm-or-mlm-0")
        assert as_another_user(lambda: trap.mkdir() or "laid") == "laid"
        with pytest.raises(UserError, match=f"belongs to another user .UID {NOBODY}"):
            make_shard_cache_folder(folder)
