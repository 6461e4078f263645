"""`clm-or-mlm design`."""

from pathlib import Path

import numpy as np

from analysis.store.runs_table import write_runs
from clm_or_mlm.__main__ import main
from tests.analysis.made_up import made_up_runs


def test_seeds_that_all_agree_need_no_more(tmp_path: Path, capsys):
    runs = made_up_runs(np.random.default_rng(0), models=("610m-clm-42k", "210m-clm-42k"))
    write_runs(tmp_path / "runs.parquet", runs.assign(test_score=0.7))
    assert main(["design", "--effect", "0.5", "--source", str(tmp_path / "runs.parquet")]) == 0
    assert "nan" not in capsys.readouterr().out
