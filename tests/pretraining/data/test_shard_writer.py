import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest

from common.errors import UserError
from pretraining.data.corpus import Document
from pretraining.data.shard_manifest import RECORD, UNFINISHED, Shard, write_index
from pretraining.data.shard_writer import ShardWriter
from pretraining.data.token_stream import TokenStream

REQUEST = {"source": {"files": []}}


def document(text: str, row: int) -> Document:
    return Document(text=text, characters=len(text), file=0, row=row, read_bytes=row)


def test_a_save_takes_what_is_new_alone(tmp_path: Path) -> None:
    """However many shards there are: 6,000 take six times as long as 1,000."""
    writer, sizes = ShardWriter(tmp_path, REQUEST), []
    shard = Shard(
        number=0,
        samples=1,
        size=4112,
        sha256="0" * 64,
        packed_size=9,
        packed_sha256="0" * 64,
    )
    for number in range(40):
        add(writer, number, 4)
        writer.splits["train"].shards.append(shard)
        writer.splits["train"].pending.clear()
        writer.save()
        sizes.append(
            sum(path.stat().st_size for path in (tmp_path / UNFINISHED).iterdir())
        )
    assert max(np.diff(sizes)) < 1.1 * min(np.diff(sizes))


def digest(number: int) -> bytes:
    return hashlib.blake2b(str(number).encode(), digest_size=16).digest()


def add(writer: ShardWriter, number: int, tokens: int, split: str = "train") -> None:
    is_new, ids = writer.unseen([digest(number)])[0], np.full(tokens, number, np.int32)
    writer.add(document(f"text {number}", number), ids, split if is_new else None)


def test_only_whole_shards_are_written_before_the_last(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, REQUEST)
    split, size = writer.splits["train"], 2 * RECORD
    add(writer, 1, size + 5)
    assert split.write(size)
    assert not split.write(size)
    assert (len(split.shards), len(split.pending)) == (1, 20)
    assert split.write(size, last=True)
    write_index(split.folder, split.shards)
    assert TokenStream(split.folder, tmp_path / "cache").tokens == size + 5


def test_it_resumes_where_it_was_saved(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, REQUEST)
    add(writer, 1, 4)
    add(writer, 2, 5, "validation")
    writer.save()
    add(writer, 3, 6)
    again = ShardWriter(tmp_path, REQUEST)
    assert (again.tokens, again.position.row) == (9, 2)
    assert (
        np.frombuffer(again.splits["validation"].pending, np.int32).tolist() == [2] * 5
    )
    add(again, 2, 5)
    assert again.position.duplicates == 1
    with pytest.raises(
        UserError, match="unfinished shards made with different settings"
    ):
        ShardWriter(tmp_path, REQUEST | {"settings": {}})


def two_records(folder: Path) -> list[ShardWriter]:
    """Save twice, a shard between, and return what was there when."""
    writer = ShardWriter(folder, REQUEST)
    states = [ShardWriter(folder / "none", REQUEST)]
    for number in (1, 4):
        add(writer, number, 4)
        add(writer, number + 1, 5, "validation")
        writer.splits["train"].write(6)
        writer.save()
        states.append(ShardWriter(folder, REQUEST))
        add(writer, number + 2, 4)
    return states


def state(writer: ShardWriter) -> tuple[object, ...]:
    new = writer.unseen([digest(number) for number in range(9)]).tolist()
    return vars(writer.position), list(map(repr, writer.splits.values())), new


def test_damaged_record_resumes_before_the_damage(tmp_path: Path) -> None:
    """Else the next shards would hold other tokens, or documents twice."""
    *before, last = map(state, two_records(tmp_path))
    assert before[1] != last and last[2] == [True, *[False] * 5, *[True] * 3]
    whole = Path(shutil.copytree(tmp_path / UNFINISHED, tmp_path / "whole"))
    good = (whole / "record").read_bytes()
    seen = []
    for place in {*range(0, len(good) - 1, 13), len(good) - 2}:
        flipped = good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]
        for bad in (good[:place], flipped):
            shutil.copytree(whole, tmp_path / UNFINISHED, dirs_exist_ok=True)
            (tmp_path / UNFINISHED / "record").write_bytes(bad)
            resumed = state(ShardWriter(tmp_path, REQUEST))
            # A frame has a bit or two that nobody reads.
            assert resumed in before or (resumed == last and bad == flipped)
            seen.append(resumed == before[1])
    assert 0 < sum(seen) < len(seen)


def test_block_of_a_second_process_is_cut_off(tmp_path: Path) -> None:
    """One that lost its lease may write the same once more."""
    last = state(two_records(tmp_path)[-1])
    path = tmp_path / UNFINISHED / "record"
    good = path.read_bytes()
    first = 8 + int.from_bytes(good[:8], "little")
    for twice in (good[:first], good[first:]):
        path.write_bytes(good + twice)
        assert state(ShardWriter(tmp_path, REQUEST)) == last
        assert path.read_bytes() == good


def test_shards_without_a_record_are_removed(tmp_path: Path) -> None:
    """Those of a longer run would be taken for some of the next one's."""
    two_records(tmp_path)
    (tmp_path / UNFINISHED / "record").unlink()
    ShardWriter(tmp_path, REQUEST)
    assert not list(tmp_path.rglob("shard.*"))
