"""A workflow on this machine: mistakes, failures, two calls at once."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from common.errors import UserError
from common.locks import holder_of
from common.manifest import write_manifest
from common.provenance import ROOT
from tests.commands import program, python
from tests.common.test_locks import ELSEWHERE, holder
from tests.workflow import smallest
from workflow import step
from workflow.engine import cancel, run_workflow
from workflow.jobs import JOB_KINDS, LEASE, Job, Workflow, by_marker
from workflow.slurm_queue import make_id
from workflow.slurm_submit import Submission

NOTHING = Workflow(target="all", jobs={})


def test_one_call_works_in_a_folder(tmp_path: Path) -> None:
    message = r"another process is using .* \(process \d+ on host"
    with holder(tmp_path / LEASE), pytest.raises(UserError, match=message):
        run_workflow(NOTHING, tmp_path)
    # The lease of a killed call is free at once.
    assert run_workflow(NOTHING, tmp_path)


@pytest.mark.parametrize("name", ["logs/shards/a.log", "done/a", "analysis/all/a"])
def test_files_of_others_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    for dry_run in (True, False):
        with pytest.raises(UserError, match=f"holds other files .{name}.*--dir"):
            run_workflow(NOTHING, tmp_path, dry_run=dry_run)
    assert path.read_text() == "mine" and len(list(tmp_path.rglob("*.json"))) == 0


@pytest.mark.parametrize(("deaths", "works"), [(7, True), (0, False)])
def test_retries_count_anew_after_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deaths: int, works: bool
) -> None:
    """A training on nodes that die: seven times after a checkpoint, or for ever before the first."""
    job = Job(
        kind=JOB_KINDS["model"],
        name="m",
        makes=("m.txt",),
        checkpoints="stages/m/step-*/state.json",
    )
    starts: list[int] = []

    def killed(*_: object) -> int:
        starts.append(len(starts))
        done = works and len(starts) > deaths
        path = tmp_path / (
            "m.txt" if done else f"stages/m/step-{len(starts)}/state.json"
        )
        if works:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        return int(not done)

    monkeypatch.setattr(step, "do", killed)
    assert run_workflow(Workflow(target="m", jobs=by_marker([job])), tmp_path) is works
    assert len(starts) == (deaths if works else 2) + 1


def test_what_needs_a_failed_job_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Job(kind=JOB_KINDS["stage"], name="a", makes=("a",))
    second = Job(kind=JOB_KINDS["model"], name="b", makes=("b",), needs=(first.marker,))
    other = Job(kind=JOB_KINDS["model"], name="c", makes=("c",))
    started: list[str] = []

    def do(job: Job, *_: object) -> int:
        started.append(job.name)
        return 2 if job is first else 0

    monkeypatch.setattr(step, "do", do)
    assert not run_workflow(
        Workflow(target="b", jobs=by_marker([first, second, other])), tmp_path
    )
    assert started == ["a", "c"]


def test_jobs_in_slurms_queue_refuse_a_call_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(kind=JOB_KINDS["model"], name="m", makes=("m.txt",))
    make_id(tmp_path)
    program(
        tmp_path / "bin/squeue", f"echo '64|RUNNING|None|0:10|'$(id -un)'|{job.marker}'"
    )
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    with pytest.raises(
        UserError, match=r"Slurm jobs of this study are queued or running \(64\)"
    ):
        run_workflow(Workflow(target="m", jobs=by_marker([job])), tmp_path)


def test_a_job_that_is_ending_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a cancel: what would be submitted to start after it would die with it."""
    job = Job(kind=JOB_KINDS["model"], name="m", makes=("m.txt",))
    make_id(tmp_path)
    note = f"echo x >> {tmp_path}/asked; [ $(wc -l < {tmp_path}/asked) -gt 2 ]"
    row = f"'64|COMPLETING|None|0:10|'$(id -un)'|{job.marker}'"
    program(tmp_path / "bin/squeue", f"{note} || echo {row}")
    program(tmp_path / "bin/sbatch", "echo 65")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr("workflow.engine.time.sleep", lambda _: None)
    workflow = Workflow(target="m", jobs=by_marker([job]))
    done = run_workflow(workflow, tmp_path, profile="slurm")
    assert isinstance(done, Submission) and done.numbers == {job.marker: "65"}
    assert (tmp_path / "asked").read_text().count("x") == 3


