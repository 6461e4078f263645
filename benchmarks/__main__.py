"""`python -m benchmarks COMMAND`: each command is a module with a `main(argv)`, imported when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from common.cli import run
from common.errors import nearest
from common.old_parser import Parser

COMMANDS = {
    "fetch": ("benchmarks.datasets.fetch", "bring datasets from their hubs into data/ (needs network)"),
    "import": (
        "benchmarks.datasets.import_files",
        "make a dataset from original distribution files (no network)",
    ),
    "synthetic": ("benchmarks.datasets.synthetic", "write small made-up datasets for smoke tests"),
    "datasets": ("benchmarks.datasets.listing", "list, show or verify the datasets in data/"),
    "run": ("benchmarks.sweep.run", "fine-tune and evaluate a model; goes on where it stopped"),
    "status": ("benchmarks.sweep.status", "what is done, missing or failed, and the time left"),
    "validate": ("benchmarks.sweep.validate", "check model, data and settings; estimate time and memory"),
}


def main(argv: Sequence[str]) -> int | None:
    width = max(map(len, COMMANDS)) + 2
    parser = Parser(
        prog="python -m benchmarks",
        description="Measure encoders on the paper's twelve datasets.",
        epilog="commands:\n" + "\n".join(f"  {name:{width}}{help}" for name, (_, help) in COMMANDS.items()),
    )
    parser.add_argument("command", metavar="COMMAND", help="one of the commands below")
    command = parser.parse_args(argv[:1]).command
    if command not in COMMANDS:
        parser.error(f"unknown command {command!r}{nearest(command, COMMANDS)}")
    result: int | None = importlib.import_module(COMMANDS[command][0]).main(argv[1:])
    return result


if __name__ == "__main__":
    run(main)
