"""The one list of all checks before a start: of the study, of what Slurm would say, of the image, of this machine.

Each check looks at one thing and answers by a line, made by ok, warn (it works, but you should know) or fail (jobs will
fail): the thing, and a sentence with what was seen and what to do. `clm-or-mlm doctor` prints the lines; a start is
refused at the first that fails; a dry run prints all that fail or warn.
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


def _is_inside_image(machine: Machine) -> bool:
    return bool(
        machine.environ.get("APPTAINER_CONTAINER")
        or machine.environ.get("SINGULARITY_CONTAINER")
    )


def apptainer(start: Start) -> Iterator[CheckLine]:
    """Whether Apptainer here builds images, runs them without root, and starts the images that are given."""
    machine = start.machine
    if _is_inside_image(machine):
        yield ok("apptainer", "already inside an image")
        return

    # A study without an image needs no Apptainer.
    if start.is_planned and not start.workflow.image:
        return

    # A study's image is built already, so building is checked only where no study is planned.
    if not start.is_planned:
        yield from _builds(machine)
    # The kernel's file has the most user namespaces that it allows; without root, images are started in one.
    spaces = machine.path("/proc/sys/user/max_user_namespaces")
    if spaces.is_file() and spaces.read_text().strip() == "0":
        said = "this kernel gives users no namespaces, so only a setuid Apptainer starts images; ask the site"
        # A `fault` is a failure where jobs run on this machine, and a warning where Slurm runs them elsewhere.
        yield start.fault("namespaces", said)

    # The image of the jobs is tried by a check of the study.
    for image in start.images:
        try:
            name, commit = identity_of(image, machine=machine)
            said = f"starts here; the {name} image of commit {commit[:12]}"
            yield ok(image.name, said)
        except UserError as error:
            yield fail(image.name, str(error))


def _builds(machine: Machine) -> Iterator[CheckLine]:
    """Yield lines on whether Apptainer and debootstrap are here, as building an image needs them."""
    try:
        program, version = version_of(machine)
    except UserError as error:
        yield fail("apptainer", str(error))
    else:
        # Apptainer and SingularityCE count their versions differently, so the options are sought in the program's help.
        _, usage = machine.output([program, "build", "--help"])
        needed = ("--build-arg", "--mksquashfs-args")
        missing = [option for option in needed if option not in usage]
        if missing:
            seen = f"{version}, whose `build` does not support {', '.join(missing)}"
            said = f"{seen}; it may run images; build them on another machine"
            yield warn("apptainer", said)
        else:
            yield ok("apptainer", version)

    if machine.which("debootstrap") is None:
        said = (
            "not on PATH, and make image needs it; build images elsewhere and copy them"
        )
        yield warn("debootstrap", said)


def certificates(start: Start) -> Iterator[CheckLine]:
    """Whether the certificates that the environment names exist, as a proxy that decrypts traffic needs its own."""
    for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE"):
        path = start.machine.environ.get(name, "")
        if path and not Path(path).exists():
            said = f"{name} is {path}, which does not exist, so no download works; correct or unset it"
            yield warn("certificates", said)


def home(start: Start) -> Iterator[CheckLine]:
    """Whether the home folder can be written; jobs do without it, so there are only warnings."""
    # An environment without HOME gets a name that no folder has, and so the warning below.
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
    """Whether the folders that jobs write to have room: the study's, the scratch for caches, the shared memory.

    Where no study is planned, also the folder of temporary files, which building an image fills.
    """
    machine = start.machine
    study_advice = "choose another folder"
    yield _room(start, "study folder", start.place, wanted_gb=1, advice=study_advice)
    scratch_advice = f"set {SCRATCH} to a folder with 10 GB or more"
    try:
        scratch = scratch_of(machine.environ)
    except UserError as error:
        yield start.fault("scratch", str(error))
    else:
        if os.statvfs(scratch).f_flag & os.ST_NOEXEC:
            said = f"{scratch} is mounted noexec, and compiled kernels are loaded from there; {scratch_advice}"
            yield start.fault("scratch", said)
        else:
            yield _room(start, "scratch", scratch, wanted_gb=10, advice=scratch_advice)

    memory = machine.path("/dev/shm")
    memory_advice = "ask the site for 2 GB or more in /dev/shm"
    yield _room(start, "shared memory", memory, wanted_gb=0.5, advice=memory_advice)
    if start.is_planned:
        return

    # Temporary files count for building an image, which a planned study has no need of. Apptainer's own variable
    # goes before the usual one; where neither is set, the files are in /tmp.
    temporary = machine.environ.get("APPTAINER_TMPDIR") or machine.environ.get("TMPDIR")
    temporary_advice = "set TMPDIR and APPTAINER_TMPDIR to another folder: building full.sif takes 20 GB"
    folder = Path(temporary or machine.path("/tmp"))
    yield _room(start, "temporary files", folder, wanted_gb=25, advice=temporary_advice)


def _room(
    start: Start, what: str, folder: Path, *, wanted_gb: float, advice: str
) -> CheckLine:
    """Return a line on whether a folder can be written and has enough room.

    A folder that cannot be written is a failure where jobs run on this machine; too little room is only a warning.

    Args:
        start: has the machine.
        what: what the folder is.
        folder: the folder.
        wanted_gb: GB that should be free.
        advice: what to do where the folder does not suffice.
    """
    problem = start.machine.write_problem(folder)
    if problem:
        return start.fault(what, f"cannot write to {folder}: {problem}; {advice}")
    free_gb = start.machine.free_gb(folder)
    seen = f"{folder}, {free_gb:.1f} GB free"
    if free_gb < wanted_gb:
        return warn(what, f"{seen}; {advice}")
    return ok(what, seen)


def driver(start: Start) -> Iterator[CheckLine]:
    """Whether this machine's GPU driver works and, inside an image, whether the image was given it (`--nv`)."""
    what = "GPU driver"
    machine = start.machine
    device = machine.path("/dev/nvidiactl")  # there wherever NVIDIA's driver is loaded

    # Either setting says that jobs compute on CPUs, for which no driver is needed.
    if not start.settings.gpus_per_node or start.settings.runtime == "none":
        return

    # Inside an image only what the image was given counts; outside, what this machine has.
    if _is_inside_image(machine):
        problem = driver_problem(machine.environ, device)
        if problem:
            advice = "or use clm-or-mlm container run, which sets it"
            yield start.fault(what, f"{problem}, {advice}")
            return

    if device.exists():
        yield _nvidia(start, what)
    elif machine.path("/dev/kfd").exists():  # AMD's driver
        said = "an AMD GPU: --rocm is used; the image has CUDA builds: see docs/hpc.md"
        yield warn(what, said)
    else:
        said = "no GPU on this machine, as on most login nodes; run doctor in a GPU job too"
        yield ok(what, said)


