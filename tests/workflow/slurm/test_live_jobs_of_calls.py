"""A controller that is killed, asked to end or left alone, jobs that are put back: on a Slurm of one's own.

Jobs take seconds and write down each thing they do (`stand_ins.apptainer`), so that what was repeated can be counted.
"""

import contextlib
import itertools
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workflow.stand_ins.apptainer import CONTENT
from tests.workflow.stand_ins.slurm import NEEDS_SLURM, PrivateSlurm, private_slurm
from tests.workflow.stand_ins.study import ONCE, Study

pytestmark = NEEDS_SLURM


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A scratch of four megabytes, there before Slurm's nodes are, which see no later mounts."""
    folder = tmp_path_factory.mktemp("small")
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "small", str(folder)], check=True
    )
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(scope="module")
def slurm(
    small: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrivateSlurm]:
    with private_slurm(tmp_path_factory.mktemp("slurm") / "cluster") as made:
        yield made


def _controller(process: subprocess.Popen[bytes]) -> int | None:
    """Return the number of the Snakemake that a call has started."""
    children = (
        Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    )
    for child in map(int, children):
        if b"snakemake" in Path(f"/proc/{child}/cmdline").read_bytes():
            return child
    return None


def _gone(number: int) -> bool:
    try:
        return "zombie" in Path(f"/proc/{number}/status").read_text()
    except OSError:
        return True


def test_left_alone_every_job_is_submitted_once(
    slurm: PrivateSlurm, tmp_path: Path
) -> None:
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
    number = {"kill the call": signal.SIGKILL, "end the call": signal.SIGTERM}.get(
        how, signal.SIGINT
    )
    first.send_signal(number)
    assert first.wait(30) == (-number if number == signal.SIGKILL else 128 + number)
    study.wait_until(lambda: _gone(controller))
    assert ("running jobs continue" in study.text()) == (number != signal.SIGKILL)
    live = slurm.output("squeue", "-h", "-o", "%i").split()
    assert live
    third = study.start()
    study.finish(third)
    assert study.submitted() == ONCE
    assert study.repeated() == (0, 0)
    assert "of an earlier run that are still queued or running" in study.text()


@pytest.mark.parametrize("most", [1, 3])
def test_a_full_submit_limit_is_waited_for_and_no_job_is_lost(
    slurm: PrivateSlurm, tmp_path: Path, most: int
) -> None:
    def limit(number: int) -> None:
        slurm.output(
            "sacctmgr",
            "-i",
            "modify",
            "qos",
            "normal",
            "set",
            f"MaxSubmitJobsPerUser={number}",
        )

    study = Study(slurm, tmp_path)
    limit(most)
    try:
        first = study.start()
        study.wait_until((tmp_path / "logs/slurm/waiting").is_file, first)
        assert len(slurm.output("squeue", "-h").splitlines()) == most
        first.kill()
        first.wait()
        study.finish(study.start())
    finally:
        limit(-1)
    assert study.submitted() == ONCE
    assert study.repeated() == (0, 0)


def test_a_killed_controller_is_started_again_by_its_call(
    slurm: PrivateSlurm, tmp_path: Path
) -> None:
    study = Study(slurm, tmp_path)
    call = study.start()
    study.wait_until(lambda: study.events("begin"), call)
    controller = _controller(call)
    assert controller is not None
    os.kill(controller, signal.SIGKILL)
    study.finish(call)
    assert "snakemake exited with code -9; checking for remaining jobs" in study.text()
    assert study.submitted() == ONCE
    assert study.repeated() == (0, 0)


def test_put_back_drained_and_cancelled_jobs_lose_a_run_a_gpu(
    slurm: PrivateSlurm, tmp_path: Path
) -> None:
    study = Study(slurm, tmp_path)
    study.environ["STAND_IN_SECONDS"] = "3"
    call = study.start()
    used: list[str] = []

    def running() -> str:
        """Return the number of a running pack that has finished a run, of another one each time."""
        found: list[list[str]] = []

        def look() -> bool:
            text = slurm.output("squeue", "-h", "-t", "R", "-o", "%i|%k")
            rows = [
                line.split("|rule_cell_wildcards_")
                for line in text.splitlines()
                if "_cell_" in line
            ]
            begun = {row[1][0] for row in study.events("finish")}
            found[:] = [row for row in rows if row[1] in begun and row[1] not in used]
            return bool(found)

        study.wait_until(look, call)
        used.append(found[0][1])
        return found[0][0]

    # As after preemption; then a node that is taken away; then a user's scancel.
    slurm.output("scontrol", "requeue", running())
    number = running()
    node = next(row["NodeList"] for row in slurm.jobs() if row["JobId"] == number)
    slurm.output("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
    slurm.output("scontrol", "requeue", number)
    slurm.output("scancel", running())
    time.sleep(3)
    slurm.output("scontrol", "update", f"NodeName={node}", "State=RESUME")
    # What somebody has cancelled is not begun again by this call, but by the next.
    assert call.wait(700) == 1, study.text()[-6000:]
    assert "was cancelled; the next run starts" in study.text() + study.logs()
    study.finish(study.start())
    submitted = study.submitted()
    assert submitted.pop(f"cell_wildcards_{used[2]}") >= 2
    assert submitted == dict.fromkeys(submitted, 1)
    begun, finished = study.repeated()
    # Three jobs were stopped, with two stand-ins for GPUs each.
    assert begun <= 6 and finished == 0


def test_a_time_limit_is_met_and_no_step_that_was_saved_is_repeated(
    slurm: PrivateSlurm, tmp_path: Path
) -> None:
    # A minute, of which six seconds are for saving
    study = Study(slurm, tmp_path, limit=0.0051)
    study.environ["STAND_IN_STEPS"] = "90"
    study.finish(study.start())
    (stage,) = (
        row
        for row in slurm.jobs()
        if row["Comment"] == "rule_stage_wildcards_s"
        and row["WorkDir"] == str(tmp_path)
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
    assert {
        path.read_text() for path in (study.folder / "results").glob("*/[0-9]")
    } == {CONTENT}
