"""What Slurm is asked for a job, said once: for the check before a start, and for the submission."""

from __future__ import annotations

import re
import shlex

from workflow.jobs import Job, Workflow

Request = dict[str, list[str]]
"""Words for sbatch, by the setting that they come from, as a sentence names it."""

SUBMIT_LIMIT = re.compile(r"\w*Submit\w*Limit")
"""How Slurm names a limit on the number of jobs in its queue."""


def no_room(said: str) -> bool:
    """Return whether Slurm refuses a job because this user has too many in its queue; it does not always name that."""
    return bool(SUBMIT_LIMIT.search(said)) or (
        "job submit limit" in said and "Limit" not in said
    )


def request_of(workflow: Workflow, job: Job) -> Request:
    """Return what Slurm is asked for a job."""
    queue = workflow.queue(job)
    table = f"[jobs.{job.queue}]"
    request = {
        # One task a node: torchrun, which starts a process on each of the node's GPUs.
        "nodes": [f"--nodes={job.nodes}", "--ntasks-per-node=1"],
        "cpus": [f"--cpus-per-task={job.cpus}"],
        f"limit_hours, or hours of {table}": [f"--time={job.minutes}"],
    }
    if job.memory_gb:
        # sbatch takes whole numbers only.
        request["memory_gb"] = [f"--mem={1000 * job.memory_gb:.0f}M"]
    if job.gpus:
        request["gpus_per_node, or gres"] = [f"--gres={workflow.gres}:{job.gpus}"]
    for key in ("partition", "account", "qos", "constraint"):
        if key in queue:
            setting = "account" if key == "account" else f"{key} of {table}"
            request[setting] = [f"--{key}={queue[key]}"]
    if "slurm_extra" in queue:
        request[f"slurm_extra of {table}"] = shlex.split(queue["slurm_extra"])
    return request


def sbatch_words(request: Request) -> list[str]:
    """Return the options of sbatch for a request."""
    return [word for words in request.values() for word in words]
