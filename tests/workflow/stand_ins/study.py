"""A study of six jobs and 24 runs on a Slurm of one's own, counted: what was submitted, begun and finished, how often.

Jobs take seconds and write down each thing they do (`stand_ins.apptainer`).
"""

import collections
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from common.provenance import ROOT
from tests.commands import program
from tests.workflow.stand_ins.slurm import PrivateSlurm

STUDY = """
import logging, os, sys
from pathlib import Path
from common.errors import UserError
from workflow.engine import run_workflow
from workflow.jobs import JOB_KINDS, Job, Workflow, by_marker
from workflow.study_settings import load_settings
from workflow.study import workflow_of

logging.basicConfig(level=logging.INFO)
folder, limit = Path(sys.argv[1]), float(sys.argv[2])
size = dict(gpus=2, cpus=2, memory_gb=0.5)
# At a site: what its profile asks for, with a stage on one GPU, so that there is a job of each kind.
site = workflow_of("610m-clm-42k", load_settings(Path(sys.argv[3]))) if sys.argv[3] else None
first = Job(kind=JOB_KINDS["shards"], name="shards", commands=(("make", "shards"),), makes=("shards",), memory_gb=0.5)
stage = Job(
    kind=JOB_KINDS["stage"], name="s", commands=(("train", "s", "--stop-file", "logs/stage/s.stop"),),
    checkpoints="pretraining/stages/s/step-*/state.json", makes=("pretraining/stages/s/done",),
    needs=(first.marker,), limit_hours=limit, **size | (dict(gpus=1) if site else {}),
)
packs = [
    Job(kind=JOB_KINDS["cell"], name=name, commands=(("benchmarks", "run", "--name", name, "--workers", "2"),),
        makes=tuple(f"results/{name}/{number}" for number in range(8)), needs=(first.marker,), **size)
    for name in ("a", "b", "c")
]
last = Job(
    kind=JOB_KINDS["analysis"], name="all", commands=(("make", "tables"),), makes=("tables",),
    needs=tuple(job.marker for job in (stage, *packs)), memory_gb=0.5,
)
asked = {} if site is None else {
    name: getattr(site, name) for name in ("queues", "gres", "modules", "environ", "binds")
}
workflow = Workflow(target="all", jobs=by_marker([first, stage, *packs, last]), image=os.environ["STAND_IN_IMAGE"],
    max_jobs=int(os.environ.get("STAND_IN_MAX_JOBS", "200")), **asked)
try:
    done = run_workflow(workflow, folder, profile="slurm")
    print("done" if done is True else f"submitted {len(done.numbers)}, left {len(done.left)}", flush=True)
except UserError as error:
    sys.exit(f"error: {error}")
"""


class Study:
    """A study's folder and its calls."""

    def __init__(
        self,
        slurm: PrivateSlurm,
        folder: Path,
        limit: float = 0.5,
        *,
        settings: str = "",
        notes: Path | None = None,
    ) -> None:
        self.slurm, self.folder, self.limit, self.settings = (
            slurm,
            folder,
            limit,
            settings,
        )
        self.notes = notes or folder
        self.before = len(slurm.jobs())
        stand_in = Path(__file__).with_name("apptainer.py")
        made = program(
            folder / "bin" / "apptainer", f'exec "{sys.executable}" "{stand_in}" "$@"'
        )
        (self.notes / "x.sif").touch()
        self.environ = slurm.environ | {
            "CLM_OR_MLM_SUBMIT_SECONDS": "2",
            "PYTHONPATH": str(ROOT),
            "PATH": f"{made.parent}:{os.environ['PATH']}",
            "CLM_OR_MLM_SCRATCH": str(self.notes),
            "STAND_IN_IMAGE": str(self.notes / "x.sif"),
            "STAND_IN_EVENTS": str(self.notes / "events"),
        }

    def start(
        self, *, through: Sequence[str] = (), by: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Call the study, as seen by another path where one is given."""
        words = [str(by or self.folder), str(self.limit), self.settings]
        command = [*through, sys.executable, "-c", STUDY, *words]
        with (self.notes / "out").open("ab") as sink:
            return subprocess.Popen(
                command, env=self.environ, cwd=ROOT, stdout=sink, stderr=sink
            )

    def text(self) -> str:
        return (self.notes / "out").read_text()

    def logs(self) -> str:
        """Return what Slurm's jobs printed."""
        return "\n".join(
            path.read_text() for path in self.folder.glob("logs/*/*.slurm")
        )

    def events(self, *what: str) -> list[list[str]]:
        path = self.notes / "events"
        rows = (
            [line.split() for line in path.read_text().splitlines()]
            if path.is_file()
            else []
        )
        return [row for row in rows if row[0] in what]

    def wait_until(self, done: Callable[[], object], seconds: float = 240) -> None:
        end = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < end, self.text()[-5000:] + self.logs()[-5000:]
            time.sleep(0.2)

    def submit(self) -> None:
        """Call the study to the end of its submission."""
        call = self.start()
        assert call.wait(240) == 0, self.text()[-6000:]

    def queued(self) -> list[str]:
        """Return the numbers of the study's jobs that are queued or running."""
        file = self.folder / "slurm.id"
        name = file.read_text().strip() if file.is_file() else "none"
        return self.slurm.output("squeue", "-h", "-o", "%i", f"--name={name}").split()

    def finish(self) -> None:
        """Wait until Slurm has done all of its jobs."""
        self.wait_until(lambda: not self.queued(), seconds=700)
        assert (self.folder / "tables").is_file(), (
            self.text()[-3000:] + self.logs()[-6000:]
        )

    def status(self) -> tuple[str, int]:
        """Return what the status of the study says, and its exit code."""
        progress = (
            "import sys; from pathlib import Path; from workflow.study_progress import progress_of; "
            "found = progress_of(Path(sys.argv[1])); print(found.text()); sys.exit(found.code)"
        )
        command = [sys.executable, "-c", progress, str(self.folder)]
        answer = subprocess.run(
            command, env=self.environ, cwd=ROOT, capture_output=True, text=True
        )
        return answer.stdout + answer.stderr, answer.returncode

    def submitted(self) -> dict[str, int]:
        """Return how many Slurm jobs there were of each of the study's."""
        rows = self.slurm.jobs()[self.before :]
        # The one that was kept to submit the rest and was not needed never ran; one that ran may do so in no second.
        never = {"Comment": "submits", "JobState": "CANCELLED"}
        ran = [row for row in rows if not never.items() <= row.items()]
        return dict(collections.Counter(row["Comment"] for row in ran))

    def restarted(self) -> list[str]:
        """Return what Slurm has put back into its queue, once for each time."""
        rows = self.slurm.jobs()[self.before :]
        return [row["Comment"] for row in rows for _ in range(int(row["Restarts"]))]

    def repeated(self) -> tuple[int, int]:
        """Return how many runs were begun again, and how many that were finished were."""
        begun = collections.Counter(row[1] for row in self.events("begin"))
        finished = collections.Counter(row[1] for row in self.events("finish"))
        assert set(finished) == {
            f"{name}/{number}" for name in "abc" for number in range(8)
        }
        return sum(begun.values()) - 24, sum(finished.values()) - 24


ONCE = {
    "done/shards/shards.json": 1,
    "done/stage/s.json": 1,
    "done/analysis/all.json": 1,
    **{f"done/cell/{name}.json": 1 for name in "abc"},
}
