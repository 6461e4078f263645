"""docs/dependencies.md lists every name that is used of Composer and streaming, each with a test that exists."""

from __future__ import annotations

import ast
import re

import pytest

from common.provenance import ROOT

PAGE = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
MODULES = (
    "pretraining/training/composer_parts.py",
    "pretraining/training/monitors.py",
    "pretraining/training/ranks.py",
    "pretraining/training/stage.py",
    "pretraining/data/remote_shards.py",
    "pretraining/data/shard_writer.py",
    "pretraining/data/token_stream.py",
)


def used(module: str) -> set[str]:
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {
        alias.name
        for node in imports
        if str(node.module).split(".")[0] in ("composer", "streaming")
        for alias in node.names
    }


@pytest.mark.parametrize("module", MODULES)
def test_every_name_used_has_a_row(module: str) -> None:
    pieces = {
        piece for line in PAGE.splitlines() if line.startswith("| `")
        for piece in re.findall(r"`(\w+)`", line.split("|")[1])
    }  # fmt: skip
    assert used(module)
    assert used(module) <= pieces


def test_every_test_named_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    there = {
        name for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    }  # fmt: skip
    assert len(named) > 10
    assert named <= there


def test_every_bound_lifted_has_a_row_with_the_locked_version() -> None:
    from tests.dependencies.test_bounds import lifted_bounds
    from tests.locks import read_requirements

    pins = read_requirements(ROOT / "requirements" / "full.txt")
    for name in lifted_bounds():
        assert re.search(rf"^\| `{name}` \|.*\| {re.escape(pins[name])} \|$", PAGE, re.MULTILINE), name
