"""The forms of a result: what each prints, and those that are added."""

from __future__ import annotations

import json

import pandas as pd

from analysis.formats import Table, frame_csv, frame_json, text_formats
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


def test_markdown_can_be_another_text_and_forms_can_be_added() -> None:
    latex: Format[pd.DataFrame] = Format(name="latex", ending="tex", show=lambda frame: "tex\n")
    forms = text_formats(text, csv=frame_csv, json=frame_json, markdown=lambda frame: "md\n", more=[latex])
    assert forms["markdown"].show(FRAME) == "md\n" and forms["latex"] is latex
