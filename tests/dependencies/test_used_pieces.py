"""docs/maintainers.md lists every name that is used of Composer and streaming, each with a test that exists."""

import ast
import re
from pathlib import Path

from common.provenance import ROOT

PAGE = (ROOT / "docs" / "maintainers.md").read_text(encoding="utf-8")


def used(module: Path) -> set[str]:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {
        alias.name
        for node in imports
        if str(node.module).split(".")[0] in ("composer", "streaming")
        for alias in node.names
    }


def test_every_name_used_has_a_row_and_six_modules_use_any() -> None:
    pieces = {
        piece
        for line in PAGE.splitlines()
        if line.startswith("| `")
        for piece in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    found = {
        path.name: used(path)
        for path in (ROOT / "pretraining").rglob("*.py")
        if used(path)
    }
    assert found.keys() == {
        "composer_parts.py",
        "ranks.py",
        "remote_shards.py",
        "shard_writer.py",
        "stage.py",
        "token_stream.py",
    }
    assert set().union(*found.values()) <= pieces


def test_every_test_named_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(
            r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert len(named) > 10
    assert named <= there


def test_every_bound_lifted_has_a_row_with_the_locked_version() -> None:
    from tests.dependencies.test_bounds import lifted_bounds
    from tests.locks import read_requirements

    pins = read_requirements(ROOT / "requirements" / "full.txt")
    for name in lifted_bounds():
        assert re.search(
            rf"^\| `{name}` \|.*\| {re.escape(pins[name])} \|$", PAGE, re.MULTILINE
        ), name
