from pathlib import Path

import numpy as np
import pytest

from common.errors import UserError
from pretraining.data.corpus import Document
from pretraining.data.shard_index import RECORD, write_index
from pretraining.data.shard_manifest import UNFINISHED
from pretraining.data.shard_writer import ShardWriter
from pretraining.data.token_stream import TokenStream

REQUEST = {"source": {"files": []}}


def document(text: str, row: int) -> Document:
    return Document(text=text, file=0, row=row, read_bytes=row)


def add(writer: ShardWriter, number: int, tokens: int, split: str = "train") -> None:
    digest, ids = number.to_bytes(16, "little"), np.full(tokens, number, np.int32)
    writer.add(document(f"text {number}", number), digest, ids, split)


def test_only_whole_shards_are_written_before_the_last(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, REQUEST)
    split, size = writer.splits["train"], 2 * RECORD
    add(writer, 1, size + 5)
    assert split.write(tmp_path, size)
    assert not split.write(tmp_path, size)
    assert (len(split.shards), len(split.pending)) == (1, 20)
    assert split.write(tmp_path, size, last=True)
    write_index(tmp_path / "train", split.shards)
    assert TokenStream(tmp_path / "train", tmp_path / "cache").tokens == size + 5


def test_it_resumes_where_it_was_saved(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, REQUEST)
    add(writer, 1, 4)
    add(writer, 2, 5, "validation")
    writer.save()
    add(writer, 3, 6)
    again = ShardWriter(tmp_path, REQUEST)
    assert (again.tokens, again.position.row) == (9, 2)
    assert np.frombuffer(again.splits["validation"].pending, np.int32).tolist() == [2] * 5
    add(again, 2, 5)
    assert again.position.duplicates == 1
    with pytest.raises(UserError, match="unfinished shards made with different settings"):
        ShardWriter(tmp_path, REQUEST | {"settings": {}})
    again.remove()
    assert not (tmp_path / UNFINISHED).exists()


def test_a_changed_record_is_never_resumed(tmp_path: Path) -> None:
    """Any of its files: the next shards would hold other tokens, or documents twice."""
    writer = ShardWriter(tmp_path, REQUEST)
    add(writer, 1, 4)
    add(writer, 2, 5, "validation")
    writer.save()
    scratch = tmp_path / UNFINISHED
    names = {path.name for path in scratch.iterdir()}
    assert names == {"state.json", "digests-2.bin", "train-2.bin", "validation-2.bin"}
    for path in sorted(scratch.iterdir()):
        good = path.read_bytes()
        for bad in (good[:-1], good[:-2] + bytes([good[-2] ^ 1]) + good[-1:]):
            path.write_bytes(bad)
            with pytest.raises(UserError, match=f"{path.name}.*; remove .* and run the same command again"):
                ShardWriter(tmp_path, REQUEST)
        path.write_bytes(good)
    (scratch / "train-2.bin").unlink()
    with pytest.raises(UserError, match=r"train-2\.bin is missing"):
        ShardWriter(tmp_path, REQUEST)
