import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers

from clm_or_mlm.__main__ import main
from common.errors import UserError
from common.files import sha256_file
from common.manifest import read_manifest
from common.plain_text import redacted
from pretraining.data import build_shards
from pretraining.data.build_shards import build
from pretraining.data.shard_manifest import (
    SHARDS,
    UNFINISHED,
    ShardSettings,
    load_manifest,
    verify_shards,
)
from pretraining.data.tokenizer import TextTokenizer, load_tokenizer, train_tokenizer
from tests.pretraining.data.made_up_shards import (
    DOCUMENTS,
    SETTINGS,
    hashes,
    sources,
    stream,
)
from tests.pretraining.documents import make_documents, write_jsonl


def expected_streams(room: Path, encoder: TextTokenizer) -> dict[str, np.ndarray]:
    """The splits by a straightforward loop: unique documents in order, held out by the hash of their text."""
    streams: dict[str, list[np.ndarray]] = {"train": [], "validation": []}
    for text in DOCUMENTS:
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        held_out = (
            int.from_bytes(digest[:8], "little") / 2**64 < SETTINGS.validation_share
        )
        ids = [
            *encoder.inner.encode(text, add_special_tokens=False).ids,
            encoder.eos_id,
        ]
        streams["validation" if held_out else "train"].append(np.array(ids))
    return {name: np.concatenate(parts) for name, parts in streams.items()}


def test_the_stream_holds_every_unique_document_once(
    room: Path, tmp_path: Path
) -> None:
    encoder = load_tokenizer(str(room / "out/tokenizer"))
    manifest = load_manifest(room / "out")
    assert manifest["duplicates_dropped"] == 102
    assert manifest["empty_dropped"] == 1
    assert manifest["characters"] == sum(map(len, DOCUMENTS))
    assert manifest["tokenizer"]["sha256"] == encoder.sha256
    for split, expected in expected_streams(room, encoder).items():
        found = stream(room / "out", split, tmp_path)
        assert found.tokens == len(expected) == manifest["splits"][split]["tokens"]
        assert (found.read(0, found.tokens) == expected).all()
        assert (
            manifest["splits"][split]["documents"] == (expected == encoder.eos_id).sum()
        )
    assert len(manifest["splits"]["train"]["shards"]) > 2


GOLDEN = {
    1: {
        "train": "1e11e701a6949c3bcac839886f8e9e4899c4fdfca28edf0fe780d3a986504e94",
        "validation": "70244227b9193905102c360a8cca78dee4e1cff118767fba8ea8a39abb4508cd",
    }
}
"""For each version of the writer the SHA-256 of the tokens of every split of `DOCUMENTS`, int32."""


def test_the_tokens_are_those_of_the_version(tmp_path: Path) -> None:
    train_tokenizer(DOCUMENTS[:100], 300).save(tmp_path / "tokenizer")
    source = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    build(
        [str(source)],
        str(tmp_path / "tokenizer"),
        tmp_path / "out",
        SETTINGS,
        workers=0,
    )
    assert (
        load_manifest(tmp_path / "out")["request"]["version"] == SHARDS == max(GOLDEN)
    )
    for split, expected in GOLDEN[SHARDS].items():
        found = stream(tmp_path / "out", split, tmp_path / "cache")
        assert (
            hashlib.sha256(found.read(0, found.tokens).tobytes()).hexdigest()
            == expected
        )


def test_shards_say_who_made_them_apart_from_what_they_are(room: Path) -> None:
    made = read_manifest(room / "out" / "provenance.json", "")
    assert made["engine"] == load_tokenizer(str(room / "tokenizer")).engine
    assert made["files"] == {
        name: sha256_file(room / "out" / name)
        for name in ("manifest.json", "train/index.json", "validation/index.json")
    }
    text = (room / "out/manifest.json").read_text()
    assert (
        "command" not in text and made["commit"] not in text and str(room) not in text
    )


@pytest.mark.parametrize("workers", [1, 3])
def test_bytes_do_not_depend_on_workers(
    room: Path, tmp_path: Path, workers: int
) -> None:
    build(sources(room), str(room / "tokenizer"), tmp_path, SETTINGS, workers=workers)
    assert hashes(tmp_path) == hashes(room / "out")