def _nvidia(start: Start, what: str) -> CheckLine:
    """Return a line on the driver and the GPUs of this machine, by nvidia-smi.

    Args:
        start: has the machine, and what the study asks for.
        what: what the line is about.
    """
    machine, settings = start.machine, start.settings
    query = "--query-gpu=driver_version,mig.mode.current"
    code, text = machine.output(["nvidia-smi", query, "--format=csv,noheader"])
    rows = text.splitlines()  # one for each GPU, such as `580.65.06, Disabled`
    if code or not rows:
        advice = 'report the node; exclude it with slurm_extra = "--exclude=NODE"'
        why = rows[-1] if rows else code
        return start.fault(what, f"nvidia-smi fails: {why}; {advice}")

    version = rows[0].split(",")[0]  # all GPUs have one driver
    seen = f"driver {version}, {len(rows)} GPU(s)"
    number = version.partition(".")[0]

    # With the forward-compatibility libraries an older driver suffices.
    compat = machine.environ.get(COMPAT) or settings.cuda_compat
    if number.isdecimal() and int(number) < MINIMUM_DRIVER and not compat:
        advice = f"torch for CUDA 13 needs {MINIMUM_DRIVER}: ask the site, or set cuda_compat (docs/hpc.md)"
        return start.fault(what, f"{seen}, which is too old; {advice}")

    if "Enabled" not in text:  # no GPU is in MIG's mode, in which it is sliced
        return ok(what, seen)
    said = f"{seen}, sliced (MIG); MIG slices cannot use NCCL: ask for whole GPUs"
    # Only a training on several GPUs needs NCCL, so slices are a fault only where one is planned.
    if start.is_planned and settings.nodes * settings.gpus_per_node > 1:
        return start.fault(what, said)
    return warn(what, said)


def fabric(start: Start) -> Iterator[CheckLine]:
    """Whether this machine has a fast network between nodes, and jobs may use it.

    Whether NCCL or RCCL does use it is seen only when they run.
    """
    if start.is_planned and start.settings.nodes == 1:
        return
    infiniband = start.machine.path("/sys/class/infiniband").glob("*")
    slingshot = start.machine.path("/dev").glob("cxi[0-9]*")
    names = sorted(path.name for path in (*infiniband, *slingshot))
    listed = ", ".join(names)

    # RDMA needs memory that stays where it is (`locked`). Slurm gives jobs the limits of the shell that submits them,
    # so this shell's limit is theirs. Of its two limits the first one is in force; the second is how far a user may
    # raise the first.
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
"""The checks of the machine, which are made also where no study is planned."""


def examine(start: Start) -> Iterator[CheckLine]:
    """Yield the lines of all checks, the study's first; a check that yields none gets a line that nothing is wrong."""
    checks = (*STUDY_CHECKS, *MACHINE_CHECKS) if start.is_planned else MACHINE_CHECKS
    for check in checks:
        lines = list(check(start))
        name = check.__name__.replace("_", " ")
        yield from lines or [ok(name, "nothing is wrong")]
