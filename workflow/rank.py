"""`srun ... python -m workflow.rank COMMAND...`: one process of many, given its rank before it starts.

Slurm's own variables become those that torch.distributed and Composer read, before an image hides the node's name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from common.cli import run
from common.errors import UserError
from common.processes import ignore_stop_signal
from pretraining.training.slurm import slurm_environment


def main(argv: Sequence[str]) -> int:
    """Set the process's rank and become the command."""
    if not argv:
        raise UserError("workflow.rank takes the command to run")
    if "SLURM_PROCID" not in os.environ:
        raise UserError("SLURM_PROCID is not set: start this by srun")
    ignore_stop_signal()
    os.execvpe(argv[0], list(argv), {**os.environ, **slurm_environment(os.environ)})


if __name__ == "__main__":
    run(main, sys.argv[1:])
