"""Worker processes: they answer in order, end with their parent, and leave Ctrl-C to it."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from common.errors import UserError
from common.processes import on_stop_signal, worker_pool
from common.provenance import ROOT


def add_ten(value: int) -> int:
    return 10 + value


def end_hard(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def alive(process: int) -> bool:
    try:
        return (
            Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
            != "Z"
        )
    except OSError:
        return False


def test_workers_answer_in_order() -> None:
    with worker_pool(2) as pool:
        assert list(pool.map(add_ten, range(5))) == [10, 11, 12, 13, 14]


def test_a_killed_worker_is_one_sentence() -> None:
    with (
        pytest.raises(UserError, match="take fewer"),
        worker_pool(1, killed="killed; take fewer") as pool,
    ):
        pool.submit(end_hard, 0).result()


POOL = """
    import os, time
    from common.processes import worker_pool
    if __name__ == "__main__":
        with worker_pool(2) as pool:
            print(*{pool.submit(os.getpid).result() for _ in range(50)} | set(pool._processes), flush=True)
            time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_a_parent_that_is_killed(
    tmp_path: Path, number: signal.Signals
) -> None:
    script = tmp_path / "pool.py"
    script.write_text(textwrap.dedent(POOL))
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    workers = [int(word) for word in process.stdout.readline().split()]
    assert len(workers) == 2 and all(map(alive, workers))
    process.send_signal(number)
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 20
    while any(map(alive, workers)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_stop_signals_are_reported_while_the_block_runs() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    received: list[signal.Signals] = []
    with on_stop_signal(received.append):
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.05)
    assert set(received) == {signal.SIGUSR1, signal.SIGTERM}
    assert signal.getsignal(signal.SIGUSR1) is before
