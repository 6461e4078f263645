from functools import partial
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from tests.analysis.stores import cut, fill_own, run_folder, twice
from tests.commands import python
from tests.messages import refused

command = partial(python, "-m", "clm_or_mlm")


def test_command_says_what_it_did_by_its_status(store: Path, tmp_path: Path) -> None:
    done = command("ingest", store, "--out", tmp_path / "runs.parquet")
    assert (done.returncode, done.stdout) == (0, "")
    assert (
        "180 runs of 2 models; 6 cells complete, 0 with fewer than 30 runs; no problems"
        in done.stderr
    )
    twice(store)
    cut(store)
    done = command("ingest", store, "--out", tmp_path / "runs.csv")
    assert done.returncode == 1
    # The copy stands in for the broken file
    assert "180 runs of 2 models" in done.stderr
    assert "1 problem (1 broken)" in done.stderr
    assert f"WARNING: {run_folder(store) / 'results.json'}: is cut off" in done.stderr
    done = command("ingest", store)
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_table_of_an_own_dataset_is_read_without_the_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_own(tmp_path / "store")
    table = tmp_path / "runs.parquet"
    assert main(["ingest", str(tmp_path / "store"), "--out", str(table)]) == 0
    assert main(["scores", "--source", str(table), "--dataset", "reviews"]) == 0
    assert "610m-clm-42k,SC,reviews,37.500000," in capsys.readouterr().out
    with refused("a CSV cannot record the definitions of datasets"):
        main(["ingest", str(tmp_path / "store"), "--out", str(tmp_path / "runs.csv")])
