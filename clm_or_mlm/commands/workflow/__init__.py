"""The command of `python -m workflow`."""

from __future__ import annotations

from collections.abc import Sequence

from clm_or_mlm.rooms import Room

__all__ = ["ROOM", "WORD"]

WORD = "--snakemake-word"
"""The hidden option that carries the words after `--`, which go to snakemake as they are."""


def _pass_on(argv: Sequence[str]) -> list[str]:
    words = list(argv)
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], *(f"{WORD}={word}" for word in words[at + 1 :])]


ROOM = Room(
    name="workflow",
    description="Run a study: shards, pretraining, cells, tables and figures, each job once.",
    default="clm_or_mlm.commands.workflow.study:study",
    prepare=_pass_on,
)
