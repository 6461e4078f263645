"""What a docstring calls by its full name is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from common.provenance import ROOT

ROOMS = (
    "analysis", "benchmarks", "clm_or_mlm", "common", "container", "miniature", "paper_figures", "pretraining",
    "workflow",
)  # fmt: skip
FILES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
OTHERS = {"pyarrow", "transformers"}
"""Packages of others that docstrings name."""
NAME = re.compile(rf"`((?:{'|'.join(ROOMS)})(?:\.\w+)+|[a-z]\w*\.[A-Z]\w+)`")
NO_NAMES = {"workflow.json", "workflow.toml", "clm_or_mlm.commands.NAME"}
"""Files, and a pattern of names."""


@cache
def defined(path: Path) -> dict[str, ast.AST]:
    """Return what a module defines or imports, by name."""
    found: dict[str, ast.AST] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.setdefault(node.name, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                found.setdefault(ast.unparse(target), node)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: node for alias in node.names}
    return found


def is_there(name: str) -> bool:
    """Whether a dotted name is a module, or something that a module defines."""
    *first, last = name.split(".")
    if name.split(".")[0] not in ROOMS:  # a module's own name, as `scan.HARMLESS`
        return first[0] in OTHERS or any(last in defined(path) for path in FILES if path.stem == first[0])
    for end in range(len(first) + 1, 0, -1):
        place = ROOT.joinpath(*name.split(".")[:end])
        path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if path.is_file():
            return all(part in defined(path) for part in name.split(".")[end:])
    return False


def names_in(path: Path) -> set[str]:
    """Return the full names in a module's docstrings, those of attributes among them."""
    texts = (
        node.value.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
    return {name for text in texts for name in NAME.findall(text)}


def test_full_names_in_docstrings_are_there() -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), name) for path in FILES for name in names_in(path) - NO_NAMES
    }
    assert len(found) > 60
    assert not sorted((path, name) for path, name in found if not is_there(name))


@pytest.mark.parametrize(
    ("name", "there"),
    [("common.errors", True), ("common.errors.nearest", True), ("scan.HARMLESS", True),
     ("interval_kinds.INTERVALS", False),
     ("common.errors.farthest", False), ("common.wrongs", False), ("scan.HARMFUL", False)],
)  # fmt: skip
def test_what_is_not_there_is_found(name: str, there: bool) -> None:
    assert is_there(name) is there
