"""A plugin of pytest: with `-n 3 -p tests.shares` each worker collects and runs a share of the tests of its own.

A worker that collects everything imports everything, and makes every fixture of a session again. Three on two cores: a
third computes while others wait for a process or a lock.
"""

import atexit
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import EachScheduling

TESTS = Path(__file__).parent
# Of the first workers; the last one's is all the rest. All take about the same CPU time.
SHARES = (
    ("pretraining", "benchmarks/finetuning", "benchmarks/sweep"),
    ("analysis", "paper_figures", "common"),
)
WORKERS = len(SHARES) + 1


class Shares(EachScheduling):
    """Each worker runs what it has collected."""

    def schedule(self) -> None:
        # xdist takes what the last worker has collected for the number of all tests.
        session = self.config.pluginmanager.getplugin("dsession")._session
        session.testscollected = sum(map(len, self.node2collection.values()))
        super().schedule()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Shares | None:
    return Shares(config, log) if config.getoption("numprocesses") == WORKERS else None


def pytest_configure_node(node: Any) -> None:
    # A worker that takes the place of one that crashed gets its specification, and with it its share.
    spec = node.gateway.spec
    spec.share = spec.share or node.gateway.id
    if node.workerinput["workercount"] == WORKERS:
        node.workerinput["share"] = int(spec.share.removeprefix("gw"))


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        # The first that is registered is the last that is called
        atexit.register(_leave, os.getpid())


def _leave(worker: int) -> None:
    """End a worker without taking apart all that it has imported, which takes seconds; nobody reads its exit code."""
    # Which may write what it has seen only later
    if os.getpid() == worker and "coverage" not in sys.modules:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    share = getattr(config, "workerinput", {}).get("share")
    if share is None or not collection_path.is_relative_to(TESTS):
        return None
    path = f"{collection_path.relative_to(TESTS).as_posix()}/"
    if path == "./":
        return None
    owner = next(
        (
            n
            for n, names in enumerate(SHARES)
            if path.startswith(tuple(f"{one}/" for one in names))
        ),
        WORKERS - 1,
    )
    leads_there = any(
        name.startswith(path) for names in SHARES[share : share + 1] for name in names
    )
    return (share != owner and not leads_there) or None
