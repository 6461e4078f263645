"""`python -m clm_or_mlm`: the commands of all rooms in one program."""

from collections import Counter
from collections.abc import Sequence

from clm_or_mlm.rooms import ROOMS, main_of
from common.cli import call, command_name, program, run

EXAMPLES = """\
examples:
  python -m clm_or_mlm table 10
  python -m clm_or_mlm figure 3
  python -m clm_or_mlm benchmarks run --help      (several rooms have a `run`: the room's name goes first)"""


def main(argv: Sequence[str]) -> int:
    counts = Counter(command_name(path) for room in ROOMS.values() for path in room.commands)
    paths = {
        path: room for room in ROOMS.values() for path in room.commands if counts[command_name(path)] == 1
    }
    owners = {command_name(path): room.name for path, room in paths.items()}
    word = argv[0] if argv else ""
    if word in ROOMS or word == "figure":
        return main_of("paper_figures" if word == "figure" else word)(argv[1:])
    if word in owners:
        return main_of(owners[word])(argv)
    lines = {path: room.commands[path] for path, room in paths.items()}
    app = program("python -m clm_or_mlm", "Every command of every room.", lines, examples=EXAMPLES)
    for name, line in {"figure": "draw figures", **{room: ROOMS[room].description for room in ROOMS}}.items():
        app.command(f"clm_or_mlm.rooms:{name}", name=name, help=line, sort_key=len(lines))
    return call(app, argv)


if __name__ == "__main__":
    run(main)
