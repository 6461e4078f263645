"""What happens to a study on a Slurm of one's own, counted: no run is made twice, and none is lost.

Jobs take seconds and write down each thing they do (`stand_ins.apptainer`).
"""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import program
from tests.workflow.stand_ins.apptainer import CONTENT
from tests.workflow.stand_ins.slurm import (
    NEEDS_ACCOUNTING,
    NEEDS_SLURM,
    NODES,
    PrivateSlurm,
    private_slurm,
)
from tests.workflow.stand_ins.study import ONCE, Study
from workflow.engine import cancel

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
def cluster(
    small: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrivateSlurm]:
    with private_slurm(tmp_path_factory.mktemp("slurm") / "cluster") as made:
        yield made


@pytest.fixture
def slurm(cluster: PrivateSlurm) -> Iterator[PrivateSlurm]:
    yield cluster
    cluster.clear()


def _once(study: Study) -> None:
    assert study.submitted() == ONCE
    assert study.repeated() == (0, 0)
    text, code = study.status()
    assert code == 0, text


def test_left_alone_every_job_runs_once(slurm: PrivateSlurm, tmp_path: Path) -> None:
    study = Study(slurm, tmp_path)
    study.submit()
    text, code = study.status()
    assert "pending" in text and code == 4
    study.submit()
    assert "submitted 0, left 0" in study.text()
    study.finish()
    _once(study)
    study.submit()
    assert study.text().endswith("done\n")


def test_killed_between_two_submissions_it_is_repeated(
    slurm: PrivateSlurm, tmp_path: Path
) -> None:
    study = Study(slurm, tmp_path)
    killer = f'echo x >> {tmp_path}/calls; [ "$(wc -l < {tmp_path}/calls)" != 4 ] || kill -9 $PPID'
    program(
        tmp_path / "bin/sbatch",
        f'{shutil.which("sbatch")} "$@"; code=$?; {killer}; exit $code',
    )
    assert study.start().wait(60) == -signal.SIGKILL
    assert len(study.queued()) == 4
    study.submit()
    study.finish()
    _once(study)


def test_other_paths_of_the_folder_are_the_same_study(
    slurm: PrivateSlurm, tmp_path: Path
) -> None:
    study = Study(slurm, tmp_path / "study", notes=tmp_path)
    nodes = ("scontrol", "update", f"NodeName={','.join(NODES)}")
    slurm.output(
        *nodes, "State=DRAIN", "Reason=test"
    )  # a job that starts would miss its folder
    study.submit()
    alias, renamed = tmp_path / "alias", tmp_path / "renamed"
    alias.mkdir()
    subprocess.run(["mount", "--bind", str(study.folder), str(alias)], check=True)
    try:
        assert study.start(by=alias).wait(60) == 0
    finally:
        subprocess.run(["umount", str(alias)], check=True)
    study.folder.rename(renamed)
    assert study.start(by=renamed).wait(60) == 0
    renamed.rename(study.folder)
    slurm.output(*nodes, "State=RESUME")
    assert study.text().count("submitted 0, left 0") == 2
    study.finish()
    _once(study)


