"""How far a study is, as text."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from workflow.jobs import JOB_KINDS, Job, Workflow, by_marker, save, write_marker
from workflow.slurm_queue import SlurmJob, make_id
from workflow.study import workflow_of
from workflow.study_progress import StudyProgress, progress_of, shortages
from workflow.study_settings import StudySettings

DONE, HALF, BROKEN = (
    Job(
        kind=JOB_KINDS["cell"],
        name=f"m/{name}",
        makes=(f"{name}1", f"{name}2"),
        gpus=2,
        gpu_hours=4.0,
    )
    for name in "abc"
)
TABLES = Job(
    kind=JOB_KINDS["analysis"],
    name="all",
    makes=("x",),
    needs=tuple(j.marker for j in (DONE, HALF, BROKEN)),
)
JOBS = by_marker([DONE, HALF, BROKEN, TABLES])


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One job done in twice its time, one half, one that a mistake ended; no Slurm."""
    monkeypatch.setenv("PATH", "/nowhere")
    save(Workflow(target="all", jobs=JOBS), tmp_path)
    for name in ("a1", "a2", "b1"):
        (tmp_path / name).touch()
    write_marker(DONE, tmp_path)
    (tmp_path / "logs/cell").mkdir(parents=True)
    (tmp_path / DONE.attempts).write_text(
        '{"seconds": 7200.0, "gpus": 2, "code": 75, "start": "a", "end": "x"}\n'
        '{"seconds": 7200.0, "gpus": 2, "code": 0, "start": "b", "end": "x"}\n{"sec'
    )
    (tmp_path / BROKEN.refused).write_text("error: no data\n")
    return tmp_path


def _row(progress: StudyProgress, title: str) -> list[str]:
    """Return a row's jobs, done, running, queued, failed, left, GPU hours, node hours, disk, files."""
    lines = progress.text().splitlines()[2:]
    return next(line for line in lines if line.startswith(f"{title} "))[
        len(title) :
    ].split()


def test_done_left_and_failed_are_counted_without_a_change(
    study: Path,
) -> None:
    before = sorted(path.name for path in study.rglob("*"))
    found = progress_of(study)
    assert _row(found, "all")[:6] == ["4", "1", "0", "0", "1", "2"]
    assert "failed      done/cell/m/c.json: error: no data" in found.text()
    # Of 2 GPUs, 4 h; half of one job and all of another are left.
    assert found.share(HALF) == 0.5
    assert _row(found, "all")[6:8] == ["6.0", "3.0"]
    assert "8.0 GPU hours used (node hours for jobs without GPUs)\n" in found.text()
    assert not found.caller and found.code == 3
    assert sorted(path.name for path in study.rglob("*")) == before


def test_jobs_in_the_queue_are_shown_with_why_they_wait(study: Path) -> None:
    live = {
        HALF.marker: SlurmJob(number="7", state="RUNNING", minutes=3.0),
        BROKEN.marker: SlurmJob(
            number="8", state="PENDING", reason="QOSMaxCpuPerJobLimit"
        ),
    }
    found = replace(
        progress_of(study), live=live, failed={}, caller="process 1 on host x"
    )
    assert "running           7  cell m/b for 3 min of" in found.text()
    assert (
        "pending           8  cell m/c, QOSMaxCpuPerJobLimit, for which it waits until"
        in found.text()
    )
    assert _row(found, "all")[:6] == ["4", "1", "1", "1", "0", "1"]
    assert found.code == 4


@pytest.mark.parametrize(
    ("attempt", "slurm_log", "said"),
    [
        ("", "", None),
        ("", "bash: python: cannot execute\n\n", "bash: python: cannot execute"),
        ('{"code": 1, "start": "a", "end": "b"}', "", "ended with exit code 1 ("),
        ('{"code": 75, "start": "a", "end": "b"}', "", None),
        ('{"start": "a"}', "", None),
        (
            '{"code": 1, "start": "a", "end": "b"}',
            "slurmstepd: TIME LIMIT",
            "1: slurmstepd: TIME LIMIT",
        ),
        (
            '{"code": 143, "start": "a", "end": "b", "submitted": true}',
            "CANCELLED",
            "143: CANCELLED",
        ),
    ],
)
def test_why_a_job_ended_is_said(
    study: Path, attempt: str, slurm_log: str, said: str | None
) -> None:
    path = study / HALF.attempts
    path.write_text(f"{attempt}\n")
    if slurm_log:
        (study / HALF.slurm_log).write_text(slurm_log)
    failed = progress_of(study).failed
    assert (HALF.marker in failed) == (said is not None)
    assert (said or "") in failed.get(HALF.marker, "")


def test_without_a_queue_nothing_is_called_failed(study: Path) -> None:
    make_id(study)
    found = progress_of(study)
    assert (
        "unknown     what runs or waits: Slurm's queue cannot be seen from here"
        in found.text()
    )
    assert not found.failed and found.code == 4


def test_a_running_job_shows_when_it_last_wrote(study: Path) -> None:
    live = {HALF.marker: SlurmJob(number="7", state="RUNNING", minutes=30.0)}
    found = replace(progress_of(study), live=live)
    assert "wrote" not in found.text()
    log = study / HALF.log
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()
    os.utime(log, (time.time() - 20 * 60,) * 2)
    assert "cell m/b for 30 min of 75, wrote 20 min ago" in found.text().replace(
        f"of {HALF.minutes}", "of 75"
    )


def _planned(
    folder: Path, *todo: Job, settings: StudySettings | None = None
) -> StudyProgress:
    return StudyProgress(
        workflow=workflow_of("210m-clm-42k", settings or StudySettings()),
        folder=folder,
        todo=todo,
    )


CELL, *CELLS = workflow_of("210m-clm-42k", StudySettings()).of_kind("cell")


def test_before_it_starts_jobs_are_counted_by_kind_and_in_all() -> None:
    found = _planned(Path("x"), CELL, *CELLS[:2])
    assert _row(found, "fine-tuning cells")[:6] == ["10", "7", "0", "0", "0", "3"]
    assert _row(found, "shards")[:2] == ["1", "1"]
    hours = f"{CELL.gpu_hours + sum(job.gpu_hours for job in CELLS[:2]):.1f}"
    assert _row(found, "all")[6] == _row(found, "fine-tuning cells")[6] == hours


def test_finished_runs_are_subtracted_and_shortages_are_said(
    tmp_path: Path,
) -> None:
    for path in CELL.makes[: len(CELL.makes) // 2]:
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).touch()
    assert _row(_planned(tmp_path, CELL), "all")[6] == f"{CELL.gpu_hours / 2:.1f}"
    found = shortages(_planned(tmp_path, replace(CELL, disk_bytes=1e18, files=10**15)))
    assert any("GB free, but the study needs 500,000,000 GB" in line for line in found)
    assert any(
        "more files, but the study writes 1,000,000,000,000,000" in line
        for line in found
    )
    (shards,) = workflow_of("210m-clm-42k", StudySettings()).of_kind("shards")
    (line,) = shortages(
        _planned(tmp_path, replace(shards, gpu_hours=50.0, disk_bytes=0.0, files=0))
    )
    assert line.startswith(
        "shards shards takes about 50.0 h and cannot resume, but the limit is 20 h"
    )
