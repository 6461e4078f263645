"""What Slurm is asked for a job, said once: for the check before a study, and for the submission."""

from __future__ import annotations

import getpass
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace

from common.errors import UserError
from container.check_lines import CheckLine, fail, ok, warn
from container.machine import Machine
from workflow.jobs import QUEUES, Job, Workflow
from workflow.slurm_queue import minutes_of

Request = dict[str, list[str]]
"""Words for sbatch, by the setting that they come from."""

_ALL_FULL = re.compile(r"\w*Submit\w*Limit")
"""How Slurm names a limit on the number of jobs in its queue."""


def no_room(said: str) -> bool:
    """Return whether Slurm refuses a job because this user has too many in its queue; it does not always name that."""
    return bool(_ALL_FULL.search(said)) or (
        "job submit limit" in said and "Limit" not in said
    )


def request_of(workflow: Workflow, job: Job) -> Request:
    """Return what Slurm is asked for a job."""
    queue = workflow.queue(job)
    request = {
        "nodes": [f"--nodes={job.nodes}", "--ntasks-per-node=1"],
        "cpus": [f"--cpus-per-task={job.cpus}"],
        "hours": [f"--time={job.minutes}"],
    }
    per_gpu, per_core = (
        float(queue.get(f"memory_gb_per_{what}", 0)) for what in ("gpu", "core")
    )
    if per_gpu and job.gpus:
        request["memory_gb_per_gpu"] = [f"--mem-per-gpu={1000 * per_gpu:.0f}M"]
    elif per_core:
        request["memory_gb_per_core"] = [f"--mem-per-cpu={1000 * per_core:.0f}M"]
    elif job.memory_gb:
        request["memory_gb"] = [f"--mem={1000 * job.memory_gb:.0f}M"]
    if job.gpus:
        request["gres"] = [f"--gres={workflow.gres}:{job.gpus}"]
    for key in ("partition", "account", "qos", "constraint"):
        if key in queue:
            request[key] = [f"--{key}={queue[key]}"]
    if "slurm_extra" in queue:
        request["slurm_extra"] = shlex.split(queue["slurm_extra"])
    return request


def words_of(request: Request) -> list[str]:
    """Return the options of sbatch for a request."""
    return [word for words in request.values() for word in words]


def _settings(
    request: Request, job: Job, queue: Mapping[str, str], machine: Machine
) -> dict[str, str]:
    """Return by key of a request how a sentence names the setting."""
    names = {
        "hours": f"limit_hours, or hours of [jobs.{job.queue}]",
        "gres": "gpus_per_node, or gres",
    }
    for key in request:
        variable = f"SBATCH_{key.upper()}"
        is_variable = key in queue and machine.environ.get(variable) == queue[key]
        shell = f" (or {variable} in your shell)" if is_variable else ""
        where = f" of [jobs.{job.queue}]" if key in queue and key != "account" else ""
        names.setdefault(key, f"{key}{where}{shell}")
    return names


def _without_variables(machine: Machine, *names: str) -> Machine:
    return replace(
        machine,
        environ={
            key: value for key, value in machine.environ.items() if key not in names
        },
    )


def _without(request: Request, setting: str) -> Request:
    return {key: words for key, words in request.items() if key != setting}


def check_requests(
    workflow: Workflow, machine: Machine | None = None
) -> Iterator[CheckLine]:
    """Ask Slurm about the longest job of every kind to the site, before anything is submitted; yield its answers."""
    here = machine or Machine()
    if missing := [name for name in ("sbatch", "squeue") if here.which(name) is None]:
        said = f"{missing[0]} is not on PATH, so this is not a Slurm login node; use --profile local"
        yield fail("Slurm", said)
        return
    longest = {
        job.queue: job
        for job in sorted(workflow.jobs.values(), key=lambda job: job.minutes)
    }
    for name, job in longest.items():
        try:
            yield _answer(workflow, job, here)
        except UserError as error:
            yield fail(f"{name} jobs", str(error))


