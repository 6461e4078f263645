"""The rehearsal of a study's largest model: what it plans, what it reads of NCCL, and one on two processes here."""

from __future__ import annotations

from pathlib import Path

import pytest

from pretraining.plan.study_plan import PAPER_STUDY, load_study
from workflow.one_step import network_of, prepared, try_steps
from workflow.settings import Settings
from workflow.tiny import write_tiny_study

IB = "n1:7:90 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]\nn1:7:90 [0] NCCL INFO Using network IB\n"
SOCKET = "node1:7:90 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\n"
OFI = "nid1:7:90 [0] NCCL INFO NET/OFI Selected provider is cxi, fabric is cxi (found 4 nics)\n"


@pytest.mark.parametrize(
    ("logs", "processes", "device", "said"),
    [
        (IB, 8, "NVIDIA H100", "NET/IB, IB"),
        (SOCKET, 8, "NVIDIA H100", "NET/Socket"),
        (OFI, 16, "AMD Instinct MI250X", "NET/OFI"),
        ("NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P\n", 2, "NVIDIA H100", "NCCL names none"),
        ("", 2, "cpu", "gloo"),
        (IB, 1, "NVIDIA H100", "one process"),
    ],
)
def test_the_network_is_what_nccl_names(logs: str, processes: int, device: str, said: str) -> None:
    assert said in network_of(logs, processes, device)


def test_it_is_the_largest_model_with_the_studys_settings_and_the_sites_jobs(tmp_path: Path) -> None:
    workflow = prepared(Settings(nodes=2, gpus_per_node=4, account="abc"), tmp_path, "full.sif")
    study = load_study(tmp_path / "study.toml")
    assert study.shapes["rehearsal-largest"] == PAPER_STUDY.shapes["1b"]
    assert study.config.science().keys() == PAPER_STUDY.config.science().keys()
    assert (study.config.global_batch, study.config.loss_group) == (
        PAPER_STUDY.config.global_batch,
        PAPER_STUDY.config.loss_group,
    )
    assert {job.kind.name for job in workflow.jobs.values()} == {"shards", "stage", "model"}
    assert {(job.nodes, job.gpus) for job in workflow.jobs.values() if job.checkpoints} == {(2, 4)}
    assert workflow.environ["NCCL_DEBUG"] == "INFO" and workflow.image == "full.sif"


@pytest.mark.slow
def test_two_processes_on_this_machine_say_how_fast_they_were_and_leave_nothing_large(tmp_path: Path) -> None:
    write_tiny_study(tmp_path)
    settings = Settings(study=str(tmp_path / "study.toml"), gpus_per_node=2, cpus=1, memory_gb=2.0)
    found = dict(try_steps(settings, tmp_path / "rehearsal", profile="local"))
    assert "tokens/s on 2 x cpu" in found["speed"] and found["network"].startswith("gloo")
    assert not (tmp_path / "rehearsal/pretraining").exists()
