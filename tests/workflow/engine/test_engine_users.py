"""A study in a group's folder that one user begins and another finishes."""

import collections
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.provenance import ROOT
from tests.commands import program
from tests.workflow.stand_ins import apptainer

STUDY = """
import logging, os, sys
from pathlib import Path
from workflow.engine import run_workflow
from workflow.jobs import JOB_KINDS, Job, Workflow, by_marker
from workflow.study_progress import progress_of

first = Job(kind=JOB_KINDS["shards"], name="shards", commands=(("make", "shards"),), makes=("shards",))
cells = [
    Job(kind=JOB_KINDS["cell"], name=name, commands=(("benchmarks", "run", "--name", name, "--workers", "1"),),
        makes=tuple(f"results/{name}/{number}" for number in range(8)), needs=(first.marker,))
    for name in ("a", "b")
]
last = Job(
    kind=JOB_KINDS["analysis"], name="all", commands=(("make", "tables"),), makes=("tables",),
    needs=tuple(job.marker for job in cells),
)
jobs = by_marker([first, *cells, last])
folder = Path(sys.argv[1])
logging.basicConfig(level=logging.INFO)
done = run_workflow(Workflow(target="all", jobs=jobs, image=os.environ["STAND_IN_IMAGE"]), folder)
print("done" if done else "not done", progress_of(folder).code)
"""

AS_USER = ("--clear-groups", "--regid=2000", "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
           "--bounding-set=-all,+dac_read_search")  # fmt: skip
"""Options of setpriv: another user of a group, who may read this Python wherever it is, and write where users may."""

SETPRIV = shutil.which("setpriv") or ""


def _may_become_another() -> bool:
    words = [SETPRIV, "--reuid=1001", *AS_USER, "true"]
    return bool(SETPRIV) and not os.getuid() and not subprocess.run(words).returncode


pytestmark = pytest.mark.skipif(not _may_become_another(), reason="needs root")


class Group:
    """A folder that a group writes, and calls of its users."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.output = folder / "study", folder / "output"
        self.folder.mkdir()
        os.chown(self.folder, 0, 2000)
        self.folder.chmod(0o2775)
        (folder / "x.sif").touch()
        scratch = folder / "scratch"
        scratch.mkdir()
        scratch.chmod(0o1777)
        command = f'exec "{sys.executable}" "{apptainer.__file__}" "$@"'
        made = program(folder / "bin/apptainer", command)
        self.environ = os.environ | {
            "PATH": f"{made.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "CLM_OR_MLM_SCRATCH": str(scratch),
            "STAND_IN_IMAGE": str(folder / "x.sif"),
            "STAND_IN_SECONDS": "0.2",
        }

    def call(self, user: int) -> subprocess.Popen[bytes]:
        words = [SETPRIV, f"--reuid={user}", *AS_USER, sys.executable, "-c", STUDY]
        with self.output.open("ab") as sink:
            return subprocess.Popen(
                [*words, str(self.folder)],
                env=self.environ,
                cwd=ROOT,
                stdout=sink,
                stderr=sink,
                umask=0o022,
            )

    def runs(self, what: str) -> collections.Counter[str]:
        path = self.folder / "events"
        lines = path.read_text().splitlines() if path.is_file() else []
        return collections.Counter(
            line.split()[1] for line in lines if line.split()[0] == what
        )


@pytest.fixture
def group() -> Iterator[Group]:
    # Folders of pytest are their user's own.
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Group(Path(name))


def test_another_user_finishes_a_study(group: Group) -> None:
    """What one user has finished is not repeated, and each may go on with the other's files."""
    first = group.call(1001)
    while group.runs("finish").total() < 10:
        assert first.poll() is None, group.output.read_text()
        time.sleep(0.05)
    first.kill()
    first.wait(60)
    second = group.call(1002)
    assert second.wait(60) == 0, group.output.read_text()
    assert group.output.read_text().endswith("done 0\n")
    runs = {f"{name}/{number}" for name in "ab" for number in range(8)}
    assert group.runs("finish") == collections.Counter(runs)
    assert {path.stat().st_uid for path in group.folder.rglob("*")} == {1001, 1002}
    for path in group.folder.rglob("*"):
        wanted = stat.S_IRGRP | stat.S_IWGRP
        assert path.stat().st_mode & wanted == wanted, path
    # The first one deletes a run, and makes it again.
    (group.folder / "results/b/7").unlink()
    assert group.call(1001).wait(60) == 0, group.output.read_text()
    assert group.runs("finish") - collections.Counter(runs) == {"b/7": 1}