def test_another_users_jobs_refuse_a_start(slurm: PrivateSlurm) -> None:
    """As of a colleague who finishes a study in a group's folder."""
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o777)
        (folder / "study").mkdir()
        (folder / "study").chmod(0o777)
        shutil.copytree(
            slurm.folder / "etc",
            folder / "etc",
            ignore=shutil.ignore_patterns("slurmdbd.conf"),
        )
        study = Study(slurm, folder / "study")
        study.submit()
        (folder / "study/out").chmod(0o666)
        study.environ |= {
            "SLURM_CONF": str(folder / "etc/slurm.conf"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        colleague = study.start(
            through=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        )
        assert colleague.wait(60) == 1
        assert "jobs of root work in" in study.text()
        study.finish()
        _once(study)
    finally:
        shutil.rmtree(folder)


def test_a_queue_that_shows_nothing_is_not_believed(
    slurm: PrivateSlurm, tmp_path: Path
) -> None:
    study = Study(slurm, tmp_path)
    study.environ["STAND_IN_SECONDS"] = "3"
    study.submit()
    study.wait_until(lambda: study.events("begin"))
    blind = [
        program(tmp_path / "bin/squeue", ""),
        program(tmp_path / "bin/sacct", "exit 1"),
    ]
    assert study.start().wait(60) == 1
    assert "has no end, but squeue does not show it" in study.text()
    text, code = study.status()
    assert (
        "unknown     what runs or waits" in text
        and "failed  " not in text.partition("\n\n")[2]
        and code == 4
    )
    blind[0].unlink()
    study.environ["PATH"] = f"{tmp_path}/bin:{Path(sys.executable).parent}:/no/slurm"
    text, code = study.status()
    assert "Slurm's queue cannot be seen from here" in text and code == 4
    study.environ["PATH"] = os.environ["PATH"]
    study.finish()
    _once(study)


def _running(study: Study, used: list[str]) -> str:
    """Return the number of a running pack that has finished a run, of another one each time."""
    found: list[list[str]] = []

    def look() -> bool:
        text = study.slurm.output("squeue", "-h", "-t", "R", "-o", "%i|%k")
        rows = [
            line.split("|done/cell/") for line in text.splitlines() if "/cell/" in line
        ]
        begun = {row[1][0] for row in study.events("finish")}
        found[:] = [row for row in rows if row[1][0] in begun and row[1] not in used]
        return bool(found)

    study.wait_until(look)
    used.append(found[0][1])
    return found[0][0]


def test_put_back_drained_and_cancelled_jobs_lose_a_run_a_gpu(
    slurm: PrivateSlurm, tmp_path: Path
) -> None:
    study = Study(slurm, tmp_path)
    study.environ["STAND_IN_SECONDS"] = "3"
    study.submit()
    used: list[str] = []
    # As after preemption; then a node that is taken away; then a user's scancel.
    slurm.output("scontrol", "requeue", _running(study, used))
    number = _running(study, used)
    node = next(row["NodeList"] for row in slurm.jobs() if row["JobId"] == number)
    slurm.output("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
    slurm.output("scontrol", "requeue", number)
    slurm.output("scancel", _running(study, used))
    time.sleep(3)
    slurm.output("scontrol", "update", f"NodeName={node}", "State=RESUME")
    study.wait_until(lambda: not study.queued(), seconds=400)
    # What somebody has cancelled, and what needs it, does not come back by itself.
    assert study.submitted() == ONCE
    text, code = study.status()
    assert (
        f"failed      done/cell/{used[2]}" in text and "CANCELLED" in text and code == 3
    )
    study.submit()
    study.finish()
    submitted = study.submitted()
    assert (
        submitted.pop(f"done/cell/{used[2]}")
        == submitted.pop("done/analysis/all.json")
        == 2
    )
    assert submitted == dict.fromkeys(submitted, 1)
    begun, finished = study.repeated()
    # Three jobs were stopped, with two stand-ins for GPUs each.
    assert begun <= 6 and finished == 0


def test_a_killed_command_is_started_again_in_its_job(
    slurm: PrivateSlurm, tmp_path: Path
) -> None:
    study = Study(slurm, tmp_path)
    study.environ["STAND_IN_SECONDS"] = "2"
    study.submit()
    number = _running(study, [])
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            is_job = f"SLURM_JOB_ID={number}".encode() in (
                process / "environ"
            ).read_bytes().split(b"\0")
            if is_job and any(word.endswith(b"apptainer.py") for word in words):
                os.kill(int(process.name), signal.SIGKILL)
    study.finish()
    assert study.submitted() == ONCE
    assert len(study.restarted()) == 1
    begun, finished = study.repeated()
    assert 0 < begun <= 2 and finished == 0


def test_preempted_training_goes_on(slurm: PrivateSlurm, tmp_path: Path) -> None:
    study = Study(slurm, tmp_path)
    study.submit()
    study.wait_until(lambda: len(study.events("step")) > 3)
    # A partition of higher priority takes both nodes.
    urgent = (
        "-p",
        "urgent",
        "-N",
        "2",
        "--exclusive",
        "--comment=urgent",
        "-o",
        "/dev/null",
    )
    slurm.output("sbatch", *urgent, "--wrap", "sleep 5")
    study.finish()
    assert study.submitted() == {**ONCE, "urgent": 1}
    assert study.restarted()
    steps = [int(row[2]) for row in study.events("step")]
    assert sorted(set(steps)) == list(range(1, 25))


def test_at_a_time_limit_no_step_that_was_saved_is_repeated(
    slurm: PrivateSlurm, tmp_path: Path
) -> None:
    study = Study(
        slurm, tmp_path, limit=0.0051
    )  # a minute, of which six seconds are for saving
    study.environ["STAND_IN_STARTS"] = "4"
    study.submit()
    study.finish()
    (stage,) = (
        row
        for row in slurm.jobs()[study.before :]
        if row["Comment"] == "done/stage/s.json"
    )
    steps = [int(row[2]) for row in study.events("step")]
    resumed = [int(row[2]) for row in study.events("resume")]
    assert int(stage["Restarts"]) == len(resumed) - 1 == 3
    assert steps == list(range(1, len(steps) + 1))
    assert all(after > before for before, after in itertools.pairwise(resumed))
    _once(study)


@contextlib.contextmanager
def _limited(slurm: PrivateSlurm, most: int, where: str) -> Iterator[None]:
    words = ("sacctmgr", "-i", "modify")
    limit = {
        "qos": ("qos", "normal", "set", "MaxSubmitJobsPerUser"),
        "partition": ("qos", "of-partition", "set", "MaxSubmitJobsPerUser"),
        "user": ("user", "root", "set", "MaxSubmitJobs"),
    }[where]
    slurm.output(*words, *limit[:-1], f"{limit[-1]}={most}")
    try:
        yield
    finally:
        slurm.output(*words, *limit[:-1], f"{limit[-1]}=-1")


@NEEDS_ACCOUNTING
@pytest.mark.parametrize(
    ("most", "where"),
    [(2, "qos"), (2, "user"), (5, "user"), (2, "partition"), (5, "partition")],
)
def test_what_has_no_place_in_the_queue_is_submitted_later(
    slurm: PrivateSlurm, tmp_path: Path, most: int, where: str
) -> None:
    study = Study(slurm, tmp_path)
    with _limited(slurm, most, where):
        study.submit()
        assert len(study.queued()) == most
        text, code = study.status()
        assert "jobs have no place in Slurm's queue; Slurm job" in text and code == 4
        study.submit()  # a repeat changes nothing
        study.finish()
    assert study.submitted() == {**ONCE, "submits": 1}
    assert study.repeated() == (0, 0)


@NEEDS_ACCOUNTING
def test_a_busy_controller_is_asked_again(slurm: PrivateSlurm, tmp_path: Path) -> None:
    """It takes a job of the submitting job's and answers too late."""
    study = Study(slurm, tmp_path)
    late = "sbatch: error: Batch job submission failed: Socket timed out"
    count = f"echo x >> {tmp_path}/taken; wc -l < {tmp_path}/taken"
    program(
        tmp_path / "bin/sbatch",
        f'answer=$({shutil.which("sbatch")} "$@") || exit $?\n'
        f'[ "$({count})" != 4 ] || {{ echo "{late}" >&2; exit 1; }}\necho "$answer"',
    )
    with _limited(slurm, 2, "user"):
        study.submit()
        study.finish()
    assert late in study.logs()
    assert study.submitted() == {**ONCE, "submits": 1}
    assert study.repeated() == (0, 0)


@NEEDS_ACCOUNTING
def test_a_limit_of_one_job_is_said(slurm: PrivateSlurm, tmp_path: Path) -> None:
    study = Study(slurm, tmp_path)
    with _limited(slurm, 1, "qos"):
        assert study.start().wait(60) == 1
        assert (
            "takes one job of yours at a time" in study.text()
            and "--profile local" in study.text()
        )
        assert not study.queued()


def cancel_of(study: Study) -> None:
    before = dict(os.environ)
    os.environ.update(study.environ)
    try:
        cancel(study.folder)
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_max_jobs_is_kept(slurm: PrivateSlurm, tmp_path: Path) -> None:
    study = Study(slurm, tmp_path)
    study.environ["STAND_IN_MAX_JOBS"] = "3"
    study.submit()
    most = []
    while queued := study.queued():
        most.append(len(queued))
        time.sleep(1)
    assert max(most) == 3
    study.finish()
    assert study.repeated() == (0, 0)
    assert study.submitted() == {**ONCE, "submits": 1}


def test_lines_of_a_site_are_no_numbers(slurm: PrivateSlurm, tmp_path: Path) -> None:
    study = Study(slurm, tmp_path)
    banner = "echo '1200 GPU hours left of project 7'; echo 2 nodes are down >&2"
    program(
        tmp_path / "bin/sbatch",
        f'{banner}; {shutil.which("sbatch")} "$@"; code=$?; {banner}; exit $code',
    )
    study.submit()
    study.finish()
    _once(study)


def test_cancel_ends_what_is_queued_and_a_repeat_goes_on(
    slurm: PrivateSlurm, tmp_path: Path
) -> None:
    study = Study(slurm, tmp_path)
    study.submit()
    study.wait_until(lambda: len(study.events("finish")) > 1)
    cancel_of(study)
    study.wait_until(lambda: not study.queued())
    study.submit()
    study.finish()
    begun, finished = study.repeated()
    assert begun <= 6 and finished == 0


def test_a_study_on_a_full_scratch_is_finished_by_the_same_call(
    slurm: PrivateSlurm, small: Path, tmp_path: Path
) -> None:
    study = Study(slurm, small / "study", notes=tmp_path)
    study.submit()
    study.wait_until(lambda: len(study.events("finish")) > 2)
    filler = small / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    study.wait_until(lambda: not study.queued(), seconds=400)
    before = {row[1] for row in study.events("finish")}
    assert 2 < len(before) < 24, "the space ended too late to be missed"
    filler.unlink()
    study.submit()
    study.finish()
    begun, finished = study.repeated()
    assert finished == 0 and begun <= 2 * (3 + len(study.restarted()))
    assert {
        path.read_text() for path in (study.folder / "results").glob("*/[0-9]")
    } == {CONTENT}


@pytest.mark.parametrize(
    "accounting", [pytest.param(True, marks=NEEDS_ACCOUNTING), False]
)
def test_a_slurm_that_forgets_at_once(tmp_path: Path, accounting: bool) -> None:
    """A job that somebody cancelled is soon nowhere to be seen; the next call does it."""
    with private_slurm(
        tmp_path / "cluster", min_job_age=2, accounting=accounting
    ) as slurm:
        study = Study(slurm, tmp_path / "study")
        study.environ["STAND_IN_SECONDS"] = "2"
        study.submit()
        number = _running(study, [])
        slurm.output("scancel", number)
        study.wait_until(lambda: not study.queued(), seconds=400)
        time.sleep(5)
        text, code = study.status()
        assert "CANCELLED" in text and code == 3
        study.submit()
        study.finish()
        begun, finished = study.repeated()
        assert begun <= 2 and finished == 0
        assert [row[1] for row in study.events("make")] == ["shards", "tables"]
        assert study.status()[1] == 0
