"""This process among those of the job: its number, its device, sums over all processes.

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
"""Variables with settings of torch's allocator of GPU memory, which reads them at the first tensor on a GPU."""


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
        """Return this process's number and device, from the variables of torchrun, `composer` or Slurm.

        Args:
            timeout: seconds after which torch ends a process that waits for another.
        """
        os.environ.update(slurm_environment(os.environ))
        # A setting of the user's own stays.
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
            # Composer would otherwise connect the processes later, with a timeout of its own.
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
        """Return whether this path is one folder for the processes of all machines, as on a shared disk.

        The first process makes a file there, and the others look for it. All processes must call this.

        Args:
            folder: a folder that exists on each machine.
        """
        # All processes on one machine see its folders.
        if self.local_world == self.world:
            return True
        # The file's name has a random number, which no other job uses. The first process draws it; in a sum with zeros
        # the others get it.
        drawn = secrets.randbelow(2**40) if self.rank == 0 else 0
        # `total` returns a sum for each value that it gets, here one.
        number = self.total(drawn)[0]
        mark = folder / f".shared-{number:.0f}"
        if self.rank == 0:
            mark.touch()
        self.barrier()
        finders = self.total(mark.exists())[0]

        # `total` has waited for all processes, so all have looked by now.
        mark.unlink(missing_ok=True)
        return finders == self.world

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum over all processes of a tensor on the CPU; all processes must call it.

        The sum is on this process's device. On a GPU it may not be computed yet: reading it waits.
        """
        if self.world > 1:
            tensor = tensor.to(self.device, non_blocking=True)
            dist.all_reduce(tensor)
        return tensor

    def each(self, value: float) -> list[float]:
        """Return the values of all processes in the order of their ranks; all processes must call it."""
        # Each process adds its own value to zeros, so the sums are the values.
        values = [0.0] * self.world
        values[self.rank] = value
        return self.total(*values)

    def total(self, *values: float) -> list[float]:
        """Return the sum of each value over all processes, in double precision; all processes must call it."""
        sums: list[float] = self.sum(torch.tensor(values, dtype=torch.float64)).tolist()
        return sums


def slurm_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return torch's variables for a process that Slurm started, to be added to `environment`.

    Nothing is added outside Slurm, for a single task, or where a launcher such as torchrun has set them already. Tasks
    must be spread evenly over nodes (`--ntasks-per-node`), one for each GPU.
    """
    tasks = int(environment.get("SLURM_NTASKS", "1"))
    if tasks < 2 or "RANK" in environment or "SLURM_PROCID" not in environment:
        return {}

    # A job step (one `srun`) may run on only some of the job's nodes. Its processes meet at its own first node.
    job_nodes = environment.get("SLURM_NNODES", "1")
    nodes = int(environment.get("SLURM_STEP_NUM_NODES", job_nodes))
    job_hosts = environment.get("SLURM_JOB_NODELIST", "localhost")
    hosts = environment.get("SLURM_STEP_NODELIST", job_hosts)

    # Linux gives ports from 32768 on to programs that ask for any, so this one is below. It follows from the job's
    # number, so that two jobs on a node have different ones.
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
    # Up to the first comma: a stem such as `gpu`, then perhaps brackets, of which the first number counts, then a rest.
    match = re.match(
        r"(?P<stem>[^\[,]+)(?:\[(?P<first>\d+)[^\]]*\](?P<rest>[^,\[]*))?", hosts
    )
    assert match is not None, hosts
    if match["first"] is None:
        return match["stem"]
    return match["stem"] + match["first"] + match["rest"]
