"""`clm-or-mlm` and `python -m clm_or_mlm`: the commands of all rooms in one program."""

import common.interrupts  # noqa: F401  (first: Ctrl-C while the rest is imported)

# isort: split
import sys
from collections import Counter
from collections.abc import Sequence

from cyclopts import App

from clm_or_mlm.completion import SHELLS, completion
from clm_or_mlm.rooms import ROOMS, main_of
from clm_or_mlm.version import version_line
from common.cli import call, command_name, program, run

EXAMPLES = """\
examples:
  {0} figure 3
  {0} table 10
  {0} claims --id F8
  {0} benchmarks run --help      (several rooms have a `run`: the room's name goes first)
  {0} completion bash            (also zsh, fish)"""


def main(argv: Sequence[str], prefix: str = "python -m clm_or_mlm") -> int:
    """Run the command that the words name; `prefix` is how the program was started."""
    counts = Counter(command_name(path) for room in ROOMS.values() for path in room.commands)
    paths = {
        path: room for room in ROOMS.values() for path in room.commands if counts[command_name(path)] == 1
    }
    owners = {command_name(path): room.name for path, room in paths.items()}
    word = argv[0] if argv else ""
    of_room = prefix if prefix == "clm-or-mlm" else "python -m"
    if word == "--version":
        sys.stdout.write(f"{version_line()}\n")
        return 0
    if word == "completion" and len(argv) == 2:
        lines = {f"clm_or_mlm.commands.{path}": room.commands[path] for path, room in paths.items()}
        sys.stdout.write(completion(argv[1], program("clm-or-mlm", "", lines)))
        return 0
    if word in ROOMS or word == "figure":
        return main_of("paper_figures" if word == "figure" else word, of_room)(argv[1:])
    if word in owners:
        return main_of(owners[word], of_room)(argv)
    return call(_listing(prefix, {path: room.commands[path] for path, room in paths.items()}), argv)


def _listing(prefix: str, lines: dict[str, str]) -> App:
    app = program(prefix, "Every command of every room.", lines, examples=EXAMPLES.format(prefix))
    others = {"figure": "draw figures", **{room: ROOMS[room].description for room in ROOMS}}
    others["completion"] = f"print what completes commands in a shell: {', '.join(SHELLS)}"
    for name, line in others.items():
        app.command(f"clm_or_mlm.rooms:{name}", name=name, help=line, sort_key=len(lines))
    return app


def console() -> None:
    """Run the installed program `clm-or-mlm`."""
    run(lambda argv: main(argv, "clm-or-mlm"))


if __name__ == "__main__":
    run(main)
