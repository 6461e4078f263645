"""Whether Slurm would take a study's jobs: asked on a login node, before anything is submitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace

from common.errors import UserError
from container.site import Site
from workflow.jobs import Job, Workflow
from workflow.slurm.live_jobs import minutes_of

__all__ = ["refuse_what_slurm_refuses"]


def refuse_what_slurm_refuses(workflow: Workflow, site: Site | None = None) -> None:
    """Ask Slurm about the longest job of every kind to the site.

    Raises:
        UserError: it would not take one of them; the sentence says which, what was asked and why not.
    """
    longest: dict[str, Job] = {}
    for job in sorted(workflow.jobs.values(), key=lambda job: job.minutes):
        longest[job.queue] = job
    for name, job in longest.items():
        queue = workflow.queue(job)
        words = _sbatch_words(queue, workflow.gres, job)
        if why := _refusal(words, queue.get("slurm_extra", ""), site or Site()):
            raise UserError(
                f"Slurm takes no jobs of the kind {name} as they would be asked for ({why}): sbatch {' '.join(words)}; "
                f"correct [jobs.{name}] of the site's profile or the settings (docs/hpc.md); `sinfo -o '%R %l %f %G'` "
                "shows what the site has"
            )


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
    # Snakemake is where studies are run, not where they are planned.
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
