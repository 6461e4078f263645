"""Mutants of a module: its source with one thing changed, by cosmic-ray's operators."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.provider import OperatorProvider

__all__ = ["Mutant", "mutants"]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A changed module."""

    module: str
    line: int
    change: str
    """`old line -> new line`, without indentation: its name, with the module, in the list of survivors."""
    source: str


def mutants(module: str, source: str, operators: Sequence[str]) -> Iterator[Mutant]:
    """Yield all mutants that some operators make, but for those that compute the same by construction.

    They differ in annotations alone, in how a function or a record may be called (a bare `*`, `frozen`, `kw_only`), or
    in how many results `lru_cache` keeps.
    """
    tree, same = get_ast(source), _running(source)
    provider, wanted = OperatorProvider(), re.compile("|".join(operators))
    seen = {source}
    for name in filter(wanted.fullmatch, provider):
        operator = provider[name]()
        count = sum(1 for node in ast_nodes(tree) for _ in operator.mutation_positions(node))
        for occurrence in range(count):
            try:
                changed = mutate_code(source, operator, occurrence)
            except AttributeError:  # cosmic-ray replaces no dotted names after `except`
                continue
            if changed is None or changed in seen or _running(changed) == same:
                continue
            seen.add(changed)
            line, change = _difference(source, changed)
            yield Mutant(module=module, line=line, change=change, source=changed)


def _running(source: str) -> str:
    """Return what of a source decides results: no annotations, which nothing here evaluates, no kinds of parameters."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            node.annotation = ast.Constant(None)
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
            node.decorator_list = [item for item in node.decorator_list if "lru_cache" not in ast.dump(item)]
        elif isinstance(node, ast.arguments):
            node.args = [*node.posonlyargs, *node.args, *node.kwonlyargs]
            node.defaults = [*node.defaults, *filter(None, node.kw_defaults)]
            node.posonlyargs, node.kwonlyargs, node.kw_defaults = [], [], []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dataclass":
            node.keywords = [word for word in node.keywords if word.arg not in ("frozen", "kw_only")]
    return ast.dump(tree)


def _difference(old: str, new: str) -> tuple[int, str]:
    before, after = old.splitlines(), new.splitlines()
    for _, start, end, new_start, new_end in (
        step
        for step in difflib.SequenceMatcher(None, before, after, False).get_opcodes()
        if step[0] != "equal"
    ):
        lines = (" ".join(" ".join(part).split()) for part in (before[start:end], after[new_start:new_end]))
        return start + 1, " -> ".join(lines)
    raise ValueError("nothing differs")
