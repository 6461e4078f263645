"""Verdicts in every format: one line per claim, the reasoning, the committed page of findings."""

import shlex

import numpy as np
import pytest

from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import FINDINGS
from analysis.claims.pages.explain import verdicts_document
from analysis.claims.verdicts import OUTCOMES
from analysis.commands.findings import choose
from analysis.store.runs_table import COLUMNS, write_runs
from clm_or_mlm.__main__ import main
from common.errors import UserError
from common.provenance import ROOT
from common.tables import PRINTED, show
from tests.analysis.made_up import made_up_runs
from tests.analysis.stores import RELEASED


def run(capsys, *args: str) -> str:
    assert main(["claims", *args]) == 0
    return capsys.readouterr().out


def test_text_has_a_line_for_each_claim(capsys):
    lead, table, notes = (part.splitlines() for part in run(capsys).split("\n\n"))
    assert [line.split()[0] for line in table[1:]] == ["answer", *FINDINGS]
    assert notes[0].startswith("Source: published")
    for word, count in (
        ("findings", 21),
        ("hold,", 7),
        ("hold in some", 10),
        ("are open", 4),
    ):
        assert f"{count} {word}" in lead[0]
    assert "6 of 12" in lead[1] and "8" not in lead[1]
    assert run(capsys, "F5", "F9").startswith(
        "Of 6 findings, 4 hold, 1 holds in some of its parts and 1 is open"
    )
    assert "Counts allow for the shares of CLM" in run(capsys, "F8")


def test_explaining_prints_the_numbers_that_enter(capsys):
    text = run(capsys, "F8", "--explain")
    assert "alone    holds in 8 of 12, had nothing else been tried" in text
    assert "25 % CLM - MLM alone on IR, 22k > 0: -0.25" in text
    assert "+1 x 610m-clm-5k-mlm40-22k IR average: 77.29 (+-0.46), n = 5" in text
    assert "  not part of the verdict:" in text and "df " in text
    # The legend of the table's columns is not cut in a sentence
    assert text.endswith("0.5 (IR) points.\n")
    assert "the three strongest of 36" in run(capsys, "F5a", "--explain")


def test_runs_are_explained_by_their_test(capsys, tmp_path):
    models = [
        f"{size}-{kind}-42k"
        for size in ("210m", "610m", "1b")
        for kind in ("clm", "mlm40")
    ]
    path = tmp_path / "runs.parquet"
    write_runs(path, made_up_runs(np.random.default_rng(0), models=models))
    text = run(capsys, "--source", str(path), "F1", "--explain")
    assert "pooled bootstrap t, 5 seeds" in text
    page = run(capsys, "--source", str(path), "--format", "markdown")
    # A spread has no standard error to plan with
    spread = page.split("\n### F7\n")[1].split("\n### ")[0]
    assert "Most adverse: spread" in spread and "seeds would decide" not in spread


def test_a_single_cell_of_real_runs_decides_nothing_and_says_why(capsys):
    text = run(capsys, "--source", str(RELEASED), "F1", "--explain")
    assert "no runs of 210m-mlm40-42k on SC average" in text
    assert "verdict  open" in text


def test_the_command_that_the_page_names_gives_the_page_again(capsys, tmp_path):
    path = tmp_path / "my runs.csv"
    runs = made_up_runs(np.random.default_rng(0), models=("610m-clm-42k", "mine"))
    # As somebody else writes one: its protocol is not recorded
    runs[list(COLUMNS)].to_csv(path, index=False)
    given = [
        "--source",
        f"standard:{path}",
        "--add-model",
        "mine",
        "--selection",
        "mean",
    ]
    page = run(capsys, *given, "--format", "markdown")
    [command] = [
        line for line in page.splitlines() if line.startswith("    clm-or-mlm claims ")
    ]
    assert run(capsys, *shlex.split(command)[2:]) == page


def test_ids_are_taken_in_any_case_and_f5_is_all_of_f5():
    assert choose(["f5", "F1"]) == ["F1", "F5a", "F5b", "F5c", "F5d", "F5e"]
    assert choose(None) == ["answer", *FINDINGS]
    with pytest.raises(
        UserError, match=r"unknown finding 'F18'; the findings are answer, F1, .*F17"
    ):
        choose(["F18"])


@pytest.mark.parametrize("form", PRINTED)
@pytest.mark.parametrize("explain", [False, True])
def test_every_format_names_its_claims_and_ends_the_line(
    assessment: Assessment, form: str, explain: bool
) -> None:
    text = show(verdicts_document(assessment, ["F1", "F7"], explain=explain), form)
    assert text.endswith("\n") and "F1" in text and "F7" in text and "F5a" not in text


def test_committed_page_of_findings_is_the_generated_one(
    capsys,
):
    page = (ROOT / "docs" / "findings.md").read_text()
    assert run(capsys, "--format", "markdown") == page, (
        "docs/findings.md is old: make findings"
    )
    for name, finding in FINDINGS.items():
        [row] = [
            line
            for line in page.splitlines()
            if line.startswith("- **") and f"[{name}](#" in line
        ]
        assert row.split("**")[1].lower() in OUTCOMES
        section = page.split(f"\n### {name}\n")[1].split("\n### ")[0]
        assert finding.statement in section and finding.remark in section
        assert (
            "Most adverse: " in section
            or "cannot be tested: needs individual runs." in section
        )
    assert len(page.split()) < 2_000