def _answer(workflow: Workflow, job: Job, machine: Machine) -> CheckLine:
    """Return whether Slurm would take a job.

    Where nodes are down and no other setting than their number can be wrong, it is a warning.

    Raises:
        UserError: it would not; the sentence says what was asked, why not, and which setting is wrong: that without
            which Slurm would take the job.
    """
    what = f"{job.queue} jobs"
    request = request_of(workflow, job)
    settings = _settings(request, job, workflow.queue(job), machine)
    # The request has these two (`Queue.options`).
    machine = _without_variables(machine, "SBATCH_ACCOUNT", "SBATCH_PARTITION")
    asked = f"sbatch {shlex.join(words_of(request))}"
    if not (why := _refusal(request, machine)):
        limits = _limits(workflow.queue(job), machine, "MaxWall", "MaxWall")
        if short := [limit for limit in limits if minutes_of(limit) < job.minutes]:
            fault = f"{what} of {job.minutes} min may wait for ever"
            limit = f"MaxWall of your account or qos is {short[0]}"
            return warn(what, f"{fault}: {limit}; set hours of [jobs.{job.queue}]")
        return ok(what, f"Slurm takes {asked}")
    limit = why.partition(";")[0]
    full = warn(
        what,
        f"Slurm takes no more {what} of yours now ({limit}); the study waits until it does",
    )
    if _ALL_FULL.search(why):
        return full
    wrong = [key for key in request if not _refusal(_without(request, key), machine)]
    # Where Slurm does not say which limit it is: that of submitted jobs, unless a smaller job would be taken.
    if not wrong and no_room(why):
        return full
    if set(wrong) <= {"nodes"} and (down := _down(workflow.queue(job), machine)):
        return warn(
            what,
            f"Slurm would not take {what} now ({why}), while {', '.join(down)} are down",
        )
    variables = [
        name
        for name in sorted(machine.environ)
        if not wrong
        and name.startswith("SBATCH_")
        and not _refusal(request, _without_variables(machine, name))
    ]
    correct = (
        " or ".join(settings[key] for key in wrong)
        or f"[jobs.{job.queue}], nodes and cpus"
    )
    if job.gpus > 1 and not wrong:  # cores and memory are asked for each GPU
        of_one_gpu = replace(
            job, gpus=1, cpus=job.cpus // job.gpus, memory_gb=job.memory_gb / job.gpus
        )
        same_queue = replace(
            workflow, queues=dict.fromkeys(QUEUES, workflow.queue(job))
        )
        if not _refusal(request_of(same_queue, of_one_gpu), machine):
            correct = "gpus_per_node"
    correct = f"{correct} in the site's file or the settings (docs/hpc.md)"
    correct = f"{' or '.join(variables)} in your shell" if variables else correct
    raise UserError(
        f"Slurm refuses {what} ({why}) submitted as `{asked}`; correct {correct}; `sinfo -o '%R %l %c %m %f %G'` shows "
        "what the site has"
    )


def _refusal(request: Request, machine: Machine) -> str | None:
    """Return why a job would not be taken, or would never start, or None; nothing is submitted."""
    code, text = machine.output(
        ["sbatch", "--test-only", *words_of(request), "--wrap=true"]
    )
    if code:
        lines = [
            line.removeprefix("sbatch: ").removeprefix("error: ")
            for line in text.splitlines()
        ]
        said = [line for line in lines if line.strip() and not line.startswith("Try ")]
        return "; ".join(said) or f"sbatch exits with {code}"
    # What no partition takes for its length or its account is accepted, and waits for ever.
    partition, account, minutes = (
        request.get(key, ["="])[0].partition("=")[2]
        for key in ("partition", "account", "hours")
    )
    _, text = machine.output(["sinfo", "--noheader", "--format=%R|%P|%l"])
    rows = [line.split("|") for line in text.splitlines() if line.count("|") == 2]
    whys = [
        f"partition {name} allows no jobs longer than {limit}"
        if ":" in limit and minutes_of(limit) < float(minutes or 0)
        else _excluded(name, account, machine)
        for name, shown, limit in rows
        if name in partition.split(",") or (not partition and shown.endswith("*"))
    ]
    # Of several partitions, one that takes it suffices.
    return " and ".join(filter(None, whys)) if whys and all(whys) else None


def _excluded(partition: str, account: str, machine: Machine) -> str | None:
    """Return why a partition takes no jobs of an account, or None."""
    _, text = machine.output(["scontrol", "--oneliner", "show", "partition", partition])
    words = dict(word.split("=", 1) for word in text.split() if "=" in word)
    allowed, denied = words.get("AllowAccounts", "ALL"), words.get("DenyAccounts", "")
    if allowed == "ALL" and not denied:
        return None
    if not account:  # Slurm takes the user's own
        account = next(
            (
                row[0]
                for row in _accounting(
                    machine, "user", getpass.getuser(), "format=DefaultAccount"
                )
            ),
            "",
        )
    refused = (
        account in denied.split(",") if denied else account not in allowed.split(",")
    )
    return (
        f"partition {partition} takes no jobs of account {account}"
        if account and refused
        else None
    )


def _limits(
    queue: Mapping[str, str], machine: Machine, own: str, shared: str
) -> list[str]:
    """Return limits on a user's jobs in a queue, by columns of the account (`own`) and of the quality of service."""
    columns = f"format=DefaultAccount,Account,DefaultQOS,{own}"
    rows = _accounting(machine, "user", getpass.getuser(), "withassoc", columns)
    mine = [row for row in rows if row[1] == (queue.get("account") or row[0])]
    qualities = {queue.get("qos") or row[2] or "normal" for row in mine}
    limits = [row[3:] for row in mine]
    rows = _accounting(machine, "qos", f"format=Name,{shared}")
    limits += [row[1:] for row in rows if row[0] in qualities]
    return [value for row in limits for value in row if value]


def _accounting(machine: Machine, *words: str) -> list[list[str]]:
    """Return rows of what `sacctmgr show` prints; none where there is no accounting."""
    code, text = machine.output(
        ["sacctmgr", "--noheader", "--parsable2", "show", *words]
    )
    columns = words[-1].count(",") + 1
    rows = [] if code else [line.split("|") for line in text.splitlines()]
    return [row for row in rows if len(row) == columns]


def _down(queue: Mapping[str, str], machine: Machine) -> list[str]:
    """Return the nodes that are down or drained in a queue's partition, or in all where it names none."""
    where = ["--partition", queue["partition"]] if queue.get("partition") else []
    states = "--states=down,drain,fail,maint"
    code, text = machine.output(
        ["sinfo", "-N", "--noheader", states, "--format=%N", *where]
    )
    return [] if code else sorted(set(text.split()))
