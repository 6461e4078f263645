import os
import shutil
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError
from pretraining.data import build_shards, token_files
from pretraining.data.build_shards import build
from pretraining.data.shard_manifest import UNFINISHED
from tests.flips import flip
from tests.pretraining.data.made_up_shards import SETTINGS, hashes, sources


class KilledError(Exception):
    """No OSError, of which some are passed over."""


def part(
    text: Path, out: Path, which: str | None, *, tokenizer: Path | None = None
) -> None:
    build(
        sources(text),
        str((tokenizer or text) / "tokenizer"),
        out,
        SETTINGS,
        workers=0,
        part=which,
    )


@pytest.mark.parametrize("parts", [["1/2", "2/2"], ["2/2"], ["1/1"]])
def test_the_shards_of_parts_are_those_of_one_process(
    room: Path, tmp_path: Path, parts: list[str]
) -> None:
    """With documents twice in a file and across files, some held out, and parts that nobody made."""
    for which in parts:
        part(room, tmp_path / "out", which)
    part(room, tmp_path / "out", None)
    assert hashes(tmp_path / "out") == hashes(room / "out")


def test_parts_and_their_end_resume_after_a_failure_anywhere(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_shards, "_GROUP_CHARACTERS", 3000)
    monkeypatch.setattr(token_files, "_BLOCK", 7)
    failures, flush, left = 0, os.fsync, 0

    def failing(descriptor: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KilledError
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    for which in ("2/2", "1/2", None):
        for survive in range(1, 99, 3):
            left = survive
            try:
                part(room, tmp_path / "out", which)
                break
            except KilledError:
                failures += 1
    assert failures >= 8
    assert hashes(tmp_path / "out") == hashes(room / "out")


def test_tokens_of_another_text_or_damaged_ones_are_not_used(
    room: Path, tmp_path: Path
) -> None:
    text, out = tmp_path / "text", tmp_path / "out"
    text.mkdir()
    for file in sources(room):
        shutil.copy(file, text)
    changed = text / "b.jsonl"
    changed.write_text(changed.read_text().replace("a", "e"))
    part(text, out, "1/2", tokenizer=room)
    [first] = (out / UNFINISHED / "tokens").iterdir()
    part(text, out, "2/2", tokenizer=room)
    good = first.read_bytes()
    for damage in (
        flip,
        lambda path: path.write_bytes(good[:-8]),
        lambda path: path.write_bytes(good + b"1"),
    ):
        damage(first)
        with pytest.raises(
            UserError,
            match=rf"{first} is damaged \(.*\); remove it and run the same command",
        ):
            part(room, out, None)
        first.write_bytes(good)
    part(room, out, None)
    assert hashes(out) == hashes(room / "out")


def test_exchanged_token_files_are_not_believed(room: Path, tmp_path: Path) -> None:
    part(room, tmp_path, "1/1")
    one, other = (tmp_path / UNFINISHED / "tokens").iterdir()
    contents = one.read_bytes(), other.read_bytes()
    other.write_bytes(contents[0])
    one.write_bytes(contents[1])
    with pytest.raises(UserError, match=r"is damaged \(it is another file's\)"):
        part(room, tmp_path, None)


@pytest.mark.parametrize(
    ("which", "words"),
    [
        ("0/2", "is 3/8"),
        ("3/2", "is 3/8"),
        ("1", "is 3/8"),
        ("1/3", "of which there are 2; choose at most 2 parts"),
    ],
)
def test_what_is_no_part_is_refused(
    room: Path, tmp_path: Path, which: str, words: str
) -> None:
    command = [
        "shards",
        "--tokenizer",
        str(room / "tokenizer"),
        "--out",
        str(tmp_path / "out"),
        "--part",
        which,
    ]
    with pytest.raises(UserError, match=f"--part {which}: .*{words}"):
        main([*command, "--source", *sources(room)])
    assert not (tmp_path / "out").exists()
