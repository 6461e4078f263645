"""The commands of `python -m miniature`."""

from __future__ import annotations

from clm_or_mlm.rooms import Room

__all__ = ["ROOM"]

_HERE = "clm_or_mlm.commands.miniature"

ROOM = Room(
    name="miniature",
    description="The whole study at toy scale, from text to claims; killed at any moment, the same call resumes.",
    commands={
        "run": (f"{_HERE}.run:run", "make it, or resume it"),
        "show": (f"{_HERE}.run:show", "analyse what has been made so far"),
        "random": (f"{_HERE}.parts:random", "write the middle size with its initial weights, untrained"),
        "sample": (f"{_HERE}.parts:sample", "take as many rows of a dataset as a form needs"),
    },
)
