import base64
import shutil
from pathlib import Path

import pytest

from common.files import write_text
from pretraining.plan.study_plan import plan_of
from tests.commands import python
from tests.results import write_results
from tests.sealed import seal
from tests.workflow import smallest
from workflow import engine
from workflow.engine import reconcile
from workflow.jobs import Job, Workflow, write_marker
from workflow.study import cell_runs, study_of, workflow_of
from workflow.study_settings import StudySettings, load_settings

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


def _todo(made: Made) -> list[str]:
    return [job.marker for job in reconcile(made[0], made[2])]


def test_what_is_there_is_not_done_again(made: Made) -> None:
    assert _todo(made) == []
    for marker, job in made[0].jobs.items():
        assert (made[2] / marker).is_file() == (not job.kind.follows)


def test_an_empty_folder_needs_everything(tmp_path: Path) -> None:
    settings = load_settings(smallest.SETTINGS)
    workflow = workflow_of("all", settings)
    assert [job.marker for job in reconcile(workflow, tmp_path)] == list(workflow.jobs)


def test_a_deleted_run_brings_back_its_cell_and_the_tables_alone(made: Made) -> None:
    _todo(made)
    job = made[0].of_kind("cell")[0]
    key = cell_runs(job.name, made[1])[2]
    (made[2] / "results" / key.folder / "results.json").unlink()
    (made[2] / "done/analysis").mkdir()
    (made[2] / "done/analysis/all.json").touch()
    assert _todo(made) == [job.marker, "done/analysis/all.json"]
    assert not (made[2] / job.marker).is_file()
    assert not (made[2] / "done/analysis/all.json").exists()


def _fail(made: Made, number: int) -> Job:
    """Record the first run of a cell as failed."""
    job = made[0].of_kind("cell")[number]
    folder = made[2] / "results" / cell_runs(job.name, made[1])[0].folder
    (folder / "results.json").unlink(missing_ok=True)
    seal(folder, {"status": "failed", "reason": "NaN"})
    return job


def test_a_run_recorded_as_failed_is_not_done_again(made: Made) -> None:
    _fail(made, 0)
    assert _todo(made) == []


def test_failed_runs_are_tried_again_where_that_is_asked_for_also_after_a_kill(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [_fail(made, number) for number in (0, 3)]
    _todo(made)
    started: list[list[str]] = []

    def killed_once(workflow: Workflow, folder: Path, *_: object) -> int:
        started.append(
            [marker for marker in workflow.jobs if not (folder / marker).is_file()]
        )
        # It failed again
        write_marker(_fail(made, 0 if len(started) == 1 else 3), folder)
        return -9 if len(started) == 1 else 0

    monkeypatch.setattr(engine, "_snakemake", killed_once)
    announced: list[list[Job]] = []
    for dry_run in (True, False):
        engine.run_workflow(
            made[0],
            made[2],
            announce=announced.append,
            dry_run=dry_run,
            retry_failed=True,
        )
    tables = made[0].of_kind("analysis")
    assert announced == [[*jobs, *tables]] * 2
    assert started == [
        [job.marker for job in (*jobs, *tables)],
        [jobs[1].marker, tables[0].marker],
    ]
    engine.run_workflow(made[0], made[2], announce=announced.append, dry_run=True)
    assert announced[-1] == []


def test_old_trunks_may_be_deleted(made: Made) -> None:
    shutil.rmtree(made[2] / "pretraining" / "stages")
    assert _todo(made) == []
    missing = {
        job.kind.name
        for marker, job in made[0].jobs.items()
        if not (made[2] / marker).is_file()
    }
    assert missing == {"stage", "analysis"}, "tables have none until they are made"


def test_a_deleted_model_brings_back_what_it_needs(made: Made) -> None:
    model = made[0].of_kind("model")[0]
    shutil.rmtree(made[2] / "pretraining" / "models" / model.name)
    assert _todo(made) == [model.marker]
    shutil.rmtree(made[2] / "pretraining" / "stages")
    assert _todo(made) == [f"done/stage/{_trunk(made[0])}.json", model.marker]


def test_a_note_of_an_interrupted_job_that_is_complete_hides_no_other(
    made: Made,
) -> None:
    """As after a kill -9 between the end of training and its marker: Snakemake's note is there, and what it made."""
    workflow, _, folder = made
    for name in ("results", "analysis", "pretraining/models"):
        shutil.rmtree(folder / name)
    stage, *others = workflow.of_kind("stage")
    for other in others:
        shutil.rmtree(folder / "pretraining" / "stages" / other.name)
    write_marker(stage, folder)
    for job in (stage, *others):
        note = (
            folder
            / ".snakemake"
            / "incomplete"
            / base64.b64encode(job.marker.encode()).decode()
        )
        write_text(note, '{"external_jobid": null}')
    words = ("--dir", str(folder), "--", "--dry-run", "--quiet", "rules")
    said = python("-m", "clm_or_mlm", *smallest.WORDS, *words, code=0).stdout
    counts = dict(line.split() for line in said.splitlines() if len(line.split()) == 2)
    found = [int(counts[kind]) for kind in ("stage", "model", "cell", "analysis")]
    assert found == [len(others), 2, 8, 1]
