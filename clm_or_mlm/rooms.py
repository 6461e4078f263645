"""Every command of the package: the room it belongs to, its function, a line of help."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cyclopts import App

from common.cli import call, program
from common.registry import Registry

__all__ = ["ROOMS", "Room", "main_of", "program_of", "room"]

_HERE = "clm_or_mlm.commands"


@dataclass(frozen=True, kw_only=True)
class Room:
    """A room that `python -m NAME` runs."""

    name: str
    """Its folder."""
    description: str
    """A sentence above its commands."""
    commands: dict[str, tuple[str, str]] = field(default_factory=dict)
    """For each its function as `module:function`, imported when the command is called, and a line of help."""
    default: str = ""
    """The function, as `module:function`, of a room that needs no command."""
    examples: str = ""
    """Shown in its help as they are."""
    prepare: Callable[[Sequence[str]], list[str]] = list
    """What is done to the words first, for a command that passes words on to another program."""


ROOMS: Registry[Room] = Registry("room")
"""All rooms with commands; a room's entry stands in `clm_or_mlm.commands.<room>` and registers itself."""


def room(name: str) -> Room:
    """Return a room; its entry is imported, its commands are not."""
    if name not in ROOMS:
        ROOMS.register(importlib.import_module(f"{_HERE}.{name}").ROOM)
    return ROOMS[name]


def program_of(name: str) -> App:
    """Return a room's command line; its commands are imported when they are called."""
    one = room(name)
    module, _, function = one.default.partition(":")
    default = getattr(importlib.import_module(module), function) if module else None
    return program(
        f"python -m {one.name}", one.description, one.commands, examples=one.examples, default=default
    )


def main_of(name: str) -> Callable[[Sequence[str]], int | None]:
    """Return a room's `main`: words -> exit code; `UserError` for what the user has to correct."""

    def main(argv: Sequence[str]) -> int | None:
        return call(program_of(name), room(name).prepare(argv))

    return main
