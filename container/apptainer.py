"""The Apptainer command through `spython`, its Python client."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

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
    """Return the path of the Apptainer (or Singularity) command, and see to it that spython finds it.

    Raises:
        UserError: neither is on PATH, or it cannot run here.
    """
    version()
    found = program_of(Site())
    assert found is not None
    if shutil.which("singularity") is None:
        # spython calls `singularity`, an alias that some sites leave out.
        folder = Path(tempfile.mkdtemp(prefix="clm-or-mlm-alias-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        alias = folder / "singularity"
        alias.write_text(f'#!/bin/sh\nexec "{found}" "$@"\n', "utf-8")
        alias.chmod(0o755)
        os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"
    return found


def _client() -> Any:
    apptainer()
    try:
        from spython.main import Client
    except ModuleNotFoundError:
        raise UserError(
            "spython is not installed here; run this by `make`, or with .venv/cluster/bin/python"
        ) from None
    return Client


def execute(image: Path, command: Sequence[str], options: Sequence[str] = ()) -> str:
    """Run a command in an image without a home and return what it prints.

    Raises:
        UserError: it failed; the last line it printed is given.
    """
    client = _client()
    flags = ["--no-home", "--cleanenv", "--pwd", "/", *options]
    answer = client.execute(str(image), list(command), options=flags, return_result=True, quiet=True)
    text = "".join(answer["message"][:1]) if answer["message"] else ""
    if answer["return_code"]:
        last = "".join(answer["message"]).strip().splitlines()[-1:] or ["no message"]
        raise UserError(f"{image}: {' '.join(command[:3])} ... failed: {last[0]}")
    return text


def labels(image: Path) -> dict[str, str]:
    """Return the labels of an image.

    Raises:
        UserError: it is no image that Apptainer can read.
    """
    answer = _client().inspect(str(image), quiet=True)
    if "attributes" not in answer:
        raise UserError(f"{image}: not an image that apptainer can read; build it again")
    found = answer["attributes"]["labels"]
    return dict(found) if isinstance(found, dict) else dict(json.loads(found or "{}"))


def stream(words: Sequence[str]) -> Iterator[str]:
    """Run an Apptainer command and yield the lines of its output and errors as they come.

    Raises:
        UserError: it ended with an error.
    """
    from spython.utils import stream_command

    apptainer()
    try:
        yield from stream_command(["singularity", *words], output_type="both")
    except subprocess.CalledProcessError as error:
        raise UserError(f"apptainer {words[0]} ended with code {error.returncode}") from None
