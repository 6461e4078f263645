"""`python -m clm_or_mlm.rehearse`: what is wrong with a workflow's commands, asked of themselves before any job starts.

Reads commands as JSON (`[["benchmarks", "run", ...], ...]`) and prints JSON: which image and commit this is, and a
sentence for each mistake. Each command is understood by its own parser, in the environment that will run it; then it
checks what it can before its inputs are made. Nothing is computed or written.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from clm_or_mlm.rooms import ROOMS, packages_named
from common.cli import run, understood
from common.errors import UserError, nearest
from common.provenance import git_commit

__all__ = ["main", "mistakes"]


def _run(arguments: Mapping[str, Any]) -> None:
    arguments["options"].request()


def _train(arguments: Mapping[str, Any]) -> None:
    from pretraining.plan.study_plan import load_study, targets_of

    options = arguments["study"]
    study = load_study(options.study)
    options.config(study)
    targets_of(arguments["model"], study)


def _shards(arguments: Mapping[str, Any]) -> None:
    from pretraining.data.corpus import open_source
    from pretraining.data.tokenizer import load_tokenizer

    if not any(word.startswith("hf:") for word in arguments["source"]):
        open_source(arguments["source"])
    # A relative one is made by a job before.
    if Path(arguments["tokenizer"]).is_absolute():
        load_tokenizer(arguments["tokenizer"])


_CHECKS: dict[tuple[str, ...], Callable[[Mapping[str, Any]], None]] = {
    ("benchmarks", "run"): _run,
    ("pretraining", "train"): _train,
    ("pretraining", "shards"): _shards,
}
"""What a command checks beyond its words; its arguments by name."""


def mistakes(commands: Sequence[Sequence[str]]) -> list[str]:
    """Return a sentence for each command that its own room would refuse, each sentence once."""
    found: dict[str, None] = {}
    for room, *words in commands:
        try:
            if room not in ROOMS:
                raise UserError(f"unknown room {room!r}{nearest(room, ROOMS)}")
            with packages_named():
                arguments = understood(ROOMS[room].program(), words)
                if check := _CHECKS.get((room, *words[:1])):
                    check(arguments)
        except UserError as error:
            found[f"{room} {words[0] if words else ''}: {error}"] = None
    return list(found)


def main(argv: Sequence[str]) -> None:
    """Answer about the commands on standard input."""
    if argv:
        raise UserError("this command takes no arguments; it reads commands as JSON from standard input")
    kind = os.environ.get("CLM_OR_MLM_IMAGE", "")
    answer = {"image": kind, "commit": git_commit(), "mistakes": mistakes(json.load(sys.stdin))}
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    run(main)
