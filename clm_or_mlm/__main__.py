"""`clm-or-mlm` and `python -m clm_or_mlm`: the commands of all rooms in one program."""

import common.interrupts  # noqa: F401  (first: Ctrl-C while the rest is imported)

# isort: split
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from cyclopts import App, Group

from clm_or_mlm.rooms import ROOMS, main_of, packages_named, version_line
from common.cli import call, command_name, program, run
from common.errors import UserError

ABOUT = """\
All commands of this package. If several parts have a command of the same name, such as `run`, put the part first.

examples:
  {0} figure 3
  {0} table 10
  {0} claims --id F8
  {0} benchmarks run --help
  {0} completion bash"""

_GROUPS = [
    (
        Group("Reproduce", sort_key=0),
        ("figure", "table", "audit", "report", "reproduce", "claims", "fetch-released"),
    ),
    (Group("Pretrain", sort_key=1), ("pretraining",)),
    (Group("Fine-tune", sort_key=2), ("benchmarks",)),
    (Group("Analyse", sort_key=3), ("analysis", "paper_figures")),
    (Group("Cluster, images and all else", sort_key=4), ("workflow", "container", "miniature", "completion")),
]
"""The tasks of the list of commands: commands, and the rooms whose other commands belong there."""


def main(argv: Sequence[str], prefix: str = "python -m clm_or_mlm") -> int:
    """Run the command that the words name; `prefix` is how the program was started."""
    word = argv[0] if argv else ""
    owners = {room: room for room in ROOMS} | {"figure": "paper_figures"}
    owners |= {command_name(path): room for path, (room, _) in _alone().items()}
    if word == "--version":
        sys.stdout.write(version_line())
        return 0
    if word in owners:
        if word in ROOMS or word == "figure":
            return main_of(owners[word], f"{prefix} {word}")(argv[1:])
        return main_of(owners[word], prefix)(argv)
    if rooms := [room.name for room in ROOMS.values() if word in map(command_name, room.commands)]:
        ways = " or ".join(f"`{prefix} {room} {word}`" for room in rooms)
        raise UserError(f"several parts have a command {word}: use {ways}")
    app = _program(prefix)
    for name in ("figure", *ROOMS):
        line = (
            "Draw the paper's figures"
            if name == "figure"
            else ROOMS[name].about.partition("\n")[0].rstrip(".")
        )
        app.command(f"clm_or_mlm.rooms:{name}", name=name, help=line, sort_key=1000, group=_group(name, name))
    with packages_named():
        return call(app, argv)


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a completion script for a shell; it completes commands, options and choices.

    Save it as ~/.local/share/bash-completion/completions/clm-or-mlm (bash), as _clm-or-mlm in a folder of $fpath (zsh),
    or as ~/.config/fish/completions/clm-or-mlm.fish (fish).

    Args:
        shell: the shell
    """
    app = _program("clm-or-mlm")
    for name, room in {"figure": ROOMS["paper_figures"], **ROOMS}.items():
        app.command(room.program(f"clm-or-mlm {name}"), name=name)
    sys.stdout.write(app.generate_completion(prog_name="clm-or-mlm", shell=shell))


def _alone() -> dict[str, tuple[str, str]]:
    """Return the commands whose name one room alone has: its name and the line of help, by `module:function`."""
    lines = {path: (room.name, line) for room in ROOMS.values() for path, line in room.commands.items()}
    counts = Counter(map(command_name, lines))
    return {path: found for path, found in lines.items() if counts[command_name(path)] == 1}


def _program(prefix: str) -> App:
    alone = _alone()
    app = program(
        prefix,
        ABOUT.format(prefix),
        {path: line for path, (_, line) in alone.items()},
        groups={path: _group(command_name(path), room) for path, (room, _) in alone.items()},
    )
    line = "Print a completion script for a shell"
    app.command(f"{__name__}:completion", help=line, sort_key=1000, group=_group("completion", ""))
    return app


def _group(command: str, room: str) -> Group:
    """Return the task that a command is listed under: its own, or else its room's."""
    return next(group for word in (command, room) for group, words in _GROUPS if word in words)


def console() -> None:
    """Run the installed program `clm-or-mlm`."""
    run(lambda argv: main(argv, "clm-or-mlm"))


if __name__ == "__main__":
    run(main)
