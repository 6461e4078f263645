import shutil
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError
from common.manifest import write_manifest
from pretraining.data.shard_manifest import (
    check_tokenizer,
    load_manifest,
    verify_shards,
)
from pretraining.data.tokenizer import train_tokenizer
from tests.flips import flip
from tests.pretraining.data.made_up_shards import DOCUMENTS, stream


def test_verify_finds_a_flipped_byte(
    room: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(room / "out", copy)
    assert main(["check", str(copy)]) == 0
    shard = copy / "train/shard.00001.mds.zstd"
    flip(shard)
    assert main(["check", str(copy)]) == 1
    assert f"{shard}: its content has changed" in capsys.readouterr().out
    shard.write_bytes(shard.read_bytes()[:-1])
    assert "bytes instead of" in verify_shards(copy)[0]
    shard.unlink()
    assert verify_shards(copy) == [
        f"{shard} is missing; run the same `shards` command again"
    ]
    with pytest.raises(UserError, match="is missing"):
        reader = stream(copy, "train", tmp_path)
        reader.read(0, reader.tokens)
    shutil.copy(room / "out/train/shard.00001.mds.zstd", shard)
    for file, text in (
        ("manifest.json", '"documents": '),
        ("train/index.json", '"samples": '),
    ):
        path = copy / file
        good = path.read_text()
        path.write_text(
            good.replace(text, text + "1", 1)
            if file == "manifest.json"
            else good.replace("a", "b", 1)
        )
        assert len(verify_shards(copy)) == 1 or file != "manifest.json"
        assert verify_shards(copy)
        path.write_text(good)
    train_tokenizer(DOCUMENTS[:90], 280).save(copy / "tokenizer")
    assert "tokenizer/tokenizer.json: its content has changed" in verify_shards(copy)[0]


def test_a_tokenizer_with_other_files_is_refused(room: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(room / "out", tmp_path / "copy"))
    manifest = load_manifest(copy)
    check_tokenizer(copy, manifest)
    config = copy / "tokenizer/tokenizer_config.json"
    good = config.read_text()
    config.write_text(good.replace("2048", "2049"))
    with pytest.raises(
        UserError,
        match="tokenizer is missing or is not the tokenizer that the shards were made with",
    ):
        check_tokenizer(copy, manifest)
    config.write_text(good)
    (copy / "tokenizer/added_tokens.json").write_text("{}")
    with pytest.raises(UserError, match="not the tokenizer"):
        check_tokenizer(copy, manifest)
    shutil.rmtree(copy / "tokenizer")
    with pytest.raises(UserError, match="is missing"):
        check_tokenizer(copy, manifest)


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("tokenizer", "vocab_size", "400"),
        ("tokenizer", "vocab_size", 5),
        ("tokenizer", "eos_id", -1),
        ("tokenizer", "mask_id", None),
        ("tokenizer", "more", 1),
        ("format", None, 1),
    ],
)
def test_a_hostile_manifest_is_refused(
    room: Path, tmp_path: Path, part: str, field: str | None, value: object
) -> None:
    """Sealed again, as whoever forged it would."""
    content = load_manifest(room / "out")
    if field is None:
        content[part] = value
    else:
        content[part][field] = value
    write_manifest(tmp_path / "manifest.json", content)
    with pytest.raises(UserError, match=r"manifest\.json"):
        load_manifest(tmp_path)
