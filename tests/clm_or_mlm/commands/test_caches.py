"""`clean` frees what it says, and nothing that is another user's or behind a link."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError
from tests.common.test_private_folders import as_another_user, needs_root


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    monkeypatch.setenv("CLM_OR_MLM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CLM_OR_MLM_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.delenv("SLURM_TMPDIR", raising=False)
    files = {
        "shards": tmp_path / f"scratch/clm-or-mlm-{os.getuid()}/shards/0a/train/shard.00000.mds",
        "old shards": tmp_path / "cache/shards/0a/train/shard.00000.mds",
        "stores": tmp_path / "cache/stores/a/runs.parquet",
        "released": tmp_path / "cache/released-7e03774beb4c/results.json",
        "other": tmp_path / "cache/other/file",
        "theirs": tmp_path / "scratch/theirs/file",
    }
    for number, path in enumerate(files.values(), 1):
        path.parent.mkdir(parents=True)
        path.write_bytes(bytes(number * 1_000_000))
    return files


def there(files: dict[str, Path]) -> set[str]:
    return {name for name, path in files.items() if path.exists()}


def test_it_frees_what_needs_no_network(caches: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    everything = there(caches)
    assert not main(["clean", "--dry-run"])
    assert there(caches) == everything
    assert "  6.00 MB  would be freed in all" in capsys.readouterr().out
    assert not main(["clean"])
    assert there(caches) == {"released", "other", "theirs"}
    out = capsys.readouterr().out
    assert f"1.00 MB  freed  {caches['shards'].parents[2]}" in out
    assert "4.00 MB  kept" in out and "`clean released` removes them" in out
    assert "  6.00 MB  freed in all" in out


def test_named_caches(caches: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert not main(["clean", "shards", "released"])
    assert there(caches) == {"stores", "other", "theirs"}
    assert " 7.00 MB  freed in all" in capsys.readouterr().out
    with pytest.raises(UserError, match="unknown cache 'shard'; did you mean 'shards'"):
        main(["clean", "shard"])


def test_links_are_not_followed(caches: dict[str, Path], tmp_path: Path) -> None:
    link = tmp_path / "cache/stores/a/link"
    link.symlink_to(caches["other"].parent)
    caches["old shards"].unlink()
    old = tmp_path / "cache/shards"
    for folder in (old / "0a/train", old / "0a", old):
        folder.rmdir()
    old.symlink_to(caches["theirs"].parent)
    assert not main(["clean"])
    assert there(caches) == {"released", "other", "theirs"}


@needs_root
def test_another_users_folder_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o1777)
        monkeypatch.setenv("CLM_OR_MLM_SCRATCH", name)
        theirs = folder / f"clm-or-mlm-{os.getuid()}" / "shards"
        assert as_another_user(lambda: theirs.mkdir(parents=True) or "laid") == "laid"
        with pytest.raises(UserError, match="it is left alone"):
            main(["clean", "shards"])
        assert theirs.exists()
