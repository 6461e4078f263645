"""The one list of what is looked at before a start: the study, what Slurm would say, the image, this machine.

Each check looks at one thing and says ok, warn (it works, but you should know) or fail (jobs will fail), with what was
seen and what to do. `clm-or-mlm doctor` prints the list; a start refuses the first that fails, its dry run names all.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from common.errors import UserError
from container.check_lines import CheckLine, fail, ok, warn
from container.machine import Machine
from container.runtime import identity_of, version_of
from container.start import COMPAT, MINIMUM_DRIVER, SCRATCH, driver_problem, scratch_of
from workflow.slurm_checks import slurm
from workflow.start import Check, Start
from workflow.study_checks import STUDY_CHECKS


def _inside(machine: Machine) -> bool:
    return bool(
        machine.environ.get("APPTAINER_CONTAINER")
        or machine.environ.get("SINGULARITY_CONTAINER")
    )


def apptainer(start: Start) -> Iterator[CheckLine]:
    """Whether something here runs images, builds them, and starts those that are given."""
    machine = start.machine
    if _inside(machine):
        yield ok("apptainer", "already inside an image")
        return
    # A study without an image starts none.
    if start.is_planned and not start.workflow.image:
        return
    # Building is a question to a machine: a study's image is built already.
    if not start.is_planned:
        yield from _builds(machine)
    spaces = machine.path("/proc/sys/user/max_user_namespaces")
    if spaces.is_file() and spaces.read_text().strip() == "0":
        said = "this kernel gives users no namespaces, so only a setuid Apptainer starts images; ask the site"
        yield start.fault("namespaces", said)
    for image in start.images:
        try:
            name, commit = identity_of(image, machine=machine)
            said = f"starts here; the {name} image of commit {commit[:12]}"
            yield ok(image.name, said)
        except UserError as error:
            yield fail(image.name, str(error))


def _builds(machine: Machine) -> Iterator[CheckLine]:
    """Yield whether Apptainer is here, and what building an image asks for."""
    try:
        program, text = version_of(machine)
    except UserError as error:
        yield fail("apptainer", str(error))
    else:
        # Apptainer and SingularityCE count their versions differently, so the program's help is asked for options.
        _, usage = machine.output([program, "build", "--help"])
        needed = ("--build-arg", "--mksquashfs-args")
        lacks = [option for option in needed if option not in usage]
        if lacks:
            seen = f"{text}, whose `build` does not support {', '.join(lacks)}"
            said = f"{seen}; it may run images; build them on another machine"
            yield warn("apptainer", said)
        else:
            yield ok("apptainer", text)
    if machine.which("debootstrap") is None:
        said = (
            "not on PATH, and make image needs it; build images elsewhere and copy them"
        )
        yield warn("debootstrap", said)


def certificates(start: Start) -> Iterator[CheckLine]:
    """Whether the certificates of a proxy that reads along are where the environment says."""
    for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE"):
        path = start.machine.environ.get(name, "")
        if path and not Path(path).exists():
            said = f"{name} is {path}, which does not exist, so no download works; correct or unset it"
            yield warn("certificates", said)


def home(start: Start) -> Iterator[CheckLine]:
    """Whether the home folder can be written; jobs do without it."""
    folder = Path(start.machine.environ.get("HOME", "/no/home"))
    if not folder.is_dir():
        advice = "set XDG_CACHE_HOME to a folder you can write to"
        yield warn("home", f"{folder} is not a folder; {advice}")
        return
    problem = start.machine.write_problem(folder)
    if problem:
        advice = "free some space there (check the quota), or set HOME and XDG_CACHE_HOME to another folder"
        yield warn("home", f"cannot write to {folder}: {problem}; {advice}")


def folders(start: Start) -> Iterator[CheckLine]:
    """Folders that have to be written, and the GB each needs: caches, temporary files, the study's, workers' memory."""
    machine = start.machine
    yield _room(start, "study folder", start.place, 1, "choose another folder")
    larger = f"set {SCRATCH} to a folder with 10 GB or more"
    try:
        scratch = scratch_of(machine.environ)
    except UserError as error:
        yield start.fault("scratch", str(error))
    else:
        if os.statvfs(scratch).f_flag & os.ST_NOEXEC:
            said = f"{scratch} is mounted noexec, and compiled kernels are loaded from there; {larger}"
            yield start.fault("scratch", said)
        else:
            yield _room(start, "scratch", scratch, 10, larger)
    memory = machine.path("/dev/shm")
    advice = "ask the site for 2 GB or more in /dev/shm"
    yield _room(start, "shared memory", memory, 0.5, advice)
    if start.is_planned:
        return
    temporary = machine.environ.get("APPTAINER_TMPDIR") or machine.environ.get("TMPDIR")
    elsewhere = "set TMPDIR and APPTAINER_TMPDIR to another folder: building full.sif takes 20 GB"
    folder = Path(temporary or machine.path("/tmp"))
    yield _room(start, "temporary files", folder, 25, elsewhere)


def _room(
    start: Start, what: str, folder: Path, wanted: float, advice: str
) -> CheckLine:
    """Return whether a folder can be written, and has the GB that are wanted."""
    problem = start.machine.write_problem(folder)
    if problem:
        return start.fault(what, f"cannot write to {folder}: {problem}; {advice}")
    free = start.machine.free_gb(folder)
    seen = f"{folder}, {free:.1f} GB free"
    if free < wanted:
        return warn(what, f"{seen}; {advice}")
    return ok(what, seen)


def driver(start: Start) -> Iterator[CheckLine]:
    """The NVIDIA driver, and that --nv brings it into the image."""
    what = "GPU driver"
    machine = start.machine
    device = machine.path("/dev/nvidiactl")
    if not start.settings.gpus_per_node or start.settings.runtime == "none":
        return
    if _inside(machine):
        problem = driver_problem(machine.environ, device)
        if problem:
            advice = "or use clm-or-mlm container run, which sets it"
            yield start.fault(what, f"{problem}, {advice}")
            return
    if device.exists():
        yield _nvidia(start, what)
    elif machine.path("/dev/kfd").exists():
        said = "an AMD GPU: --rocm is used; the image has CUDA builds: see docs/hpc.md"
        yield warn(what, said)
    else:
        said = "no GPU on this machine, as on most login nodes; run doctor in a GPU job too"
        yield ok(what, said)


def _nvidia(start: Start, what: str) -> CheckLine:
    """Return what nvidia-smi says of this machine's GPUs."""
    machine, settings = start.machine, start.settings
    query = "--query-gpu=driver_version,mig.mode.current"
    code, text = machine.output(["nvidia-smi", query, "--format=csv,noheader"])
    rows = text.splitlines()
    if code or not rows:
        advice = 'report the node; exclude it with slurm_extra = "--exclude=NODE"'
        why = rows[-1] if rows else code
        return start.fault(what, f"nvidia-smi fails: {why}; {advice}")
    version = rows[0].split(",")[0]
    seen = f"driver {version}, {len(rows)} GPU(s)"
    number = version.partition(".")[0]
    compat = machine.environ.get(COMPAT) or settings.cuda_compat
    if number.isdecimal() and int(number) < MINIMUM_DRIVER and not compat:
        advice = f"torch for CUDA 13 needs {MINIMUM_DRIVER}: ask the site, or set cuda_compat (docs/hpc.md)"
        return start.fault(what, f"{seen}, which is too old; {advice}")
    if "Enabled" not in text:
        return ok(what, seen)
    said = f"{seen}, sliced (MIG); MIG slices cannot use NCCL: ask for whole GPUs"
    if start.is_planned and settings.nodes * settings.gpus_per_node > 1:
        return start.fault(what, said)
    return warn(what, said)


