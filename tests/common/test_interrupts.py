"""Ctrl-C while modules are imported."""

from __future__ import annotations

import pytest

from common.interrupts import INTERRUPTED, SENTENCE
from tests.commands import python

ROOMS = (
    "analysis", "benchmarks", "clm_or_mlm", "container", "miniature", "paper_figures", "pretraining", "workflow",
)  # fmt: skip


@pytest.mark.parametrize("room", ROOMS)
def test_an_interrupted_import_ends_in_one_line(room: str) -> None:
    """The signal comes while `clm_or_mlm.rooms`, the first thing that takes time, is imported."""
    code = (
        "import builtins, os, runpy, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "real = builtins.__import__\n"
        "def slow(name, *rest, **named):\n"
        "    if name == 'clm_or_mlm.rooms': os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(name, *rest, **named)\n"
        "builtins.__import__ = slow\n"
        f"runpy.run_module('{room}', run_name='__main__')\n"
    )
    done = python("-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", f"{SENTENCE}\n")


def test_other_errors_keep_their_traceback() -> None:
    code = "import common.interrupts\nraise ValueError('x')"
    assert "ValueError: x" in python("-c", code, code=1).stderr
