"""`python -m analysis power`."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.__main__ import main
from analysis.precision.power import (
    power_table,
)
from analysis.sources import Source
from analysis.store.runs_table import write_runs
from common.errors import UserError
from tests.analysis.made_up import made_up_runs


def test_the_command(capsys, tmp_path):
    for form in ("text", "markdown", "csv"):
        assert main(["power", "--effect", "0.5", "--format", form]) == 0
        assert "average" in capsys.readouterr().out
    assert main(["power", "--effect", "0.5", "--out", str(tmp_path / "power.txt")]) == 0
    assert "MS MARCO" in (tmp_path / "power.txt").read_text()
    with pytest.raises(UserError, match="positive"):
        main(["power", "--effect", "-1"])
    runs = made_up_runs(np.random.default_rng(2), models=("610m-clm-42k",), seeds=(0,))
    with pytest.raises(UserError, match="no variance to plan with"):
        power_table(Source(label="x", runs=runs), 0.5)


def test_seeds_that_all_agree_have_no_correlation(tmp_path, capsys):
    runs = made_up_runs(np.random.default_rng(0), models=("610m-clm-42k", "210m-clm-42k")).assign(
        test_score=0.7
    )
    write_runs(tmp_path / "runs.parquet", runs)
    assert main(["power", "--effect", "0.5", "--source", str(tmp_path / "runs.parquet")]) == 0
    assert "nan" not in capsys.readouterr().out
