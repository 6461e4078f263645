"""The forms of a result: what each prints, and those that are added."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd

from analysis.formats import Table, finite, frame_csv, frame_json, text_formats
from common.text_tables import Format, plain_table

FRAME = pd.DataFrame({"name": ["a", "b"], "value": [1 / 3, 2.0]})


def text(frame: pd.DataFrame, table: Table = plain_table) -> str:
    return "\n".join(table([["name"], *([name] for name in frame["name"])])) + "\n"


def test_text_and_markdown_differ_in_their_tables_alone() -> None:
    forms = text_formats(text, csv=frame_csv, json=frame_json)
    assert list(forms) == ["text", "markdown", "csv", "json"]
    assert forms["text"].show(FRAME) == "name\na\nb\n"
    assert forms["markdown"].show(FRAME) == "| name |\n|---|\n| a |\n| b |\n"
    assert [form.ending for form in forms.values()] == ["txt", "md", "csv", "json"]


def test_data_hold_the_same_numbers() -> None:
    forms = text_formats(text, csv=frame_csv, json=frame_json)
    assert forms["csv"].show(FRAME) == "name,value\na,0.333333\nb,2\n"
    assert json.loads(forms["json"].show(FRAME)) == [
        {"name": "a", "value": 0.333333},
        {"name": "b", "value": 2.0},
    ]


def test_forms_can_be_added() -> None:
    latex: Format[pd.DataFrame] = Format(name="latex", ending="tex", show=lambda frame: "tex\n")
    forms = text_formats(text, csv=frame_csv, json=frame_json, more=[latex])
    assert list(forms) == ["text", "markdown", "csv", "json", "latex"] and forms["latex"] is latex


def test_json_holds_none_for_what_is_no_finite_number() -> None:
    row = {"name": "nan", "none": math.nan, "most": math.inf, "least": -math.inf, "count": 2, "share": 0.5}
    assert finite(row) == {"name": "nan", "none": None, "most": None, "least": None, "count": 2, "share": 0.5}
    assert finite({1: np.float64("nan")}) == {"1": None}
