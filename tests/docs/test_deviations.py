"""The table of deviations: complete, and every test it names is there."""

from __future__ import annotations

import ast
import re

import pytest

from common.provenance import ROOT

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "deviations.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and not re.match(r"\|[-|]+$", line) and not line.endswith("| shown by |")
]

TESTS = {
    node.name
    for path in (ROOT / "tests").rglob("test_*.py")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
}

NUMBERS = [*(f"D{n}" for n in range(1, 15)), *(f"U{n}" for n in range(1, 14) if n != 8)]
"""The disagreements and unknowns of the protocol; there is no U8."""


@pytest.mark.parametrize("number", NUMBERS)
def test_every_disagreement_and_unknown_has_a_row(number: str) -> None:
    assert number in {name for row in ROWS for name in re.findall(r"[DU]\d+", row[0])}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} {row[1]}"[:60])
def test_every_row_says_what_we_do_and_names_tests_that_exist(row: list[str]) -> None:
    assert len(row) == 4, row
    _, theirs, ours, shown = row
    assert theirs and ours
    named = re.findall(r"`(test_\w+)`", shown)
    assert named
    assert [name for name in named if name not in TESTS] == []
