"""`clean` frees what it says, and nothing that is behind a link."""

import os
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError


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
    }
    for number, path in enumerate(files.values(), 1):
        path.parent.mkdir(parents=True)
        path.write_bytes(bytes(number * 1_000_000))
    return files


@pytest.mark.parametrize(
    ("words", "left", "freed"),
    [
        (["--dry-run"], {"shards", "old shards", "stores", "released", "other"}, "6.00 MB  would be freed in all"),
        ([], {"released", "other"}, "6.00 MB  freed in all"),
        (["shards", "released"], {"stores", "other"}, "7.00 MB  freed in all"),
    ],
)  # fmt: skip
def test_it_frees_what_is_named_and_else_what_needs_no_network(
    words: list[str], left: set[str], freed: str, caches: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert not main(["clean", *words])
    assert {name for name, path in caches.items() if path.exists()} == left
    assert freed in capsys.readouterr().out


def test_links_are_not_followed_and_unknown_names_are_refused(
    caches: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "cache/stores/a/link").symlink_to(caches["other"].parent)
    (tmp_path / "cache/shards").rename(tmp_path / "elsewhere")
    (tmp_path / "cache/shards").symlink_to(tmp_path / "elsewhere")
    assert not main(["clean"])
    assert caches["other"].exists() and (tmp_path / "elsewhere/0a/train/shard.00000.mds").exists()
    with pytest.raises(UserError, match='Did you mean "shards"'):
        main(["clean", "shard"])
