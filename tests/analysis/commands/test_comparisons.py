"""`clm-or-mlm compare`."""

import numpy as np
import pytest

from analysis.store.runs_table import write_runs
from clm_or_mlm.__main__ import main
from common.errors import UserError
from tests.analysis.comparisons.given import RELEASED
from tests.analysis.made_up import made_up_runs, with_instances

PAIR = ["compare", "610m-mlm40-42k", "610m-clm-42k"]


def test_released_runs_against_printed_cells(capsys):
    assert main([*PAIR, "--source", str(RELEASED)]) == 0
    text = capsys.readouterr().out
    assert "+0.32" in text and "printed cells are used" in text


def test_a_model_of_ones_own_by_its_name(capsys, tmp_path):
    runs = made_up_runs(
        np.random.default_rng(0),
        models=("mine", "610m-clm-42k"),
        shift={"mine": 0.05},
        rates=(1e-4,),
    )
    runs.to_csv(tmp_path / "runs.csv", index=False)
    args = [
        "compare",
        "mine",
        "610m-clm-42k",
        "610m-mlm40-42k",
        "--source",
        str(tmp_path / "runs.csv"),
    ]
    with pytest.raises(UserError, match="--add-model mine"):
        main(args)
    assert main([*args, "--add-model", "mine"]) == 0
    assert "3 models, highest mean over all tasks first" in capsys.readouterr().out


def test_instances_widen_the_interval(capsys, tmp_path):
    models = ("610m-clm-42k", "610m-mlm40-42k")
    runs, _ = with_instances(
        tmp_path / "instances.parquet",
        np.random.default_rng(0),
        models=models,
        counts={},
    )
    write_runs(tmp_path / "runs.parquet", runs)
    args = [*PAIR, "--source", str(tmp_path / "runs.parquet"), "--format", "csv"]
    widths = []
    for interval in ("t", "crossed"):
        assert main([*args, "--interval", interval]) == 0
        row = capsys.readouterr().out.splitlines()[1].split(",")
        widths.append(float(row[6]) - float(row[5]))
    assert widths[0] != widths[1]
    assert main([*args, "--interval", "crossed"]) == 0
    assert "paired by seed and instance" in capsys.readouterr().out
    # The default of runs is over seeds, whether instances are known or not
    assert main(args) == 0
    assert "Welch" in capsys.readouterr().out  # two models are too few for a pool
