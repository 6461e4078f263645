"""Documents in every format, and the pieces they are written with."""

import io
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from common.tables import (
    FORMATS,
    PRINTED,
    Grid,
    TableDocument,
    document_bytes,
    markdown_table,
    plain_table,
    show,
    signed,
    write,
)

ROWS = [["name", "n"], ["a", "10"], ["long name", "1"]]


def test_plain_columns_are_aligned() -> None:
    assert plain_table(ROWS) == ["name       n", "a          10", "long name  1"]
    assert plain_table(ROWS, numbers={1}) == [
        "name        n",
        "a          10",
        "long name   1",
    ]


def test_markdown_has_a_rule_a_column_and_escapes_separators() -> None:
    assert markdown_table(ROWS)[:3] == ["| name | n |", "|---|---|", "| a | 10 |"]
    assert markdown_table(ROWS, {1})[1] == "|---|---:|"
    assert markdown_table([["a|b"], ["c|d"]]) == ["| a\\|b |", "|---|", "| c\\|d |"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.004, "0.00"),
        (-0.004, "0.00"),
        (-0.006, "-0.01"),
        (2.0, "+2.00"),
        (math.nan, "-"),
    ],
)
def test_zero_has_no_sign(value, text):
    assert signed(value) == text


def test_nothing_in_a_cell_is_obeyed() -> None:
    assert (
        markdown_table([["a<b>&c\x1b[2J\nd|e"]])[0]
        == "| a&lt;b>&amp;c\\x1b[2J<br>d\\|e |"
    )
    assert plain_table([["a\x07"], ["b"]]) == ["a\\x07", "b"]


FRAME = pd.DataFrame({"name": ["a", "b"], "value": [1 / 3, 2.0]})
DOCUMENT = TableDocument(
    body=[
        "Said.",
        "",
        Grid([["name", "n"], ["a", "1\n2"], ["a", "±3"]], numbers={1}),
    ],
    records=FRAME,
    digits="%.6g",
)


def test_text_and_markdown_differ_in_tables_only() -> None:
    assert (
        show(TableDocument(body=["x", Grid([["a"], ["1"]]), "z"]), "text")
        == "x\na\n1\nz\n"
    )
    assert show(DOCUMENT, "markdown").splitlines() == [
        "Said.",
        "",
        "| name | n |",
        "|---|---:|",
        "| a | 1<br>2 |",
        "| a | ±3 |",
    ]


def test_latex_stacks_lines_and_rules_off_groups() -> None:
    text = show(DOCUMENT, "latex")
    assert "Said" not in text and "a & 1 \\\\\n & 2 \\\\\na & $\\pm$3" in text
    grid = Grid([["g", "x"], ["a", "1"], ["a", "2"], ["b", "3"]], grouped=True)
    assert "a & 1 \\\\\n & 2 \\\\\n\\midrule\nb & 3" in show(
        TableDocument(body=[grid]), "latex"
    )


def test_data_hold_the_same_numbers() -> None:
    assert show(DOCUMENT, "csv") == "name,value\na,0.333333\nb,2\n"
    assert json.loads(show(DOCUMENT, "json")) == [
        {"name": "a", "value": 0.333333},
        {"name": "b", "value": 2.0},
    ]
    pd.testing.assert_frame_equal(
        pd.read_parquet(io.BytesIO(document_bytes(DOCUMENT, "parquet"))), FRAME
    )


def test_json_holds_null_for_what_is_no_finite_number() -> None:
    row = {
        "nan": math.nan,
        "most": [math.inf, np.float64("nan")],
        1: np.bool_(True),
        "count": np.int64(2),
        "x": 0.5,
    }
    found = json.loads(show(TableDocument(data=row), "json"))
    assert found == {"nan": None, "most": [None, None], "1": True, "count": 2, "x": 0.5}


def test_a_page_of_its_own_goes_before_what_any_document_is() -> None:
    document = TableDocument(body=["x"], pages={"markdown": lambda: "y"})
    assert [show(document, form) for form in ("text", "markdown")] == ["x\n", "y"]


def test_a_document_is_printed_or_written_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = TableDocument(body=["a ± b"])
    write(document, "text", None)
    write(document, "text", tmp_path / "new" / "file")
    assert (
        (tmp_path / "new" / "file").read_text("utf-8")
        == capsys.readouterr().out
        == "a ± b\n"
    )
    assert set(PRINTED) < set(FORMATS) and not FORMATS["parquet"].is_text
