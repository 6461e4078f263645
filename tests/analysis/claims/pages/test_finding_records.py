"""Verdicts as JSON and CSV."""

import csv
import io
import json

import pytest

from analysis.claims.catalogue import FINDINGS
from clm_or_mlm.__main__ import main


def run(capsys, *args: str) -> str:
    assert main(["claims", *args]) == 0
    return capsys.readouterr().out


def test_json_holds_everything_and_is_repeatable(capsys):
    first, second = run(capsys, "--format", "json"), run(capsys, "--format", "json")
    assert first == second
    content = json.loads(first)
    assert [finding["id"] for finding in content["findings"]] == ["answer", *FINDINGS]
    by_id = {finding["id"]: finding for finding in content["findings"]}
    assert by_id["F1"]["effect"] == pytest.approx(2.09)
    assert by_id["F1"]["p_holm"] >= by_id["F1"]["p_raw"]
    assert by_id["F7"]["effect"] is None and by_id["F7"]["p_raw"] is None
    assert by_id["F11"]["contrasts"][2]["low90"] > by_id["F11"]["contrasts"][2]["low"]
    assert by_id["F8"]["reported"][0]["verdict"] == "fails"


def test_csv_has_one_row_a_claim_or_one_a_contrast(capsys):
    rows = list(csv.DictReader(io.StringIO(run(capsys, "--format", "csv"))))
    assert [row["id"] for row in rows] == ["answer", *FINDINGS]
    rows = list(
        csv.DictReader(io.StringIO(run(capsys, "--format", "csv", "--explain", "F1")))
    )
    assert [row["part"] for row in rows] == ["verdict"] * 6 + ["reported"] * 6
    assert float(rows[0]["effect"]) == pytest.approx(2.09)


def test_one_claim_keeps_the_adjustment_of_its_family(capsys):
    alone = json.loads(run(capsys, "f4", "--format", "json"))["findings"]
    among = json.loads(run(capsys, "--format", "json"))["findings"]
    assert alone == [finding for finding in among if finding["id"] == "F4"]
