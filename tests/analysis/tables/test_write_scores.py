"""Scores as CSV, Markdown and Parquet."""

from __future__ import annotations

import io

import pandas as pd

from analysis.statistics.scores_table import Settings, run_scores
from analysis.tables.write_scores import FORMATS, scores_csv, scores_markdown, scores_parquet
from tests.analysis.made_up import random_runs


def test_every_format_holds_every_row() -> None:
    scores = run_scores(random_runs(), Settings(), source="x")
    csv = pd.read_csv(io.StringIO(scores_csv(scores)))
    pd.testing.assert_frame_equal(csv, scores.round(6), check_dtype=False, check_exact=False, atol=1e-6)
    pd.testing.assert_frame_equal(pd.read_parquet(io.BytesIO(scores_parquet(scores))), scores)
    *lines, empty, words = scores_markdown(scores).splitlines()
    assert empty == "" and len(lines) == len(scores) + 2
    assert words.startswith("low, high: 95 % symmetric studentised") and "of 5 simulated seeds" in words
    assert {line.count("|") for line in lines} == {len(scores.columns) + 1}
    assert f"{scores['mean'].iloc[0]:.2f}" in lines[2]


def test_only_text_can_be_printed() -> None:
    assert [name for name, form in FORMATS.items() if not form.is_text] == ["parquet"]
    scores = run_scores(random_runs(), Settings(), source="x")
    assert FORMATS["csv"].content(scores).decode() == scores_csv(scores)
