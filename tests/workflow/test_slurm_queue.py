"""Jobs of a study in Slurm's queue, read from a made-up squeue."""

import json
import os
import pwd
import time
from pathlib import Path

import pytest

from common.errors import UserError
from tests.commands import program
from workflow.engine import cancel
from workflow.jobs import JOB_KINDS, Job, Workflow, by_marker, save
from workflow.slurm_queue import (
    Queue,
    allocation_seconds,
    make_id,
    minutes_of,
    read_queue,
    refuse_start,
    unseen_attempts,
)

CELL = Job(kind=JOB_KINDS["shards"], name="m/sst2", makes=("made.txt",))
STAGE = Job(kind=JOB_KINDS["stage"], name="trunk", makes=("trunk",))
JOBS = by_marker([CELL, STAGE])
ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `squeue` that prints a file, for the id of a folder in which a study was submitted."""
    name = make_id(tmp_path)
    rows = f'case "$*" in *--name={name}*) cat {tmp_path}/rows || exit 1;; *) exit 1;; esac'
    made = program(tmp_path / "bin/squeue", rows)
    monkeypatch.setenv("PATH", f"{made.parent}:/usr/bin:/bin")
    program(tmp_path / "bin/sacct", "exit 1")
    return tmp_path / "rows"


def test_the_id_stays_where_the_folder_goes(tmp_path: Path) -> None:
    folder = tmp_path / "my study"
    folder.mkdir()
    name = make_id(folder)
    assert name.startswith("my-study-") and make_id(folder) == name
    folder.rename(tmp_path / "other")
    assert make_id(tmp_path / "other") == name
    (tmp_path / "third").mkdir()
    assert make_id(tmp_path / "third") != name


def test_jobs_are_known_by_their_comments(squeue: Path, tmp_path: Path) -> None:
    squeue.write_text(
        f"11|RUNNING|None|1-02:03:00|{ME}|{CELL.marker}\n"
        f"12|PENDING|Priority|0:00|{ME}|{STAGE.marker}\n"
        f"14|COMPLETED|None|0:10|{ME}|{STAGE.marker}\n"
        f"15|PENDING|Dependency|0:00|{ME}|submits\n"
    )
    queue = read_queue(JOBS, tmp_path)
    assert {marker: job.number for marker, job in queue.live.items()} == {
        CELL.marker: "11",
        STAGE.marker: "12",
    }
    assert (
        queue.live[CELL.marker].minutes == 26 * 60 + 3
        and queue.live[STAGE.marker].reason == "Priority"
    )
    assert queue.submitter and queue.submitter.number == "15" and queue.ended == {"14"}
    refuse_start(JOBS, tmp_path, queue)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            f"15|PENDING|Priority|0:00|{ME}|done/cell/x.json\n",
            r"of another target in .* \(15\)",
        ),
        (f"16|RUNNING|None|0:10|bob|{CELL.marker}\n", r"jobs of bob work in .* \(16\)"),
        ("17|PENDING|Priority|0:00|bob|submits\n", r"jobs of bob work in .* \(17\)"),
    ],
)
def test_jobs_of_others_refuse_a_start(
    squeue: Path, tmp_path: Path, row: str, said: str
) -> None:
    squeue.write_text(row)
    with pytest.raises(UserError, match=said):
        refuse_start(JOBS, tmp_path, read_queue(JOBS, tmp_path))


def test_without_a_submission_slurm_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert read_queue(JOBS, tmp_path) == Queue(ended=set(), strange=[])
    make_id(tmp_path)
    with pytest.raises(UserError, match="cannot be seen from here"):
        read_queue(JOBS, tmp_path)


def test_a_slurm_that_does_not_answer_stops_the_call(
    squeue: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="squeue does not answer"):
        read_queue(JOBS, tmp_path)


@pytest.mark.parametrize(
    ("rows", "sacct", "unseen"),
    [
        ("", "exit 1", True),
        ("", "echo '64|RUNNING'", True),
        ("", "echo '64|CANCELLED by 0'", False),
        ("", "echo '64|NODE_FAIL'", False),
        (f"64|FAILED|NonZeroExitCode|0:10|{ME}|{CELL.marker}\n", "exit 1", False),
        (f"64|RUNNING|None|0:10|{ME}|{CELL.marker}\n", "exit 1", False),
    ],
)
def test_a_job_without_an_end_is_lost_only_if_slurm_says_so(
    squeue: Path, tmp_path: Path, rows: str, sacct: str, unseen: bool
) -> None:
    squeue.write_text(rows)
    program(tmp_path / "bin/sacct", sacct)
    path = tmp_path / CELL.attempts
    path.parent.mkdir(parents=True)
    start = {"start": "2026-01-01T00:00:00+00:00", "slurm": "64", "submitted": True}
    path.write_text(json.dumps(start) + "\n")
    queue = read_queue(JOBS, tmp_path)
    found = unseen_attempts(JOBS, tmp_path, queue)
    assert [attempt.slurm for _, attempt in found] == ["64"] * unseen
    if not unseen:
        return
    with pytest.raises(UserError, match=r"Slurm job 64 .* clm-or-mlm cancel"):
        refuse_start(JOBS, tmp_path, queue)
    # Cancelled, it is known to be over.
    save(Workflow(target="all", jobs=JOBS), tmp_path)
    program(tmp_path / "bin/scancel", f'echo "$@" > {tmp_path}/cancelled')
    assert cancel(tmp_path) == ["64"] and (tmp_path / "cancelled").read_text() == "64\n"
    refuse_start(JOBS, tmp_path, queue)


@pytest.mark.parametrize(
    "why", ["Socket timed out", "Access/permission denied"], ids=["busy", "others"]
)
def test_jobs_that_are_not_ended_are_said(
    squeue: Path, tmp_path: Path, why: str
) -> None:
    squeue.write_text(f"64|RUNNING|None|0:10|bob|{CELL.marker}\n")
    save(Workflow(target="all", jobs=JOBS), tmp_path)
    program(tmp_path / "bin/scancel", f"echo {why}; exit 1")
    with pytest.raises(UserError, match=f"{why}; repeat the command"):
        cancel(tmp_path)
    # One that has ended meanwhile is no fault.
    program(tmp_path / "bin/scancel", f"echo Invalid job id; : > {squeue}; exit 1")
    assert cancel(tmp_path) == ["64"]


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("0:30", 0.5),
        ("10:00", 10),
        ("2:00:00", 120),
        ("1-00:00:00", 1440),
        ("INVALID", 0),
    ],
)
def test_slurms_durations(text: str, minutes: float) -> None:
    assert minutes_of(text) == minutes


def test_an_allocations_end_is_said_by_a_variable() -> None:
    environ = {
        "CLM_OR_MLM_ENDS": str(round(time.time()) + 600),
        "SLURM_JOB_END_TIME": "9999999999",
    }
    left, length = allocation_seconds(environ)
    assert left == pytest.approx(600, abs=5) and length == float("inf")


@pytest.mark.parametrize("banner", ["", "echo 1200 hours left of project 7 >&2; "])
def test_an_allocations_end_is_said_by_squeue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, banner: str
) -> None:
    program(tmp_path / "bin/squeue", f"{banner}echo 0:42 1:00:00")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    assert allocation_seconds({"SLURM_JOB_ID": "119"}) == (42, 3600)
