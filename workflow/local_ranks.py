"""`python -m workflow.local_ranks N COMMAND...`: N processes on this machine, one a GPU, each with its rank.

What torchrun does for one machine, but the command may be an image's; a signal to the group reaches every process.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from common.cli import run
from common.errors import UserError
from common.processes import AGAIN

__all__ = ["run_ranks"]


def run_ranks(number: int, command: Sequence[str]) -> int:
    """Run the command `number` times side by side; return 0, or the first code that is not, ending the others."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {"WORLD_SIZE": str(number), "LOCAL_WORLD_SIZE": str(number), "NODE_RANK": "0"}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = [
        subprocess.Popen(command, env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(number)
    ]
    code = 0
    try:
        while None in (codes := [process.poll() for process in processes]):
            failed = [found for found in codes if found]
            if failed and not code:
                code = failed[0]
                # The others would wait for the lost one for the length of their timeout.
                for process in processes:
                    if code != AGAIN and process.poll() is None:
                        process.terminate()
            time.sleep(0.2)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
    return code or next((process.returncode for process in processes if process.returncode), 0)


def main(argv: Sequence[str]) -> int:
    if len(argv) < 2 or not argv[0].isdecimal():
        raise UserError("workflow.local_ranks takes a number of processes and the command to run")
    return run_ranks(int(argv[0]), argv[1:])


if __name__ == "__main__":
    run(main, sys.argv[1:])
