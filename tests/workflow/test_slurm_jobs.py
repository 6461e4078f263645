"""Jobs of a study in Slurm's queue, read from a made-up squeue."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from common.errors import UserError
from tests.commands import program
from workflow.jobs import JOB_KINDS, Job, Workflow, by_marker, save
from workflow.slurm_jobs import (
    cancelled_numbers,
    comment_of,
    died_early,
    live_jobs,
    minutes_of,
    prefix_of,
    queued_jobs,
    read_live,
    refuse_cancelled,
    settle,
    wait_command,
    write_live,
)

CELL = Job(kind=JOB_KINDS["shards"], name="m/sst2", makes=("made.txt",))
STAGE = Job(kind=JOB_KINDS["stage"], name="trunk", makes=("trunk",))
JOBS = by_marker([CELL, STAGE])


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `squeue` that prints a file."""
    made = program(tmp_path / "bin/squeue", f"cat {tmp_path}/rows || exit 1")
    monkeypatch.setenv("PATH", f"{made.parent}:/usr/bin:/bin")
    return tmp_path / "rows"


def test_jobs_are_known_by_their_comments(squeue: Path, tmp_path: Path) -> None:
    mine = prefix_of(tmp_path)
    rows = (
        f"11|RUNNING|None|1-02:03:00|{mine}_uuid|rule_shards_wildcards_m_sst2\n"
        f"12|PENDING|Priority|0:00|{mine}_uuid|rule_stage_wildcards_trunk\n"
        "13|RUNNING|None|0:10|other-00_uuid|rule_stage_wildcards_trunk\n"
        f"14|COMPLETED|None|0:10|{mine}_uuid|rule_stage_wildcards_trunk\n"
    )
    squeue.write_text(rows)
    assert [job.number for job in queued_jobs(tmp_path)] == ["11", "12"]
    found = live_jobs(JOBS, tmp_path)
    assert {marker: job.number for marker, job in found.items()} == {
        CELL.marker: "11",
        STAGE.marker: "12",
    }
    assert (
        found[CELL.marker].minutes == 26 * 60 + 3
        and found[STAGE.marker].reason == "Priority"
    )
    squeue.write_text(rows + f"15|PENDING|Priority|0:00|{mine}_uuid|\n")
    with pytest.raises(
        UserError, match=r"of another target in .* still queued or running \(15\)"
    ):
        live_jobs(JOBS, tmp_path)


EARLY = """
SNAKEMAKE
Building DAG of jobs...
Reason: Forced execution
srun: cluster configuration lacks support for cpu binding
Reason: Forced execution
/usr/bin/bash: line 1: module: command not found
RuleException:
CalledProcessError in file "Snakefile", line 66:
"""
BROKEN = "ImportError: libstdc++.so.6: version `GLIBCXX_3.4.30' not found\n"


@pytest.mark.parametrize(
    ("text", "rows", "attempt", "said"),
    [
        (EARLY, "", "", "job 15: /usr/bin/bash: line 1: module: command not found ("),
        (
            EARLY + "slurmstepd: error: Detected 1 oom_kill event\n",
            "",
            "",
            "not found | slurmstepd: error: Det",
        ),
        (f"Traceback:\n{BROKEN}", "", "", "GLIBCXX_3.4.30' not found ("),
        (EARLY, "", '{"slurm": "15"}\n', None),
        (
            None,
            "FAILED|JobLaunchFailure",
            "",
            "job 16: Slurm says FAILED, JobLaunchFailure",
        ),
        (
            EARLY,
            "FAILED|JobLaunchFailure",
            "",
            "job 16: Slurm says FAILED, JobLaunchFailure",
        ),
        (None, "COMPLETED|None", "", None),
        (None, "CANCELLED|PartitionDown", "", None),
        (None, "", "", None),
    ],
)
def test_what_died_before_its_commands_is_said(
    squeue: Path,
    tmp_path: Path,
    text: str | None,
    rows: str,
    attempt: str,
    said: str | None,
) -> None:
    if text is not None:
        log = tmp_path / "logs/slurm/rule_shards/m_sst2/15.log"
        log.parent.mkdir(parents=True)
        log.write_text(text)
    (tmp_path / CELL.attempts).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / CELL.attempts).write_text(attempt)
    row = (
        f"16|{rows}|0:00|{prefix_of(tmp_path)}_uuid|rule_shards_wildcards_m_sst2\n"
        if rows
        else ""
    )
    squeue.write_text(row)
    found = died_early([CELL, STAGE], tmp_path)
    assert found.keys() == ({CELL.marker} if said else set()) and (
        said or ""
    ) in found.get(CELL.marker, "")


