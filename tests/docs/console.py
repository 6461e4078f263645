"""Runs the console blocks of a page in what looks like a clean clone, and compares what they print.

    python -m tests.docs.console docs/tutorials/reviewer.md      # each command with what it prints now

A block is fenced as `console`; a line that begins with `$ ` is a command, what follows it is its whole output on
both streams. `...` stands for anything within a line, and alone on a line for any lines.
"""

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from common.provenance import ROOT

MARK = "-- end of command --"


@dataclass(frozen=True)
class Step:
    """A command of a page and what the page says it prints."""

    command: str
    expected: str

    def agrees(self, printed: str) -> bool:
        """Return whether the command printed what the page says."""
        lines = [
            r"(?:.*\n)*?"
            if line == "..."
            else re.escape(line).replace(r"\.\.\.", ".*") + r"\n"
            for line in self.expected.splitlines()
        ]
        return re.fullmatch("".join(lines), printed) is not None


def steps(text: str) -> list[Step]:
    """Return the commands of a page's console blocks."""
    blocks = re.findall(r"^```console\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    made = []
    for block in blocks:
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.splitlines(keepends=True)
            length = 1 + next(
                count for count, line in enumerate(lines) if not line.endswith("\\\n")
            )
            made.append(
                Step(command="".join(lines[:length]), expected="".join(lines[length:]))
            )
    return made


def stand_in_clone(folder: Path) -> Path:
    """Return a folder with the repository's files and installed environments, and nothing that was built."""
    for path in ROOT.iterdir():
        if path.name not in (".git", ".venv", "build") and not path.name.startswith(
            "."
        ):
            (folder / path.name).symlink_to(path)
    for name in ("analysis", "full"):
        binaries = folder / ".venv" / name / "bin"
        binaries.mkdir(parents=True)
        (binaries / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (binaries / "python").chmod(0o755)
        (binaries / "clm-or-mlm").write_text(
            f"#!/bin/sh\nPYTHONPATH='{ROOT}' exec '{sys.executable}' "
            "-Pc 'from clm_or_mlm.__main__ import console; console()' \"$@\"\n"
        )
        (binaries / "clm-or-mlm").chmod(0o755)
        (binaries / "activate").write_text(f'PATH="{binaries}:$PATH"\n')
        (binaries.parent / ".installed").touch()
    return folder


def run(made: list[Step], folder: Path) -> list[tuple[str, int]]:
    """Run the commands in one shell and return what each printed and its exit code."""
    script = "".join(
        f"{step.command}\nprintf '%s %d\\n' '{MARK}' $?\n" for step in made
    )
    # A make inside make prints the folders that it enters, and takes over its variables.
    of_make = ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "ARGS")
    environment = {
        key: value for key, value in os.environ.items() if key not in of_make
    }
    environment |= {
        "XDG_CACHE_HOME": str(folder / "cache"),
        "COLUMNS": "100",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        ["bash"],
        input=script,
        cwd=folder,
        env=environment,
        text=True,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    *parts, rest = re.split(rf"{MARK} (\d+)\n", done.stdout)
    assert not rest and len(parts) == 2 * len(made), done.stdout
    return [
        (printed, int(code))
        for printed, code in zip(parts[::2], parts[1::2], strict=True)
    ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        page = steps((ROOT / sys.argv[1]).read_text(encoding="utf-8"))
        for one, (printed, code) in zip(
            page, run(page, stand_in_clone(Path(name))), strict=True
        ):
            print(
                f"$ {one.command}{printed}{f'[exit code {code}]' if code else ''}",
                end="",
            )
