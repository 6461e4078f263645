"""What Slurm is asked for a job, in one place for both the check before a start and the submission."""

from __future__ import annotations

import re
import shlex

from workflow.jobs import Job, Workflow

Request = dict[str, list[str]]
"""Options of sbatch, by the setting that they come from, named as in error messages: `{"memory_gb": ["--mem=64000M"]}`.
"""

SUBMIT_LIMIT = re.compile(r"\w*Submit\w*Limit")
"""How Slurm names a limit on the number of jobs in its queue: `QOSMaxSubmitJobPerUserLimit`."""


def no_room(said: str) -> bool:
    """Return whether Slurm refuses a job because this user has too many jobs in its queue, by its message.

    It may name the limit. Or it names none and says `Job violates accounting/QOS policy (job submit limit, user's size
    and/or time limits)`, a sentence that it also prints after the name of any other limit, such as
    `QOSMaxCpuPerUserLimit`.
    """
    # Slurm writes names of limits with a capital (`...Limit`), and the sentence without a name in small letters.
    is_named = SUBMIT_LIMIT.search(said) is not None
    is_without_name = "job submit limit" in said and "Limit" not in said
    return is_named or is_without_name


def request_of(workflow: Workflow, job: Job) -> Request:
    """Return what Slurm is asked for a job, by setting."""
    queue = workflow.queue(job)
    table = f"[jobs.{job.queue}]"
    request = {
        # One task on each node: torchrun, which starts a process on each of the node's GPUs.
        "nodes": [f"--nodes={job.nodes}", "--ntasks-per-node=1"],
        "cpus": [f"--cpus-per-task={job.cpus}"],
        f"limit_hours, or hours of {table}": [f"--time={job.minutes}"],
    }

    # A site that refuses --mem has memory_gb = 0.
    if job.memory_gb:
        # sbatch takes whole numbers only, so GB are written in MB.
        request["memory_gb"] = [f"--mem={1000 * job.memory_gb:.0f}M"]

    if job.gpus:
        request["gpus_per_node, or gres"] = [f"--gres={workflow.gres}:{job.gpus}"]
    for key in ("partition", "account", "qos", "constraint"):
        if key in queue:
            # The account is usually set for all kinds of jobs, outside of their tables.
            setting = "account" if key == "account" else f"{key} of {table}"
            request[setting] = [f"--{key}={queue[key]}"]

    if "slurm_extra" in queue:
        request[f"slurm_extra of {table}"] = shlex.split(queue["slurm_extra"])
    return request


def sbatch_words(request: Request) -> list[str]:
    """Return the options of sbatch for a request, in one list."""
    return [word for words in request.values() for word in words]
