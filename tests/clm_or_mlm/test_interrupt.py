"""Ctrl-C: a real SIGINT to the whole process group, at a place that the test chooses."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from common.provenance import ROOT

_SHELL = """
import os, signal, sys
from clm_or_mlm.__main__ import main
from common.cli import run

def interrupt():
    os.killpg(0, signal.SIGINT)

{patch}
run(main, sys.argv[1:])
"""


def interrupted(patch: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    answer = subprocess.run(
        [sys.executable, "-c", _SHELL.format(patch=patch), *words],
        cwd=cwd,
        start_new_session=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert answer.returncode == 130, answer.stderr
    assert answer.stderr.splitlines() == [
        "interrupted; run the same command again to continue"
    ]
    assert [
        path for path in cwd.rglob("*") if ".tmp" in path.name or "staging" in path.name
    ] == []
    return answer


_WHILE_READING = """
import analysis.store.ingest
progress = analysis.store.ingest.progress
def and_interrupt(*given):
    for item in progress(*given):
        yield item
        interrupt()
analysis.store.ingest.progress = and_interrupt
"""


def test_ingest_ends_in_one_line_and_leaves_nothing_half(
    store: Path, tmp_path: Path
) -> None:
    words = ["ingest", str(store), "--out", "out/runs.parquet", "--instances", "out/i"]
    interrupted(_WHILE_READING, *words, cwd=tmp_path)
    assert list((tmp_path / "out").iterdir()) == []


_WHILE_WRITING = """
import clm_or_mlm.reproduce
write = clm_or_mlm.reproduce.write
def and_interrupt(document, form, path):
    write(document, form, path)
    if path.name == "table02.md":
        interrupt()
clm_or_mlm.reproduce.write = and_interrupt
"""


def test_reproduce_ends_in_one_line_and_leaves_nothing_half_done(
    tmp_path: Path,
) -> None:
    answer = interrupted(_WHILE_WRITING, "reproduce", "--out", "out", cwd=tmp_path)
    assert answer.stdout == ""
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
