"""The index of a split believes nothing it has not checked: a hostile one runs nothing and writes nowhere."""

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.errors import UserError
from pretraining.data.shard_manifest import (
    INDEX,
    check_split,
    load_manifest,
    verify_shards,
)
from tests.flips import flips
from tests.pretraining.data.made_up_shards import hashes, stream, with_content

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def copy(room: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(room / "out", tmp_path / "copy"))


def changed(copy: Path, change: Change) -> Path:
    """Change the index of the training split and return its path."""
    path = copy / "train" / INDEX
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content, sort_keys=True))
    return path


def first(key: str, value: object) -> Change:
    return lambda content: content["shards"][0].__setitem__(key, value)


def raw(key: str, value: object) -> Change:
    return lambda content: content["shards"][0]["raw_data"].__setitem__(key, value)


HOSTILE: dict[str, Change] = {
    "pickle": first("column_encodings", ["pkl"]),
    "another column": first("column_names", ["text"]),
    "two columns": first("column_encodings", ["ndarray:int32", "ndarray:int32"]),
    "other shapes": first("column_encodings", ["ndarray:int32:4096"]),
    "absolute path": raw("basename", "/tmp/victim"),
    "path upwards": raw("basename", "../victim"),
    "another shard's name": raw("basename", "shard.00001.mds"),
    "no text": raw("basename", 5),
    "negative size": raw("bytes", -1),
    "size of another shape": raw("bytes", 10**9),
    "size in words": raw("bytes", "5"),
    "size in part": raw("bytes", 1.5),
    "no hash": raw("hashes", {}),
    "another hash": raw("hashes", {"sha1": "0" * 40}),
    "short hash": raw("hashes", {"sha256": "00"}),
    "unknown field": raw("mode", "w"),
    "no raw file": first("raw_data", None),
    "no samples": first("samples", 0),
    "a sample more": lambda content: content["shards"][0].__setitem__(
        "samples", 1 + content["shards"][0]["samples"]
    ),
    "samples that are true": first("samples", True),
    "another version": first("version", 1),
    "another format": first("format", "json"),
    "another compression": first("compression", "br:1"),
    "uncompressed and compressed": first("compression", None),
    "no shards": lambda content: content.__setitem__("shards", []),
    "no list": lambda content: content.__setitem__("shards", {}),
    "no object": lambda content: content["shards"].__setitem__(0, []),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_index_is_refused_in_one_sentence(
    copy: Path, tmp_path: Path, name: str
) -> None:
    before = hashes(tmp_path)
    path = changed(copy, HOSTILE[name])
    before[str(path.relative_to(tmp_path))] = hashes(path.parent)[INDEX]
    with pytest.raises(UserError) as error:
        stream(copy, "train", tmp_path / "cache")
    assert str(error.value).startswith(f"{path} ") and "\n" not in str(error.value)
    assert hashes(tmp_path) == before
    assert any(str(path) in problem for problem in verify_shards(copy))


def test_a_pickle_in_a_shard_never_runs(copy: Path, tmp_path: Path) -> None:
    """Even where size and hash fit and the manifest is silent: the encoding is not taken from the index."""

    class Bomb:
        def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
            return os.system, (f"touch {tmp_path}/ran",)

    split = copy / "train"
    payload = pickle.dumps(Bomb())
    count, offset = 2, 4 * 4
    data = (
        b"".join(
            number.to_bytes(4, "little")
            for number in (count, offset, offset + 64, offset + 128)
        )
        + payload
    )
    with_content(split, data + bytes(128))
    changed(copy, first("samples", count))
    with pytest.raises(UserError):
        stream(copy, "train", tmp_path / "cache").read(0, 5)
    changed(copy, first("column_encodings", ["pkl"]))
    with pytest.raises(UserError):
        stream(copy, "train", tmp_path / "cache")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_flipped_bit_of_an_index_passes(
    copy: Path, tmp_path: Path, count: int
) -> None:
    manifest = load_manifest(copy)
    tokens = manifest["splits"]["train"]["tokens"]

    def believe() -> None:
        reader = stream(copy, "train", tmp_path / "cache")
        check_split(copy, "train", manifest, reader.shards)
        shutil.rmtree(tmp_path / "cache")
        reader.read(0, tokens)

    believe()
    assert flips(copy / "train" / INDEX, count, believe) == 0


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_flipped_bit_of_a_manifest_passes(copy: Path, count: int) -> None:
    load_manifest(copy)
    assert flips(copy / "manifest.json", count, lambda: load_manifest(copy)) == 0
