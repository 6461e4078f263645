"""`python -m container doctor`: wrong site settings, found before a job is submitted.

Each check looks at one thing and returns a line: ok, warn (it works, but you should know) or fail (jobs will
fail), with what was seen and what to do.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import util
from pathlib import Path

from common.provenance import ROOT
from container.site import Site, SiteError, is_setuid, namespace_problem, program_of, version_of
from container.start import SCRATCH, driver_problem, scratch_of

__all__ = ["CHECKS", "Line", "examine", "fail", "ok", "report", "warn"]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One check's answer."""

    status: str
    """`ok`, `warn` or `fail`."""
    what: str
    """The thing that was looked at."""
    seen: str
    """What was seen."""
    advice: str = ""
    """What to do; empty when all is well."""


def _line(status: str, what: str, seen: str, advice: str = "") -> Line:
    return Line(status=status, what=what, seen=seen, advice=advice)


ok, warn, fail = (partial(_line, status) for status in ("ok", "warn", "fail"))
"""Make a line: what was looked at, what was seen, what to do."""


def _inside(site: Site) -> bool:
    return bool(site.environ.get("APPTAINER_CONTAINER") or site.environ.get("SINGULARITY_CONTAINER"))


def apptainer(site: Site) -> Line:
    """Apptainer 1.1 or later."""
    if _inside(site):
        return ok("apptainer", "this is inside an image")
    try:
        text, version = version_of(site)
    except SiteError as error:
        return fail("apptainer", error.seen, error.advice)
    if "apptainer" in text and version < (1, 1):
        return warn("apptainer", text, "1.1 or later builds images without root; run only")
    if "apptainer" not in text:
        return warn("apptainer", text, "SingularityCE was not tried; Apptainer 1.1 or later was")
    return ok("apptainer", text)


def user_namespaces(site: Site) -> Line:
    """Unprivileged user namespaces, or a setuid Apptainer."""
    what = "user namespaces"
    if _inside(site):
        return ok(what, "this is inside an image")
    why = namespace_problem(site)
    if why is None:
        return ok(what, "can be made")
    program = program_of(site)
    if program is not None and is_setuid(program):
        return warn(what, f"{why}; Apptainer is setuid", "images run, but must be built elsewhere")
    return fail(what, why, "ask for user namespaces or a setuid Apptainer; nothing runs in an image without")


def build_rights(site: Site) -> Line:
    """What building (not running) an image without root needs."""
    what, user = "building images", site.environ.get("USER", "")
    if _inside(site):
        return ok(what, "not done inside an image")
    if os.geteuid() == 0:
        return ok(what, "as root")
    listed = {line.split(":")[0] for line in site.text("/etc/subuid").splitlines()}
    if user in listed or str(os.getuid()) in listed:
        return ok(what, f"{user} has subordinate ids")
    advice = "build where you are in /etc/subuid, or copy build/*.sif from a machine that built it"
    return warn(what, "no subordinate ids here, so `build` may fail", advice)


def home(site: Site) -> Line:
    """A home folder that can be written; images do without, Snakemake and pip use it."""
    folder = site.environ.get("HOME")
    if not folder or not Path(folder).is_dir():
        return warn("home", f"{folder or 'HOME is not set'}: no such folder",
                     f"export XDG_CACHE_HOME to a folder you can write to; images use {SCRATCH}")  # fmt: skip
    problem = site.write_problem(Path(folder))
    if problem is not None:
        return fail("home", f"{folder} cannot be written: {problem}",
                     "free space there (quota?), or export HOME and XDG_CACHE_HOME elsewhere")  # fmt: skip
    return ok("home", f"{folder} can be written; images never mount it")


