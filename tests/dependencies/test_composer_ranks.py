"""What `pretraining.training.ranks` relies on in Composer: which process this is, and sums over all of them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from composer.utils import dist

from common.provenance import ROOT


def test_alone_this_process_is_the_first_of_one() -> None:
    assert (dist.get_global_rank(), dist.get_world_size(), dist.get_local_rank()) == (0, 1, 0)


TWO = """
import torch
from composer.utils import dist
dist.initialize_dist("cpu", timeout=60.0)
assert dist.is_initialized()
value = torch.tensor([0.1 + dist.get_global_rank()], dtype=torch.float64)
dist.all_reduce(value)
dist.barrier()
print(dist.get_global_rank(), dist.get_world_size(), dist.get_local_rank(), repr(float(value)))
"""


@pytest.mark.slow
def test_two_processes_add_up_in_double_precision() -> None:
    port = str(20_000 + os.getpid() % 20_000)
    processes = []
    for rank in ("0", "1"):
        environment = os.environ | {
            "RANK": rank, "LOCAL_RANK": rank, "NODE_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", TWO], cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE
            )
        )
    said = [process.communicate(timeout=120)[0].split() for process in processes]
    assert said == [[rank, "2", rank, repr(0.1 + 1.1)] for rank in ("0", "1")]
