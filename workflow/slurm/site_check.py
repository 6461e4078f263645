"""Whether Slurm would take a study's jobs, and a site's profile fits: asked before anything is submitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from types import SimpleNamespace

from common.errors import UserError
from container.doctor import Line, fail, ok, warn
from container.site import Site
from workflow.jobs import Job, Workflow
from workflow.settings import Settings
from workflow.slurm.live_jobs import minutes_of

__all__ = ["check_site", "refuse_what_slurm_refuses"]


def _sbatch_words(queue: Mapping[str, str], gres: str, job: Job) -> list[str]:
    """Return what sbatch is asked for a job, as Snakemake's Slurm executor asks."""
    options = {"slurm_partition": "-p", "slurm_account": "-A", "qos": "--qos", "constraint": "-C"}
    words = [word for key, option in options.items() if queue.get(key) for word in (option, queue[key])]
    words += ["-t", str(job.minutes), "--mem", str(round(1000 * job.memory_gb)), f"--nodes={job.nodes}"]
    words += [f"--cpus-per-task={job.cpus}", f"--ntasks={job.nodes}"]
    words += [f"--gres={gres}:{job.gpus}"] if job.gpus else []
    return [*words, *queue.get("slurm_extra", "").split()]


def _refusal(words: Sequence[str], extra: str, site: Site) -> str | None:
    """Return why a job would not be taken, or would never start, or None; nothing is submitted."""
    # The package of the Slurm executor is on login nodes alone.
    from snakemake_executor_plugin_slurm.validation import validate_slurm_extra  # type: ignore[import-untyped]
    from snakemake_interface_common.exceptions import WorkflowError

    try:
        validate_slurm_extra(SimpleNamespace(resources=SimpleNamespace(slurm_extra=extra)))
    except WorkflowError as error:
        return f"slurm_extra {extra!r}: {error}"
    code, text = site.output(["sbatch", "--test-only", *words, "--wrap=true"])
    if code:
        lines = [line.removeprefix("sbatch: ").removeprefix("error: ") for line in text.splitlines()]
        said = [line for line in lines if line.strip() and not line.startswith("Try ")]
        return said[-1] if said else f"sbatch ends with {code}"
    # A job longer than its partition's limit is taken, and waits for ever.
    partition = words[words.index("-p") + 1] if "-p" in words else ""
    _, text = site.output(["sinfo", "--noheader", "--format=%R|%P|%l"])
    for name, shown, limit in (line.split("|") for line in text.splitlines() if line.count("|") == 2):
        mine = name in partition.split(",") or (not partition and shown.endswith("*"))
        if mine and ":" in limit and minutes_of(limit) < int(words[words.index("-t") + 1]):
            return f"the partition {name} takes no jobs longer than {limit}"
    return None


def _asked(workflow: Workflow, site: Site) -> dict[str, tuple[str, str | None]]:
    """Return, for each kind of jobs to the site, what its longest job asks sbatch for, and why it would be refused."""
    longest: dict[str, Job] = {}
    for job in workflow.jobs.values():
        if job.queue not in longest or job.minutes > longest[job.queue].minutes:
            longest[job.queue] = job
    found = {}
    for name, job in longest.items():
        queue = workflow.queue(job)
        words = _sbatch_words(queue, workflow.gres, job)
        found[name] = " ".join(words), _refusal(words, queue.get("slurm_extra", ""), site)
    return found


def refuse_what_slurm_refuses(workflow: Workflow, site: Site | None = None) -> None:
    """Ask Slurm about the longest job of every kind.

    Raises:
        UserError: Slurm would not take one of them; the sentence says which, what was asked and why not.
    """
    for name, (words, why) in _asked(workflow, site or Site()).items():
        if why:
            raise UserError(
                f"Slurm takes no jobs of the kind {name} as they would be asked for ({why}): sbatch {words}; correct "
                f"[jobs.{name}] of the site's profile or the settings, docs/hpc.md"
            )


def check_site(settings: Settings, workflow: Workflow, site: Site | None = None) -> list[Line]:
    """Return what fits and what does not, a line for each thing that the profile names."""
    site = site or Site()
    profile = settings.profile
    lines = [ok(f"site {profile.name}", f"{profile.title}; {profile.checked}")]
    if site.which("sbatch") is None:
        return [*lines, fail("Slurm", "no sbatch here", "run this on a login node of the site")]
    for name, (words, why) in _asked(workflow, site).items():
        advice = f"correct [jobs.{name}] of the site's profile or the settings; `sinfo -o '%R %l %f %G'` has the site's"
        seen = f"{why}: sbatch {words}"
        lines.append(
            fail(f"jobs.{name}", seen, advice) if why else ok(f"jobs.{name}", f"Slurm takes them: {words}")
        )
    for name in profile.modules:
        code, text = site.output(["bash", "-lc", f"module load {name}"])
        wrong = fail("module", f"{name}: {text or code}", "`module avail` lists the site's")
        lines.append(wrong if code or "rror" in text else ok("module", name))
    places = {**profile.variables(), **{f"bind {bind}": bind for bind in profile.binds}}
    return [*lines, *(_place(key, value, site) for key, value in places.items())]


def _place(key: str, value: str, site: Site) -> Line:
    """Return what is wrong with a folder or a variable that the profile names."""
    filled = Template(value).safe_substitute(site.environ)
    if "$" in filled:
        return warn(key, f"{value}: not set on this machine", "only a job can show whether it is set there")
    if not filled.startswith("/") or Path(filled).exists():
        return ok(key, filled)
    return warn(key, f"{filled} does not exist", "make it, or correct the profile")