def fabric(start: Start) -> Iterator[CheckLine]:
    """The network between nodes; whether NCCL or RCCL uses it is seen when it runs."""
    if start.is_planned and start.settings.nodes == 1:
        return
    infiniband = start.machine.path("/sys/class/infiniband").glob("*")
    slingshot = start.machine.path("/dev").glob("cxi[0-9]*")
    names = sorted(path.name for path in (*infiniband, *slingshot))
    listed = ", ".join(names)
    # Slurm gives jobs the limits of the shell that submits them, so this shell's limit is theirs.
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if not names:
        said = "no InfiniBand, Slingshot or EFA here: nodes communicate over TCP"
        yield ok("fabric", said)
    elif limit != resource.RLIM_INFINITY:
        seen = f"{listed}, and locked memory is limited to {limit} bytes"
        advice = "RDMA needs `ulimit -l unlimited` in jobs: ask the site"
        yield warn("fabric", f"{seen}; {advice}")
    else:
        said = f"{listed}; with NCCL_DEBUG=INFO a job's log says whether it is used"
        yield ok("fabric", said)


MACHINE_CHECKS: tuple[Check, ...] = (
    slurm,
    apptainer,
    certificates,
    folders,
    home,
    driver,
    fabric,
)
"""What is looked at also where no study is planned."""


def examine(start: Start) -> Iterator[CheckLine]:
    """Yield the answers of all checks, the study's first; a check that finds nothing says so."""
    checks = (*STUDY_CHECKS, *MACHINE_CHECKS) if start.is_planned else MACHINE_CHECKS
    for check in checks:
        lines = list(check(start))
        name = check.__name__.replace("_", " ")
        yield from lines or [ok(name, "nothing is wrong")]
