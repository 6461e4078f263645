"""The findings as a forest plot, the answer by task and budget."""

import json
from pathlib import Path

import pandas as pd
import pytest

from analysis.claims.catalogue import FINDINGS
from analysis.claims.wording import format_effect
from clm_or_mlm.__main__ import main
from tests.paper_figures.drawn import PUBLISHED, files, picture


def test_forest_plot_has_a_row_for_each_claim() -> None:
    data = pd.read_csv(files("claims")["csv"])
    decisive = data[data["role"] == "decisive"]
    assert list(decisive["id"]) == list(FINDINGS)
    row = decisive.set_index("id").loc["F1"]
    assert (
        row["effect"] == pytest.approx(2.09)
        and row["low"] < row["effect"] < row["high"]
    )
    of_f6 = data[data["id"] == "F6"]["role"].value_counts()
    assert of_f6.to_dict() == {"other": 18, "decisive": 1, "typical": 1}
    spoken = files("claims")["txt"].read_text()
    assert "7 holds" in spoken and "F12" in spoken
    record = json.loads(files("claims")["json"].read_text())
    assert (
        record["settings"]["interval"] == "t"
        and record["source"]["name"] == "published"
    )


def test_the_means_are_those_that_claims_prints() -> None:
    rows: dict[float, list[str]] = {}
    for text in picture("claims").texts:
        rows.setdefault(round(text.get_position()[1], 6), []).append(text.get_text())
    means = {row[0]: row[3] for row in rows.values() if row[0] in FINDINGS}
    judged = PUBLISHED.assessment.judged
    assert means == {
        name: format_effect(judged[name].mean).replace("-", "\u2212")
        for name in FINDINGS
    }
    assert means["F5a"] == "\u2212"


def test_the_interval_asked_for_is_used(tmp_path: Path) -> None:
    assert (
        main(
            [
                "figure",
                "claims",
                "--interval",
                "paper",
                "--format",
                "svg",
                "--out",
                str(tmp_path),
            ]
        )
        == 0
    )
    assert (
        json.loads((tmp_path / "claims.json").read_text())["settings"]["interval"]
        == "paper"
    )


def test_answers_data_have_the_comparisons_of_its_title() -> None:
    data = pd.read_csv(files("answer")["csv"])
    counts = [list(data[column]).count("holds") for column in ("says", "says_holm")]
    assert counts == [9, 6] and "fails" not in set(data["says_holm"])
    assert list(data["says_holm"] == "holds") == list(data["p_holm"] <= 0.05)
    assert (
        f"in {counts[1]} of {len(data)} comparisons"
        in files("answer")["json"].read_text()
    )
