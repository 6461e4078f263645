from __future__ import annotations

from common.text_tables import grid

ROWS = [("name", "score"), ("a", "91.42"), ("longer", "7")]


def test_a_plain_table_is_aligned_without_trailing_spaces() -> None:
    assert grid(ROWS, markdown=False) == ["name    score", "a       91.42", "longer  7"]


def test_a_markdown_table_has_a_rule_under_its_head() -> None:
    assert grid(ROWS, markdown=True) == [
        "| name | score |", "|---|---|", "| a | 91.42 |", "| longer | 7 |",
    ]  # fmt: skip
