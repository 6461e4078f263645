import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from common.errors import UserError
from common.files import sha256_file, written
from common.processes import AGAIN
from tests.commands import program, python
from tests.common.test_locks import holder
from tests.common.test_processes import alive
from workflow import step
from workflow.attempts import attempts_in
from workflow.jobs import JOB_KINDS, Job, Workflow, save
from workflow.step import (
    MISTAKE,
    NO_TIME,
    STOPPED,
    do,
    launcher_of,
    run_job,
    run_until,
    seconds_left,
    site_environment,
    start_words,
)

TRAINER = """
import pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
(folder / "ready").touch()
while not (folder / "stop").exists():
    time.sleep(0.05)
time.sleep(0.5)
(folder / "saved").touch()
sys.exit(75)
"""

ENVIRON = dict(os.environ)


def until(folder: Path, command: list[str], seconds: float) -> int:
    """Run a command that is asked to stop by a file."""
    return run_until(command, folder / "log", seconds, ENVIRON, folder / "stop")


def test_the_time_limit_waits_until_training_has_saved(
    tmp_path: Path,
) -> None:
    (tmp_path / "stop").touch()  # left by a job that was killed
    assert until(tmp_path, [sys.executable, "-c", TRAINER, str(tmp_path)], 2.0) == AGAIN
    assert (tmp_path / "saved").is_file()
    assert not (tmp_path / "stop").exists()


