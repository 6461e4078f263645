"""The command line, its formats, and the committed page of findings."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from analysis.__main__ import main
from analysis.claims.catalogue import CLAIMS
from analysis.store.runs_table import write_runs
from clm_or_mlm.commands.analysis.claims import choose
from common.errors import UserError
from tests.analysis.made_up import made_up_runs
from tests.analysis.stores import RELEASED

ROOT = Path(__file__).parents[3]


def run(capsys, *args: str) -> str:
    assert main(["claims", *args]) == 0
    return capsys.readouterr().out


def test_the_committed_findings_are_those_generated_now(tmp_path):
    out = tmp_path / "findings.md"
    assert main(["claims", "--source", "published", "--format", "markdown", "--out", str(out)]) == 0
    committed = (ROOT / "docs" / "findings.md").read_text()
    assert out.read_text() == committed, "docs/findings.md is old: make findings"


def test_the_page_has_a_sentence_for_every_finding():
    page = (ROOT / "docs" / "findings.md").read_text()
    for name, claim in CLAIMS.items():
        section = page.split(f"\n### {name}\n")[1].split("\n### ")[0]
        assert claim.statement in section
        words = ("Supported", "Contradicted", "Inconclusive", "Not decidable from this source")
        assert any(f"\n{word}" in section for word in words), name


def test_text_has_a_line_for_each_claim(capsys):
    lines = run(capsys).splitlines()
    assert [line.split()[0] for line in lines[2 : 2 + len(CLAIMS)]] == list(CLAIMS)
    assert "Source: published" in "\n".join(lines)


def test_json_holds_everything_and_is_repeatable(capsys):
    first, second = run(capsys, "--format", "json"), run(capsys, "--format", "json")
    assert first == second
    content = json.loads(first)
    assert [claim["id"] for claim in content["claims"]] == list(CLAIMS)
    by_id = {claim["id"]: claim for claim in content["claims"]}
    assert by_id["F1"]["effect"] == pytest.approx(2.09)
    assert by_id["F1"]["p_holm"] >= by_id["F1"]["p_raw"]
    assert by_id["F7"]["effect"] is None and by_id["F7"]["p_raw"] is None
    assert by_id["F11"]["contrasts"][2]["low90"] > by_id["F11"]["contrasts"][2]["low"]
    assert by_id["F8"]["reported"][0]["verdict"] == "contradicted"


def test_csv_has_one_row_a_claim_or_one_a_contrast(capsys):
    rows = list(csv.DictReader(io.StringIO(run(capsys, "--format", "csv"))))
    assert [row["id"] for row in rows] == list(CLAIMS)
    rows = list(csv.DictReader(io.StringIO(run(capsys, "--format", "csv", "--explain", "--id", "F1"))))
    assert [row["part"] for row in rows] == ["verdict"] * 6 + ["reported"] * 6
    assert float(rows[0]["effect"]) == pytest.approx(2.09)


def test_explaining_prints_the_numbers_that_enter(capsys):
    text = run(capsys, "--id", "F8", "--explain")
    assert "25 % CLM - MLM alone on IR, 22k > 0: -0.25" in text
    assert "+1 x 610m-clm-5k-mlm40-22k IR average: 77.29 (+-0.46), n = 5" in text
    assert "beside it, not part of the verdict" in text and "df " in text
    assert "the three strongest of 36" in run(capsys, "--id", "F5a", "--explain")


def test_one_claim_keeps_the_adjustment_of_its_family(capsys):
    alone = json.loads(run(capsys, "--id", "f4", "--format", "json"))["claims"]
    among = json.loads(run(capsys, "--format", "json"))["claims"]
    assert alone == [claim for claim in among if claim["id"] == "F4"]


def test_ids_are_taken_in_any_case_and_f5_is_all_of_f5():
    assert choose(["f5", "F1"]) == ["F1", "F5a", "F5b", "F5c", "F5d", "F5e"]
    assert choose(None) == list(CLAIMS)
    with pytest.raises(UserError, match="unknown claim 'F16'; did you mean 'F"):
        choose(["F16"])


def test_options_that_cannot_be_met_are_refused_in_a_sentence():
    for args, words in (
        (["--interval", "bca"], "needs single runs"),
        (["--selection", "mean"], "needs single runs"),
        (["--standard", "x"], "goes with --multiverse"),
        (["--interval", "tt"], "did you mean 't'"),
        (["--source", "nowhere.parquet"], "no such source"),
    ):
        with pytest.raises(UserError, match=words):
            main(["claims", *args])


def test_runs_are_explained_with_the_mixed_model(capsys, tmp_path):
    models = [f"{size}-{kind}-42k" for size in ("210m", "610m", "1b") for kind in ("clm", "mlm40")]
    path = tmp_path / "runs.parquet"
    write_runs(path, made_up_runs(np.random.default_rng(0), models=models))
    text = run(capsys, "--source", str(path), "--id", "F1", "--explain")
    assert "mixed model (objective x size fixed; dataset and seed random)" in text
    assert "paired by seed, t, 5 seeds" in text
    page = run(capsys, "--source", str(path), "--format", "markdown")
    assert "Mixed-effects model, as a second opinion" in page


def test_a_single_cell_of_real_runs_decides_nothing_and_says_why(capsys):
    text = run(capsys, "--source", str(RELEASED), "--id", "F1", "--explain")
    assert "no runs of 210m-mlm40-42k on SC average" in text
    assert "not decidable from this source" in text
