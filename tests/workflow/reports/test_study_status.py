"""How far a study is, as text."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import UserError
from workflow.jobs import KINDS, Job, Workflow, by_marker, save, write_marker
from workflow.reports.study_status import (
    StudyStatus,
    critical_hours,
    hours_used,
    pace,
    share,
    status_text,
    study_status,
)
from workflow.slurm.live_jobs import LiveJob

DONE, HALF, BROKEN = (
    Job(kind=KINDS["cell"], name=f"m/{name}", makes=(f"{name}1", f"{name}2"), gpus=2, gpu_hours=4.0)
    for name in "abc"
)
TABLES = Job(
    kind=KINDS["analysis"], name="all", makes=("x",), needs=tuple(j.marker for j in (DONE, HALF, BROKEN))
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
        '{"seconds": 7200.0, "gpus": 2, "code": 75}\n{"seconds": 7200.0, "gpus": 2, "code": 0}\n{"sec'
    )
    (tmp_path / BROKEN.refused).write_text("error: no data\n")
    return tmp_path


def test_what_is_done_left_and_failed_is_counted_and_nothing_is_changed(study: Path) -> None:
    before = sorted(path.name for path in study.rglob("*"))
    found = study_status(study)
    text = status_text(found)
    total = [line.split() for line in text.splitlines() if line.startswith("all ")][-1]
    assert total[1:] == ["4", "1", "0", "0", "1", "2"]
    assert "failed      done/cell/m/c.json: error: no data" in text
    # Twice as long as planned: 2 GPUs, 4 h; half of one job and all of another are left.
    assert hours_used([DONE], study) == 8.0
    assert pace(found.workflow, study, found.todo) == {"cell": 2.0}
    assert share(HALF, study) == 0.5
    assert "8.0 GPU hours used, about 12.0 left, at the pace so far; at least 4.0 h" in text
    assert "nobody works here" in text and found.code == 3
    assert sorted(path.name for path in study.rglob("*")) == before


def test_jobs_in_the_queue_are_shown_with_why_they_wait(study: Path) -> None:
    whole = study_status(study)
    live = {
        HALF.marker: LiveJob(number="7", state="RUNNING", reason="None", comment="", minutes=3.0),
        BROKEN.marker: LiveJob(number="8", state="PENDING", reason="Priority", comment="", minutes=0.0),
    }
    found = StudyStatus(
        workflow=whole.workflow,
        folder=study,
        caller="process 1 on host x",
        todo=whole.todo,
        live=live,
        failed={},
    )
    text = status_text(found)
    assert "running           7  cell m/b for 3 min of" in text
    assert "pending           8  cell m/c, Priority" in text
    assert "process 1 on host x works here" in text and found.code == 4


def test_a_folder_without_a_study_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no study; name its folder"):
        study_status(tmp_path)


@given(st.data())
def test_the_longest_of_all_chains_counts(data: st.DataObject) -> None:
    size = data.draw(st.integers(0, 6))
    needs = {n: tuple(m for m in range(n) if data.draw(st.booleans())) for n in range(size)}
    jobs = [
        Job(
            kind=KINDS["stage"], name=str(n), needs=tuple(f"done/stage/{m}.json" for m in (*needs[n], "gone"))
        )
        for n in range(size)
    ]
    hours = {job.marker: float(data.draw(st.integers(1, 9))) for job in jobs}
    chains = [0.0]
    for length in range(1, size + 1):
        for chain in itertools.combinations(range(size), length):
            if all(first in needs[second] for first, second in itertools.pairwise(chain)):
                chains.append(sum(hours[jobs[n].marker] for n in chain))
    assert critical_hours(jobs, hours) == max(chains)
