"""Tables for terminals, Markdown and web pages."""

from __future__ import annotations

import math
from pathlib import Path

import jinja2
import pytest

from common.text_tables import csv_cell, fill_template, markdown_table, plain_table, signed

ROWS = [["name", "n"], ["a", "10"], ["long name", "1"]]


def test_plain_columns_are_aligned_and_numbers_on_the_right_where_wanted() -> None:
    assert plain_table(ROWS) == ["name       n", "a          10", "long name  1"]
    assert plain_table(ROWS, numbers={1}) == ["name        n", "a          10", "long name   1"]


def test_markdown_has_a_rule_for_each_column_and_escapes_its_separator() -> None:
    assert markdown_table(ROWS)[:3] == ["| name | n |", "|---|---|", "| a | 10 |"]
    assert markdown_table(ROWS, ["---", "---:"])[1] == "|---|---:|"
    assert markdown_table([["a|b"], ["c|d"]]) == ["| a\\|b |", "|---|", "| c\\|d |"]


def test_a_template_escapes_its_values_and_misses_none(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<p>{{ text }}</p>{{ markup|safe }}\n")
    assert fill_template(page, text="a < 'b'", markup="<br>") == "<p>a &lt; &#x27;b&#x27;</p><br>\n"
    with pytest.raises(jinja2.UndefinedError, match="markup"):
        fill_template(page, text="a")


@pytest.mark.parametrize(
    ("value", "text"), [(0.004, "0.00"), (-0.004, "0.00"), (-0.006, "-0.01"), (2.0, "+2.00"), (math.nan, "-")]
)
def test_zero_has_no_sign(value, text):
    assert signed(value) == text


def test_nothing_in_a_cell_is_obeyed() -> None:
    assert markdown_table([["a<b>&c\x1b[2J\nd|e"]])[0] == "| a&lt;b>&amp;c\\x1b[2J<br>d\\|e |"
    assert plain_table([["a\x07"], ["b"]]) == ["a\\x07", "b"]


@pytest.mark.parametrize("text", ["=1+1", "@x", "\tx", "+cmd|' /C calc'!A0", "-2+3+cmd|'x'!A0", "-x"])
def test_a_csv_cell_is_no_formula(text: str) -> None:
    assert csv_cell(text).startswith("'")


@pytest.mark.parametrize("text", ["-0.5", "+0.12 (-0.3 to 0.1)", "-1e-05", "a=b", "", "-0.3 \u00b1 0.2"])
def test_numbers_stay_as_they_are_in_a_csv(text: str) -> None:
    assert csv_cell(text) == text
