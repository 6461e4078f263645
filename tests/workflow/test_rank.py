"""One process of many, started by srun."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import UserError
from common.provenance import ROOT
from workflow.rank import main


def test_it_takes_a_command_and_is_started_by_srun(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="takes the command to run"):
        main([])
    monkeypatch.delenv("SLURM_PROCID", raising=False)
    with pytest.raises(UserError, match="SLURM_PROCID is not set: start this by srun"):
        main(["true"])


def test_the_command_gets_slurms_rank_as_torch_reads_it() -> None:
    slurm = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1", "SLURM_NODEID": "1",
             "SLURM_NTASKS_PER_NODE": "2", "SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_NNODES": "2",
             "SLURM_JOB_ID": "77", "SLURM_JOB_NODELIST": "localhost", "SLURM_STEP_NODELIST": "localhost",
             "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1"}  # fmt: skip
    show = "import os; print(os.environ['RANK'], os.environ['WORLD_SIZE'], os.environ['LOCAL_RANK'])"
    command = [sys.executable, "-m", "workflow.rank", sys.executable, "-c", show]
    environ = os.environ | slurm | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["3", "4", "1"]


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