def python_leaks(site: Site) -> Line:
    """Variables and folders that slip other packages into Python."""
    what = "Python settings"
    leaks = [key for key in ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE") if site.environ.get(key)]
    if _inside(site):
        leaks = [key for key in leaks if key != "PYTHONPATH"]
    if leaks:
        advice = f"unset {' '.join(leaks)}; images ignore them, make does not"
        return warn(what, f"{', '.join(leaks)} set", advice)
    user = Path(site.environ.get("HOME", "/")) / ".local/lib/python3.11/site-packages"
    if user.is_dir() and not site.environ.get("PYTHONNOUSERSITE"):
        return warn(what, f"{user} exists", "export PYTHONNOUSERSITE=1 (make and the images do)")
    return ok(what, "nothing leaks in")


def scratch(site: Site) -> Line:
    """A scratch folder for caches, writable and large enough."""
    try:
        folder = scratch_of(site.environ)
    except SiteError as error:
        return fail("scratch", error.seen, f"set {SCRATCH} to a folder with 10 GB or more")
    free = site.free_bytes(folder) / 1e9
    seen = f"{folder}, {free:.0f} GB free"
    if free < 10:
        return warn("scratch", seen, f"compiled kernels and shard caches want 10 GB: set {SCRATCH}")
    return ok("scratch", seen)


def temporary(site: Site) -> Line:
    """/tmp, which Apptainer, Python and Snakemake fall back to."""
    folder = site.path("/tmp")
    problem = site.write_problem(folder)
    if problem is not None:
        return fail("/tmp", f"cannot be written: {problem}",
                     "export TMPDIR and APPTAINER_TMPDIR to a folder of the scratch file system")  # fmt: skip
    free = site.free_bytes(folder) / 1e9
    if free < 1:
        advice = "empty it, or export TMPDIR and APPTAINER_TMPDIR elsewhere"
        return fail("/tmp", f"{free:.2f} GB free", advice)
    if free < 25 and not site.environ.get("APPTAINER_TMPDIR"):
        return warn("/tmp", f"{free:.0f} GB free",
                     "building the full image takes 20 GB there: export APPTAINER_TMPDIR elsewhere")  # fmt: skip
    return ok("/tmp", f"{free:.0f} GB free")


def driver(site: Site) -> Line:
    """The NVIDIA driver, and that --nv brings it into the image."""
    what = "GPU driver"
    if _inside(site) and (problem := driver_problem(site.environ, site.path("/dev/nvidiactl"))):
        return fail(what, problem, "apptainer run --nv ..., or python -m container run, which sees to it")
    if not site.path("/dev/nvidiactl").exists():
        if site.path("/dev/kfd").exists():
            return warn(what, "an AMD GPU: --rocm is used",
                         "the image holds CUDA builds; see docs/container.md for what ROCm needs")  # fmt: skip
        return ok(what, "no GPU on this machine, as on most login nodes; run doctor in a GPU job too")
    wish = site.environ.get("CLM_OR_MLM_GPU", "auto")
    if wish not in ("auto", "nvidia"):
        return fail(what, f"CLM_OR_MLM_GPU={wish} keeps --nv off, and there is an NVIDIA GPU",
                     "unset CLM_OR_MLM_GPU or set it to nvidia")  # fmt: skip
    code, text = site.output(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
    match = re.search(r"^(\d+)\.\d+", text)
    if code or match is None:
        return fail(what, f"nvidia-smi fails: {text.splitlines()[-1] if text else code}",
                     "report the node; exclude it with slurm_extra \"'--exclude=NODE'\"")  # fmt: skip
    if int(match[1]) < 525:
        return fail(what, f"driver {text.splitlines()[0]}", "CUDA 12.6 needs driver 525 or later")
    if not _inside(site) and "libcuda.so.1" not in site.output(["ldconfig", "-p"])[1]:
        return warn(what, "ldconfig does not list libcuda.so.1, so --nv may find nothing to bind",
                     "bind it: APPTAINER_BIND, or ask the site to run ldconfig")  # fmt: skip
    return ok(what, f"driver {text.splitlines()[0]}, {len(text.splitlines())} GPU(s)")


def mig(site: Site) -> Line:
    """Multi-instance GPUs, which cannot train together."""
    if not site.path("/dev/nvidiactl").exists():
        return ok("MIG", "no NVIDIA GPU here")
    code, text = site.output(["nvidia-smi", "--query-gpu=mig.mode.current", "--format=csv,noheader"])
    if code == 0 and "Enabled" in text:
        return warn("MIG", f"{text.count('Enabled')} GPU(s) are sliced",
                     "slices cannot talk by NCCL: pretrain on one, or ask for whole GPUs")  # fmt: skip
    return ok("MIG", "off")


_PLUGINS = ("libnccl-net*.so*", "librccl-net*.so*", "libnccl-ofi*.so*")


def fabric(site: Site) -> Line:
    """The network between nodes, and what NCCL or RCCL needs to use it."""
    what = "fabric"
    names = sorted(path.name for path in site.path("/sys/class/infiniband").glob("*"))
    slingshot = sorted(path.name for path in site.path("/dev").glob("cxi[0-9]*"))
    if not names and not slingshot:
        return ok(what, "no InfiniBand, Slingshot or EFA here: nodes talk by TCP")
    folders = [Path(word) for word in site.environ.get("LD_LIBRARY_PATH", "").split(":") if word]
    plugin = next((str(path) for folder in folders for name in _PLUGINS for path in folder.glob(name)), None)
    if slingshot or any(name.startswith("efa") for name in names):
        kind = f"Slingshot ({', '.join(slingshot)})" if slingshot else f"EFA ({', '.join(names)})"
        if plugin is None:
            return warn(what, f"{kind}, and no OFI plugin of NCCL or RCCL on LD_LIBRARY_PATH",
                         "bind the site's libfabric and plugin (docs/container.md): else it is TCP")  # fmt: skip
        return ok(what, f"{kind} by {plugin}")
    if _inside(site) and "libibverbs.so.1" not in site.output(["ldconfig", "-p"])[1]:
        return fail(what, f"InfiniBand ({', '.join(names)}), and this image lacks libibverbs.so.1",
                     "build the full image again: NCCL falls back to TCP without")  # fmt: skip
    limit = re.search(r"^Max locked memory +(\S+)", site.text("/proc/self/limits"), re.MULTILINE)
    if limit is not None and limit[1] != "unlimited":
        return warn(what, f"InfiniBand ({', '.join(names)}), and locked memory is limited to {limit[1]} bytes",
                     "RDMA needs `ulimit -l unlimited` in jobs: ask the site")  # fmt: skip
    return ok(what, f"InfiniBand ({', '.join(names)}); NCCL_DEBUG=INFO must say NET/IB")


def shared_memory(site: Site) -> Line:
    """/dev/shm: room for workers, and leftovers of killed streaming jobs."""
    what, folder = "shared memory", site.path("/dev/shm")
    if not folder.is_dir():
        return fail(what, "/dev/shm is missing", "data workers need it: ask the site to mount it")
    stale = site.stale_shared_memory()
    if stale:
        names = " ".join(str(path) for path in stale[:3])
        return warn(what, f"{len(stale)} block(s) of streaming that no process uses",
                     f"a killed job left them, the next may hang: rm {names}{' ...' if stale[3:] else ''}")  # fmt: skip
    free = site.free_bytes(folder) / 1e9
    if free < 0.5:
        return warn(what, f"{free:.2f} GB free in /dev/shm", "workers crash without: ask for 2 GB or more")
    return ok(what, f"{free:.1f} GB free, nothing stale")


def clock(site: Site) -> Line:
    """The clock against the file server's and against the code's own age."""
    try:
        skew = site.clock_skew(site.study)
    except OSError as error:
        return fail("clock", f"{site.study}: {error.strerror}", "choose a study folder you can write to")
    if abs(skew) > 2:
        return warn("clock", f"the file server of {site.study.resolve()} is {skew:+.0f} s off",
                     "jobs may look out of date to Snakemake: report it to the site, or move")  # fmt: skip
    newest = max((path.stat().st_mtime for path in (ROOT / "container").glob("*.py")), default=0.0)
    if time.time() < newest - 60:
        return fail("clock", "it is earlier than this code was written here", "set the clock (chrony, ntpd)")
    return ok("clock", f"agrees with the file server within {abs(skew):.1f} s")


def study_folder(site: Site) -> Line:
    """The folder where checkpoints and results will be."""
    problem = site.write_problem(site.study)
    if problem is not None:
        return fail("study folder", f"{site.study.resolve()}: {problem}", "choose another with --study DIR")
    return ok("study folder", f"{site.study.resolve()}, {site.free_bytes(site.study) / 1e9:.0f} GB free")


def slurm(site: Site) -> Line:
    """What Slurm offers."""
    if site.which("sbatch") is None:
        return warn("Slurm", "no sbatch here", "only PROFILE=local works on this machine")
    code, text = site.output(["sinfo", "--noheader", "--format=%P %l %D %G"])
    if code:
        seen = text.splitlines()[-1] if text else f"sinfo ends with {code}"
        return fail("Slurm", seen, "is slurmctld up?")
    rows = [line.split() for line in text.splitlines() if len(line.split()) >= 4]
    parts = "; ".join(f"{name} {limit} {nodes} node(s) {gres.replace('(null)', 'no GPU')}"
                      for name, limit, nodes, gres, *_ in rows[:6])  # fmt: skip
    if not rows:
        return fail("Slurm", "no partition can be seen", "ask for access to one")
    code, text = site.output(["scontrol", "show", "config"])
    age = re.search(r"MinJobAge\s*=\s*(\d+)", text)
    accounting = site.which("sacct") is not None and "accounting_storage/none" not in text
    if not accounting and age is not None and int(age[1]) < 120:
        return warn("Slurm", f"{parts}; no accounting, MinJobAge {age[1]} s",
                     "finished jobs are forgotten too soon: set seconds-between-status-checks to 10")  # fmt: skip
    return ok("Slurm", f"{parts}; {'sacct' if accounting else 'squeue'} reports how jobs end")


def tools(site: Site) -> Line:
    """The Python packages of the workflow."""
    if _inside(site):
        return ok("workflow tools", "not needed inside an image")
    missing = [name for name in ("snakemake", "snakemake_executor_plugin_slurm")
               if util.find_spec(name) is None]  # fmt: skip
    if missing:
        return fail("workflow tools", f"{sys.executable} lacks {', '.join(missing)}",
                     "run this through make, which installs .venv/cluster")  # fmt: skip
    return ok("workflow tools", "snakemake and its Slurm executor are there")


CHECKS: tuple[Callable[[Site], Line], ...] = (
    apptainer, user_namespaces, build_rights, home, python_leaks, scratch, temporary, study_folder,
    shared_memory, clock, driver, mig, fabric, slurm, tools,
)  # fmt: skip
"""All checks, in the order they are printed."""


def examine(study: Path = Path(), site: Site | None = None) -> list[Line]:
    """Return the answers of all checks for this machine."""
    site = site or Site(study=study)
    return [check(site) for check in CHECKS]


def report(lines: list[Line]) -> str:
    """Return the lines as text, one a check, with what to do under those that are not ok."""
    width = max(len(line.what) for line in lines) + 2
    rows = []
    for line in lines:
        rows.append(f"{line.status:6}{line.what:{width}}{line.seen}\n")
        if line.advice:
            rows.append(f"{'':6}{'':{width}}-> {line.advice}\n")
    counts = {status: sum(line.status == status for line in lines) for status in ("ok", "warn", "fail")}
    rows.append(", ".join(f"{number} {status}" for status, number in counts.items()) + "\n")
    return "".join(rows)
