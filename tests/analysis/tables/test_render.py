"""Every format against the table."""

import io
import re

import pandas as pd
import pytest

from analysis.evidence.evidence import Evidence, scores_of
from analysis.evidence.settings import Settings
from analysis.published_cells import published_cells
from analysis.sources import PUBLISHED
from analysis.tables import TABLE_FORMATS
from analysis.tables.build import build_table
from analysis.tables.render import scores_document, table_document
from benchmarks.protocol import TASKS
from common.tables import document_bytes, show
from pretraining.paper_models import TABLES
from tests.analysis.made_up import random_runs

CELLS = published_cells()


@pytest.mark.parametrize("form", TABLE_FORMATS)
@pytest.mark.parametrize("number", TABLES)
def test_every_format_shows_every_number(number: int, form: str) -> None:
    text = show(table_document(build_table(number)), form)
    assert text == show(table_document(build_table(number)), form)
    for cell in CELLS[CELLS["table"] == number].itertuples():
        assert f"{cell.mean:.2f}" in text
        assert f"{cell.ci95:.2f}" in text


def test_markdown_rows_have_as_many_fields_as_the_head() -> None:
    scores = scores_of(Evidence(Settings(), runs=random_runs()), source="x")
    text = show(table_document(build_table(2, scores)), "markdown")
    for line in text.splitlines()[2:]:
        assert line.count("|") == 7
    assert (
        re.search(r"\| \d+\.\d\d \(±\d\.\d\d\)<br>\d+\.\d\d \[", text)
        and "&lt;" not in text
    )


def test_own_models_have_their_own_numbers_only() -> None:
    scores = scores_of(
        Evidence(Settings(), runs=random_runs(models=["610m-clm-42k", "my-own"])),
        source="x",
    )
    text = show(table_document(build_table(2, scores)), "markdown")
    [row] = [line for line in text.splitlines() if "my-own" in line]
    assert re.search(r"my-own +\| +\| \d+\.\d\d \[", row) and "±" not in row


def test_latex_is_balanced_and_escaped() -> None:
    scores = scores_of(Evidence(Settings(), runs=random_runs()), source="my_runs")
    text = show(table_document(build_table(2, scores)), "latex")
    assert text.count("\\begin{") == text.count("\\end{") == 2
    assert text.count("{") == text.count("}")
    assert "my\\_runs" in text
    assert not re.search(r"(?<!\\)%(?! needs)", text)
    for line in text.splitlines():
        if line.endswith("\\\\"):
            assert line.count(" & ") == 5


def test_every_format_of_scores_holds_every_row() -> None:
    scores = scores_of(Evidence(Settings(), runs=random_runs()), source="x")
    document = scores_document(scores, PUBLISHED)
    csv = pd.read_csv(io.StringIO(show(document, "csv")))
    pd.testing.assert_frame_equal(
        csv, scores.round(6), check_dtype=False, check_exact=False, atol=1e-6
    )
    pd.testing.assert_frame_equal(
        pd.read_parquet(io.BytesIO(document_bytes(document, "parquet"))), scores
    )
    *lines, empty, words = show(document, "markdown").splitlines()
    assert empty == "" and len(lines) == len(scores) + 2
    assert "95 % interval by" in words and "in simulations with 5 seeds" in words
    assert {line.count("|") for line in lines} == {7}
    first = scores.iloc[0]
    assert f"| {TASKS[first['task']].metric} | {first['mean']:.2f} |" in lines[2]
