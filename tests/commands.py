"""Python in a process of its own, as a user starts it, and made-up programs for it to find."""

import multiprocessing
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from common.provenance import ROOT


def python(
    *words: object, cwd: Path = ROOT, code: int | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python with these words and this repository's modules, and return what came of it, both streams as text.

    Args:
        words: what comes after `python`.
        cwd: the folder to work in.
        code: the exit code that is asserted; any without it.
        environment: variables beyond this process's.
    """
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert code in (None, done.returncode), done.stdout[-6000:] + done.stderr[-6000:]
    return done


def started(call: Callable[..., Any], *args: Any) -> BaseProcess:
    """A process that makes a call, forked as a worker is, so that it need not import everything again."""
    process = multiprocessing.get_context("fork").Process(target=call, args=args)
    with warnings.catch_warnings():
        # From Python 3.12 on
        warnings.filterwarnings("ignore", ".*use of fork", DeprecationWarning)
        process.start()
    return process


def program(path: Path, text: str) -> Path:
    """Write a made-up program, some lines of a shell, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path
