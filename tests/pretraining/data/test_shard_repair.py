"""The same `shards` command writes again what is lost or damaged, and nothing of a text that changed meanwhile."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from common.errors import UserError
from pretraining.data import build_shards
from pretraining.data.build_shards import build
from pretraining.data.shard_folder import writing
from pretraining.data.shard_manifest import UNFINISHED, verify_shards
from tests.commands import started
from tests.flips import flip
from tests.pretraining.data.made_up_shards import SETTINGS, hashes, sources


def make(room: Path, out: Path, **more: str) -> bool:
    return build(
        sources(room), str(room / "tokenizer"), out, SETTINGS, workers=0, **more
    )


def times(out: Path) -> dict[str, int]:
    return {
        path.relative_to(out).as_posix(): path.stat().st_mtime_ns
        for path in out.rglob("*")
        if path.is_file()
    }


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "train/shard.00001.mds.zstd": Path.unlink,
    "train/shard.00000.mds.zstd": cut,
    "validation/shard.00000.mds.zstd": empty,
    "train/index.json": flip,
    "validation/index.json": Path.unlink,
    "tokenizer/tokenizer.json": flip,
    "tokenizer": shutil.rmtree,
    "validation": shutil.rmtree,
    "provenance.json": flip,
}


@pytest.fixture
def out(room: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(room / "out", tmp_path / "out"))


@pytest.mark.parametrize("name", DAMAGE)
def test_lost_parts_alone_are_written_again(name: str, room: Path, out: Path) -> None:
    before = times(out)
    DAMAGE[name](out / name)
    assert verify_shards(out)
    assert all(
        "run the same `shards` command again" in line for line in verify_shards(out)
    )
    make(room, out)
    assert hashes(out) == hashes(room / "out") and not verify_shards(out)
    shards = [path for path in before if "shard." in path and not path.startswith(name)]
    after = times(out)
    assert all(before[path] == after[path] for path in shards) and len(shards) > 2
    assert not make(room, out)


def test_a_damaged_shard_that_is_removed_is_written_again(
    room: Path, out: Path
) -> None:
    """What keeps its size is found by `check`, whose sentence says so."""
    shard = out / "train/shard.00001.mds.zstd"
    flip(shard)
    (problem,) = verify_shards(out)
    assert "remove it and run the same `shards` command again" in problem
    shard.unlink()
    make(room, out)
    assert hashes(out) == hashes(room / "out") and not verify_shards(out)


def test_a_lost_shard_whose_text_is_gone_is_said(room: Path, out: Path) -> None:
    (out / "train/shard.00001.mds.zstd").unlink()
    with pytest.raises(
        UserError, match=r"shard\.00001.*the text, of which.*gone\.txt does not exist"
    ):
        build([str(out / "gone.txt")], str(room / "tokenizer"), out, SETTINGS)


def test_a_killed_repair_goes_on(
    room: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_shards, "_GROUP_CHARACTERS", 3000)
    shutil.rmtree(out / "train")
    for wrote in (2, 3, 4):
        with monkeypatch.context() as patch, pytest.raises(OSError, match="killed"):
            patch.setattr(build_shards, "_encoded", encoded_until(10 * wrote))
            make(room, out)
    assert (out / UNFINISHED / "record").is_file()
    make(room, out)
    assert hashes(out) == hashes(room / "out") and not verify_shards(out)


def encoded_until(number: int) -> Callable[..., Iterator[object]]:
    encode = build_shards._encoded

    def encoded(documents: Iterator[object], **more: object) -> Iterator[object]:
        return killed_at(number)(encode(documents, **more))  # type: ignore[arg-type]

    return encoded


def killed_at(
    number: int, then: Callable[[], object] | None = None
) -> Callable[..., Iterator[object]]:
    def groups(real: Iterator[object], *_: object) -> Iterator[object]:
        for place, group in enumerate(real):
            if place == number:
                if then is None:
                    raise OSError("killed")
                then()
            yield group

    return groups


def test_no_damaged_shard_is_sealed_by_a_resumption(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_shards, "_GROUP_CHARACTERS", 3000)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="killed"):
        patch.setattr(build_shards, "_finish", killed)
        make(room, tmp_path / "killed")
    names = sorted(
        path.relative_to(tmp_path / "killed").as_posix()
        for path in (tmp_path / "killed").rglob("shard.*")
    )
    assert len(names) > 10
    for place, name in enumerate(names[::3]):
        out = Path(shutil.copytree(tmp_path / "killed", tmp_path / f"{place}"))
        (flip, cut, Path.unlink)[place % 3](out / name)
        make(room, out)
        assert hashes(out) == hashes(room / "out"), name


def killed(*_: object) -> None:
    raise OSError("killed")


@pytest.mark.parametrize("part", [None, "1/1"])
@pytest.mark.parametrize("change", ["grown", "same size"])
def test_text_that_changes_while_it_is_read_is_refused(
    change: str,
    part: str | None,
    room: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text, out = tmp_path / "a.jsonl", tmp_path / "out"
    shutil.copy(room / "a.jsonl", text)
    whole = text.read_bytes()

    def touched() -> None:
        if change == "grown":
            text.write_bytes(whole + whole[: whole.index(b"\n") + 1])
        else:
            text.write_bytes(whole.replace(b"a", b"b"))

    encode = build_shards._encoded

    def slow(documents: Iterator[object], **more: object) -> Iterator[object]:
        return killed_at(3, touched)(encode(documents, **more))  # type: ignore[arg-type]

    words = [str(text)], str(room / "tokenizer"), out, SETTINGS
    with monkeypatch.context() as patch:
        patch.setattr(build_shards, "_GROUP_CHARACTERS", 3000)
        patch.setattr(build_shards, "_encoded", slow)
        with pytest.raises(UserError, match=r"a\.jsonl changed while it was read"):
            build(*words, workers=0, part=part)
    assert not list(out.rglob("*.zstd")) and not list(out.rglob("manifest.json"))
    assert build(*words, workers=0)


def test_a_second_writer_is_refused_until_the_first_is_killed(
    room: Path, tmp_path: Path
) -> None:
    reader, writer = os.pipe()
    process = started(hold, tmp_path, writer)
    assert os.read(reader, 1)
    with pytest.raises(UserError, match=f"process {process.pid} on host .* is writing"):
        make(room, tmp_path)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    make(room, tmp_path)
    assert hashes(tmp_path) == hashes(room / "out")


def hold(out: Path, ready: int) -> None:
    with writing(out):
        os.write(ready, b"1")
        signal.pause()
