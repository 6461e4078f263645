"""Verdicts as text: one line per claim, and the reasoning."""

from __future__ import annotations

import shlex

import numpy as np

from analysis.claims.catalogue import CLAIMS
from analysis.store.runs_table import COLUMNS, write_runs
from clm_or_mlm.__main__ import main
from tests.analysis.made_up import made_up_runs
from tests.analysis.stores import RELEASED


def run(capsys, *args: str) -> str:
    assert main(["claims", *args]) == 0
    return capsys.readouterr().out


def test_text_has_a_line_for_each_claim(capsys):
    lines = run(capsys).splitlines()
    assert [line.split()[0] for line in lines[2 : 2 + len(CLAIMS)]] == list(CLAIMS)
    assert "Source: published" in "\n".join(lines)


def test_explaining_prints_the_numbers_that_enter(capsys):
    text = run(capsys, "--id", "F8", "--explain")
    assert "25 % CLM - MLM alone on IR, 22k > 0: -0.25" in text
    assert "+1 x 610m-clm-5k-mlm40-22k IR average: 77.29 (+-0.46), n = 5" in text
    assert "  not part of the verdict:" in text and "df " in text
    assert text.endswith("0.5 (IR) points.\n")  # the legend of the table's columns is not cut in a sentence
    assert "the three strongest of 36" in run(capsys, "--id", "F5a", "--explain")


def test_runs_are_explained_with_the_mixed_model(capsys, tmp_path):
    models = [f"{size}-{kind}-42k" for size in ("210m", "610m", "1b") for kind in ("clm", "mlm40")]
    path = tmp_path / "runs.parquet"
    write_runs(path, made_up_runs(np.random.default_rng(0), models=models))
    text = run(capsys, "--source", str(path), "--id", "F1", "--explain")
    assert "mixed model (objective x size fixed; dataset and seed random)" in text
    assert "pooled bootstrap t, 5 seeds" in text
    page = run(capsys, "--source", str(path), "--format", "markdown")
    assert "Mixed-effects model, a second opinion: " in page
    spread = page.split("\n### F7\n")[1].split("\n### ")[0]  # a spread has no standard error to plan with
    assert "Not significant individually: spread" in spread and "seeds would decide" not in spread


def test_a_single_cell_of_real_runs_decides_nothing_and_says_why(capsys):
    text = run(capsys, "--source", str(RELEASED), "--id", "F1", "--explain")
    assert "no runs of 210m-mlm40-42k on SC average" in text
    assert "not decidable from this source" in text


def test_the_command_that_the_page_names_gives_the_page_again(capsys, tmp_path):
    path = tmp_path / "my runs.csv"
    runs = made_up_runs(np.random.default_rng(0), models=("610m-clm-42k", "mine"))
    runs[list(COLUMNS)].to_csv(path, index=False)  # as somebody else writes one: its protocol is not recorded
    given = ["--source", f"standard:{path}", "--add-model", "mine", "--selection", "mean"]
    page = run(capsys, *given, "--format", "markdown")
    [command] = [line for line in page.splitlines() if line.startswith("    clm-or-mlm claims ")]
    assert run(capsys, *shlex.split(command)[2:]) == page
