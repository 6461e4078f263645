"""A table that was changed since it was written is refused; one of somebody else is read, and called unsealed."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from analysis.sources import open_source
from analysis.store.runs_table import is_sealed, read_runs, write_runs
from analysis.store.table_seal import seal_path
from common.errors import UserError
from tests.analysis.made_up import made_up_runs


@pytest.fixture(params=["csv", "parquet"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"runs.{request.param}"
    write_runs(path, made_up_runs(np.random.default_rng(0), models=("610m-clm-42k",)))
    return path


def test_no_flipped_bit_of_a_table_passes(table: Path) -> None:
    content, draw, expected = table.read_bytes(), random.Random(0), read_runs(table)
    for _ in range(100):
        bit = draw.randrange(8 * len(content))
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        table.write_bytes(flipped)
        try:
            assert read_runs(table).equals(expected), bit  # Parquet has bytes that nothing is read from
        except UserError as error:
            assert str(error).startswith(f"{table}:") and "\n" not in str(error)


def test_an_edited_score_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    runs = made_up_runs(np.random.default_rng(0), models=("610m-clm-42k",))
    write_runs(path, runs)
    before = seal_path(path).read_text()
    assert (
        subprocess.run(
            ["sha256sum", "-c", seal_path(path).name], cwd=tmp_path, capture_output=True
        ).returncode
        == 0
    )
    path.write_text(path.read_text().replace(",0.", ",0.9", 1))
    with pytest.raises(
        UserError, match=f"{path}: was changed since it was written.*delete {seal_path(path)} to have"
    ):
        open_source(str(path))
    seal_path(path).unlink()
    own = open_source(str(path))
    assert not own.sealed and own.given_as == f"{path} (without a seal: not written by this package)"
    write_runs(path, runs)
    assert seal_path(path).read_text() == before and open_source(str(path)).given_as == str(path)
    seal_path(path).write_bytes(b"\xff")
    with pytest.raises(UserError, match="its seal does not fit"):
        read_runs(path)


def test_a_seal_follows_its_table_under_another_name(table: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copy(table, tmp_path / f"other{table.suffix}"))
    assert is_sealed(moved) == (table.suffix == ".parquet")
    if seal_path(table).exists():
        shutil.copy(seal_path(table), seal_path(moved))
    assert is_sealed(moved) and read_runs(moved).equals(read_runs(table))
