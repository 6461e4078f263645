"""Commands in which the n-th call of libc that writes below a folder fails, in whatever library (`nth.c`).

A server with the preloaded library imports everything once and forks for each call.
"""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from common.provenance import ROOT

MODES = ("killed", "torn", "full", "broken")
COMPILER = shutil.which("gcc") or shutil.which("cc")


class Server:
    """The process that makes the calls."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def call(
        self, words: Sequence[str], under: Path, number: int = 0, mode: str = "killed"
    ) -> tuple[int, int]:
        """Make a call, and return how it ended (0, an exit code, or minus a signal) and how many calls of libc it made.

        Args:
            words: of the command line.
            under: the folder whose writes are counted.
            number: which of them fails; 0: none.
            mode: one of `MODES`.
        """
        case = [list(words), str(under), number, MODES.index(mode)]
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        code, count = json.loads(self._process.stdout.readline())
        return code, count


@contextmanager
def server(folder: Path, *modules: str) -> Iterator[Server]:
    """Compile the library in a folder and run a server that has imported some modules."""
    library = folder / "nth.so"
    source = Path(__file__).with_suffix(".c")
    build = [str(COMPILER), "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    subprocess.run(build, check=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.nth", *modules],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=folder,
        env=os.environ | {"LD_PRELOAD": str(library), "PYTHONPATH": str(ROOT)},
    )
    try:
        yield Server(process)
    finally:
        process.communicate()


def serve() -> None:
    """Answer each line of input, a case, with a line of output."""
    from importlib import import_module

    from clm_or_mlm.__main__ import main
    from common.cli import run

    for module in sys.argv[1:]:
        import_module(module)
    answers = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    library = ctypes.CDLL(None)
    for line in sys.stdin:
        words, under, number, mode = json.loads(line)
        reader, writer = os.pipe()
        if (process := os.fork()) == 0:
            code = 1
            try:
                library.nth_arm(number, mode, under.encode())
                run(main, words)
            except SystemExit as error:
                code = int(error.code or 0)
            finally:
                os.write(writer, str(library.nth_count()).encode())
                os._exit(code)
        os.close(writer)
        count = int(os.read(reader, 9) or 0)
        os.close(reader)
        _, status = os.waitpid(process, 0)
        answer = [os.waitstatus_to_exitcode(status), count]
        os.write(answers, f"{json.dumps(answer)}\n".encode())


if __name__ == "__main__":
    serve()
