"""What is submitted, to a made-up sbatch that writes down what it is asked for."""

from dataclasses import replace
from pathlib import Path

import pytest

from common.errors import UserError
from tests.commands import program
from workflow.jobs import JOB_KINDS, Job, Workflow, by_marker, save
from workflow.slurm_queue import Queue, SlurmJob, make_id
from workflow.slurm_submit import main, read_left, submit, write_left

SHARDS = Job(kind=JOB_KINDS["shards"], name="shards", makes=("shards",))
STAGE = Job(kind=JOB_KINDS["stage"], name="s", makes=("s",), needs=(SHARDS.marker,))
MODEL = Job(
    kind=JOB_KINDS["model"], name="m", makes=("m",), needs=(SHARDS.marker, STAGE.marker)
)
WORKFLOW = Workflow(target="m", jobs=by_marker([SHARDS, STAGE, MODEL]))
TODO = list(WORKFLOW.jobs)


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An sbatch that notes its words, a call a line, and counts from 1."""
    note = f'echo "$@" >> {tmp_path}/calls; cat > {tmp_path}/script'
    program(
        tmp_path / "bin/sbatch",
        f"{note}; [ ! -e {tmp_path}/say ] || . {tmp_path}/say; wc -l < {tmp_path}/calls",
    )
    for name in ("scancel", "scontrol"):
        program(tmp_path / "bin" / name, f'echo "{name} $@" >> {tmp_path}/calls')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return tmp_path / "calls"


def _words(calls: Path) -> list[list[str]]:
    return [line.split() for line in calls.read_text().splitlines()]


def test_each_job_starts_after_those_that_it_needs(calls: Path, tmp_path: Path) -> None:
    folder = tmp_path / "50%j"  # which Slurm would take for the job's number
    folder.mkdir()
    done = submit(WORKFLOW, folder, TODO, Queue())
    assert list(done.numbers.values()) == ["2", "3", "4"] and not done.left
    held, *rows, last = _words(calls)
    # The one that would submit the others is not needed.
    assert {"--hold", "--comment=submits"} <= set(held) and last == ["scancel", "1"]
    after = [[word for word in row if word.startswith("--dependency")] for row in rows]
    assert after == [[], ["--dependency=afterok:2"], ["--dependency=afterok:2:3"]]
    for word in (
        "--parsable",
        "--requeue",
        "--kill-on-invalid-dep=yes",
        f"--job-name={make_id(folder)}",
        f"--comment={MODEL.marker}",
        f"--chdir={folder}",
        f"--output={tmp_path}/50%%j/logs/model/m.slurm",
        "--time=30",
        "--nodes=1",
    ):
        assert word in rows[2]
    script = (tmp_path / "script").read_text()
    assert (
        script.startswith("#!/bin/bash\n")
        and f"-m workflow.step {MODEL.marker}\n" in script
    )


def test_what_is_live_or_complete_is_not_submitted(calls: Path, tmp_path: Path) -> None:
    (tmp_path / "shards").touch()
    live = {STAGE.marker: SlurmJob("64", "RUNNING")}
    done = submit(WORKFLOW, tmp_path, TODO[1:], Queue(live=live))
    assert list(done.numbers) == [MODEL.marker]
    assert "--dependency=afterok:64" in _words(calls)[0]


def test_what_needs_a_lost_job_is_not_submitted(calls: Path, tmp_path: Path) -> None:
    """As where one failed while others waited for a place in the queue."""
    done = submit(WORKFLOW, tmp_path, [MODEL.marker], Queue())
    assert not done.numbers and not done.left and not calls.exists()


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("echo 1200 GPU hours left; echo 77; exit", "77"),
        ("echo '77;alps'; echo 1200 GPU hours left; exit", "77"),
        ("echo project 5; echo 78; echo; exit", "78"),
    ],
)
def test_the_number_among_a_sites_own_lines(
    calls: Path, tmp_path: Path, said: str, number: str
) -> None:
    (tmp_path / "say").write_text(said)
    assert submit(WORKFLOW, tmp_path, [SHARDS.marker], Queue()).numbers == {
        SHARDS.marker: number
    }


FULL = "echo sbatch: error: QOSMaxSubmitJobPerUserLimit >&2; exit 1"


def test_the_job_that_submits_the_rest_has_a_place(calls: Path, tmp_path: Path) -> None:
    """A limit of two."""
    (tmp_path / "say").write_text(f"[ $(wc -l < {calls}) -le 2 ] || {{ {FULL}; }}")
    done = submit(WORKFLOW, tmp_path, TODO, Queue())
    assert dict(done.numbers) == {SHARDS.marker: "2"}
    assert list(done.left) == read_left(tmp_path) == [STAGE.marker, MODEL.marker]
    rows = _words(calls)
    assert {"--hold", "--comment=submits"} <= set(rows[0])
    assert rows[3:] == [
        ["scontrol", "update", "JobId=1", "Dependency=afterany:2"],
        ["scontrol", "release", "1"],
    ]


def test_a_killed_calls_held_job_is_used_by_the_next(
    calls: Path, tmp_path: Path
) -> None:
    queue = Queue(submitter=SlurmJob("9", "PENDING", "JobHeldUser"))
    assert not submit(WORKFLOW, tmp_path, TODO, queue).left
    rows = _words(calls)
    assert len(rows) == 4 and rows[-1] == ["scancel", "9"]


def test_most_jobs_of_a_study_are_kept(calls: Path, tmp_path: Path) -> None:
    done = submit(replace(WORKFLOW, max_jobs=3), tmp_path, TODO, Queue())
    assert len(done.numbers) == 2 and list(done.left) == [MODEL.marker]


def test_while_one_submits_the_rest_no_other_does(calls: Path, tmp_path: Path) -> None:
    (tmp_path / "say").write_text(f"[ $(wc -l < {calls}) = 1 ] || {{ {FULL}; }}")
    queue = Queue(submitter=SlurmJob("9", "RUNNING"))
    done = submit(WORKFLOW, tmp_path, TODO, queue)
    assert list(done.numbers) == [SHARDS.marker] and len(done.left) == 2
    assert len(_words(calls)) == 2


@pytest.mark.parametrize(
    ("room", "said"),
    [(1, "takes one job of yours at a time"), (0, "takes no more jobs of yours now")],
)
def test_no_place_for_one_that_submits_the_rest_is_said(
    calls: Path, tmp_path: Path, room: int, said: str
) -> None:
    (tmp_path / "say").write_text(f"[ $(wc -l < {calls}) -le {room} ] || {{ {FULL}; }}")
    with pytest.raises(UserError, match=said):
        submit(WORKFLOW, tmp_path, TODO, Queue())
    assert not read_left(tmp_path)
    cancelled = [row for row in _words(calls) if row[0] == "scancel"]
    assert cancelled == [["scancel", "1"]] * room


@pytest.mark.parametrize(
    ("taken", "said"), [(0, "QOSMaxSubmitJobPerUserLimit"), (1, "max_jobs is 2")]
)
def test_one_job_without_a_place_is_said_and_not_forgotten(
    calls: Path, tmp_path: Path, taken: int, said: str
) -> None:
    (tmp_path / "say").write_text(FULL)
    live = {SHARDS.marker: SlurmJob("64", "RUNNING")}
    live |= {STAGE.marker: SlurmJob("65", "PENDING")} if taken else {}
    todo = [MODEL.marker] if taken else [STAGE.marker]
    with pytest.raises(UserError, match=rf"takes no more jobs of yours now \(.*{said}"):
        submit(
            replace(WORKFLOW, max_jobs=2 + 1 - taken), tmp_path, todo, Queue(live=live)
        )
    assert not read_left(tmp_path)
    assert not calls.exists() or "--hold" not in calls.read_text()


def test_another_refusal_is_said_with_what_slurm_says(
    calls: Path, tmp_path: Path
) -> None:
    said = "echo sbatch: error: Invalid account >&2; exit 1"
    (tmp_path / "say").write_text(f"[ $(wc -l < {calls}) = 1 ] || {{ {said}; }}")
    with pytest.raises(
        UserError, match=r"does not take done/shards/shards.json: .*Invalid account"
    ):
        submit(WORKFLOW, tmp_path, TODO, Queue())


def test_a_controller_that_stops_answering_is_one_sentence(
    calls: Path, tmp_path: Path
) -> None:
    program(
        tmp_path / "bin/scontrol", "echo Unable to contact slurm controller; exit 1"
    )
    workflow = replace(WORKFLOW, max_jobs=3)
    with pytest.raises(UserError, match=r"Unable to contact .*; repeat the study's"):
        submit(workflow, tmp_path, TODO, Queue())
    # The job that submits the rest is held: the next call lets it go.
    program(tmp_path / "bin/scontrol", f'echo "scontrol $@" >> {tmp_path}/calls')
    live = {SHARDS.marker: SlurmJob("2", "RUNNING")}
    live |= {STAGE.marker: SlurmJob("3", "PENDING")}
    held = SlurmJob("1", "PENDING", "JobHeldUser")
    submit(workflow, tmp_path, TODO, Queue(live=live, submitter=held))
    assert ["scontrol", "release", "1"] in _words(calls)


def test_a_submitting_job_asks_a_busy_controller_again(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_id(tmp_path)
    save(WORKFLOW, tmp_path)
    write_left(tmp_path, TODO)
    program(tmp_path / "bin/squeue", "")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("workflow.slurm_submit._SECONDS", 0)
    late = "echo sbatch: error: Socket timed out >&2; exit 1"
    (tmp_path / "say").write_text(f"[ $(wc -l < {calls}) -gt 5 ] || {{ {late}; }}")
    assert main([]) == 0
    submitted = [row for row in _words(calls) if row[0] == "--parsable"]
    assert len(submitted) == 5 + len(TODO)
    # A refusal that stays is said at last.
    write_left(tmp_path, TODO)
    (tmp_path / "say").write_text("echo sbatch: error: Invalid account >&2; exit 1")
    with pytest.raises(UserError, match="Invalid account"):
        main([])
