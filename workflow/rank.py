"""`srun ... python -m workflow.rank COMMAND...`: one process of many, told its place before it starts.

Slurm's own variables become those that torch.distributed and Composer read: MASTER_ADDR is the job's first node,
MASTER_PORT follows from the job's id, so that two jobs on a node never meet.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence

from common.cli import run
from common.errors import UserError

__all__ = ["first_node", "rendezvous"]


def first_node(nodes: str) -> str:
    """Return the first host of a Slurm node list: `gpu[012-015],x1` gives `gpu012`."""
    match = re.match(r"([^,\[\]]+)(?:\[([^\],-]+))?", nodes)
    if match is None:
        raise UserError(f"SLURM_NODELIST={nodes!r} is no list of nodes")
    return match[1] + (match[2] or "")


def rendezvous(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of this process, from Slurm's.

    Raises:
        UserError: not under srun.
    """
    try:
        rank, world, local = (environ[key] for key in ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"))
        nodes, node = environ.get("SLURM_STEP_NODELIST") or environ["SLURM_NODELIST"], environ["SLURM_NODEID"]
        job = int(environ["SLURM_JOB_ID"])
        per_node = environ.get("SLURM_NTASKS_PER_NODE") or str(
            int(world) // int(environ.get("SLURM_STEP_NUM_NODES") or environ["SLURM_NNODES"])
        )
    except KeyError as error:
        raise UserError(f"{error.args[0]} is not set: start this by srun") from None
    return {
        "RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_RANK": local,
        "LOCAL_WORLD_SIZE": per_node,
        "NODE_RANK": node,
        "MASTER_ADDR": first_node(nodes),
        # Below the range that Linux hands out to others (32768 and up).
        "MASTER_PORT": str(12_000 + job % 20_000),
    }


def main(argv: Sequence[str]) -> int:
    if not argv:
        raise UserError("workflow.rank takes the command to run")
    # Launchers between here and training would die of it; what is ignored stays ignored until training listens.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    os.execvpe(argv[0], list(argv), {**os.environ, **rendezvous(os.environ)})


if __name__ == "__main__":
    run(main, sys.argv[1:])
