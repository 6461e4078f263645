import multiprocessing
import os
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed

from pretraining.training.ranks import Ranks, first_host, slurm_environment


def test_alone_sums_are_the_values_themselves() -> None:
    ranks = Ranks(rank=0, world=1, device=torch.device("cpu"))
    ranks.barrier()
    assert ranks.total(0.1, 3) == [0.1, 3.0]
    assert ranks.device_name == "cpu"
    assert 0 < ranks.peak_memory() < 1000


def test_gpu_memory_grows_in_segments_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.2")
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)
    with monkeypatch.context() as own:
        own.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64")
        Ranks.here()
        assert "PYTORCH_ALLOC_CONF" not in os.environ
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "taken back after the test")
    del os.environ["PYTORCH_ALLOC_CONF"]
    Ranks.here()
    assert os.environ["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"


@pytest.mark.parametrize(
    ("hosts", "first"),
    [
        ("n1", "n1"),
        ("n1,n2", "n1"),
        ("gpu[007-012,020],x1", "gpu007"),
        ("a-b[3,5]-ib", "a-b3-ib"),
        ("g[1-2]", "g1"),
        ("r[3,5-9]", "r3"),
        ("n-1", "n-1"),
    ],
)
def test_first_host(hosts: str, first: str) -> None:
    assert first_host(hosts) == first


def test_a_task_knows_its_place() -> None:
    task = {
        "SLURM_NTASKS": "16",
        "SLURM_PROCID": "13",
        "SLURM_LOCALID": "5",
        "SLURM_NODEID": "1",
        "SLURM_NNODES": "2",
        "SLURM_JOB_NODELIST": "gpu[11-12]",
        "SLURM_JOB_ID": "123456",
    }
    assert slurm_environment(task) == {
        "RANK": "13",
        "WORLD_SIZE": "16",
        "LOCAL_RANK": "5",
        "LOCAL_WORLD_SIZE": "8",
        "NODE_RANK": "1",
        "MASTER_ADDR": "gpu11",
        "MASTER_PORT": "15456",
    }


def test_a_launcher_and_a_single_task_are_left_alone() -> None:
    assert slurm_environment({}) == {}
    assert slurm_environment({"SLURM_NTASKS": "1", "SLURM_PROCID": "0"}) == {}
    assert (
        slurm_environment({"SLURM_NTASKS": "8", "SLURM_PROCID": "0", "RANK": "0"}) == {}
    )


def _asks_whether_a_folder_is_shared(
    folder: Path, own: Path, rank: int, expected: bool
) -> None:
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=60),
    )
    os.environ["LOCAL_WORLD_SIZE"] = "1"
    assert Ranks(rank=rank, world=2, device=torch.device("cpu")).share(own) is expected
    torch.distributed.barrier()
    assert not list(own.iterdir())


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("is_shared", [True, False])
def test_two_machines_know_whether_they_share_a_folder(
    tmp_path: Path, is_shared: bool
) -> None:
    processes = []
    for rank in range(2):
        own = tmp_path / ("cache" if is_shared else f"cache{rank}")
        own.mkdir(exist_ok=True)
        words = (tmp_path, own, rank, is_shared)
        context = multiprocessing.get_context("fork")
        processes.append(
            context.Process(target=_asks_whether_a_folder_is_shared, args=words)
        )
        processes[-1].start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
