from functools import partial
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from tests.analysis.stores import cut, fill_own, read, run_folder, twice
from tests.commands import python
from tests.messages import refused

command = partial(python, "-m", "clm_or_mlm")


def test_the_command_says_what_it_did_and_its_status_says_whether_all_was_well(
    store: Path, tmp_path: Path
) -> None:
    done = command("ingest", store, "--out", tmp_path / "runs.parquet")
    assert (done.returncode, done.stdout) == (0, "")
    assert "180 runs of 2 models; 6 cells complete, 0 with fewer than 30 runs; no problems" in done.stderr
    twice(store)
    cut(store)
    done = command("ingest", store, "--out", tmp_path / "runs.csv")
    assert done.returncode == 1
    assert "180 runs of 2 models" in done.stderr  # the copy stands in for the broken file
    assert "1 problem (1 broken)" in done.stderr
    assert f"WARNING: {run_folder(store) / 'results.json'}: is cut off" in done.stderr
    done = command("ingest", store)
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_a_table_is_checked_and_converted(store: Path, tmp_path: Path) -> None:
    read(store, tmp_path)
    for given, made in (("runs.parquet", "runs.csv"), ("runs.csv", "again.parquet")):
        assert main(["ingest", str(tmp_path / given), "--out", str(tmp_path / made)]) == 0
    assert (tmp_path / "again.parquet").read_bytes() == (tmp_path / "runs.parquet").read_bytes()
    (tmp_path / "wrong.csv").write_text("a,b\n1,2\n")
    with refused(f"{tmp_path / 'wrong.csv'}: the header lacks 'model'"):
        main(["ingest", str(tmp_path / "wrong.csv"), "--out", str(tmp_path / "no.parquet")])


def test_a_table_of_a_stores_own_dataset_is_read_without_the_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_own(tmp_path / "store")
    table = tmp_path / "runs.parquet"
    assert main(["ingest", str(tmp_path / "store"), "--out", str(table)]) == 0
    assert main(["scores", "--source", str(table), "--dataset", "reviews"]) == 0
    assert "610m-clm-42k,SC,reviews,37.500000," in capsys.readouterr().out
    assert main(["ingest", str(table), "--out", str(tmp_path / "again.parquet")]) == 0
    assert (tmp_path / "again.parquet").read_bytes() == table.read_bytes()
    for source in (tmp_path / "store", table):
        with refused("a CSV cannot record the definitions of datasets"):
            main(["ingest", str(source), "--out", str(tmp_path / "runs.csv")])
