"""`clm-or-mlm import`, `synthetic` and `datasets` as a user types them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.__main__ import main


def test_made_up_datasets_are_listed_shown_and_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path)
    assert main(["synthetic", "sst2", "--train", "40", "--evaluation", "8", "--out", folder]) == 0
    assert "40 train" in capsys.readouterr().out
    assert main(["datasets", "list", "--data", folder]) == 0
    assert "sst2" in capsys.readouterr().out
    assert main(["datasets", "show", "sst2", "--data", folder, "--examples", "1"]) == 0
    assert "sst2" in capsys.readouterr().out
    assert main(["datasets", "verify", "--data", folder]) == 0
    assert capsys.readouterr().out == "sst2: whole\n"
    table = next((tmp_path / "sst2").glob("*.parquet"))
    table.write_bytes(table.read_bytes()[:-9])
    assert main(["datasets", "verify", "sst2", "--data", folder]) == 1


def test_import_lists_the_files_of_each_dataset(capsys: pytest.CaptureFixture[str]) -> None:
    main(["import", "--help"])
    text = capsys.readouterr().out
    assert "datasets and their files:" in text
    assert "clm-or-mlm import sst2 --train train.tsv" in text
