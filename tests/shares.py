"""A plugin of pytest: with `-n 3 -p tests.shares` each worker collects and runs folders of its own.

A worker that collects everything imports everything, torch too, and makes every fixture of a session again.
"""

from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import EachScheduling

# Balanced by CPU time. The first imports no torch; the last has what no share names.
SHARES = (
    {"analysis", "common", "container", "miniature", "paper_figures", "workflow"},
    {"benchmarks", "clm_or_mlm"},
    {"dependencies", "docs", "fuzz", "pretraining"},
)
TESTS = Path(__file__).parent
NAMED = set[str]().union(*SHARES)


class Shares(EachScheduling):
    """Each worker runs what it has collected."""

    def schedule(self) -> None:
        # xdist takes what the last worker has collected for the number of all tests.
        session = self.config.pluginmanager.getplugin("dsession")._session
        session.testscollected = sum(map(len, self.node2collection.values()))
        super().schedule()


def applies(config: pytest.Config) -> bool:
    """Whether there are workers, and a share for each; else xdist goes its own way."""
    return 0 < (config.getoption("numprocesses") or 0) <= len(SHARES)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Shares | None:
    return Shares(config, log) if applies(config) else None


def pytest_configure_node(node: Any) -> None:
    if not applies(node.config):
        return
    # A worker that takes the place of one that crashed gets its specification, and with it its share.
    spec, workers = node.gateway.spec, node.workerinput["workercount"]
    spec.share = spec.share or node.gateway.id.removeprefix("gw")
    shares = SHARES[int(spec.share) :: workers]
    node.workerinput["folders"] = sorted(set().union(*shares))
    node.workerinput["rest"] = SHARES[-1] in shares


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    given = getattr(config, "workerinput", {})
    if "folders" not in given or collection_path.parent != TESTS:
        return None
    name = collection_path.name
    return not (name in given["folders"] or (given["rest"] and name not in NAMED)) or None
