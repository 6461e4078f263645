"""A plugin of pytest: with `-n 2 -p tests.shares` each worker collects and runs a share of the tests of its own.

A worker that collects everything imports everything, and makes every fixture of a session again.
"""

from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import EachScheduling

TESTS = Path(__file__).parent
# The first worker's; the other's is all the rest. Both take about the same CPU time.
SHARE = ("pretraining", "benchmarks/finetuning", "benchmarks/sweep")


class Shares(EachScheduling):
    """Each worker runs what it has collected."""

    def schedule(self) -> None:
        # xdist takes what the last worker has collected for the number of all tests.
        session = self.config.pluginmanager.getplugin("dsession")._session
        session.testscollected = sum(map(len, self.node2collection.values()))
        super().schedule()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Shares | None:
    return Shares(config, log) if config.getoption("numprocesses") == 2 else None


def pytest_configure_node(node: Any) -> None:
    # A worker that takes the place of one that crashed gets its specification, and with it its share.
    spec = node.gateway.spec
    spec.share = spec.share or node.gateway.id
    if node.workerinput["workercount"] == 2:
        node.workerinput["first"] = spec.share == "gw0"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    first = getattr(config, "workerinput", {}).get("first")
    if first is None or not collection_path.is_relative_to(TESTS):
        return None
    path = f"{collection_path.relative_to(TESTS).as_posix()}/"
    of_share = any(path.startswith(f"{one}/") for one in SHARE)
    leads_there = path == "./" or any(one.startswith(path) for one in SHARE)
    return (first != of_share and not (first and leads_there)) or None
