"""A controller that is killed, asked to end or left alone, jobs that are put back: on a Slurm of one's own.

Jobs take seconds and write down each thing they do (`stand_ins.apptainer`), so that what was repeated can be counted.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from common.provenance import ROOT
from tests.workflow.stand_ins.apptainer import CONTENT
from tests.workflow.stand_ins.slurm import PrivateSlurm, private_slurm, why_not

pytestmark = [
    pytest.mark.slow,
    pytest.mark.slurm,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

STUDY = """
import logging, sys
from pathlib import Path
from common.errors import UserError
from workflow.engine import run_workflow
from workflow.jobs import KINDS, Job, Workflow, by_marker
from workflow.settings import load_settings
from workflow.study import workflow_of

logging.basicConfig(level=logging.INFO)
folder, limit = Path(sys.argv[1]), float(sys.argv[2])
size = dict(gpus=2, cpus=2, memory_gb=0.5)
# At a site: what its profile asks for, with a stage on one GPU, so that there is a job of each kind.
site = workflow_of("610m-clm-42k", load_settings(Path(sys.argv[3]))) if sys.argv[3] else None
first = Job(kind=KINDS["shards"], name="shards", commands=(("analysis", "shards"),), makes=("shards",), memory_gb=0.5)
stage = Job(
    kind=KINDS["stage"], name="s", commands=(("pretraining", "train", "s", "--stop-file", "logs/stage/s.stop"),),
    checkpoints="pretraining/stages/s/step-*/state.json", makes=("pretraining/stages/s/done",),
    needs=(first.marker,), limit_hours=limit, **size | (dict(gpus=1) if site else {}),
)
packs = [
    Job(kind=KINDS["pack"], name=name, commands=(("benchmarks", "run", "--name", name, "--workers", "2"),),
        makes=tuple(f"results/{name}/{number}" for number in range(8)), needs=(first.marker,), **size)
    for name in ("a", "b", "c")
]
last = Job(
    kind=KINDS["analysis"], name="all", commands=(("analysis", "tables"),), makes=("tables",),
    needs=tuple(job.marker for job in (stage, *packs)), memory_gb=0.5,
)
asked = {} if site is None else {
    name: getattr(site, name) for name in ("queues", "gres", "modules", "environ", "binds")
}
workflow = Workflow(target="all", jobs=by_marker([first, stage, *packs, last]), image=str(folder / "x.sif"), **asked)
often = ("--slurm-init-seconds-before-status-checks", "3", "--seconds-between-status-checks", "3")
try:
    sys.exit(not run_workflow(workflow, folder, profile="slurm", words=often))
except UserError as error:
    sys.exit(f"error: {error}")
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A scratch of four megabytes, there before Slurm's nodes are, which see no later mounts."""
    folder = tmp_path_factory.mktemp("small")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "small", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(scope="module")
def slurm(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateSlurm]:
    with private_slurm(tmp_path_factory.mktemp("slurm") / "cluster") as made:
        yield made


class Study:
    """A study's folder and its calls."""

    def __init__(
        self, slurm: PrivateSlurm, folder: Path, limit: float = 0.5, *, settings: str = "", notes: Path | None = None
    ) -> None:
        self.slurm, self.folder, self.limit, self.settings = slurm, folder, limit, settings
        self.notes = notes or folder
        self.before = len(slurm.jobs())
        program = folder / "bin" / "apptainer"
        program.parent.mkdir(parents=True)
        stand_in = Path(__file__).with_name("stand_ins") / "apptainer.py"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{stand_in}" "$@"\n')
        program.chmod(0o755)
        (folder / "x.sif").touch()
        self.environ = slurm.environ | {
            "PYTHONPATH": str(ROOT),
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "CLM_OR_MLM_SCRATCH": str(folder),
            "STAND_IN_EVENTS": str(self.notes / "events"),
        }

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", STUDY, str(self.folder), str(self.limit), self.settings]
        with (self.notes / "out").open("ab") as sink:
            return subprocess.Popen(command, env=self.environ, cwd=ROOT, stdout=sink, stderr=sink)

    def text(self) -> str:
        return (self.notes / "out").read_text()

    def events(self, *what: str) -> list[list[str]]:
        path = self.notes / "events"
        rows = [line.split() for line in path.read_text().splitlines()] if path.is_file() else []
        return [row for row in rows if row[0] in what]

    def wait_until(self, done: Callable[[], object], process: subprocess.Popen[bytes] | None = None) -> None:
        end = time.monotonic() + 240
        while not done():
            assert process is None or process.poll() is None, self.text()[-5000:]
            assert time.monotonic() < end, self.text()[-5000:]
            time.sleep(0.2)

    def finish(self, process: subprocess.Popen[bytes]) -> None:
        assert process.wait(700) == 0, self.text()[-6000:]
        assert (self.folder / "tables").is_file()

    def submitted(self) -> dict[str, int]:
        """Return how many Slurm jobs there were of each of the study's."""
        comments = [row["Comment"].removeprefix("rule_") for row in self.slurm.jobs()[self.before :]]
        return dict(collections.Counter(comments))

    def restarted(self) -> list[str]:
        """Return what Slurm has put back into its queue, once for each time."""
        return [row["Comment"] for row in self.slurm.jobs()[self.before :] for _ in range(int(row["Restarts"]))]

    def repeated(self) -> tuple[int, int]:
        """Return how many runs were begun again, and how many that were finished were."""
        begun = collections.Counter(row[1] for row in self.events("begin"))
        finished = collections.Counter(row[1] for row in self.events("finish"))
        assert set(finished) == {f"{name}/{number}" for name in "abc" for number in range(8)}
        return sum(begun.values()) - 24, sum(finished.values()) - 24


