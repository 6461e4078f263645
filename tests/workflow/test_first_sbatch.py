"""A study in one Slurm job of the user's own, by the script of docs/hpc.md, with made-up commands of Slurm."""

import os
import re
import subprocess
import sys
from pathlib import Path

from common.provenance import ROOT
from tests.commands import program
from tests.workflow.stand_ins import apptainer

STUDY = """
import sys
from pathlib import Path
from workflow import commands
from workflow.jobs import JOB_KINDS, Job, Workflow, by_marker

stage = Job(
    kind=JOB_KINDS["model"], name="s", commands=(("train", "s", "--stop-file", "logs/model/s.stop"),),
    checkpoints="pretraining/stages/s/step-*/state.json", makes=("pretraining/stages/s/done",),
)
commands.load_settings = lambda path, site: commands.StudySettings()
commands.workflow_of = lambda *_: Workflow(target="all", jobs=by_marker([stage]), image=str(Path('x.sif').resolve()))
commands.examine = lambda start: []
commands.Start.workflow_with_image = lambda start: start.workflow
from common.cli import run
from clm_or_mlm.__main__ import main
run(main)
"""


def test_the_script_of_the_page_goes_on_in_the_next_job(
    tmp_path: Path,
) -> None:
    """A stage that outlives the first job: nothing is put back, no saved step is made twice."""
    page = (ROOT / "docs/hpc.md").read_text()
    (script,) = re.findall(r"^    #!/bin/bash\n(?:    .*\n)+", page, re.MULTILINE)
    lines = [line[4:] for line in script.splitlines()]
    assert (
        sum(line.startswith("#SBATCH") for line in lines) == 1
        and "--gres=gpu:1" in lines[1]
    )
    job = "\n".join(lines).replace("/scratch/me/study", str(tmp_path / "study"))
    folder = tmp_path / "bin"
    program(
        folder / "apptainer", f'exec "{sys.executable}" "{apptainer.__file__}" "$@"'
    )
    program(
        folder / "scontrol", f'[ "$1" != requeue ] || echo "$@" >> {tmp_path}/asked'
    )
    # Slurm 22 sets no variables of time. Of five minutes, training is asked to save 30 seconds before the end: here
    # twelve seconds after it was started, however long that took.
    squeue = f"""
    case "$*" in *--jobs=119*) ;; *) exit;; esac
    left='0:42 5:00'
    ! grep -q '^step' {tmp_path}/events || left='0:20 5:00'
    [ ! -e {tmp_path}/second ] || left='50:00 60:00'
    echo "$left"
    """
    program(folder / "squeue", squeue)
    (tmp_path / "x.sif").touch()
    (tmp_path / "start.py").write_text(STUDY)
    program(
        tmp_path / ".venv/full/bin/clm-or-mlm",
        f'exec "{sys.executable}" {tmp_path}/start.py "$@"',
    )
    environ = os.environ | {
        "PYTHONPATH": str(ROOT),
        "PATH": f"{folder}:{os.environ['PATH']}",
        "STAND_IN_SECONDS": "0.5",
        "STAND_IN_STEPS": "30",
        "STAND_IN_EVENTS": str(tmp_path / "events"),
        "SLURM_JOB_ID": "119",
    }

    def submit() -> subprocess.CompletedProcess[str]:
        command = ["bash", "-c", job]
        return subprocess.run(
            command, cwd=tmp_path, env=environ, capture_output=True, text=True
        )

    first = submit()
    assert first.returncode == 3, first.stdout + first.stderr
    last = first.stderr.splitlines()[-1]
    assert (
        "some jobs are not done" in last
        and "Slurm job 119 ends in " in last
        and "sbatch" in last
    )
    (tmp_path / "second").touch()
    second = submit()
    assert second.returncode == 0, second.stdout + second.stderr
    assert not (tmp_path / "asked").exists()
    events = [line.split() for line in (tmp_path / "events").read_text().splitlines()]
    assert [int(row[2]) for row in events if row[0] == "step"] == list(range(1, 31))
    resumed = [int(row[2]) for row in events if row[0] == "resume"]
    assert resumed[0] == 0 and resumed[-1] > 0
    assert (
        tmp_path / "study/pretraining/stages/s/done"
    ).read_text() == apptainer.CONTENT
