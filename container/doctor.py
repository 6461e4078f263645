"""`python -m container doctor`: wrong site settings, found before a job is submitted.

Each check looks at one thing and returns a line: ok, warn (it works, but you should know) or fail (jobs will
fail), with what was seen and what to do.
"""

from __future__ import annotations

import re
import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib import util
from pathlib import Path

from common.errors import UserError
from container.apptainer import version_of
from container.site import Site
from container.start import SCRATCH, driver_problem, scratch_of

__all__ = ["Line", "examine", "fail", "ok", "report", "warn"]


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
    """An Apptainer that starts."""
    if _inside(site):
        return ok("apptainer", "this is inside an image")
    try:
        _, text = version_of(site)
    except UserError as error:
        seen, _, advice = str(error).rpartition("; ")
        return fail("apptainer", seen, advice)
    if "apptainer" not in text:
        return warn("apptainer", text, "another Apptainer or Singularity than 1.4 was not tried")
    return ok("apptainer", text)


def folders(site: Site) -> Iterator[Line]:
    """Folders that have to be written: home, for Snakemake and pip; caches; /tmp; the study's; data workers' memory."""
    tmp = Path(site.environ.get("APPTAINER_TMPDIR") or site.environ.get("TMPDIR") or site.path("/tmp"))
    more = f"set {SCRATCH} to a folder with 10 GB or more"
    places: list[tuple[str, Path, float, str]] = [
        (
            "temporary files",
            tmp,
            25,
            "export TMPDIR and APPTAINER_TMPDIR elsewhere: building full.sif takes 20 GB",
        ),
        ("study folder", site.study.resolve(), 1, "choose another with --study DIR"),
        ("shared memory", site.path("/dev/shm"), 0.5, "ask the site for 2 GB or more in /dev/shm"),
    ]
    try:
        places.append(("scratch", scratch_of(site.environ), 10, more))
    except UserError as error:
        yield fail("scratch", str(error), more)
    home = Path(site.environ.get("HOME", "/no/home"))
    if home.is_dir():
        places.append(
            ("home", home, 0, "free space there (quota?), or export HOME and XDG_CACHE_HOME elsewhere")
        )
    else:
        yield warn("home", f"{home} is no folder", "export XDG_CACHE_HOME to a folder you can write to")
    for what, folder, wanted, advice in places:
        free = site.free_gb(folder) if folder.is_dir() else 0
        if problem := site.write_problem(folder):
            yield fail(what, f"{folder} cannot be written: {problem}", advice)
        elif free < wanted:
            yield warn(what, f"{folder}, {free:.1f} GB free", advice)
        else:
            yield ok(what, f"{folder}, {free:.0f} GB free")


def driver(site: Site) -> Line:
    """The NVIDIA driver, and that --nv brings it into the image."""
    what = "GPU driver"
    if _inside(site) and (problem := driver_problem(site.environ, site.path("/dev/nvidiactl"))):
        return fail(what, problem, "apptainer run --nv ..., or python -m container run, which sees to it")
    if not site.path("/dev/nvidiactl").exists():
        if site.path("/dev/kfd").exists():
            return warn(what, "an AMD GPU: --rocm is used", "the image holds CUDA builds; see docs/rocm.md")
        return ok(what, "no GPU on this machine, as on most login nodes; run doctor in a GPU job too")
    wish = site.environ.get("CLM_OR_MLM_GPU", "auto")
    if wish not in ("auto", "nvidia"):
        seen = f"CLM_OR_MLM_GPU={wish} keeps --nv off, and there is an NVIDIA GPU"
        return fail(what, seen, "unset CLM_OR_MLM_GPU or set it to nvidia")
    code, text = site.output(
        ["nvidia-smi", "--query-gpu=driver_version,mig.mode.current", "--format=csv,noheader"]
    )
    match = re.search(r"^(\d+)\.\d+", text)
    if code or match is None:
        return fail(what, f"nvidia-smi fails: {text.splitlines()[-1] if text else code}",
                    "report the node; exclude it with slurm_extra = \"--exclude=NODE\"")  # fmt: skip
    rows = text.splitlines()
    seen = f"driver {rows[0].split(',')[0]}, {len(rows)} GPU(s)"
    if int(match[1]) < 525:
        return fail(what, seen, "CUDA 12.6 needs driver 525 or later")
    if "Enabled" in text:
        return warn(what, f"{seen}, sliced (MIG)", "slices cannot talk by NCCL: ask for whole GPUs")
    if not _inside(site) and "libcuda.so.1" not in site.output(["ldconfig", "-p"])[1]:
        return warn(what, f"{seen}; ldconfig does not list libcuda.so.1, so --nv may find nothing to bind",
                    "bind it: APPTAINER_BIND, or ask the site to run ldconfig")  # fmt: skip
    return ok(what, seen)


