"""What is done of a grid, and the exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import UserError
from common.provenance import ROOT
from tests.benchmarks.sweep.stores import run, status


def test_status_counts_and_foretells(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run([*arguments, "--dataset", "uner_en", "--lr", "1e-3", "--seed", "0"])
    capsys.readouterr()
    assert status(["--out", str(tmp_path), "--dataset", "uner_en", "--json"]) == 4
    cell = json.loads(capsys.readouterr().out)[0]
    # 1e-3 is not of the paper's rates: it counts in addition to them.
    assert (cell["runs"], cell["done"], cell["missing"]) == (31, 1, 30)
    assert (
        status(["--out", str(tmp_path), "--dataset", "uner_en", "--lr", "1e-4", "--seed", "0", "--json"]) == 4
    )
    cell = json.loads(capsys.readouterr().out)[0]
    assert (cell["runs"], cell["done"], cell["seconds_left"]) == (1, 0, None)
    options = ["--out", str(tmp_path), "--dataset", "uner_en", "--lr", "1e-3", "--seed", "0", "1", "2"]
    assert status([*options, "--json"]) == 4
    cell = json.loads(capsys.readouterr().out)[0]
    assert (cell["done"], cell["missing"]) == (1, 2) and cell["seconds_left"] > 0
    with pytest.raises(UserError, match="did you mean 'tiny'"):
        status(["--out", str(tmp_path), "--model", "tini"])
    with pytest.raises(UserError, match="holds no runs"):
        status(["--out", str(tmp_path / "nowhere")])


def test_the_state_of_a_store_is_read_without_torch() -> None:
    code = "import sys, benchmarks.sweep.status; sys.exit(any(m in sys.modules for m in ('torch', 'transformers')))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
