"""What `run` prints at its end."""

from __future__ import annotations

import csv
from pathlib import Path

from benchmarks.runs import RunKey, write_results
from clm_or_mlm.commands.benchmarks.runs import score_lines
from common.provenance import ROOT


def test_the_score_is_the_papers_cell(tmp_path: Path) -> None:
    """The released runs of 610m-mlm40-42k on SST-2 give the published 91.42 +- 0.62."""
    keys = []
    for row in csv.DictReader(
        (ROOT / "tests/data/released_sst2_610m-mlm40-42k.csv").read_text().splitlines()
    ):
        key = RunKey(model=row["model"], dataset="sst2", lr=float(row["lr"]), seed=int(row["seed"]))
        write_results(
            tmp_path, key, {"validation": [float(row["val_score"])], "test": [float(row["test_score"])]}
        )
        keys.append(key)
    end = "(5 seeds, each at its best validation score)"
    assert list(score_lines(tmp_path, keys)) == [f"sst2           91.42 +- 0.62  {end}"]
    one = [key for key in keys if key.seed == 0]
    (line,) = score_lines(tmp_path, one)
    assert line.endswith("(1 seed, at its best validation score)") and "+-" not in line
    assert list(score_lines(tmp_path / "empty", keys)) == []
