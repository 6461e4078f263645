from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import UserError
from pretraining.__main__ import main
from pretraining.data.manifest import verify
from pretraining.data.tokenizer import train_tokenizer
from tests.pretraining.data.made_up_shards import DOCUMENTS, stream


def test_verify_finds_a_flipped_byte(room: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(room / "out", copy)
    assert main(["shards", "verify", str(copy)]) == 0
    shard = copy / "train/shard.00001.mds.zstd"
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    assert main(["shards", "verify", str(copy)]) == 1
    assert f"{shard}: its content has changed" in capsys.readouterr().out
    shard.write_bytes(data[:-1])
    assert "bytes instead of" in verify(copy)[0]
    shard.unlink()
    assert verify(copy) == [f"{shard}: is missing"]
    with pytest.raises(UserError, match="is missing"):
        reader = stream(copy, "train", tmp_path)
        reader.read(0, reader.tokens)
    shutil.copy(room / "out/train/shard.00001.mds.zstd", shard)
    for file, text in (("manifest.json", '"documents": '), ("train/index.json", '"samples": ')):
        path = copy / file
        good = path.read_text()
        path.write_text(
            good.replace(text, text + "1", 1) if file == "manifest.json" else good.replace("a", "b", 1)
        )
        assert len(verify(copy)) == 1 or file != "manifest.json"
        assert verify(copy)
        path.write_text(good)
    train_tokenizer(DOCUMENTS[:90], 280).save(copy / "tokenizer")
    assert "not the tokenizer" in verify(copy)[0]