ONCE = {
    "shards_wildcards_shards": 1, "stage_wildcards_s": 1, "analysis_wildcards_all": 1,
    **{f"pack_wildcards_{name}": 1 for name in "abc"},
}  # fmt: skip


def _controller(process: subprocess.Popen[bytes]) -> int | None:
    """Return the number of the Snakemake that a call has started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for child in map(int, children):
        if b"snakemake" in Path(f"/proc/{child}/cmdline").read_bytes():
            return child
    return None


def _gone(number: int) -> bool:
    try:
        return "zombie" in Path(f"/proc/{number}/status").read_text()
    except OSError:
        return True


def test_left_alone_every_job_is_submitted_once(slurm: PrivateSlurm, tmp_path: Path) -> None:
    study = Study(slurm, tmp_path)
    study.finish(study.start())
    assert study.submitted() == ONCE
    assert study.repeated() == (0, 0)
    again = study.start()
    assert again.wait(120) == 0 and "Nothing to be done" in study.text()


@pytest.mark.parametrize("how", ["kill the call", "end the call", "interrupt the call"])
def test_jobs_outlive_the_call_and_the_next_waits_for_them(
    slurm: PrivateSlurm, tmp_path: Path, how: str
) -> None:
    study = Study(slurm, tmp_path)
    first = study.start()
    study.wait_until(lambda: len(study.events("finish")) > 1, first)
    controller = _controller(first)
    assert controller is not None
    # A second call meanwhile is refused, and changes nothing.
    second = study.start()
    assert second.wait(60) == 1 and f"(process {first.pid} on host" in study.text()
    number = {"kill the call": signal.SIGKILL, "end the call": signal.SIGTERM}.get(how, signal.SIGINT)
    first.send_signal(number)
    assert first.wait(30) == (-number if number == signal.SIGKILL else 128 + number)
    study.wait_until(lambda: _gone(controller))
    assert ("live on" in study.text()) == (number != signal.SIGKILL)
    live = slurm.output("squeue", "-h", "-o", "%i").split()
    assert live
    third = study.start()
    study.finish(third)
    assert study.submitted() == ONCE
    assert study.repeated() == (0, 0)
    assert "of an earlier call are queued or running and are waited for" in study.text()


def test_a_killed_controller_is_started_again_by_its_call(slurm: PrivateSlurm, tmp_path: Path) -> None:
    study = Study(slurm, tmp_path)
    call = study.start()
    study.wait_until(lambda: study.events("begin"), call)
    controller = _controller(call)
    assert controller is not None
    os.kill(controller, signal.SIGKILL)
    study.finish(call)
    assert "snakemake was killed (SIGKILL); starting it again" in study.text()
    assert study.submitted() == ONCE
    assert study.repeated() == (0, 0)


def test_put_back_drained_and_cancelled_jobs_lose_a_run_a_gpu(slurm: PrivateSlurm, tmp_path: Path) -> None:
    study = Study(slurm, tmp_path)
    call = study.start()

    def running(name: str) -> str:
        found: list[str] = []

        def look() -> bool:
            rows = [
                line.split("|")
                for line in slurm.output("squeue", "-h", "-t", "R", "-o", "%i|%k").splitlines()
            ]
            found[:] = [number for number, comment in rows if comment == f"rule_pack_wildcards_{name}"]
            mine = [row for row in study.events("finish") if row[1].startswith(f"{name}/")]
            return bool(found) and bool(mine)

        study.wait_until(look, call)
        return found[0]

    # As after preemption; then a node that is taken away; then a user's scancel.
    slurm.output("scontrol", "requeue", running("a"))
    number = running("b")
    node = next(row["NodeList"] for row in slurm.jobs() if row["JobId"] == number)
    slurm.output("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
    slurm.output("scontrol", "requeue", number)
    slurm.output("scancel", running("c"))
    time.sleep(3)
    slurm.output("scontrol", "update", f"NodeName={node}", "State=RESUME")
    study.finish(call)
    assert study.submitted() == ONCE | {"pack_wildcards_c": 2}
    begun, finished = study.repeated()
    # Three jobs were stopped, with two stand-ins for GPUs each.
    assert begun <= 6 and finished == 0


def test_a_time_limit_is_met_and_no_step_that_was_saved_is_repeated(
    slurm: PrivateSlurm, tmp_path: Path
) -> None:
    study = Study(slurm, tmp_path, limit=0.0051)  # a minute, of which six seconds are for saving
    study.environ["STAND_IN_STEPS"] = "90"
    study.finish(study.start())
    (stage,) = (
        row
        for row in slurm.jobs()
        if row["Comment"] == "rule_stage_wildcards_s" and row["WorkDir"] == str(tmp_path)
    )
    steps = [int(row[2]) for row in study.events("step")]
    resumed = [int(row[2]) for row in study.events("resume")]
    assert int(stage["Restarts"]) == len(resumed) - 1 >= 1
    assert steps == list(range(1, 91))
    assert all(after > before for before, after in itertools.pairwise(resumed))
    assert study.repeated() == (0, 0)


def test_a_full_scratch_stops_the_study_and_the_same_call_finishes_it(
    slurm: PrivateSlurm, small: Path, tmp_path: Path
) -> None:
    study = Study(slurm, small / "study", notes=tmp_path)
    call = study.start()
    study.wait_until(lambda: len(study.events("finish")) > 2, call)
    filler = small / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    assert call.wait(400) != 0, study.text()[-5000:]
    before = {row[1] for row in study.events("finish")}
    assert 2 < len(before) < 24, "the space ended too late to be missed"
    filler.unlink()
    study.finish(study.start())
    begun, finished = study.repeated()
    # Each job that was stopped loses at most a run a stand-in.
    stopped = sum(study.submitted().values()) - 6 + len(study.restarted())
    assert finished == 0 and begun <= 2 * max(stopped, 3)
    assert {path.read_text() for path in (study.folder / "results").glob("*/[0-9]")} == {CONTENT}


SITES = {
    "generic": {"cpu": "main", "gpu": "main", "gpus": "main"},
    "whole-node": {"cpu": "main", "gpu": "main exclusive", "gpus": "main exclusive"},
    "gres-by-name": {"cpu": "main", "gpu": "main", "gpus": "main"},
    "jean-zay": {
        "cpu": "cpu_p1 abc@cpu",
        "gpu": "main abc@h100 h100 qos_gpu_h100-t3",
        "gpus": "main abc@h100 h100 qos_gpu_h100-t3",
    },
    "lumi": {"cpu": "small abc", "gpu": "small-g abc", "gpus": "standard-g abc exclusive"},
    "adastra": {"cpu": "main abc GENOA", "gpu": "main abc MI250 exclusive", "gpus": "main abc MI250 exclusive"},
}
"""What a site's profile asks for, by kind of job: partition, then account, feature, quality and whole nodes."""


