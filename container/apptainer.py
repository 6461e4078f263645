"""The Apptainer command: what it prints, an image's labels, and its output as it comes."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from common.errors import UserError
from container.site import Site, program_of, version_of

__all__ = ["apptainer", "execute", "labels", "stream", "version"]


@functools.cache
def version() -> tuple[int, int]:
    """Return Apptainer's version, asked once, within a time limit.

    Raises:
        UserError: it is not on PATH, cannot run here or does not answer.
    """
    return version_of(Site())[1]


def apptainer() -> str:
    """Return the path of the Apptainer (or Singularity) command.

    Raises:
        UserError: neither is on PATH, or it cannot run here.
    """
    version()
    found = program_of(Site())
    assert found is not None
    return found


def execute(image: Path, command: Sequence[str], options: Sequence[str] = ()) -> str:
    """Run a command in an image without a home and return what it prints.

    Raises:
        UserError: it failed; the last line it printed is given.
    """
    line = ["exec", "--no-home", "--cleanenv", "--pwd", "/", *options, str(image), *command]
    answer = subprocess.run([apptainer(), "--quiet", *line], capture_output=True, text=True)
    if answer.returncode:
        last = (answer.stdout + answer.stderr).strip().splitlines()[-1:] or ["no message"]
        raise UserError(f"{image}: {' '.join(command[:3])} ... failed: {last[0]}")
    return answer.stdout


def labels(image: Path) -> dict[str, str]:
    """Return the labels of an image.

    Raises:
        UserError: it is no image that Apptainer can read.
    """
    command = [apptainer(), "--quiet", "inspect", "--json", "--labels", str(image)]
    answer = subprocess.run(command, capture_output=True, text=True)
    try:
        found = json.loads(answer.stdout)["data"]["attributes"]["labels"]
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{image}: not an image that apptainer can read; build it again") from None
    return dict(found or {})


def stream(words: Sequence[str]) -> Iterator[str]:
    """Run an Apptainer command and yield the lines of its output and errors as they come.

    Raises:
        UserError: it ended with an error.
    """
    with subprocess.Popen(
        [apptainer(), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        yield from process.stdout
    if process.returncode:
        raise UserError(f"apptainer {words[0]} ended with code {process.returncode}")
