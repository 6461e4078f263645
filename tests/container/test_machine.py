"""What is seen of a machine, from real commands and folders."""

import subprocess
import sys
import time
from pathlib import Path

from container.machine import Machine


def test_programs_answer_fail_or_are_missing(tmp_path: Path) -> None:
    site = Machine()
    assert site.output([sys.executable, "-c", "print('out'); raise SystemExit(3)"]) == (
        3,
        "out",
    )
    assert site.output(["/no/such/program"])[0] == 127
    assert Machine(environ={"PATH": str(tmp_path)}).which("python") is None


def test_one_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    code, text = Machine().output(
        ["sh", "-c", f"sleep 97 & echo $! > {tmp_path}/pid; wait"], 1.0
    )
    assert (code, text) == (124, "no answer within 1 s")
    alive = ["kill", "-0", (tmp_path / "pid").read_text().strip()]
    end = time.monotonic() + 10
    while subprocess.run(alive, stderr=subprocess.DEVNULL).returncode == 0:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_folder_is_tried_by_writing(tmp_path: Path) -> None:
    assert Machine().write_problem(tmp_path) is None
    assert not list(tmp_path.iterdir())
    assert Machine().write_problem(tmp_path / "absent") == "no such file or directory"
    assert Machine().free_gb(tmp_path) > 0
