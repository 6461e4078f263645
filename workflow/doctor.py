"""`clm-or-mlm doctor`: wrong site settings, found before a job is submitted.

Each check looks at one thing and returns a line: ok, warn (it works, but you should know) or fail (jobs will
fail), with what was seen and what to do.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Iterator
from pathlib import Path

from common.errors import UserError
from container.check_lines import CheckLine, fail, ok, warn
from container.machine import Machine
from container.runtime import identity_of, version_of
from container.start import COMPAT, MINIMUM_DRIVER, SCRATCH, driver_problem, scratch_of


def _inside(machine: Machine) -> bool:
    return bool(
        machine.environ.get("APPTAINER_CONTAINER")
        or machine.environ.get("SINGULARITY_CONTAINER")
    )


def runtimes(machine: Machine, images: Iterable[Path] = ()) -> Iterator[CheckLine]:
    """What runs images: whether it starts, knows what building asks for, and starts the images given."""
    if _inside(machine):
        yield ok("runtime", "already inside an image")
        return
    try:
        program, text = version_of(machine)
    except UserError as error:
        yield fail("apptainer", str(error))
    else:
        _, usage = machine.output([program, "build", "--help"])
        if lacks := [
            option
            for option in ("--build-arg", "--mksquashfs-args")
            if option not in usage
        ]:
            seen = f"{text}, whose `build` does not support {', '.join(lacks)}"
            yield warn(
                "apptainer", f"{seen}; it may run images; build them on another machine"
            )
        else:
            yield ok("apptainer", text)
        if machine.which("debootstrap") is None:
            yield warn(
                "debootstrap",
                "not on PATH, and make image needs it; build images elsewhere and copy them",
            )
        spaces = machine.path("/proc/sys/user/max_user_namespaces")
        if spaces.is_file() and spaces.read_text().strip() == "0":
            yield fail(
                "namespaces",
                "this kernel gives users no namespaces, so only a setuid Apptainer starts images; ask the site",
            )
    for image in images:
        try:
            name, commit = identity_of(image, machine=machine)
        except UserError as error:
            yield fail(image.name, str(error))
        else:
            yield ok(
                image.name, f"starts here; the {name} image of commit {commit[:12]}"
            )


def folders(machine: Machine, study: Path) -> Iterator[CheckLine]:
    """Folders that have to be written, and the GB each needs: caches, temporary files, the study's, workers' memory."""
    temporary = machine.environ.get("APPTAINER_TMPDIR") or machine.environ.get("TMPDIR")
    larger = f"set {SCRATCH} to a folder with 10 GB or more"
    elsewhere = "set TMPDIR and APPTAINER_TMPDIR to another folder: building full.sif takes 20 GB"
    # On the first day the study's own is not there yet.
    existing = next(
        path for path in (study.resolve(), *study.resolve().parents) if path.exists()
    )
    places = [
        ("temporary files", Path(temporary or machine.path("/tmp")), 25, elsewhere),
        ("study folder", existing, 1, "choose another with --study DIR"),
        (
            "shared memory",
            machine.path("/dev/shm"),
            0.5,
            "ask the site for 2 GB or more in /dev/shm",
        ),
    ]
    home = Path(machine.environ.get("HOME", "/no/home"))
    if home.is_dir():
        quota = "free some space there (check the quota), or set HOME and XDG_CACHE_HOME to another folder"
        places.append(("home", home, 0, quota))
    else:
        yield warn(
            "home",
            f"{home} is not a folder; set XDG_CACHE_HOME to a folder you can write to",
        )
    try:
        places.append(("scratch", scratch_of(machine.environ), 10, larger))
    except UserError as error:
        yield fail("scratch", str(error))
    for what, folder, wanted, advice in places:
        if problem := machine.write_problem(folder):
            yield fail(what, f"cannot write to {folder}: {problem}; {advice}")
            continue
        if what == "scratch" and os.statvfs(folder).f_flag & os.ST_NOEXEC:
            yield fail(
                what,
                f"{folder} is mounted noexec, and compiled kernels are loaded from there; {advice}",
            )
            continue
        free = machine.free_gb(folder)
        seen = f"{folder}, {free:.1f} GB free"
        yield warn(what, f"{seen}; {advice}") if free < wanted else ok(what, seen)


def driver(machine: Machine) -> CheckLine:
    """The NVIDIA driver, and that --nv brings it into the image."""
    what = "GPU driver"
    if _inside(machine) and (
        problem := driver_problem(machine.environ, machine.path("/dev/nvidiactl"))
    ):
        return fail(what, f"{problem}, or use clm-or-mlm container run, which sets it")
    if not machine.path("/dev/nvidiactl").exists():
        if machine.path("/dev/kfd").exists():
            return warn(
                what,
                "an AMD GPU: --rocm is used; the image has CUDA builds: see docs/hpc.md",
            )
        return ok(
            what,
            "no GPU on this machine, as on most login nodes; run doctor in a GPU job too",
        )
    code, text = machine.output(
        [
            "nvidia-smi",
            "--query-gpu=driver_version,mig.mode.current",
            "--format=csv,noheader",
        ]
    )
    rows = text.splitlines()
    if code or not rows:
        advice = 'report the node; exclude it with slurm_extra = "--exclude=NODE"'
        return fail(what, f"nvidia-smi fails: {rows[-1] if rows else code}; {advice}")
    seen = f"driver {rows[0].split(',')[0]}, {len(rows)} GPU(s)"
    number = rows[0].partition(".")[0]
    if (
        number.isdecimal()
        and int(number) < MINIMUM_DRIVER
        and not machine.environ.get(COMPAT)
    ):
        advice = f"torch for CUDA 13 needs {MINIMUM_DRIVER}: ask the site, or set cuda_compat (docs/hpc.md)"
        return fail(what, f"{seen}, which is too old; {advice}")
    if "Enabled" in text:
        return warn(
            what,
            f"{seen}, sliced (MIG); MIG slices cannot use NCCL: ask for whole GPUs",
        )
    return ok(what, seen)


def fabric(machine: Machine) -> CheckLine:
    """The network between nodes; whether NCCL or RCCL uses it is seen when it runs."""
    places = (("/sys/class/infiniband", "*"), ("/dev", "cxi[0-9]*"))
    names = sorted(
        path.name
        for place, pattern in places
        for path in machine.path(place).glob(pattern)
    )
    if not names:
        return ok(
            "fabric", "no InfiniBand, Slingshot or EFA here: nodes communicate over TCP"
        )
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if limit != resource.RLIM_INFINITY:
        seen = f"{', '.join(names)}, and locked memory is limited to {limit} bytes"
        return warn(
            "fabric", f"{seen}; RDMA needs `ulimit -l unlimited` in jobs: ask the site"
        )
    return ok(
        "fabric",
        f"{', '.join(names)}; with NCCL_DEBUG=INFO a job's log says whether it is used",
    )


def slurm(machine: Machine) -> CheckLine:
    """What Slurm offers."""
    if machine.which("sbatch") is None:
        return warn("Slurm", "no sbatch here; only PROFILE=local works on this machine")
    code, text = machine.output(["sinfo", "--noheader", "--format=%P %l %D node(s) %G"])
    if code:
        return fail(
            "Slurm",
            f"{text.splitlines()[-1] if text else f'sinfo failed ({code})'}; is slurmctld up?",
        )
    if not text:
        return fail("Slurm", "no partition is visible; ask for access to one")
    return ok("Slurm", "; ".join(text.replace("(null)", "no GPU").splitlines()[:6]))


def examine(study: Path, images: Iterable[Path]) -> list[CheckLine]:
    """Return the answers of all checks for this machine, and for images that are to start on it."""
    here = Machine()
    return [
        *runtimes(here, images),
        *folders(here, study),
        driver(here),
        fabric(here),
        slurm(here),
    ]