def test_a_second_call_does_nothing(room: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (room / "out").rglob("*")}
    assert not build(
        sources(room), str(room / "tokenizer"), room / "out", SETTINGS, workers=0
    )
    assert {
        path: path.stat().st_mtime_ns for path in (room / "out").rglob("*")
    } == before
    with pytest.raises(UserError, match="shards made with different settings"):
        build(
            sources(room),
            str(room / "tokenizer"),
            room / "out",
            ShardSettings(shard_records=3),
            workers=0,
        )


def _replace(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


TEXT_CHANGES = {
    "a word of it": (
        lambda text: _replace(text / "a.jsonl", "a", "b"),
        r"a\.jsonl is not the text that the shards",
    ),
    "its size": (
        lambda text: _replace(text / "b.jsonl", "a", ""),
        r"b\.jsonl, then [\d,]+ bytes, now [\d,]+ bytes",
    ),
    "a file more": (
        lambda text: write_jsonl(text / "c.jsonl", ["c"]),
        r"c\.jsonl, then missing, now 14 bytes",
    ),
    "a file less": (
        lambda text: (text / "b.jsonl").unlink(),
        r"b\.jsonl, then [\d,]+ bytes, now missing",
    ),
    "its time": (lambda text: os.utime(text / "a.jsonl", ns=(5, 5)), None),
    "its place": (lambda text: text.rename(text.with_name("moved")), None),
}


@pytest.mark.parametrize("change", TEXT_CHANGES)
@pytest.mark.parametrize("complete", [True, False], ids=["complete", "unfinished"])
def test_shards_belong_to_their_text(
    room: Path,
    tmp_path: Path,
    change: str,
    complete: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text, out = tmp_path / "text", tmp_path / "out"
    text.mkdir()
    for name in ("a.jsonl", "b.jsonl"):
        shutil.copy(room / name, text / name)
    if complete:
        shutil.copytree(room / "out", out)
    else:
        monkeypatch.setattr(build_shards, "_GROUP_CHARACTERS", 3000)
        with monkeypatch.context() as patch, pytest.raises(OSError, match="killed"):
            patch.setattr(build_shards, "_finish", killed)
            build([str(text)], str(room / "tokenizer"), out, SETTINGS, workers=0)
    made = hashes(out)
    apply, message = TEXT_CHANGES[change]
    apply(text)
    source = str(text if text.exists() else tmp_path / "moved")
    if message is None:
        assert (
            build([source], str(room / "tokenizer"), out, SETTINGS, workers=0)
            is not complete
        )
        assert hashes(out) == hashes(room / "out")
        return
    with pytest.raises(UserError, match=f"{message}.*remove the folder"):
        build([source], str(room / "tokenizer"), out, SETTINGS, workers=0)
    assert hashes(out) == made


def killed(*_: object) -> None:
    raise OSError("killed")


def test_complete_shards_need_neither_text_nor_its_record(
    room: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(room / "out", tmp_path / "out")
    words = (str(room / "tokenizer"), tmp_path / "out")
    assert not build([str(tmp_path / "gone.txt")], *words, SETTINGS, workers=0)
    assert "the text is gone, but the shards are complete: " in caplog.text
    with pytest.raises(UserError, match="different settings"):
        build(
            [str(tmp_path / "gone.txt")],
            *words,
            ShardSettings(shard_records=3),
            workers=0,
        )
    with pytest.raises(UserError, match=r"gone\.txt does not exist"):
        build(
            [str(tmp_path / "gone.txt")],
            str(room / "tokenizer"),
            tmp_path / "new",
            SETTINGS,
            workers=0,
        )
    (tmp_path / "out/provenance.json").unlink()
    assert not build(sources(room), *words, SETTINGS, workers=0)
    for name in ("a.jsonl", "b.jsonl"):
        shutil.copy(room / name, tmp_path / name)
    _replace(tmp_path / "b.jsonl", "a", "b")
    with pytest.raises(UserError, match=r"b\.jsonl is not the text"):
        build([f"{tmp_path}/*.jsonl"], *words, SETTINGS, workers=0)


def test_reading_stops_after_the_tokens_asked_for(room: Path, tmp_path: Path) -> None:
    some = ShardSettings(shard_records=2, validation_share=0.05, tokens=20_000)
    build(sources(room), str(room / "tokenizer"), tmp_path / "some", some, workers=0)
    got, whole = (
        stream(tmp_path / "some", "train", tmp_path / "a"),
        stream(room / "out", "train", tmp_path / "b"),
    )
    assert 20_000 <= got.tokens < 20_400
    assert (got.read(0, got.tokens) == whole.read(0, got.tokens)).all()


def test_a_small_source_holds_out_more_unless_told_otherwise() -> None:
    sizes = {
        40_000: None,
        19_000_000: None,
        20_000_000: 0.01,
        40_000_000: 0.005,
        10**12: 0.005,
    }
    for size, share in sizes.items():
        assert ShardSettings().settled(size).validation_share == pytest.approx(share)
        assert ShardSettings(validation_share=0.3).settled(size).validation_share == 0.3


def test_one_percent_is_held_out_and_the_end_of_text_is_named(
    room: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    paragraphs = [text[:200] for text in make_documents(3_000, seed=3)]
    (tmp_path / "own.txt").write_text("\n\n".join(paragraphs))
    build(
        [str(tmp_path / "own.txt")],
        str(room / "out/tokenizer"),
        tmp_path / "out",
        ShardSettings(),
        workers=0,
    )
    splits = load_manifest(tmp_path / "out")["splits"]
    held, trained = (splits[split]["tokens"] for split in ("validation", "train"))
    assert 2_048 <= held < 0.03 * trained
    assert f"held out: {100 * held / (held + trained):.2g} %" in caplog.text
    assert "--document-separator file" in caplog.text
    build(
        sources(room), str(room / "tokenizer"), tmp_path / "json", SETTINGS, workers=0
    )
    assert caplog.text.count("--document-separator") == 1


def test_a_hundred_lines_become_shards_without_an_option(
    room: Path, tmp_path: Path
) -> None:
    (tmp_path / "own.txt").write_text(
        "".join(f"line {number} of a text of my own\n" for number in range(100))
    )
    words = ["--source", str(tmp_path / "own.txt"), "--document-separator", "line"]
    assert main(
        [
            "shards",
            *words,
            "--tokenizer",
            str(room / "out/tokenizer"),
            "--out",
            str(tmp_path / "out"),
        ]
    ) in (0, None)
    splits = load_manifest(tmp_path / "out")["splits"]
    held_out, trained = splits["validation"]["documents"], splits["train"]["documents"]
    assert held_out >= 1 and held_out + trained == 100


@pytest.mark.parametrize(
    ("name", "content", "wrong", "right", "message"),
    [
        (
            "a.txt",
            "one\ntwo\nthree\n",
            {},
            {"document_separator": "line"},
            "of 1 documents .* `line` makes each line a document",
        ),
        ("a.txt", "\n\n", {}, None, "there is no text; give files"),
        ("a.jsonl", "", {}, None, "there is no text; give files"),
        (
            "a.jsonl",
            '{"body": "one"}\n{"body": "two"}\n',
            {},
            {"text_field": "body"},
            "it has body",
        ),
        (
            "a.txt",
            "one\n\ntwo\n",
            {"validation_share": 0.01},
            {},
            "of 2 documents .*, 0 were held out",
        ),
        (
            "a.txt",
            "one\n\n" * 120,
            {},
            None,
            r"of 1 documents \(119 duplicates dropped\)",
        ),
        (
            "a.txt",
            "one\n\ntwo\n",
            {"validation_share": 0.99},
            {},
            "of 2 documents .*, 2 were held out",
        ),
    ],
)
def test_a_failed_call_does_not_stop_the_corrected_one(
    room: Path,
    tmp_path: Path,
    name: str,
    content: str,
    wrong: dict,
    right: dict | None,
    message: str,
) -> None:
    (tmp_path / name).write_text(content)
    out = tmp_path / "out"

    def attempt(given: dict) -> None:
        settings = ShardSettings(**{"validation_share": 0.5} | given)
        build([str(tmp_path / name)], str(room / "tokenizer"), out, settings, workers=0)

    with pytest.raises(UserError, match=message):
        attempt(wrong)
    assert not out.exists()
    if right is not None:
        attempt(right)
        assert not verify_shards(out)


def test_shards_do_not_go_into_a_models_folder(room: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"is a model's folder; choose another"):
        build(
            [str(tmp_path / "a.txt")],
            str(room / "tokenizer"),
            tmp_path,
            ShardSettings(),
            workers=0,
        )


@pytest.mark.parametrize("share", [0, 0.5])
def test_text_that_the_tokenizer_does_not_know_is_said(
    share: float, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    words = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "[MASK]": 3, "map": 4}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    inner.add_special_tokens(list(words)[:4])
    inner.post_processor = tokenizers.processors.BertProcessing(
        ("[SEP]", 2), ("[CLS]", 1)
    )
    inner.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(
        '{"cls_token": "[CLS]", "sep_token": "[SEP]"}'
    )
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    lines = [
        " ".join(["ድር" if place < share * 9 else "map"] * 9 + ["map"] * place)
        for place in range(9)
    ]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    settings = ShardSettings(document_separator="line", validation_share=0.5)
    build(
        [str(tmp_path / "a.txt")], str(tmp_path), tmp_path / "out", settings, workers=0
    )
    manifest = load_manifest(tmp_path / "out")
    tokens = [manifest["splits"][split]["tokens"] for split in ("train", "validation")]
    found = stream(tmp_path / "out", "train", tmp_path / "cache")
    read = found.read(0, found.tokens)
    assert (
        np.flatnonzero(read == 1) == [0, *(1 + np.flatnonzero(read == 2))[:-1]]
    ).all()
    assert (manifest["tokenizer"]["first"], manifest["tokenizer"]["unknown_id"]) == (
        [1],
        0,
    )
    assert not verify_shards(tmp_path / "out")
    unknown = sum(line.split().count("ድር") for line in lines)
    assert f"unknown tokens: {100 * unknown / sum(tokens):.3g} %" in caplog.text
    assert ("choose one that knows" in caplog.text) is bool(share)
    assert (
        re.search(r"; 3\.\d letters a token; unknown tokens: ", redacted(caplog.text))
        or share
    )


def start(source: Path, tokenizer: str, out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "clm_or_mlm", "shards", "--source", str(source)]
    command += ["--tokenizer", tokenizer, "--out", str(out), "--workers", "2"]
    command += ["--shard-records", "2", "--validation-share", "0.05"]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def test_a_build_resumes_after_a_failure_anywhere(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every point at which something is made durable fails once; the next call resumes to the same bytes."""

    monkeypatch.setattr(build_shards, "_GROUP_CHARACTERS", 3000)
    calls = {"left": 0}

    def failing(durable: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any) -> Any:
            calls["left"] -= 1
            if calls["left"] == 0:
                raise KilledError
            return durable(*words)

        return call

    monkeypatch.setattr(Path, "replace", failing(Path.replace))
    monkeypatch.setattr(os, "fsync", failing(os.fsync))
    failures = 0
    for survive in range(4, 150):
        calls["left"] = survive
        try:
            build(
                sources(room),
                str(room / "tokenizer"),
                tmp_path / "out",
                SETTINGS,
                workers=0,
            )
        except KilledError:
            failures += 1
        else:
            break
    assert failures >= 10
    assert hashes(tmp_path / "out") == hashes(room / "out")


class KilledError(Exception):
    """No OSError, of which some are passed over."""


@pytest.mark.slow
def test_killed_at_random_moments_it_ends_with_the_same_bytes(
    room: Path, tmp_path: Path
) -> None:
    """Every process but the last is killed a random while after it has made something durable."""
    source, tokenizer = tmp_path / "long.jsonl", str(room / "tokenizer")
    write_jsonl(source, make_documents(2_500, words=700))
    build([str(source)], tokenizer, tmp_path / "whole", SETTINGS, workers=0)
    generator, kills, out = random.Random(0), 0, tmp_path / "out"
    state = out / UNFINISHED / "record"
    while not (out / "manifest.json").exists():
        process, before = (
            start(source, tokenizer, out),
            state.exists() and state.read_bytes(),
        )
        while process.poll() is None and (
            not state.exists() or state.read_bytes() == before
        ):
            time.sleep(0.01)
        time.sleep(generator.uniform(0, 0.1))
        kills += process.poll() is None
        process.kill()
        process.wait()
    assert kills >= 10
    # Killed in its last moment, a call leaves its record to the next one.
    assert start(source, tokenizer, out).wait() == 0
    assert hashes(out) == hashes(tmp_path / "whole")
