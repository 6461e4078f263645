from __future__ import annotations

import functools
import os
import signal
import time
from pathlib import Path

import pytest

from benchmarks.sweep.queue import Stop, side_by_side
from common.errors import UserError


def _mark(folder: Path, stop: Stop) -> None:
    (folder / str(os.getpid())).touch()


@pytest.mark.parametrize("fresh", [False, True])
def test_each_call_has_a_process_of_its_own(fresh: bool, tmp_path: Path) -> None:
    side_by_side([functools.partial(_mark, tmp_path)] * 2, fresh=fresh)
    assert len(list(tmp_path.iterdir())) == 2 and not (tmp_path / str(os.getpid())).exists()


def fail(error: Exception, stop: Stop) -> None:
    raise error


@pytest.mark.parametrize("error", [UserError("no such thing"), OSError(28, "No space left on device")])
def test_a_mistake_is_told_after_the_others_have_ended_what_they_are_at(
    error: Exception, tmp_path: Path
) -> None:
    def slow(stop: Stop) -> None:
        while not stop():
            time.sleep(0.01)
        (tmp_path / "written").touch()

    with pytest.raises(type(error), match=str(error.args[-1])):
        side_by_side([slow, functools.partial(fail, error)], fresh=False)
    assert (tmp_path / "written").exists()


def test_a_mistake_stops_the_others_however_close_its_end_is_to_being_seen() -> None:
    def wait_for_it(stop: Stop) -> None:
        while not stop():
            time.sleep(0.001)

    for _ in range(100):  # a process whose end is seen before its exit code is comes up once in some dozens
        with pytest.raises(UserError, match="no such thing"):
            side_by_side([wait_for_it, functools.partial(fail, UserError("no such thing"))], fresh=False)


def test_a_programming_error_is_told_with_its_name(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError in a worker"):
        side_by_side([functools.partial(fail, ZeroDivisionError()), lambda stop: None], fresh=False)
    assert "Traceback" in capfd.readouterr().err


def test_a_killed_process_is_told_in_a_sentence() -> None:
    with pytest.raises(UserError, match="ended by SIGKILL, as happens when memory runs out"):
        side_by_side([lambda stop: os.kill(os.getpid(), signal.SIGKILL)], fresh=False)


def test_processes_end_with_a_call_that_is_interrupted(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # commands answer it with an exit code
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    def interrupt(stop: Stop) -> None:
        (tmp_path / str(os.getpid())).touch()
        time.sleep(0.5)  # so that the parent waits
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(30)

    with pytest.raises(KeyboardInterrupt):
        side_by_side([interrupt], fresh=False)
    (process,) = tmp_path.iterdir()
    assert not Path("/proc", process.name).exists()
