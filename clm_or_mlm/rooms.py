"""The rooms with commands: a command is a function in `clm_or_mlm.commands` and its docstring is its help."""

from __future__ import annotations

import ast
import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path

from cyclopts import App

from clm_or_mlm import VERSION
from common.cli import call, program
from common.errors import UserError
from common.registry import Registry

__all__ = ["ROOMS", "Room", "main_of", "packages_named", "version_line"]

_COMMANDS = "clm_or_mlm.commands"


@dataclass(frozen=True, kw_only=True)
class Room:
    """A room that `python -m NAME` runs.

    Its help is the docstring of `clm_or_mlm.commands.NAME`. Its commands are the functions that its modules name in
    `__all__`; the modules are read for their names and help, and imported when a command is called.
    """

    name: str
    """Its folder."""
    modules: tuple[str, ...] = ()
    """Modules of its commands, below `clm_or_mlm.commands`; none: the one with the room's name."""
    default: str = ""
    """The function that is called without its name."""

    @cached_property
    def commands(self) -> Mapping[str, str]:
        """The first sentence of each command's help, by `module:function`, but the default's."""
        return {
            f"{_COMMANDS}.{module}:{item.name}": (ast.get_docstring(item) or "")
            .partition("\n\n")[0]
            .rstrip(".")
            for module in self.modules or (self.name,)
            for item in _commands_in(_source(module))
            if item.name != self.default
        }

    @cached_property
    def about(self) -> str:
        """What stands above its commands."""
        return ast.get_docstring(_source(self.name)) or ""

    def program(self, started: str = "") -> App:
        """Return the room's command line; `started` is how the user started it, by default `python -m NAME`."""
        default = None
        if self.default:
            default = getattr(importlib.import_module(f"{_COMMANDS}.{self.name}"), self.default)
        return program(started or f"python -m {self.name}", self.about, self.commands, default=default)


@cache
def _source(module: str) -> ast.Module:
    found = find_spec(f"{_COMMANDS}.{module}")
    assert found is not None and found.origin is not None
    return ast.parse(Path(found.origin).read_text(encoding="utf-8"))


def _commands_in(module: ast.Module) -> list[ast.FunctionDef]:
    named = next(
        ast.literal_eval(item.value)
        for item in module.body
        if isinstance(item, ast.Assign) and ast.unparse(item.targets[0]) == "__all__"
    )
    return [item for item in module.body if isinstance(item, ast.FunctionDef) and item.name in named]


ROOMS: Registry[Room] = Registry(
    "room",
    [
        Room(name="pretraining"),
        Room(name="benchmarks", modules=("benchmarks.datasets", "benchmarks.runs")),
        Room(
            name="analysis",
            modules=(
                "analysis.store", "analysis.tables", "analysis.claims", "analysis.comparisons", "analysis.precision",
                "caches",
            ),
        ),
        Room(name="paper_figures", default="draw"),
        Room(name="container"),
        Room(name="workflow", default="study"),
        Room(name="miniature"),
    ],
)  # fmt: skip
"""All rooms with commands."""


def main_of(name: str, started: str = "") -> Callable[[Sequence[str]], int]:
    """Return a room's `main`: words -> exit code; `UserError` for what the user has to correct.

    Args:
        name: the room's.
        started: as in `Room.program`.
    """

    def main(argv: Sequence[str]) -> int:
        if list(argv) == ["--version"]:
            sys.stdout.write(version_line())
            return 0
        with packages_named("analysis" if name in ("analysis", "paper_figures") else "full"):
            return call(ROOMS[name].program(started), argv)

    return main


@contextlib.contextmanager
def packages_named(environment: str = "analysis") -> Iterator[None]:
    """Turn an import's error for lack of a package into a `UserError` that names the environment which has it."""
    try:
        yield
    except ImportError as error:
        # The library that imports a command's module says that it cannot, and names the cause.
        missing = error.__cause__ or error
        if not isinstance(missing, ModuleNotFoundError):
            raise
        raise UserError(_missing(missing, environment)) from error


def version_line() -> str:
    """Return what `--version` prints: version and commit."""
    from common.provenance import git_commit  # not for help

    return f"clm-or-mlm {VERSION} (commit {git_commit()})\n"


def _missing(error: ModuleNotFoundError, environment: str) -> str:
    """Return how to install what a command lacks; raise what is no package of others."""
    package = (error.name or "").partition(".")[0]
    if not package or package in {*ROOMS, "clm_or_mlm", "common"}:
        raise error
    extra = "'.[full]'" if environment == "full" else "."
    return (
        f"this command needs {package}, which is not installed in {sys.prefix}; in the repository run "
        f"`make {environment}-env` and `source .venv/{environment}/bin/activate`, elsewhere `pip install {extra}` "
        "(docs/install.md)"
    )