def test_a_slurm_that_does_not_answer_stops_the_call(
    squeue: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="squeue does not answer"):
        live_jobs(JOBS, tmp_path)


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


def test_comments_are_those_of_snakemakes_executor() -> None:
    from types import SimpleNamespace

    from snakemake_executor_plugin_slurm.utils import get_job_wildcards

    wildcards = get_job_wildcards(SimpleNamespace(wildcards=[CELL.name]))
    assert comment_of(CELL) == f"rule_shards_wildcards_{wildcards}"


def test_waiting_ends_with_the_job_and_succeeds_when_its_work_is_there(
    squeue: Path, tmp_path: Path
) -> None:
    running = f"11|RUNNING|None|0:10|{prefix_of(tmp_path)}_uuid|rule_shards_wildcards_m_sst2\n"
    squeue.write_text(running)
    found = live_jobs(JOBS, tmp_path)
    save(Workflow(target="all", jobs=JOBS), tmp_path)
    write_live(tmp_path, found)
    assert read_live(tmp_path) == {CELL.marker: "11"}
    command = ["bash", "-c", wait_command("11", CELL.marker)]
    environ = {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
    for complete, code in ((False, 1), (True, 0)):
        squeue.write_text(running)
        write_live(tmp_path, found)
        process = subprocess.Popen(command, cwd=tmp_path, env=environ)
        time.sleep(1)
        assert process.poll() is None
        if complete:
            (tmp_path / "made.txt").touch()
        squeue.write_text("")
        settle(JOBS, tmp_path)
        assert process.wait(60) == code
        assert (tmp_path / CELL.marker).is_file() == complete
    write_live(tmp_path, {})
    assert read_live(tmp_path) == {}


def test_a_job_that_somebody_cancelled_is_refused_and_one_cancelled_before_the_call_is_not(
    squeue: Path, tmp_path: Path
) -> None:
    mine = prefix_of(tmp_path)
    squeue.write_text(
        f"7|CANCELLED|None|0:10|{mine}_old|rule_shards_wildcards_m_sst2\n"
        f"8|PREEMPTED|None|0:10|{mine}_new|rule_shards_wildcards_m_sst2\n"
        f"9|CANCELLED|None|0:00|{mine}_new|rule_stage_wildcards_trunk\n"
        f"10|RUNNING|None|0:00|{mine}_new|rule_stage_wildcards_trunk\n"
        f"11|RUNNING|None|0:00|{mine}_new|rule_shards_wildcards_m_sst2\n"
    )
    assert cancelled_numbers(tmp_path) == {"7", "9"}
    settle(JOBS, tmp_path, before={"7"})
    assert not (tmp_path / CELL.refused).exists()
    assert (
        "Slurm job 9 was cancelled; the next run starts"
        in (tmp_path / STAGE.refused).read_text()
    )
    refuse_cancelled(CELL, tmp_path, "11")
    with pytest.raises(UserError, match="Slurm job 9 was cancelled"):
        refuse_cancelled(STAGE, tmp_path, "10")
    # Put back into the queue by Slurm, a job keeps its number.
    refuse_cancelled(STAGE, tmp_path, "9")
    squeue.unlink()
    refuse_cancelled(STAGE, tmp_path, "10")