LAUNCHER = """
import os, pathlib, signal, subprocess, sys
# As Apptainer does: whatever was ignored or blocked is back to its default in what mounts the image.
default = {"preexec_fn": lambda: signal.signal(signal.SIGUSR1, signal.SIG_DFL)}
mount = subprocess.Popen(["sleep", "60"], start_new_session=True, **default)
code = subprocess.run(["bash", "-c", '"$@"; exit $?', "-", sys.executable, "-c", *sys.argv[1:]]).returncode
pathlib.Path(sys.argv[2], "lost" if mount.poll() else "mounted").touch()
mount.kill()
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, STOPPED), (signal.SIGUSR1, AGAIN)]
)
def test_asked_to_end_it_saves_and_launchers_and_mounts_live_on(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    def ask() -> None:
        while not (tmp_path / "ready").is_file():
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=ask)
    thread.start()
    assert (
        until(tmp_path, [sys.executable, "-c", LAUNCHER, TRAINER, str(tmp_path)], 60)
        == code
    )
    thread.join()
    assert (tmp_path / "saved").is_file() and (tmp_path / "mounted").is_file()


def test_slurms_signal_to_every_process_ends_no_launcher(tmp_path: Path) -> None:
    script = f"import os, signal; os.kill(os.getppid(), signal.SIGUSR1)\n{TRAINER}"
    command = [
        "bash",
        "-c",
        '"$0" -c "$1" "$2"; exit $?',
        sys.executable,
        script,
        str(tmp_path),
    ]
    assert until(tmp_path, command, 2.0) == AGAIN
    assert (tmp_path / "saved").is_file()


def test_killed_it_leaves_no_training_behind(tmp_path: Path) -> None:
    words = f"from pathlib import Path; from workflow.step import run_until; f = Path({str(tmp_path)!r})"
    script = f"{words}; run_until(['sleep', '100'], f / 'log', 60.0, {{'PATH': '/usr/bin:/bin'}}, f / 'stop')"
    process = subprocess.Popen([sys.executable, "-c", script])
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not (found := children.read_text().split()):
        time.sleep(0.05)
    process.kill()
    process.wait()
    end = time.monotonic() + 10
    while alive(int(found[0])):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_others_are_asked_by_a_signal(tmp_path: Path) -> None:
    # A shell's background job starts with SIGINT ignored, and so would this one.
    code = (
        "import signal, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try: time.sleep(60)\nexcept KeyboardInterrupt: exit(130)"
    )
    command = [sys.executable, "-c", code]
    assert run_until(command, tmp_path / "log", 1.0, ENVIRON, signal.SIGINT) == AGAIN


def test_slurms_end_counts_where_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(
        kind=JOB_KINDS["model"], name="m", gpu_hours=10.0, gpus=1, limit_hours=2.0
    )
    assert (job.minutes, job.margin_seconds) == (120, 600)
    assert (
        Job(kind=JOB_KINDS["model"], name="m", limit_hours=1 / 60).margin_seconds == 6
    )
    now = time.monotonic()
    assert seconds_left(job, now, {}) == pytest.approx(7200 - 600, abs=5)
    assert seconds_left(job, now - 1000, {}) == pytest.approx(6200 - 600, abs=5)
    soon = {"SLURM_JOB_END_TIME": str(int(time.time()) + 3000)}
    assert seconds_left(job, now, soon) == pytest.approx(3000 - 600, abs=5)
    assert seconds_left(job, now, {"SLURM_JOB_END_TIME": "0"}) == pytest.approx(
        7200 - 600, abs=5
    )
    # In a short job of the user's own, a tenth of it is for saving.
    short = soon | {"SLURM_JOB_START_TIME": str(int(time.time()))}
    assert seconds_left(job, now, short) == pytest.approx(3000 - 300, abs=5)
    # Slurm 22 sets no variables of time.
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for said, left in (
        ("50:00 1:00:00", 3000 - 360),
        ("UNLIMITED UNLIMITED", 6600),
        ("", 6600),
        ("0:00 1:00", -6),
    ):
        program(tmp_path / "squeue", f'[ "$2" = --jobs=119 ] && echo "{said}"')
        assert seconds_left(job, now, {"SLURM_JOB_ID": "119"}) == pytest.approx(
            left, abs=5
        )


KILLED = (
    "print('hello', flush=True); signal.signal({0}, signal.SIG_DFL); os.kill(0, {0})"
)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("print('hello'); raise SystemExit(3)", 3),
        # Under srun, Slurm's signal reaches training and not the process that waits for it: its exit code is believed.
        ("print('hello'); raise SystemExit(75)", AGAIN),
        # As by scancel, which signals every process of a job: it is no crash, the job must not put itself back.
        *(
            (KILLED.format(int(number)), STOPPED)
            for number in (signal.SIGTERM, signal.SIGINT)
        ),
    ],
)
def test_codes_and_output_are_kept(tmp_path: Path, script: str, code: int) -> None:
    command = [sys.executable, "-c", f"import os, signal; {script}"]
    assert (
        run_until(command, tmp_path / "a" / "log", 60, ENVIRON, tmp_path / "stop")
        == code
    )
    assert (tmp_path / "a" / "log").read_text() == "hello\n"


def test_one_that_finishes_while_being_asked_is_done(tmp_path: Path) -> None:
    assert (
        until(tmp_path, [sys.executable, "-c", "import time; time.sleep(2.5)"], 0.1)
        == 0
    )


def test_data_outside_the_study_is_bound_into_the_image(tmp_path: Path) -> None:
    text, data, folder = (tmp_path / name for name in ("text", "data", "study"))
    for place in (text, data, folder):
        place.mkdir()
    # What a site's profile names and this node lacks is left out: Apptainer would refuse to start.
    binds = (str(text), "$DATA", "$ELSEWHERE/x", "/no/such/folder", str(folder))
    study = Workflow(target="all", jobs={}, image="/x/full.sif", binds=binds)
    words = start_words(study, folder, {"DATA": str(data)})
    assert words[3:] == [
        "container",
        "run",
        "--bind",
        str(text),
        "--bind",
        str(data),
        "/x/full.sif",
    ]
    assert start_words(Workflow(target="all", jobs={}), folder)[1:] == [
        "-m",
        "container.start",
    ]


def _job(folder: Path, *commands: tuple[str, ...]) -> tuple[Job, Workflow]:
    job = Job(
        kind=JOB_KINDS["shards"], name="a", commands=commands, makes=("made.txt",)
    )
    return job, Workflow(target="all", jobs={job.marker: job})


def test_a_job_counts_as_done_only_when_what_it_makes_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    job, workflow = _job(tmp_path, ("container.start", "--help"))
    monkeypatch.setattr("workflow.step.start_words", lambda *_: [sys.executable, "-m"])
    with pytest.raises(
        UserError, match="succeeded, but some of their output is missing"
    ):
        do(job, workflow, tmp_path)
    assert not (tmp_path / job.marker).exists()
    (tmp_path / "made.txt").touch()
    assert do(job, workflow, tmp_path) == 0
    assert json.loads((tmp_path / job.marker).read_text()) == {
        "kind": "shards",
        "name": "a",
    }


def test_the_last_lines_of_a_failed_job_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job, workflow = _job(tmp_path, ("no_such_verb",))
    assert do(job, workflow, tmp_path) == 2
    assert "shards a exited with code 2" in (printed := capsys.readouterr().err)
    assert "Unknown command 'no_such_verb'" in printed
    assert "no_such_verb" in (tmp_path / job.refused).read_text()


def test_a_job_whose_rank_hung_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, workflow = _job(tmp_path, ("train", "m"))
    job = replace(job, checkpoints="step-*", gpus=2)
    hung = "import sys; print('  exitcode  : 75 (pid: 7)'); sys.exit(1)"
    monkeypatch.setattr(
        "workflow.step.start_words", lambda *_: [sys.executable, "-c", hung]
    )
    assert do(job, workflow, tmp_path) == AGAIN


def test_an_image_is_hashed_again_only_when_its_file_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, workflow = _job(tmp_path)
    (image := tmp_path / "full.sif").write_bytes(b"image")
    workflow = replace(
        workflow,
        image=str(image),
        image_sha256=sha256_file(image),
        image_written=written(image),
    )
    hashed: list[Path] = []

    def counted(path: Path) -> str:
        hashed.append(path)
        return sha256_file(path)

    monkeypatch.setattr(step, "sha256_file", counted)
    step._refuse_other_image(workflow)
    assert hashed == []
    os.utime(image, (1, 1))
    step._refuse_other_image(workflow)
    assert hashed == [image]
    image.write_bytes(b"other")
    with pytest.raises(UserError, match="has changed since this study was started"):
        step._refuse_other_image(workflow)


def test_processes_are_one_a_gpu_and_an_image_one_a_node() -> None:
    one = Job(kind=JOB_KINDS["model"], name="m", gpus=1)
    assert launcher_of(one, {}) == ([], [])
    node = Job(kind=JOB_KINDS["model"], name="m", gpus=4)
    assert launcher_of(node, {}) == (
        [],
        [
            "torch.distributed.run",
            "--nproc-per-node=4",
            "--shutdown-timeout=120",
            "--standalone",
            "-m",
            "clm_or_mlm",
        ],
    )
    many = Job(kind=JOB_KINDS["model"], name="m", nodes=2, gpus=4, cpus=32)
    slurm = {
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": "gpu[03-04]",
        "SLURMD_NODENAME": "gpu03",
    }
    outside, inside = launcher_of(many, slurm, "gpu:h100")
    assert outside[:4] == ["srun", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1"]
    assert "--gres=gpu:h100:4" in outside and "--cpus-per-task=32" in outside
    assert (
        "--nnodes=2" in inside
        and "--rdzv-conf=timeout=900,read_timeout=600" in inside
        and "--rdzv-endpoint=gpu03:12007" in inside
        and inside[-2:] == ["-m", "clm_or_mlm"]
    )
    # The first node is the one that this runs on.
    _, inside = launcher_of(many, {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "gpu03"})
    assert "--rdzv-endpoint=gpu03:12007" in inside
    with pytest.raises(UserError, match="which only Slurm provides"):
        launcher_of(many, {})


RANK = """
import os, pathlib, sys
shown = [*(os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")), *sys.argv[1:]]
pathlib.Path(os.environ["RANK"]).write_text(" ".join(shown))
sys.exit(75 * int(os.environ["RANK"]))
"""


def test_torchrun_starts_the_ranks_of_a_node(tmp_path: Path) -> None:
    (tmp_path / "shows.py").write_text(RANK)
    _, words = launcher_of(Job(kind=JOB_KINDS["model"], name="m", gpus=2), {})
    environ = {"PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"}
    ended = python("-m", *words[:-1], "shows", "word", cwd=tmp_path, code=1, **environ)
    assert step._HUNG.search(ended.stderr.encode()), "a watchdog's exit code"
    assert [(tmp_path / rank).read_text() for rank in "01"] == [
        "0 0 2 word",
        "1 1 2 word",
    ]


def test_the_sites_variables_are_expanded_in_the_job(tmp_path: Path) -> None:
    site = Workflow(
        target="all", jobs={}, environ={"CLM_OR_MLM_SCRATCH": "$JOBSCRATCH/x", "A": "1"}
    )
    assert site_environment(site, {"JOBSCRATCH": "/fast/7"}) == {
        "CLM_OR_MLM_SCRATCH": "/fast/7/x",
        "A": "1",
    }
    with pytest.raises(
        UserError,
        match=r"CLM_OR_MLM_SCRATCH to '.JOBSCRATCH/x', but 'JOBSCRATCH' is not set",
    ):
        site_environment(site, {})


@pytest.mark.parametrize("number", ["", "119"])
def test_what_died_is_put_back_by_slurm_or_goes_on_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    job, workflow = _job(tmp_path)
    codes = [AGAIN, 1, 0]
    put_back: list[str] = []
    monkeypatch.setenv("SLURM_JOB_ID", "119")
    monkeypatch.delenv("SLURM_JOB_END_TIME", raising=False)
    monkeypatch.setattr(step, "requeue", put_back.append)
    monkeypatch.setattr(step, "do", lambda *_: codes.pop(0))
    code = run_job(job, workflow, tmp_path, number)
    assert (code, put_back, len(codes)) == (
        (AGAIN, ["119"], 2) if number else (0, [], 0)
    )


@pytest.mark.parametrize("code", [MISTAKE, STOPPED])
def test_mistakes_and_cancelled_jobs_do_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    job, workflow = _job(tmp_path)
    monkeypatch.setenv("SLURM_JOB_ID", "119")
    monkeypatch.setattr(step, "requeue", lambda number: pytest.fail(number))
    monkeypatch.setattr(step, "do", lambda *_: code)
    assert run_job(job, workflow, tmp_path, "119") == code


def test_a_busy_controller_is_asked_again_to_requeue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"
    busy = f"[ $(wc -l < {asked}) -gt 2 ] || {{ echo Socket timed out; exit 1; }}"
    program(tmp_path / "bin/scontrol", f'echo "$@" >> {asked}; {busy}')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr("workflow.step.time.sleep", lambda _: None)
    step.requeue("64")
    assert asked.read_text().splitlines() == ["requeue 64"] * 3
    asked.unlink()
    program(tmp_path / "bin/scontrol", f'echo "$@" >> {asked}; exit 1')
    step.requeue("64")
    assert asked.read_text().splitlines() == ["requeue 64"] * 5


def test_a_job_that_never_comes_further_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times, across the requeues of one Slurm job; earlier jobs of another number do not count."""
    job, workflow = _job(tmp_path)
    put_back: list[str] = []
    monkeypatch.setattr(step, "requeue", put_back.append)
    monkeypatch.setattr(step, "do", lambda *_: AGAIN)
    for number in ("118", "119", "119", "119"):
        monkeypatch.setenv("SLURM_JOB_ID", number)
        run_job(job, workflow, tmp_path, number)
    assert put_back == ["118", "119", "119"]


def test_no_job_starts_shortly_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, workflow = _job(tmp_path)
    monkeypatch.setenv("CLM_OR_MLM_ENDS", str(round(time.time()) + 60))
    assert run_job(job, workflow, tmp_path) == NO_TIME
    assert not (tmp_path / job.attempts).exists()


def test_what_another_process_works_on_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "_LEASE_SECONDS", 1)
    job, workflow = _job(tmp_path, ("settings",))
    with holder(tmp_path / "logs/shards/a.lease"):
        assert run_job(job, workflow, tmp_path) == MISTAKE
    assert "another process works on it" in (tmp_path / job.refused).read_text()


def test_a_slurm_job_whose_needs_are_missing_ends(tmp_path: Path) -> None:
    first, _ = _job(tmp_path)
    second = replace(first, name="b", needs=(first.marker,))
    save(
        Workflow(target="all", jobs={job.marker: job for job in (first, second)}),
        tmp_path,
    )
    said = python("-m", "workflow.step", second.marker, cwd=tmp_path, code=2).stderr
    assert "needs done/shards/a.json, which is not done" in said


def test_a_users_mistake_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(
        kind=JOB_KINDS["shards"],
        name="a",
        commands=(("no_such_verb",),),
        makes=("made.txt",),
    )
    save(Workflow(target="all", jobs={job.marker: job}), tmp_path)
    for name in [name for name in ENVIRON if name.startswith("SLURM")]:
        monkeypatch.delenv(name)
    said = python(
        "-m", "workflow.step", job.marker, cwd=tmp_path, code=2, SLURM_JOB_ID="7"
    ).stderr
    assert "shards a exited with code 2" in said
    began, took = map(json.loads, (tmp_path / job.attempts).read_text().splitlines())
    assert began["start"] == took["start"] and not began["end"] and took["slurm"] == "7"
    assert (took["code"], took["gpus"]) == (2, 0) and took["seconds"] > 0
    assert [attempt.code for attempt in attempts_in(tmp_path / job.attempts)] == [2]
