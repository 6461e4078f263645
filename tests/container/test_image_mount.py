import os
import signal
import subprocess
import time
from pathlib import Path

from container.image_mount import path_with_lasting_mount
from container.machine import Machine


def test_what_mounts_an_image_outlives_the_schedulers_signals(
    tmp_path: Path,
) -> None:
    programs, scratch = tmp_path / "pro grams", tmp_path / "scratch"
    programs.mkdir()
    scratch.mkdir(mode=0o700)
    real = programs / "squashfuse_ll"
    real.write_text('#!/bin/sh\necho "$1"\nexec sleep 60\n')
    real.chmod(0o755)
    machine = Machine(environ={"PATH": f"{programs}:{os.environ['PATH']}"})
    path = path_with_lasting_mount(machine, scratch)["PATH"]
    # Called again, as inside of what it has started, it does not start itself.
    assert path_with_lasting_mount(Machine(environ={"PATH": path}), scratch)[
        "PATH"
    ].endswith(path)
    assert str(real) in (scratch / "mount/squashfuse_ll").read_text()
    command = ["sh", "-c", 'exec squashfuse_ll "$1"', "sh", "an image"]
    with subprocess.Popen(
        command, env={"PATH": path}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "an image\n"
        for number in (signal.SIGTERM, signal.SIGUSR1):
            process.send_signal(number)
        time.sleep(0.2)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == -signal.SIGINT
