from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.sweep.fork_pool import ForkPool, default_size
from common.errors import UserError
from common.processes import cores


@pytest.mark.parametrize("size", [1, 2, 5])
def test_every_work_is_done_once_and_reported_here(size: int) -> None:
    seen: list[tuple[int, int]] = []
    with ForkPool(size) as pool:
        for number in range(7):
            pool.submit(lambda n=number: (n * n, os.getpid()), seen.append)
        pool.finish()
    assert sorted(square for square, _ in seen) == [n * n for n in range(7)]
    assert all((process == os.getpid()) == (size == 1) for _, process in seen)


def _here() -> tuple[int, int]:
    return os.getpid(), torch.get_num_threads()


def test_a_fresh_process_is_never_this_one_and_computes_with_as_many_threads() -> None:
    """What it holds on a GPU is free when it has ended."""
    seen: list[tuple[int, int]] = []
    for fresh, size in ((True, 1), (False, 2)):
        with ForkPool(size, fresh=fresh) as pool:
            pool.submit(_here, seen.append)
            pool.finish()
    assert os.getpid() not in [process for process, _ in seen]
    assert [threads for _, threads in seen] == [torch.get_num_threads()] * 2


def test_never_more_than_its_size_at_work(tmp_path: Path) -> None:
    def work() -> int:
        mark = tmp_path / str(os.getpid())
        mark.touch()
        time.sleep(0.05)
        number = len(list(tmp_path.iterdir()))
        mark.unlink()
        return number

    seen: list[int] = []
    with ForkPool(3) as pool:
        for _ in range(8):
            pool.submit(work, seen.append)
        pool.finish()
    assert len(seen) == 8 and max(seen) <= 3


def _raise(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize("error", [UserError("no such thing"), OSError(28, "No space left on device")])
def test_a_mistake_is_told_after_the_others_have_ended(error: Exception, tmp_path: Path) -> None:
    def slow() -> None:
        time.sleep(0.3)
        (tmp_path / "written").touch()

    with pytest.raises(type(error), match=str(error.args[-1])), ForkPool(2) as pool:
        pool.submit(slow)
        pool.submit(lambda: _raise(error))
        pool.finish()
    assert (tmp_path / "written").exists()


def test_a_programming_error_is_told_with_its_name(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError in a run's process"), ForkPool(2) as pool:
        pool.submit(lambda: 1 // 0)
        pool.finish()
    assert "Traceback" in capfd.readouterr().err


def test_a_killed_process_is_told_in_a_sentence() -> None:
    with (
        pytest.raises(UserError, match="ended by SIGKILL, as happens when memory runs out"),
        ForkPool(2) as pool,
    ):
        pool.submit(lambda: os.kill(os.getpid(), signal.SIGKILL))
        pool.finish()


def test_processes_end_with_the_block_that_failed() -> None:
    with pytest.raises(ZeroDivisionError), ForkPool(2) as pool:
        pool.submit(lambda: time.sleep(600))
        ((process, _),) = pool._busy.values()
        1 // 0  # noqa: B018
    assert not process.is_alive()


def test_the_default_size_follows_cores_threads_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "6")
    assert default_size(1, 1) == 6
    assert default_size(4, 1) == 1
    assert default_size(1, 2**60) == 1
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert default_size(1, 1) == cores()
