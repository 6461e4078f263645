"""This process among those of the job: its place, its device, sums over all of them.

With Slurm's variables, `srun clm-or-mlm train ...` needs no launcher: every task is one process, the signal Slurm sends
before a time limit reaches it, and its exit code (75 after a signal) reaches Slurm.
"""

from __future__ import annotations

import os
import re
import resource
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from composer.utils import dist
from torch import Tensor

_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""What torch's allocator of GPU memory reads, at the first tensor there."""


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """This process among those of the job."""

    rank: int
    """Number of this process, from 0."""
    world: int
    """Processes of the job."""
    device: torch.device
    """What this process computes on."""

    @classmethod
    def here(cls, timeout: float = 1200.0) -> Ranks:
        """Return this process's place, from the variables of torchrun, `composer` or Slurm.

        Args:
            timeout: seconds after which torch ends a process that waits for another.
        """
        os.environ.update(slurm_environment(os.environ))
        is_chosen = any(name in os.environ for name in _ALLOCATOR)
        if torch.version.cuda is not None and not is_chosen:
            # Passes differ in tokens, which fragments memory in segments of fixed size: on 80 GB the 1B model would
            # run out of memory with a sixth of it idle.
            os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
        if torch.cuda.is_available():
            device = torch.device("cuda", dist.get_local_rank())
            torch.cuda.set_device(device)
        else:
            device = torch.device("cpu")
        rank, world = dist.get_global_rank(), dist.get_world_size()
        if world > 1 and not dist.is_initialized():
            # Before Composer, which would set up the processes with its own timeout.
            kind = "gpu" if device.type == "cuda" else "cpu"
            dist.initialize_dist(kind, timeout=timeout)
        return cls(rank=rank, world=world, device=device)

    @property
    def local_rank(self) -> int:
        """Number of this process on its machine, from 0."""
        return int(dist.get_local_rank())

    @property
    def local_world(self) -> int:
        """Processes of the job on this machine."""
        return int(dist.get_local_world_size())

    @property
    def device_name(self) -> str:
        """torch's name of the device, `cpu` for a processor."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        return "cpu"

    def peak_memory(self) -> float:
        """Return the most memory that this process has used so far, on its device, in GB."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device) / 1e9
        # Linux counts KiB, macOS bytes.
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9

    def barrier(self) -> None:
        """Wait for the other processes."""
        if self.world > 1:
            dist.barrier()

    def share(self, folder: Path) -> bool:
        """Return whether the processes of all machines see one folder; it must exist."""
        if self.local_world == self.world:
            return True
        # The file's name is a random number: the first process draws it, and the sum brings it to the others.
        number = self.total(secrets.randbelow(2**40) if self.rank == 0 else 0)[0]
        mark = folder / f".shared-{number:.0f}"
        if self.rank == 0:
            mark.touch()
        self.barrier()
        finders = self.total(mark.exists())[0]
        mark.unlink(missing_ok=True)
        return finders == self.world

    def sum(self, tensor: Tensor) -> Tensor:
        """Return a CPU tensor's sum over the processes, on the device and without waiting for it."""
        if self.world > 1:
            tensor = tensor.to(self.device, non_blocking=True)
            dist.all_reduce(tensor)
        return tensor

    def each(self, value: float) -> list[float]:
        """Return the value of every process, by rank."""
        values = [0.0] * self.world
        values[self.rank] = value
        return self.total(*values)

    def total(self, *values: float) -> list[float]:
        """Return each value's sum over the processes, in double precision."""
        sums: list[float] = self.sum(torch.tensor(values, dtype=torch.float64)).tolist()
        return sums


def slurm_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to add to `environment`; none outside Slurm, for one task, or under a launcher.

    Tasks must be spread evenly over nodes (`--ntasks-per-node`), one a GPU.
    """
    tasks = int(environment.get("SLURM_NTASKS", "1"))
    if tasks < 2 or "RANK" in environment or "SLURM_PROCID" not in environment:
        return {}
    # A job step may run on only some of the job's nodes: its processes meet at the first node of the step.
    job_nodes = environment.get("SLURM_NNODES", "1")
    nodes = int(environment.get("SLURM_STEP_NUM_NODES", job_nodes))
    job_hosts = environment.get("SLURM_JOB_NODELIST", "localhost")
    hosts = environment.get("SLURM_STEP_NODELIST", job_hosts)
    # Below the ports that Linux gives other programs (32768 and up); by the job's number, two jobs on a node differ.
    port = 12_000 + int(environment["SLURM_JOB_ID"]) % 20_000
    return {
        "RANK": environment["SLURM_PROCID"],
        "WORLD_SIZE": str(tasks),
        "LOCAL_RANK": environment["SLURM_LOCALID"],
        "LOCAL_WORLD_SIZE": str(tasks // nodes),
        "NODE_RANK": environment["SLURM_NODEID"],
        "MASTER_ADDR": environment.get("MASTER_ADDR", first_host(hosts)),
        "MASTER_PORT": environment.get("MASTER_PORT", str(port)),
    }


def first_host(hosts: str) -> str:
    """Return the first name of a Slurm host list: `n1` of `n1,n2`, `gpu007` of `gpu[007-012,020],x1`."""
    match = re.match(
        r"(?P<stem>[^\[,]+)(?:\[(?P<first>\d+)[^\]]*\](?P<rest>[^,\[]*))?", hosts
    )
    assert match is not None, hosts
    if match["first"] is None:
        return match["stem"]
    return match["stem"] + match["first"] + match["rest"]
