"""The commands of `python -m container`."""

from __future__ import annotations

from collections.abc import Sequence

from clm_or_mlm.rooms import Room

__all__ = ["ROOM", "WORD"]

_HERE = "clm_or_mlm.commands.container"

WORD = "--inside-word"
"""The hidden option of `run` that carries the words of the command inside the image, options included."""


def _pass_on(argv: Sequence[str]) -> list[str]:
    words = list(argv)
    if words[:1] != ["run"]:
        return words
    image = 1
    while image < len(words) and words[image].startswith("-"):
        image += 2 if words[image] == "--bind" else 1
    inside = words[image + 1 :]
    if inside[:1] == ["--"]:
        inside = inside[1:]
    return [*words[: image + 1], *(f"{WORD}={word}" for word in inside)]


ROOM = Room(
    name="container",
    description="Build, run and check the Apptainer images; check a site.",
    commands={
        "build": (f"{_HERE}.build:build", "build an image into build/"),
        "run": (f"{_HERE}.run:run", "run a room in an image"),
        "test": (f"{_HERE}.check:test", "run an image's own test: imports, a figure, training"),
        "verify": (f"{_HERE}.check:verify", "compare an image with its record, the locks and the commit"),
        "doctor": (f"{_HERE}.doctor:doctor", "find wrong site settings before a job is submitted"),
    },
    prepare=_pass_on,
)
