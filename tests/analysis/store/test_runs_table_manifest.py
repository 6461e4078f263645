"""A table that was changed since it was written is refused; one of somebody else is read, and called unsealed."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from analysis.sources import open_source
from analysis.store.runs_table import manifest_path, read_runs, read_table, write_runs
from common.errors import UserError
from tests.analysis.made_up import made_up_runs


@pytest.fixture(params=["csv", "parquet"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"runs.{request.param}"
    write_runs(path, made_up_runs(np.random.default_rng(0), models=("610m-clm-42k",)))
    return path


@pytest.mark.parametrize("of", ["table", "manifest"])
def test_no_flipped_bit_passes(table: Path, of: str) -> None:
    file = table if of == "table" else manifest_path(table)
    content, draw = file.read_bytes(), random.Random(0)
    for _ in range(100):
        bit = draw.randrange(8 * len(content))
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)
        with pytest.raises(UserError, match=f"{table}.*delete") as error:
            read_runs(table)
        assert "\n" not in str(error.value)
    file.write_bytes(content)
    read_runs(table)


def test_an_edited_score_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    runs = made_up_runs(np.random.default_rng(0), models=("610m-clm-42k",))
    write_runs(path, runs)
    before = manifest_path(path).read_text()
    path.write_text(path.read_text().replace(",0.", ",0.9", 1))
    with pytest.raises(
        UserError, match=f"{path} has changed since it was written.*delete {manifest_path(path)} to have"
    ):
        open_source(str(path))
    manifest_path(path).unlink()
    own = open_source(str(path))
    assert own.unsealed == len(runs) and own.long_label.startswith(
        f"{path} (unsealed, like the authors' files"
    )
    write_runs(path, runs)
    assert manifest_path(path).read_text() == before and open_source(str(path)).long_label == str(path)


def test_a_manifest_follows_its_table_under_another_name(table: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copy(table, tmp_path / f"other{table.suffix}"))
    assert read_table(moved).unsealed == len(read_runs(table))
    shutil.copy(manifest_path(table), manifest_path(moved))
    assert not read_table(moved).unsealed and read_runs(moved).equals(read_runs(table))