@pytest.mark.parametrize("name", SITES)
def test_the_study_with_each_sites_profile(slurm: PrivateSlurm, tmp_path: Path, name: str) -> None:
    """What differs from the site: jobs are small, folders are here, and `module` only writes down what is loaded."""
    account = "abc" if "abc" in str(SITES[name]) else "abc@h100"
    (tmp_path / "site.toml").write_text(
        f'base = "{name}"\n[settings]\ngpus_per_node = 2\ntuning_gpus = 2\ncpus = 1\nmemory_gb = 0.5\n'
        '[environment]\nCLM_OR_MLM_SCRATCH = "$STAND_IN_SCRATCH"\n'
    )
    settings = tmp_path / "w.toml"
    settings.write_text(f'site = "site.toml"\naccount = "{account}"\n')
    study = Study(slurm, tmp_path / "study", settings=str(settings))
    module = study.folder / "bin" / "module"
    module.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/modules\n')
    module.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    study.environ |= dict.fromkeys(("STAND_IN_SCRATCH", "SCRATCH", "WORK", "SCRATCHDIR", "WORKDIR"), str(scratch))
    study.finish(study.start())
    assert study.submitted() == ONCE
    assert study.repeated() == (0, 0)
    rows = {row["Comment"].removeprefix("rule_"): row for row in slurm.jobs()[study.before :]}
    for marker, kind in (("shards_wildcards_shards", "cpu"), ("stage_wildcards_s", "gpu"), ("pack_wildcards_a", "gpus")):
        row = rows[marker]
        found = [row["Partition"], row["Account"], row["Features"], row["QOS"]]
        found += ["exclusive"] if row["OverSubscribe"] == "NO" else []
        partition, *more = SITES[name][kind].split()
        assert row["Partition"] == partition
        assert set(more) - {"exclusive"} <= set(found) and ("exclusive" in more) == ("exclusive" in found), row
        gpus = {"cpu": "", "gpu": "1", "gpus": "2"}[kind]
        gres = "gres:gpu:h100" if name == "gres-by-name" else "gres:gpu"
        assert row.get("TresPerNode", "") == (f"{gres}:{gpus}" if gpus else "")
    loaded = (tmp_path / "modules").read_text().splitlines() if (tmp_path / "modules").is_file() else []
    assert set(loaded) == ({"load arch/h100 singularity"} if name == "jean-zay" else set())
