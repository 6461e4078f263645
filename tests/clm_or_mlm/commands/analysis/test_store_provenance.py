"""`clm-or-mlm provenance`: text, JSON and exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.__main__ import main
from tests.analysis.stores import run_folder
from tests.sealed import seal


def test_its_status_says_whether_the_runs_agree(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["provenance", str(store)]) == 0
    assert capsys.readouterr().out.startswith(
        "180 runs, 0 of them with a record of what they were made with\n"
    )
    for seed in range(3):
        record = {"provenance": {"commit": "a" if seed else "b"}}
        seal(run_folder(store, name=f"lr1e-04_sd{seed}"), record)
    assert main(["provenance", str(store), "--json"]) == 1
    [mismatch] = json.loads(capsys.readouterr().out)["mismatches"]
    assert (mismatch["aspect"], mismatch["values"]) == ("commit", {"a": 2, "b": 1})
    assert main(["provenance", str(store / "results")]) == 1
    assert "DIFFERS  SC: commit of the code" in capsys.readouterr().out
