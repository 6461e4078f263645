"""Whether a site's profile fits the cluster: asked of Slurm itself on a login node, before anything is submitted."""

from __future__ import annotations

import getpass
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from common.errors import UserError
from container.doctor import Line, fail, ok, warn
from container.site import Site
from workflow.jobs import Job, Workflow
from workflow.settings import Settings
from workflow.slurm.live_jobs import minutes_of
from workflow.slurm_account import QUEUES

__all__ = ["check_site", "refusal", "refuse_what_slurm_refuses", "sbatch_words"]


def sbatch_words(queue: Mapping[str, str], gres: str, job: Job) -> list[str]:
    """Return what sbatch is asked for a job, as Snakemake's Slurm executor asks."""
    options = {"slurm_partition": "-p", "slurm_account": "-A", "qos": "--qos", "constraint": "-C"}
    words = [word for key, option in options.items() if queue.get(key) for word in (option, queue[key])]
    words += ["-t", str(job.minutes), "--mem", str(round(1000 * job.memory_gb)), f"--nodes={job.nodes}"]
    words += [f"--cpus-per-task={job.cpus}", f"--ntasks={job.nodes}"]
    words += [f"--gres={gres}:{job.gpus}"] if job.gpus else []
    return [*words, *queue.get("slurm_extra", "").split()]


def refusal(words: Sequence[str], site: Site) -> str | None:
    """Return why Slurm would not take a job, or would never start it, or None; nothing is submitted."""
    code, text = site.output(["sbatch", "--test-only", *words, "--wrap=true"])
    if code == 0:
        return _too_long(words, site)
    lines = [
        line.removeprefix("sbatch: ").removeprefix("error: ") for line in text.splitlines() if line.strip()
    ]
    return next((line for line in reversed(lines) if not line.startswith("Try ")), f"sbatch ends with {code}")


def _too_long(words: Sequence[str], site: Site) -> str | None:
    partition = words[words.index("-p") + 1] if "-p" in words else ""
    code, text = site.output(["sinfo", "--noheader", "--format=%R|%P|%l"])
    for name, shown, limit in (line.split("|") for line in text.splitlines() if line.count("|") == 2):
        mine = name in partition.split(",") or (not partition and shown.endswith("*"))
        if code == 0 and mine and ":" in limit and minutes_of(limit) < int(words[words.index("-t") + 1]):
            return f"the partition {name} takes no jobs longer than {limit}"
    return None


def refuse_what_slurm_refuses(workflow: Workflow, site: Site | None = None) -> None:
    """Ask Slurm about the largest job of every kind and queue.

    Raises:
        UserError: Slurm would not take one of them; the sentence says which, what was asked and why not.
    """
    site = site or Site()
    largest: dict[tuple[str, str], Job] = {}
    for job in workflow.jobs.values():
        key = (job.kind.name, job.queue)
        if key not in largest or job.minutes > largest[key].minutes:
            largest[key] = job
    for (kind, name), job in largest.items():
        words = sbatch_words(workflow.queue(job), workflow.gres, job)
        if why := refusal(words, site):
            raise UserError(
                f"Slurm takes no {kind} jobs as they would be asked for ({why}): sbatch {' '.join(words)}; correct "
                f"[jobs.{name}] of the site's profile or the settings, docs/hpc.md"
            )


def check_site(settings: Settings, workflow: Workflow, site: Site | None = None) -> list[Line]:
    """Return what fits and what does not, a line for each thing that the profile names."""
    site = site or Site()
    profile = settings.profile
    lines = [ok(f"site {profile.name}", f"{profile.title}; {profile.checked}")]
    if site.which("sbatch") is None:
        return [*lines, fail("Slurm", "no sbatch here", "run this on a login node of the site")]
    for name in QUEUES:
        jobs = [job for job in workflow.jobs.values() if job.queue == name]
        if jobs:
            lines.append(_queue(name, max(jobs, key=lambda job: job.minutes), workflow, site))
    lines += [
        _account(name, site) for name in dict.fromkeys(q.account for q in profile.queues.values()) if name
    ]
    lines += [_module(name, site) for name in profile.modules]
    values = {**profile.variables(), **{f"bind {number}": bind for number, bind in enumerate(profile.binds)}}
    return [*lines, *(_place(key, value, site) for key, value in values.items())]


def _queue(name: str, job: Job, workflow: Workflow, site: Site) -> Line:
    words = sbatch_words(workflow.queue(job), workflow.gres, job)
    what, seen = f"jobs.{name}", " ".join(words)
    if why := refusal(words, site):
        return fail(what, f"{why}: sbatch {seen}", _advice(why, name, site))
    return ok(what, f"Slurm takes them: {seen}")


def _advice(why: str, name: str, site: Site) -> str:
    """Return what to do, with what the site has of the thing that Slurm does not know."""
    for pattern, key, option in (
        ("partition", "partition", "%R"),
        ("feature", "constraint", "%f"),
        (
            "gres|generic resource|configuration is not available",
            "gres, gpus_per_node, cpus or memory_gb",
            "%G",
        ),
        ("time limit|longer than", "limit_hours or hours", "%R %l"),
    ):
        if re.search(pattern, why, re.IGNORECASE):
            code, text = site.output(["sinfo", "--noheader", f"--format={option}"])
            known = ", ".join(dict.fromkeys(text.split("\n"))) if code == 0 else "sinfo does not answer"
            return f"set {key} of [jobs.{name}] or the settings; the site has: {known[:300]}"
    if re.search("account|qos|association", why, re.IGNORECASE):
        yours = _associations(site) or "unknown, no accounting answers"
        return f"set account and qos of [jobs.{name}]; yours are: {yours}"
    return f"correct [jobs.{name}] of the site's profile"


def _associations(site: Site) -> str:
    user = getpass.getuser()
    code, text = site.output(
        ["sacctmgr", "--noheader", "--parsable2", "show", "assoc", f"user={user}", "format=account,qos"]
    )
    return "; ".join(line.replace("|", " with ") for line in text.splitlines()) if code == 0 else ""


def _account(name: str, site: Site) -> Line:
    found = _associations(site)
    if not found:
        return warn("account", f"{name}: no accounting answers", "see jobs.* above")
    mine = [word.split(" with ")[0] for word in found.split("; ")]
    if name.lower() not in mine:
        return fail("account", f"{name} is not yours", f"yours are {', '.join(mine)}")
    return ok("account", name)


def _module(name: str, site: Site) -> Line:
    code, text = site.output(["bash", "-lc", f"module load {name}"])
    if code or "rror" in text:
        last = text.splitlines()[-1] if text else f"exit code {code}"
        return fail("module", f"{name}: {last}", "`module avail` lists the site's")
    return ok("module", name)


def _place(key: str, value: str, site: Site) -> Line:
    """Return what is wrong with a folder or a variable that the profile names."""
    filled = Template(value).safe_substitute(site.environ)
    if "$" in filled:
        return warn(key, f"{value}: not set on this machine", "only a job can show whether it is set there")
    if not filled.startswith("/") or Path(filled).exists():
        return ok(key, filled)
    return warn(key, f"{filled} does not exist", "make it, or correct the profile")