_PLUGINS = ("libnccl-net*.so*", "librccl-net*.so*", "libnccl-ofi*.so*")


def fabric(site: Site) -> Line:
    """The network between nodes, and what NCCL or RCCL needs to use it."""
    names = sorted(path.name for path in site.path("/sys/class/infiniband").glob("*"))
    slingshot = sorted(path.name for path in site.path("/dev").glob("cxi[0-9]*"))
    if not names and not slingshot:
        return ok("fabric", "no InfiniBand, Slingshot or EFA here: nodes talk by TCP")
    seen = f"Slingshot ({', '.join(slingshot)})" if slingshot else ", ".join(names)
    if slingshot or any(name.startswith("efa") for name in names):
        folders = [Path(word) for word in site.environ.get("LD_LIBRARY_PATH", "").split(":") if word]
        plugins = [str(path) for folder in folders for name in _PLUGINS for path in folder.glob(name)]
        if not plugins:
            return warn("fabric", f"{seen}, and no OFI plugin of NCCL or RCCL on LD_LIBRARY_PATH",
                        "bind the site's libfabric and plugin (docs/container.md): else it is TCP")  # fmt: skip
        return ok("fabric", f"{seen} by {plugins[0]}")
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if limit != resource.RLIM_INFINITY:
        return warn("fabric", f"InfiniBand ({seen}), and locked memory is limited to {limit} bytes",
                    "RDMA needs `ulimit -l unlimited` in jobs: ask the site")  # fmt: skip
    return ok("fabric", f"InfiniBand ({seen}); NCCL_DEBUG=INFO must say NET/IB")


def slurm(site: Site) -> Line:
    """What Slurm offers."""
    if site.which("sbatch") is None:
        return warn("Slurm", "no sbatch here", "only PROFILE=local works on this machine")
    code, text = site.output(["sinfo", "--noheader", "--format=%P %l %D node(s) %G"])
    if code:
        return fail("Slurm", text.splitlines()[-1] if text else f"sinfo ends with {code}", "is slurmctld up?")
    if not text:
        return fail("Slurm", "no partition can be seen", "ask for access to one")
    return ok("Slurm", "; ".join(text.replace("(null)", "no GPU").splitlines()[:6]))


def tools(site: Site) -> Line:
    """The Python packages of the workflow."""
    wanted = () if _inside(site) else ("snakemake", "snakemake_executor_plugin_slurm")
    if missing := [name for name in wanted if util.find_spec(name) is None]:
        seen = f"{sys.executable} lacks {', '.join(missing)}"
        return fail("workflow tools", seen, "run this through make, which installs .venv/cluster")
    return ok("workflow tools", "snakemake and its Slurm executor are there")


def examine(study: Path = Path()) -> list[Line]:
    """Return the answers of all checks for this machine."""
    site = Site(study=study)
    return [apptainer(site), *folders(site), driver(site), fabric(site), slurm(site), tools(site)]


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
