"""`kill -9` of a workflow's call ten times: the next call ends with a clean one's files, markers and tables."""

import time
from pathlib import Path

import pytest

from tests.kills import survives
from tests.workflow.engine.test_engine import _works_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

CHAIN = """
import sys
from pathlib import Path
from workflow import engine
from workflow.jobs import JOB_KINDS, Job, Workflow, by_marker

def job(kind, name, needs, *words):
    out = words[-1]
    return Job(kind=JOB_KINDS[kind], name=name, commands=(words,), makes=(out,), needs=needs)

runs = job("data", "runs", (), "ingest", sys.argv[1], "--out", "runs.parquet")
read = ("--source", "runs.parquet")
scores = job("model", "scores", (runs.marker,), "scores", *read, "--format", "csv", "--out", "scores.csv")
claims = job("model", "claims", (runs.marker,), "claims", "--format", "json", "--out", "claims.json")
last = job("analysis", "all", (scores.marker, claims.marker), "table", "2", "--format", "csv", "--out", "table.csv")
engine.run_workflow(Workflow(target="all", jobs=by_marker([runs, scores, claims, last])), Path.cwd())
"""


def _ended(folder: Path) -> None:
    limit = time.monotonic() + 120
    while found := _works_in(folder):
        assert time.monotonic() < limit, found
        time.sleep(0.1)


def test_a_chain_of_jobs(store: Path, tmp_path: Path) -> None:
    survives(
        ["-c", CHAIN, str(store)],
        tmp_path,
        aside=("logs",),
        settled=_ended,
        OMP_NUM_THREADS="1",
    )
