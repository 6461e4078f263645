"""`clm-or-mlm doctor`: wrong site settings, found before a job is submitted.

Each check looks at one thing and returns a line: ok, warn (it works, but you should know) or fail (jobs will
fail), with what was seen and what to do.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from common.errors import UserError
from container.machine import Machine
from container.runtime import RUNTIMES, answer, version_of
from container.start import SCRATCH, driver_problem, scratch_of

__all__ = ["Line", "examine", "fail", "ok", "report", "warn"]


class Line(NamedTuple):
    """One check's answer."""

    status: str
    """`ok`, `warn` or `fail`."""
    what: str
    """The thing that was looked at."""
    seen: str
    """What was seen."""
    advice: str = ""
    """What to do; empty when all is well."""


ok, warn, fail = (partial(Line, status) for status in ("ok", "warn", "fail"))
"""Make a line: what was looked at, what was seen, what to do."""


def _inside(machine: Machine) -> bool:
    return bool(machine.environ.get("APPTAINER_CONTAINER") or machine.environ.get("SINGULARITY_CONTAINER"))


def runtimes(machine: Machine, images: Iterable[Path] = ()) -> Iterator[Line]:
    """What runs images: whether each runtime starts, knows what building asks for, and starts the images given."""
    if _inside(machine):
        yield ok("runtime", "already inside an image")
        return
    there = [runtime for runtime in RUNTIMES.values() if machine.which(*runtime.programs)]
    for runtime in there or [RUNTIMES["apptainer"]]:
        try:
            program, text = version_of(machine, runtime=runtime)
        except UserError as error:
            seen, _, advice = str(error).rpartition("; ")
            yield fail(runtime.name, seen, advice)
            continue
        known = machine.output([program, "build", "--help"])[1]
        if lacks := [option for option in runtime.builds_with if option not in known]:
            seen = f"{text}; its `build` does not support {', '.join(lacks)}"
            yield warn(runtime.name, seen, "it may run images; build them on another machine")
        else:
            yield ok(runtime.name, text)
    for image in images:
        try:
            answer(image, ["help"], "", machine=machine)
        except UserError as error:
            yield fail(image.name, str(error), "see docs/container.md")
        else:
            yield ok(image.name, "starts here")


def folders(machine: Machine, study: Path) -> Iterator[Line]:
    """Folders that have to be written, and the GB each needs: caches, temporary files, the study's, workers' memory."""
    temporary = machine.environ.get("APPTAINER_TMPDIR") or machine.environ.get("TMPDIR")
    more = f"set {SCRATCH} to a folder with 10 GB or more"
    elsewhere = "set TMPDIR and APPTAINER_TMPDIR to another folder: building full.sif takes 20 GB"
    places = [
        ("temporary files", Path(temporary or machine.path("/tmp")), 25, elsewhere),
        ("study folder", study.resolve(), 1, "choose another with --study DIR"),
        ("shared memory", machine.path("/dev/shm"), 0.5, "ask the site for 2 GB or more in /dev/shm"),
    ]
    home = Path(machine.environ.get("HOME", "/no/home"))
    if home.is_dir():
        quota = "free some space there (check the quota), or set HOME and XDG_CACHE_HOME to another folder"
        places.append(("home", home, 0, quota))
    else:
        yield warn("home", f"{home} is not a folder", "set XDG_CACHE_HOME to a folder you can write to")
    try:
        places.append(("scratch", scratch_of(machine.environ), 10, more))
    except UserError as error:
        yield fail("scratch", str(error), more)
    for what, folder, wanted, advice in places:
        if problem := machine.write_problem(folder):
            yield fail(what, f"cannot write to {folder}: {problem}", advice)
            continue
        free = machine.free_gb(folder)
        seen = f"{folder}, {free:.1f} GB free"
        yield warn(what, seen, advice) if free < wanted else ok(what, seen)


def driver(machine: Machine) -> Line:
    """The NVIDIA driver, and that --nv brings it into the image."""
    what = "GPU driver"
    if _inside(machine) and (problem := driver_problem(machine.environ, machine.path("/dev/nvidiactl"))):
        return fail(what, problem, "use apptainer run --nv ..., or clm-or-mlm container run, which sets it")
    if not machine.path("/dev/nvidiactl").exists():
        if machine.path("/dev/kfd").exists():
            return warn(what, "an AMD GPU: --rocm is used", "the image has CUDA builds; see docs/rocm.md")
        return ok(what, "no GPU on this machine, as on most login nodes; run doctor in a GPU job too")
    code, text = machine.output(
        ["nvidia-smi", "--query-gpu=driver_version,mig.mode.current", "--format=csv,noheader"]
    )
    rows = text.splitlines()
    if code or not rows:
        advice = 'report the node; exclude it with slurm_extra = "--exclude=NODE"'
        return fail(what, f"nvidia-smi fails: {rows[-1] if rows else code}", advice)
    seen = f"driver {rows[0].split(',')[0]}, {len(rows)} GPU(s)"
    if "Enabled" in text:
        return warn(what, f"{seen}, sliced (MIG)", "MIG slices cannot use NCCL: ask for whole GPUs")
    return ok(what, seen)


def fabric(machine: Machine) -> Line:
    """The network between nodes; whether NCCL or RCCL uses it is seen when it runs."""
    places = (("/sys/class/infiniband", "*"), ("/dev", "cxi[0-9]*"))
    names = sorted(path.name for place, pattern in places for path in machine.path(place).glob(pattern))
    if not names:
        return ok("fabric", "no InfiniBand, Slingshot or EFA here: nodes communicate over TCP")
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if limit != resource.RLIM_INFINITY:
        seen = f"{', '.join(names)}, and locked memory is limited to {limit} bytes"
        return warn("fabric", seen, "RDMA needs `ulimit -l unlimited` in jobs: ask the site")
    return ok("fabric", f"{', '.join(names)}; doctor --rehearse shows whether it is used")


def slurm(machine: Machine) -> Line:
    """What Slurm offers."""
    if machine.which("sbatch") is None:
        return warn("Slurm", "no sbatch here", "only PROFILE=local works on this machine")
    code, text = machine.output(["sinfo", "--noheader", "--format=%P %l %D node(s) %G"])
    if code:
        return fail("Slurm", text.splitlines()[-1] if text else f"sinfo failed ({code})", "is slurmctld up?")
    if not text:
        return fail("Slurm", "no partition is visible", "ask for access to one")
    return ok("Slurm", "; ".join(text.replace("(null)", "no GPU").splitlines()[:6]))


def examine(study: Path = Path(), images: Iterable[Path] = (), machine: Machine | None = None) -> list[Line]:
    """Return the answers of all checks for this machine, and for images that are to start on it."""
    here = machine or Machine()
    return [*runtimes(here, images), *folders(here, study), driver(here), fabric(here), slurm(here)]


def report(lines: list[Line]) -> str:
    """Return the lines as text, one a check, with what to do under those that are not ok."""
    width = max(len(line.what) for line in lines) + 2
    rows = []
    for line in lines:
        rows.append(f"{line.status:6}{line.what:{width}}{line.seen}\n")
        if line.advice:
            rows.append(f"{'':6}{'':{width}}-> {line.advice}\n")
    counts = {status: sum(line.status == status for line in lines) for status in ("ok", "warn", "fail")}
    return "".join(rows) + ", ".join(f"{number} {status}" for status, number in counts.items()) + "\n"
