"""What a controller of the whole study costs, on a Slurm that simulates time.

    python -m tests.performance.scheduler [--trace]

The controller is the real one: `run_workflow` and Snakemake with its Slurm executor, on all of the paper's models.
Slurm is a stand-in of this script: `sbatch`, `squeue` and the others ask a process that gives 64 GPUs to jobs in the
order of their submission, lets an hour pass in a second or less, and makes the files that a job would. One cell in
fifty fails once.

With `--trace` the controller runs under strace and its calls that name files of the study are counted, which takes
longer; CPU times are then not its own.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import heapq
import json
import os
import re
import shutil
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from common.provenance import ROOT
from workflow.jobs import Job, Workflow, load, save, write_marker
from workflow.settings import Settings
from workflow.study import workflow_of

CLIENT = """#!{python} -SE
import json, socket, sys
with socket.socket(socket.AF_UNIX) as door:
    door.connect({door!r})
    door.sendall(json.dumps([sys.argv[0].rsplit("/", 1)[-1], *sys.argv[1:]]).encode() + b"\\n")
    answer = json.loads(door.makefile().readline())
sys.stdout.write(answer["text"])
sys.exit(answer["code"])
"""
PROGRAMS = ("sbatch", "squeue", "scontrol", "scancel", "sinfo", "sacctmgr")

CALL = """
import logging, sys
from pathlib import Path
from workflow.engine import run_workflow
from workflow.jobs import load

logging.basicConfig(level=logging.INFO)
folder = Path(sys.argv[1])
sys.exit(not run_workflow(load(folder), folder, profile="slurm", words=sys.argv[2:]))
"""


class Cluster:
    """Jobs in a queue, so many GPUs, and a clock that runs `speed` times as fast as the real one."""

    def __init__(self, workflow: Workflow, folder: Path, gpus: int, speed: float) -> None:
        self.folder, self.free, self.speed = folder, gpus, speed
        self.fails = {job.name for job in workflow.of_kind("cell")[::50]}
        self.by_comment = {
            f"rule_{job.kind.name}_wildcards_{job.name.replace('/', '_')}": job
            for job in workflow.jobs.values()
        }
        self.rows: dict[int, dict[str, str]] = {}
        self.mine: dict[int, Job] = {}
        self.waiting: collections.deque[int] = collections.deque()
        self.running: list[tuple[float, int]] = []
        self.calls: collections.Counter[str] = collections.Counter()
        self.submitted: list[float] = []
        self.failed_at: list[float] = []
        self.lock = threading.Lock()

    def pass_time(self) -> None:
        """End the jobs whose time is over, and start those for which GPUs are free."""
        now = time.monotonic()
        with self.lock:
            while self.running and self.running[0][0] <= now:
                _, number = heapq.heappop(self.running)
                job = self.mine[number]
                self.free += job.nodes * job.gpus
                self._end(number, job)
            while (
                self.waiting
                and self.mine[self.waiting[0]].nodes * self.mine[self.waiting[0]].gpus <= self.free
            ):
                number = self.waiting.popleft()
                job = self.mine[number]
                self.free -= job.nodes * job.gpus
                self.rows[number]["T"] = "RUNNING"
                heapq.heappush(self.running, (now + job.hours * 3600 / self.speed, number))

    def _end(self, number: int, job: Job) -> None:
        if job.kind.name == "cell" and job.name in self.fails:
            self.fails.discard(job.name)
            self.failed_at.append(time.monotonic())
            self.rows[number]["T"] = "FAILED"
            # A job that ended without a sentence left a log: it is submitted again.
            (self.folder / job.log).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / job.log).touch()
            return
        for name in job.makes:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")
        write_marker(job, self.folder)
        self.rows[number]["T"] = "COMPLETED"

    def answer(self, words: list[str]) -> tuple[int, str]:
        """Return exit code and output of one of Slurm's commands."""
        program, *rest = words
        with self.lock:
            self.calls[program] += 1
            if program == "sbatch":
                return 0, f"{self._submit(rest)}\n"
            if program == "squeue":
                return 0, self._queue(" ".join(rest))
            return (
                (0, "MinJobAge = 300 sec\nAccountingStorageType = (null)\n")
                if program == "scontrol"
                else (0, "")
            )

    def _submit(self, words: list[str]) -> int:
        number = len(self.rows) + 1
        name, comment = (words[words.index(option) + 1] for option in ("--job-name", "--comment"))
        self.rows[number] = {
            "i": str(number),
            "T": "PENDING",
            "r": "Resources",
            "M": "0:01",
            "j": name,
            "k": comment,
        }
        self.mine[number] = self.by_comment[comment]
        self.waiting.append(number)
        self.submitted.append(time.monotonic())
        return number

    def _queue(self, words: str) -> str:
        form = re.search(r"--format=(\S+)", words)
        assert form is not None
        ended = ("COMPLETED", "FAILED")
        rows = [row for row in self.rows.values() if "--states=all" in words or row["T"] not in ended]
        return "".join(re.sub(r"%(\w)", lambda match, row=row: row[match[1]], form[1]) + "\n" for row in rows)  # type: ignore[misc]


