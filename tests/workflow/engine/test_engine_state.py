import os
import shutil
from pathlib import Path

import pytest

from pretraining.plan.study_plan import plan_of
from tests.results import write_results
from tests.sealed import seal
from tests.workflow import smallest
from workflow.engine import reconcile
from workflow.jobs import Job, Workflow
from workflow.study import cell_runs, study_of, workflow_of
from workflow.study_settings import StudySettings, load_settings

TABLES = "done/analysis/all.json"

Made = tuple[Workflow, StudySettings, Path]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A toy study whose every artefact is there, as empty files."""
    settings = load_settings(smallest.SETTINGS)
    workflow = workflow_of("all", settings)
    for name in settings.needed_datasets:
        _touch(tmp_path / "data" / name / "manifest.json")
    _touch(tmp_path / "shards" / "manifest.json")
    for item in plan_of(
        tuple(study_of(settings).models.values()), study_of(settings)
    ).stages:
        for step in item.keep:
            _touch(
                tmp_path
                / "pretraining"
                / "stages"
                / item.name
                / f"step-{step:08}"
                / "state.json"
            )
    for job in workflow.of_kind("model"):
        for name in ("manifest.json", "config.json", "model.safetensors"):
            _touch(tmp_path / "pretraining" / "models" / job.name / name)
    for job in workflow.of_kind("cell"):
        for key in cell_runs(job.name, settings):
            write_results(tmp_path, key, {"validation": [1.0], "test": [1.0]})
    _touch(tmp_path / "analysis" / "all" / "reproduce.json")
    return workflow, settings, tmp_path


def _touch(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def _trunk(workflow: Workflow) -> str:
    return workflow.of_kind("stage")[0].name


def _mark_tables(made: Made) -> None:
    (made[2] / TABLES).parent.mkdir(parents=True, exist_ok=True)
    (made[2] / TABLES).touch()


def _todo(made: Made) -> list[str]:
    return [job.marker for job in reconcile(made[0], made[2])]


def test_what_is_there_is_not_done_again(made: Made) -> None:
    # Tables without a marker may be of other cells.
    assert _todo(made) == [TABLES]
    for marker, job in made[0].jobs.items():
        assert (made[2] / marker).is_file() == (not job.kind.follows)
    _mark_tables(made)
    assert _todo(made) == []


def test_tables_older_than_a_cell_are_made_again(made: Made) -> None:
    """As by a call for another target that shares the cell."""
    _todo(made)
    _mark_tables(made)
    cell = made[0].of_kind("cell")[3]
    path = made[2] / cell.marker
    later = path.stat().st_mtime_ns + 10**10
    os.utime(path, ns=(later, later))
    assert _todo(made) == [TABLES]


def test_an_empty_folder_needs_everything(tmp_path: Path) -> None:
    settings = load_settings(smallest.SETTINGS)
    workflow = workflow_of("all", settings)
    assert [job.marker for job in reconcile(workflow, tmp_path)] == list(workflow.jobs)


def test_a_deleted_run_brings_back_its_cell_and_the_tables_alone(made: Made) -> None:
    _todo(made)
    job = made[0].of_kind("cell")[0]
    key = cell_runs(job.name, made[1])[2]
    (made[2] / "results" / key.folder / "results.json").unlink()
    _mark_tables(made)
    assert _todo(made) == [job.marker, TABLES]
    assert not (made[2] / job.marker).is_file()
    assert not (made[2] / TABLES).exists()


def _fail(made: Made, number: int) -> Job:
    """Record the first run of a cell as failed."""
    job = made[0].of_kind("cell")[number]
    folder = made[2] / "results" / cell_runs(job.name, made[1])[0].folder
    (folder / "results.json").unlink(missing_ok=True)
    seal(folder, {"status": "failed", "reason": "NaN"})
    return job


def test_a_run_recorded_as_failed_is_not_done_again(made: Made) -> None:
    _fail(made, 0)
    assert _todo(made) == [TABLES]


def test_failed_runs_are_tried_again_where_that_is_asked_for(made: Made) -> None:
    jobs = [_fail(made, number) for number in (0, 3)]
    _todo(made)
    for change in (False, True):
        again = reconcile(made[0], made[2], change=change, retry_failed=True)
        assert [job.marker for job in again] == [*(job.marker for job in jobs), TABLES]
    # Their records are gone: a call that was killed and is repeated goes on with them.
    assert _todo(made) == [*(job.marker for job in jobs), TABLES]


def test_files_of_jobs_at_work_are_left_alone(made: Made) -> None:
    job = _fail(made, 0)
    record = job.failures(made[2])
    assert reconcile(made[0], made[2], retry_failed=True, live=[job.marker])
    assert job.failures(made[2]) == record


def test_old_trunks_may_be_deleted(made: Made) -> None:
    shutil.rmtree(made[2] / "pretraining" / "stages")
    assert _todo(made) == [TABLES]
    missing = {
        job.kind.name
        for marker, job in made[0].jobs.items()
        if not (made[2] / marker).is_file()
    }
    assert missing == {"stage", "analysis"}, "tables have none until they are made"


def test_a_deleted_model_brings_back_what_it_needs(made: Made) -> None:
    model = made[0].of_kind("model")[0]
    shutil.rmtree(made[2] / "pretraining" / "models" / model.name)
    _todo(made)
    _mark_tables(made)
    assert _todo(made) == [model.marker]
    shutil.rmtree(made[2] / "pretraining" / "stages")
    assert _todo(made) == [f"done/stage/{_trunk(made[0])}.json", model.marker]
