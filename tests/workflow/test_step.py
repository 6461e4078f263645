from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from common.errors import UserError
from common.processes import AGAIN
from common.provenance import ROOT
from workflow.jobs import Job
from workflow.local_ranks import run_ranks
from workflow.settings import Settings
from workflow.step import load, prefix_of, processes_of, run_until, save, seconds_left

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


def test_the_time_limit_asks_training_to_save_and_waits_until_it_has(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_told_to_end_it_saves_at_once_and_launchers_and_mounts_live_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    def tell() -> None:
        while not (tmp_path / "ready").is_file():
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=tell)
    thread.start()
    assert until(tmp_path, [sys.executable, "-c", LAUNCHER, TRAINER, str(tmp_path)], 60) == AGAIN
    thread.join()
    assert (tmp_path / "saved").is_file() and (tmp_path / "mounted").is_file()


def test_slurms_signal_to_every_process_ends_no_launcher(tmp_path: Path) -> None:
    script = f"import os, signal; os.kill(os.getppid(), signal.SIGUSR1)\n{TRAINER}"
    command = ["bash", "-c", '"$0" -c "$1" "$2"; exit $?', sys.executable, script, str(tmp_path)]
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
    while Path(f"/proc/{found[0]}").exists():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_others_are_asked_by_a_signal(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: exit(130)"]
    assert run_until(command, tmp_path / "log", 1.0, ENVIRON, signal.SIGINT) == AGAIN


def test_a_launcher_that_hands_on_training_s_own_word_is_believed(tmp_path: Path) -> None:
    # Under srun, Slurm's signal reaches training and not the process that waits for it.
    assert until(tmp_path, [sys.executable, "-c", "raise SystemExit(75)"], 60) == AGAIN


def test_slurms_end_counts_where_it_is_known() -> None:
    job = Job(kind="model", name="m", gpu_hours=10.0, gpus=1, limit_hours=2.0)
    assert (job.minutes, job.margin_seconds) == (120, 600)
    assert Job(kind="model", name="m", limit_hours=1 / 60).margin_seconds == 6
    now = time.monotonic()
    assert seconds_left(job, now, {}) == pytest.approx(7200 - 600, abs=5)
    assert seconds_left(job, now - 1000, {}) == pytest.approx(6200 - 600, abs=5)
    soon = {"SLURM_JOB_END_TIME": str(int(time.time()) + 3000)}
    assert seconds_left(job, now, soon) == pytest.approx(3000 - 600, abs=5)
    assert seconds_left(job, now, {"SLURM_JOB_END_TIME": "0"}) == pytest.approx(7200 - 600, abs=5)


def test_codes_and_output_are_kept(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('hello'); raise SystemExit(3)"]
    assert run_until(command, tmp_path / "a" / "log", 60, ENVIRON, signal.SIGINT) == 3
    assert (tmp_path / "a" / "log").read_text() == "hello\n"


def test_one_that_finishes_while_being_asked_is_done(tmp_path: Path) -> None:
    assert until(tmp_path, [sys.executable, "-c", "import time; time.sleep(2.5)"], 0.1) == 0


def test_settings_survive_the_way_to_the_node(tmp_path: Path) -> None:
    settings = Settings(text=("a", "b"), learning_rates=(1e-4,), nodes=2)
    save(tmp_path, settings, "figure3", "/x/full.sif")
    assert load(tmp_path) == (settings, "figure3", "/x/full.sif")


def test_data_outside_the_study_is_bound_into_the_image(tmp_path: Path) -> None:
    settings = Settings(data="/shared/data/sets", text=("/fineweb/*.parquet", str(tmp_path / "more.jsonl")))
    words = prefix_of("/x/full.sif", tmp_path, settings, {})
    assert words[3:] == ["run", "--bind", "/fineweb", "--bind", "/shared/data", "/x/full.sif"]
    assert prefix_of("", tmp_path, settings, {})[1:] == ["-m", "container.start"]


def test_processes_are_one_a_gpu() -> None:
    one = Job(kind="model", name="m", gpus=1)
    assert processes_of(one, {}) == []
    many = Job(kind="model", name="m", nodes=2, gpus=4)
    words = processes_of(many, {"SLURM_JOB_ID": "1"})
    assert words[:2] == ["srun", "--nodes=2"]
    assert "--ntasks=8" in words
    assert words[-1] == "workflow.rank"
    with pytest.raises(UserError, match="which only Slurm gives"):
        processes_of(many, {})


def test_local_processes_meet_and_one_failure_ends_all(tmp_path: Path) -> None:
    meet = (
        "import os, torch.distributed as d, torch; d.init_process_group('gloo'); t = torch.ones(1);"
        "d.all_reduce(t); open(os.path.join('{0}', os.environ['RANK']), 'w').write(str(int(t)))"
    )
    assert run_ranks(2, [sys.executable, "-c", meet.format(tmp_path)]) == 0
    assert [(tmp_path / name).read_text() for name in ("0", "1")] == ["2", "2"]
    lost = "import os, time; os.environ['RANK'] == '1' and os._exit(9); time.sleep(60)"
    start = time.monotonic()
    assert run_ranks(2, [sys.executable, "-c", lost]) == 9
    assert time.monotonic() - start < 30


def test_the_command_line_speaks_in_sentences(tmp_path: Path) -> None:
    def call(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "workflow", *words]
        return subprocess.run(command, capture_output=True, text=True)

    assert "did you mean 'slurm'" in call("figure3", "--profile", "slum").stderr
    answer = call("figure3", "--dir", str(tmp_path), "--dry-run")
    assert answer.returncode == 0
    assert "H100 hours" in answer.stdout
    assert list(tmp_path.glob("workflow.json")) == []
    answer = call("figure3", "--dir", str(tmp_path))
    assert answer.returncode == 2
    assert "no text to pretrain on" in answer.stderr
    assert "limit_hours = 20.0" in call("settings").stdout


def test_a_users_mistake_is_not_tried_again_until_the_next_call(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text(
        "text = ['none.jsonl']\ntrain_tokenizer = 300\ngpus_per_node = 0\ncpus = 1\nseeds = [0]\n"
        "make_datasets = ['--train', '4']\ndatasets = ['sst2']\nlearning_rates = [1e-4]\n"
    )
    command = [sys.executable, "-m", "workflow", "210m-clm-42k", "--settings", str(tmp_path / "w.toml")]
    command += ["--dir", str(tmp_path / "study"), "--", "--until", "shards"]
    for _ in range(2):
        answer = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        text = answer.stdout + answer.stderr
        assert answer.returncode == 3, text
        assert text.count("shards shards ended with code 2") == 1, text
        assert "none.jsonl" in (tmp_path / "study/logs/shards/shards.refused").read_text()
        assert "Trying to restart" not in text


def test_other_failures_are_tried_again(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text(
        "text = ['t.jsonl']\ntrain_tokenizer = 300\ngpus_per_node = 0\ncpus = 1\n"
        "make_datasets = ['--train', '4']\ndatasets = ['sst2']\n"
    )
    # An image whose every command dies.
    (tmp_path / "study").mkdir()
    (tmp_path / "t.jsonl").write_text('{"text": "a"}\n')
    wrapper = tmp_path / "bin"
    wrapper.mkdir()
    (wrapper / "apptainer").write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo apptainer version 1.4.5 && exit\nexit 9\n'
    )
    (wrapper / "apptainer").chmod(0o755)
    (tmp_path / "x.sif").touch()
    command = [sys.executable, "-m", "workflow", "210m-clm-42k", "--settings", str(tmp_path / "w.toml")]
    command += [
        "--image",
        str(tmp_path / "x.sif"),
        "--dir",
        str(tmp_path / "study"),
        "--",
        "--until",
        "shards",
    ]
    environ = os.environ | {"PATH": f"{wrapper}:{os.environ['PATH']}"}
    answer = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environ)
    text = answer.stdout + answer.stderr
    assert text.count("shards shards ended with code 9") > 2, text
    assert not list(tmp_path.glob("study/logs/*/*.refused"))


def _slurm() -> bool:
    return (
        bool(shutil.which("sbatch")) and subprocess.run(["sinfo", "-h"], capture_output=True).returncode == 0
    )


@pytest.mark.slurm
@pytest.mark.skipif(not _slurm() or (os.cpu_count() or 1) < 2, reason="no Slurm with two cores answers here")
def test_processes_meet_under_srun(tmp_path: Path) -> None:
    meet = (
        "import os, torch, torch.distributed as d; d.init_process_group('gloo'); t = torch.ones(1);"
        "d.all_reduce(t); print(os.environ['RANK'], os.environ['WORLD_SIZE'], int(t), flush=True)"
    )
    line = f'srun -n2 {sys.executable} -m workflow.rank {sys.executable} -c "{meet}"'
    command = ["sbatch", "--wait", "-n2", "-t", "5", "-o", str(tmp_path / "log"), "--wrap", line]
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(command, check=True, env=environ, capture_output=True)
    assert sorted((tmp_path / "log").read_text().split("\n")[:2]) == ["0 2 2", "1 2 2"]