def _serve(cluster: Cluster, door: Path) -> socketserver.ThreadingUnixStreamServer:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            code, text = cluster.answer(json.loads(self.rfile.readline()))
            self.wfile.write(json.dumps({"code": code, "text": text}).encode() + b"\n")

    server = socketserver.ThreadingUnixStreamServer(str(door), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _look(number: int, found: dict[int, tuple[str, float, float]]) -> None:
    """Note what a process and its Snakemake are, their CPU seconds and their largest memory in MB, by number."""
    for one in (number, *map(int, Path(f"/proc/{number}/task/{number}/children").read_text().split())):
        with contextlib.suppress(OSError, IndexError):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{one}/status").read_text())
            if one == number or b"snakemake" in Path(f"/proc/{one}/cmdline").read_bytes():
                seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                name = "the call" if one == number else "snakemake"
                found[one] = (name, seconds, int(peak[1]) / 1024 if peak else 0.0)


_NAMED = re.compile(r"^\d+ +(\w+)\((?:AT_FDCWD, )?\"([^\"]*)\"")


def _traced(path: Path, folder: Path) -> collections.Counter[str]:
    """Return how often each system call named a file of the study."""
    found: collections.Counter[str] = collections.Counter()
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            match = _NAMED.match(line)
            if match and (not match[2].startswith("/") or match[2].startswith(str(folder))):
                found[match[1]] += 1
    return found


def measure(folder: Path, target: str, gpus: int, speed: float, every: int, trace: bool) -> None:
    """Run a study on a stand-in and print what its controller took."""
    workflow = workflow_of(target, Settings(gpus_per_node=8, nodes=1))
    save(workflow, folder)
    workflow = load(folder)
    cluster = Cluster(workflow, folder, gpus, speed)
    door, programs = folder / ".door", folder / ".bin"
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).write_text(CLIENT.format(python=sys.executable, door=str(door)))
        (programs / name).chmod(0o755)
    server = _serve(cluster, door)
    environ = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", CALL, str(folder), "--seconds-between-status-checks", str(every)]
    command += ["--slurm-init-seconds-before-status-checks", str(every)]
    if trace:
        command = [
            "strace",
            "-f",
            "--seccomp-bpf",
            "-qq",
            "-e",
            "trace=%file",
            "-o",
            str(folder / ".trace"),
            *command,
        ]
    runs = sum(len(job.makes) for job in workflow.of_kind("cell"))
    sys.stdout.write(
        f"{target}: {len(workflow.jobs)} jobs, {runs:,} runs, {gpus} GPUs, an hour in {3600 / speed:.2g} s\n"
    )
    started = time.monotonic()
    seen: list[float] = []
    cpu: dict[int, tuple[str, float, float]] = {}
    log = folder / ".log"
    with log.open("wb") as sink:
        process = subprocess.Popen(command, env=environ, cwd=ROOT, stdout=sink, stderr=sink)
        while process.poll() is None:
            cluster.pass_time()
            with contextlib.suppress(OSError):
                _look(process.pid, cpu)
            shown = log.read_text("utf-8", "replace").count("Error in rule cell")
            seen += [time.monotonic() - at for at in cluster.failed_at[len(seen) : shown]]
            time.sleep(0.1)
    server.shutdown()
    took = time.monotonic() - started
    done = sum((folder / name).is_file() for job in workflow.of_kind("cell") for name in job.makes)
    span = cluster.submitted[-1] - cluster.submitted[0]
    most = max(sum(0 <= other - one < 10 for other in cluster.submitted) for one in cluster.submitted)
    slurm = ", ".join(f"{count} {name}" for name, count in cluster.calls.most_common())
    print(f"ended with {process.returncode} after {took:.0f} s; {done:,} runs done")
    print(f"calls of Slurm: {slurm}; sbatch for {span:.0f} s, {most / 10:.1f} a second at most")
    print(
        f"{len(seen)} failures were seen {min(seen):.1f} to {max(seen):.1f} s after them, looking each {every} s"
    )
    if trace:
        found = _traced(folder / ".trace", folder)
        names = ", ".join(f"{count:,} {name}" for name, count in found.most_common(8))
        print(f"calls that name a file of the study: {sum(found.values()):,}: {names}")
        return
    for name, seconds, memory in cpu.values():
        print(f"{name}: {seconds:.1f} CPU seconds, {memory:.0f} MB at most")


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m tests.performance.scheduler", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--target", default="all")
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--speed", type=float, default=3600.0, help="simulated seconds in one")
    parser.add_argument("--every", type=int, default=3, help="seconds between Snakemake's looks at its jobs")
    parser.add_argument("--trace", action="store_true", help="count file-system calls by strace")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="scheduler-"))
    try:
        measure(folder, arguments.target, arguments.gpus, arguments.speed, arguments.every, arguments.trace)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
