"""A Slurm step as the environment that torch's and Composer's process groups read. Standard library only.

With it `srun python -m pretraining train ...` needs no launcher: every task is one process, the signal Slurm sends
before a time limit reaches it, and its exit code (75 after a signal) reaches Slurm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["first_host", "slurm_environment"]


def slurm_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to add to `environment`; none outside Slurm, for one task, or under a launcher.

    Tasks must be spread evenly over nodes (`--ntasks-per-node`), one a GPU.
    """
    tasks = int(environment.get("SLURM_NTASKS", "1"))
    if tasks < 2 or "RANK" in environment or "SLURM_PROCID" not in environment:
        return {}
    nodes = int(environment.get("SLURM_STEP_NUM_NODES", environment.get("SLURM_NNODES", "1")))
    hosts = environment.get("SLURM_STEP_NODELIST", environment.get("SLURM_JOB_NODELIST", "localhost"))
    return {
        "RANK": environment["SLURM_PROCID"],
        "WORLD_SIZE": str(tasks),
        "LOCAL_RANK": environment["SLURM_LOCALID"],
        "LOCAL_WORLD_SIZE": str(tasks // nodes),
        "NODE_RANK": environment["SLURM_NODEID"],
        "MASTER_ADDR": environment.get("MASTER_ADDR", first_host(hosts)),
        "MASTER_PORT": environment.get(
            # Below the range that Linux hands out to others (32768 and up); two jobs on a node never meet.
            "MASTER_PORT",
            str(12_000 + int(environment["SLURM_JOB_ID"]) % 20_000),
        ),
    }


def first_host(hosts: str) -> str:
    """Return the first name of a Slurm host list: `n1` of `n1,n2`, `gpu007` of `gpu[007-012,020],x1`."""
    match = re.match(r"(?P<stem>[^\[,]+)(?:\[(?P<first>\d+)[^\]]*\](?P<rest>[^,\[]*))?", hosts)
    assert match is not None, hosts
    return match["stem"] + (match["first"] or "") + (match["rest"] or "")
