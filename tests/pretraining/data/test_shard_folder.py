"""`shards` touches nothing of others, whatever comes of it."""

import os
import signal
from contextlib import nullcontext
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError
from common.files import mark_cache
from pretraining.data import build_shards, shard_folder
from pretraining.data.build_shards import build
from pretraining.data.shard_manifest import ShardSettings, verify_shards
from tests.commands import started
from tests.pretraining.data.made_up_shards import SETTINGS, hashes, sources


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def put(folder: Path, *names: str) -> dict[str, bytes]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(f"{name} of somebody".encode())
    return contents(folder)


def make(room: Path, out: Path) -> None:
    build(sources(room), str(room / "tokenizer"), out, SETTINGS, workers=0)


@pytest.mark.parametrize(
    ("place", "named"),
    [
        ("train/book.txt", "other files (train/book.txt)"),
        ("validation/a/labels.csv", "other files (validation/a/labels.csv)"),
        ("train/index.json", "shards of another program (train/index.json)"),
        ("tokenizer/tokenizer.json", "other files (tokenizer/tokenizer.json)"),
        ("provenance.json", "other files (provenance.json)"),
        ("manifest.json", "manifest.json is damaged"),
        (".state/train/shard", "other files (.state/train/shard)"),
        (".state/record", "other files (.state/record)"),
        ("train", "other files (train)"),
    ],
)
@pytest.mark.parametrize("part", [None, "1/2"])
def test_files_in_the_place_of_shards_are_refused_and_stay(
    room: Path, tmp_path: Path, place: str, named: str, part: str | None
) -> None:
    before = put(tmp_path, place, "notes.md")
    with pytest.raises(UserError) as error:
        build(
            sources(room),
            str(room / "tokenizer"),
            tmp_path,
            SETTINGS,
            workers=0,
            part=part,
        )
    assert named in str(error.value) and "choose another --out" in str(error.value)
    assert contents(tmp_path) == before


def test_a_text_in_its_own_output_is_refused_and_stays(
    room: Path, tmp_path: Path
) -> None:
    before = put(tmp_path, "train/book.txt", "validation/labels.csv")
    with pytest.raises(
        UserError, match=r"other files \(train/book\.txt, validation/labels\.csv\)"
    ):
        build(
            [str(tmp_path / "train/book.txt")],
            str(room / "tokenizer"),
            tmp_path,
            ShardSettings(),
            workers=0,
        )
    assert contents(tmp_path) == before


def test_a_refused_text_leaves_what_was_there(room: Path, tmp_path: Path) -> None:
    before = put(tmp_path, "book.txt", "models/train.bin")
    with pytest.raises(UserError, match="of 1 documents"):
        build(
            [str(tmp_path / "book.txt")],
            str(room / "tokenizer"),
            tmp_path,
            ShardSettings(),
            workers=0,
        )
    assert contents(tmp_path) == before


def test_unfinished_folder_of_another_program_is_recognised(
    room: Path, tmp_path: Path
) -> None:
    (tmp_path / ".state").mkdir()
    (tmp_path / ".state/CACHEDIR.TAG").write_text(
        "Signature: 8a477f597d28d172789f06886806bc55\n"
    )
    with pytest.raises(UserError, match="CACHEDIR"):
        make(room, tmp_path)
    (tmp_path / ".state/CACHEDIR.TAG").unlink()
    mark_cache(tmp_path / ".state")
    make(room, tmp_path)
    assert hashes(tmp_path) == hashes(room / "out")


@pytest.mark.parametrize("moves", range(1, 6))
def test_a_killed_move_goes_on_where_it_was(
    room: Path, tmp_path: Path, moves: int
) -> None:
    put(tmp_path, "notes.md")
    process = started(killed_after, moves, room, tmp_path)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert (
        len(
            [
                path
                for path in tmp_path.iterdir()
                if path.name not in (".state", "notes.md")
            ]
        )
        == moves
    )
    make(room, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "train",
        "validation",
        "tokenizer",
        "provenance.json",
        "manifest.json",
        "notes.md",
    }
    (tmp_path / "notes.md").unlink()
    assert hashes(tmp_path) == hashes(room / "out") and not verify_shards(tmp_path)


def killed_after(moves: int, room: Path, out: Path) -> None:
    done = []

    def sync(folder: Path) -> None:
        done.append(folder)
        if len(done) == moves:
            os.kill(os.getpid(), signal.SIGKILL)

    shard_folder.sync_folder = sync
    make(room, out)


def test_what_came_meanwhile_is_not_replaced(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = build_shards._finish

    def others_first(*words: object) -> None:
        finish(*words)  # type: ignore[arg-type]
        put(tmp_path, "validation/labels.csv", "provenance.json")

    with monkeypatch.context() as patched:
        patched.setattr(build_shards, "_finish", others_first)
        with pytest.raises(
            UserError, match=r"validation/labels\.csv, provenance\.json"
        ):
            make(room, tmp_path)
    for name in ("validation/labels.csv", "provenance.json"):
        assert (tmp_path / name).read_bytes() == f"{name} of somebody".encode()
        (tmp_path / name).unlink()
    make(room, tmp_path)
    assert hashes(tmp_path) == hashes(room / "out")


def test_shards_that_another_call_finished_are_compared(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = build_shards._finish

    def other_call_first(*words: object) -> None:
        monkeypatch.setattr(build_shards, "_finish", finish)
        with monkeypatch.context() as patch:
            patch.setattr(build_shards, "writing", lambda _: nullcontext())
            make(room, tmp_path)
        finish(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(build_shards, "_finish", other_call_first)
    with pytest.raises(UserError, match="shards made with different settings"):
        build(
            sources(room),
            str(room / "tokenizer"),
            tmp_path,
            ShardSettings(shard_records=10_000),
            workers=0,
        )
    assert hashes(tmp_path) == hashes(room / "out")


@pytest.mark.parametrize("command", ["adapt {start} --tokens 1e6", "train 610m-clm"])
def test_no_remedy_leads_into_a_folder_of_others(command: str, tmp_path: Path) -> None:
    before = put(
        tmp_path, "shards/train/index.json", "shards/train/shard.00000.mds.zstd"
    )
    words = command.format(start=tmp_path / "start").split()
    with pytest.raises(UserError) as error:
        main([*words, "--data", f"{tmp_path}/shards", "--out", f"{tmp_path}/out"])
    said = str(error.value)
    assert "shards of another program (train/index.json" in said
    assert "--out DIR" in said and f"--out {tmp_path}" not in said
    assert contents(tmp_path) == before