def test_an_allocations_end_starts_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a job of PBS, LSF or Kubernetes."""
    job = Job(
        kind=JOB_KINDS["model"], name="m", commands=(("settings",),), makes=("m.txt",)
    )
    monkeypatch.setenv("CLM_OR_MLM_ENDS", str(round(time.time()) + 60))
    assert not run_workflow(Workflow(target="m", jobs=by_marker([job])), tmp_path)
    assert not (tmp_path / job.attempts).exists()


def test_a_dry_run_announces_and_starts_nothing(tmp_path: Path) -> None:
    job = Job(kind=JOB_KINDS["model"], name="m", makes=("m.txt",))
    announced: list[Job] = []
    assert run_workflow(
        Workflow(target="m", jobs={job.marker: job}),
        tmp_path,
        announce=lambda jobs, _: announced.extend(jobs),
        dry_run=True,
    )
    assert announced == [job]
    assert not (tmp_path / "workflow.json").exists()


@pytest.mark.slow
def test_what_a_site_calls_a_module_is_a_word_to_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = program(tmp_path / "bin" / "module", 'printf "%s\\n" "$@" > loaded')
    monkeypatch.setenv("PATH", f"{module.parent}:{os.environ['PATH']}")
    words = ("table", "2", "--format", "csv", "--out", "a")
    job = Job(
        kind=JOB_KINDS["analysis"],
        name="all",
        commands=(words,),
        makes=("a/table02.csv",),
    )
    names = ("$(touch made)", "a;b {c}")
    assert run_workflow(
        Workflow(target="all", jobs=by_marker([job]), modules=names), tmp_path
    )
    assert (tmp_path / "loaded").read_text().splitlines() == ["load", *names]
    assert not (tmp_path / "made").exists()


@pytest.mark.slow
def test_a_cell_with_a_failed_run_starts_again_where_asked_for(
    tmp_path: Path,
) -> None:
    made = ("run/table02.csv", "last/table02.csv")
    words = [
        ("table", "2", "--format", "csv", "--out", Path(path).parent.name)
        for path in made
    ]
    cell = Job(kind=JOB_KINDS["cell"], name="m", commands=(words[0],), makes=(made[0],))
    last = Job(
        kind=JOB_KINDS["analysis"],
        name="all",
        commands=(words[1],),
        makes=(made[1],),
        needs=(cell.marker,),
    )
    (tmp_path / "run").mkdir()
    write_manifest(tmp_path / "run/run.json", {"status": "failed"})
    for retry in (False, True):
        workflow = Workflow(target="all", jobs=by_marker([cell, last]))
        assert run_workflow(workflow, tmp_path, retry_failed=retry)
        assert [(tmp_path / path).is_file() for path in made] == [retry, True]


@pytest.mark.slow
def test_killed_alone_it_leaves_nothing_behind(tmp_path: Path) -> None:
    """As by `kill -9` of the one process that a user sees; a job is a grandchild's child of it."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom workflow import engine\n"
        "from workflow.jobs import Job, Workflow\nfrom workflow.jobs import JOB_KINDS\n"
        "job = Job(kind=JOB_KINDS['model'], name='m', commands=(('table', '2'),) * 200, makes=('m',))\n"
        "engine.run_workflow(Workflow(target='m', jobs={job.marker: job}), Path(sys.argv[1]))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    log = tmp_path / "logs/model/m.log"
    end = time.monotonic() + 120
    while not (log.is_file() and log.stat().st_size):
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.1)
    assert _works_in(tmp_path)
    process.kill()
    process.wait()
    while found := _works_in(tmp_path):
        assert time.monotonic() < end, found
        time.sleep(0.1)


def _works_in(folder: Path) -> list[str]:
    """Return the command lines of processes whose current folder is `folder`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == folder and (
                command := (process / "cmdline").read_text()
            ):
                found.append(command.replace("\0", " "))
        except OSError:
            continue
    return found


def test_a_call_on_another_machine_is_not_cancelled_from_here(tmp_path: Path) -> None:
    with (
        holder(tmp_path / LEASE, ELSEWHERE),
        pytest.raises(UserError, match=r"host elsewhere is using .* on that host"),
    ):
        cancel(tmp_path)


@pytest.mark.slow
def test_a_users_mistake_is_not_tried_again_until_the_next_call(tmp_path: Path) -> None:
    # That the file is there is looked at before
    (tmp_path / "none.jsonl").write_text("no JSON\n")
    (tmp_path / "w.toml").write_text(
        "text = ['none.jsonl']\nrepeat_text = true\ntrain_tokenizer = 300\ngpus_per_node = 0\ncpus = 1\nseeds = [0]\n"
        "make_datasets = ['--train', '4']\ndatasets = ['sst2']\nlearning_rates = [1e-4]\n"
    )
    words = (
        "210m-clm-42k",
        "--settings",
        tmp_path / "w.toml",
        "--dir",
        tmp_path / "study",
    )
    for _ in range(2):
        answer = python("-m", "clm_or_mlm", "workflow", *words, code=3)
        text = answer.stdout + answer.stderr
        assert text.count("shards shards exited with code 2") == 1, text
        assert (
            "none.jsonl" in (tmp_path / "study/logs/shards/shards.refused").read_text()
        )


@pytest.mark.slow
def test_a_job_that_is_killed_is_started_again(tmp_path: Path) -> None:
    """As for lack of memory, in the middle of its work, by `restarts`."""
    words = ("table", "2", "--format", "csv", "--out", "made")
    job = Job(
        kind=JOB_KINDS["model"],
        name="m",
        commands=(words,) * 5,
        makes=("made/table02.csv",),
    )
    killed: list[int] = []

    def kill_one() -> None:
        while not killed:
            for process in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    mine = (process / "cwd").readlink() == tmp_path
                    if mine and "table" in (process / "cmdline").read_text().split(
                        "\0"
                    ):
                        os.kill(int(process.name), signal.SIGKILL)
                        killed.append(int(process.name))
                        break
            time.sleep(0.05)

    thread = threading.Thread(target=kill_one, daemon=True)
    thread.start()
    assert run_workflow(Workflow(target="m", jobs={job.marker: job}), tmp_path)
    rows = [
        json.loads(line) for line in (tmp_path / job.attempts).read_text().splitlines()
    ]
    assert [row["code"] for row in rows if row["end"]] == [-9, 0]


def test_cancel_ends_a_call_from_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, output = tmp_path / "study", tmp_path / "output"
    command = [
        sys.executable,
        "-m",
        "clm_or_mlm",
        *smallest.WORDS,
        "--dir",
        str(folder),
    ]
    with output.open("wb") as sink:
        call = subprocess.Popen(command, cwd=ROOT, stdout=sink, stderr=sink)
    while not holder_of(folder / LEASE):
        assert call.poll() is None, output.read_text()
        time.sleep(0.1)
    program(tmp_path / "squeue", "")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert cancel(folder) == []
    assert holder_of(folder / LEASE) is None
    # The second where it did not listen yet
    assert call.wait() in (128 + signal.SIGTERM, -signal.SIGTERM), output.read_text()
    while found := _works_in(folder):
        time.sleep(0.1)
    assert not found
