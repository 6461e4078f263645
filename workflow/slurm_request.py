"""What Slurm is asked for a job, said once: for Snakemake, for the check before a study, and for the study's own job.

The words of sbatch come from Snakemake's Slurm executor itself, so what is checked is what will be submitted.
"""

from __future__ import annotations

import getpass
import math
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace

from common.errors import UserError, first_line
from container.check_lines import CheckLine, fail, ok, warn
from container.machine import Machine
from workflow.jobs import QUEUES, Job, Workflow
from workflow.slurm_jobs import minutes_of

Request = dict[str, str | int]
"""What Slurm is asked for, by the names of the executor's resources."""

_RESOURCES = {
    "partition": "slurm_partition",
    "account": "slurm_account",
    "memory_gb_per_gpu": "slurm_extra",
    "memory_gb_per_core": "mem_mb_per_cpu",
}
"""The resource of the executor that a setting of [jobs] goes to; the others have one name."""

SUBMIT_LIMIT = re.compile(r"\w*Submit\w*Limit")
"""How Slurm names a limit on the jobs in its queue; `workflow/profiles/slurm/bin/sbatch` waits for the same."""


def request_of(workflow: Workflow, job: Job) -> Request:
    """Return what Slurm is asked for a job."""
    queue = workflow.queue(job)
    request: Request = {_RESOURCES.get(key, key): value for key, value in queue.items()}
    per_gpu, per_core = (
        round(1000 * float(queue.get(f"memory_gb_per_{what}", 0)))
        for what in ("gpu", "core")
    )
    mem_per_gpu = f"--mem-per-gpu={per_gpu}M" if per_gpu and job.gpus else ""
    # Asked of Slurm by itself, since its limit counts from its own start of the job. Not with an image: every process
    # of the job gets it, and the one that mounts the image dies of it. The job's clock asks then.
    warning = (
        f"--signal=USR1@{job.margin_seconds}"
        if job.checkpoints and not workflow.image
        else ""
    )
    request |= {
        "nodes": job.nodes,
        # 0 is not asked for; without it Snakemake would ask for its own default.
        "mem_mb": 0 if mem_per_gpu or per_core else round(1000 * job.memory_gb),
        "runtime": job.minutes,
        "cpus_per_task": job.cpus,
        "gres": f"{workflow.gres}:{job.gpus}" if job.gpus else "",
        "tasks_per_gpu": 0,
        "gpus_here": job.gpus,
        "slurm_extra": " ".join(
            filter(None, (warning, mem_per_gpu, queue.get("slurm_extra", "")))
        ),
    }
    request |= {"mem_mb_per_cpu": per_core} if per_core else {}
    # On several nodes the job starts a process on each itself; else Snakemake starts the one.
    return request | ({"mpi": "srun", "tasks": job.nodes} if job.nodes > 1 else {})


class _Resources(dict[str, str | int]):
    """Resources as the executor reads them: by key and as attributes."""

    __getattr__ = dict.__getitem__


def sbatch_options(request: Request) -> list[str]:
    """Return the options with which Snakemake's Slurm executor submits a job, but for its name, output and comment."""
    # Half a second, and for those alone who use Slurm.
    from snakemake_executor_plugin_slurm.submit_string import get_submit_command
    from snakemake_executor_plugin_slurm.utils import set_gres_string
    from snakemake_interface_common.exceptions import WorkflowError

    job = SimpleNamespace(resources=_Resources(request), threads=1)
    account, partition = (
        f"{option} {shlex.quote(str(request[key]))}" if key in request else ""
        for option, key in (("-A", "slurm_account"), ("-p", "slurm_partition"))
    )
    names = dict.fromkeys(("run_uuid", "slurm_logfile", "workdir"), "") | {
        "comment_str": "NAMED"
    }
    # As workflow/profiles/slurm has it
    settings = SimpleNamespace(requeue=True, qos="", reservation="")
    try:
        gres = set_gres_string(job)
    except WorkflowError as error:
        raise UserError(
            f"gres: {first_line(error)}; correct it in the site's file or the settings"
        ) from None
    call = get_submit_command(
        job, {**names, "account": account, "partition": partition}, settings
    )
    words = shlex.split(call + gres)
    return words[words.index("NAMED") + 1 :]


def _setting_of_resource(
    workflow: Workflow, job: Job, machine: Machine
) -> dict[str, str]:
    """Return by resource of a request the setting that it comes from, as a sentence names it."""
    of_queue = {}
    for key, value in workflow.queue(job).items():
        variable = f"SBATCH_{key.upper()}"
        shell = (
            f" (or {variable} in your shell)"
            if machine.environ.get(variable) == value
            else ""
        )
        where = "" if key == "account" else f" of [jobs.{job.queue}]"
        of_queue[_RESOURCES.get(key, key)] = f"{key}{where}{shell}"
    return of_queue | {
        "runtime": f"limit_hours, or hours of [jobs.{job.queue}]",
        "nodes": "nodes",
        "mem_mb": "memory_gb",
        "cpus_per_task": "cpus",
        "gres": "gpus_per_node, or gres",
    }


def _without_variables(machine: Machine, *names: str) -> Machine:
    return replace(
        machine,
        environ={
            key: value for key, value in machine.environ.items() if key not in names
        },
    )


def _without(request: Request, resource: str) -> Request:
    """Return a request without a resource; without nodes it is one of a single process."""
    gone = ("nodes", "mpi", "tasks") if resource == "nodes" else (resource,)
    return {key: value for key, value in request.items() if key not in gone}


def with_account(workflow: Workflow) -> Workflow:
    """Return a workflow whose jobs without an account have the user's default one, which Slurm would take.

    Snakemake's executor would guess it from the user's last jobs, and say so. Where Slurm has no accounting, nothing
    changes.
    """
    if all("account" in workflow.queues.get(name, {}) for name in QUEUES):
        return workflow  # Slurm's controller need not be asked
    rows = _accounting(Machine(), "user", getpass.getuser(), "format=DefaultAccount")
    own = {"account": rows[0][0]} if rows and rows[0][0] else {}
    return replace(
        workflow, queues={name: own | workflow.queues.get(name, {}) for name in QUEUES}
    )


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
    settings = _setting_of_resource(workflow, job, machine)
    # The request has these two (`Queue.options`).
    machine = _without_variables(machine, "SBATCH_ACCOUNT", "SBATCH_PARTITION")
    options = sbatch_options(request)
    asked = f"sbatch {shlex.join(options)}"
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
    if SUBMIT_LIMIT.search(why):
        return full
    without = {key: _without(request, key) for key in settings}
    changed = {
        key: smaller
        for key, smaller in without.items()
        if sbatch_options(smaller) != options
    }
    wrong = [key for key, smaller in changed.items() if not _refusal(smaller, machine)]
    # Where Slurm does not say which limit it is: that of submitted jobs, unless a smaller job would be taken.
    if not wrong and "job submit limit" in why and "Limit" not in why:
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
        ["sbatch", "--test-only", *sbatch_options(request), "--wrap=true"]
    )
    if code:
        lines = [
            line.removeprefix("sbatch: ").removeprefix("error: ")
            for line in text.splitlines()
        ]
        said = [line for line in lines if line.strip() and not line.startswith("Try ")]
        return "; ".join(said) or f"sbatch exits with {code}"
    # What no partition takes for its length or its account is accepted, and waits for ever.
    partition, minutes = (
        str(request.get("slurm_partition", "")),
        int(request.get("runtime", 0)),
    )
    account = str(request.get("slurm_account", ""))
    _, text = machine.output(["sinfo", "--noheader", "--format=%R|%P|%l"])
    rows = [line.split("|") for line in text.splitlines() if line.count("|") == 2]
    whys = [
        f"partition {name} allows no jobs longer than {limit}"
        if ":" in limit and minutes_of(limit) < minutes
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
    refused = (
        account in denied.split(",") if denied else account not in allowed.split(",")
    )
    return (
        f"partition {partition} takes no jobs of account {account}"
        if account and refused
        else None
    )


def limit_jobs(workflow: Workflow, own: int) -> tuple[Workflow, list[CheckLine]]:
    """Return the workflow with no more jobs at a time than the site takes of a user, and a line where it has a limit.

    Args:
        workflow: the jobs.
        own: Slurm jobs that run the study itself, which count as well.
    """
    here = Machine()
    queues = {job.queue: workflow.queue(job) for job in workflow.jobs.values()}
    limits = [_submit_limit(queue, here) for queue in queues.values()]
    # Of queues with different limits the largest counts, since submissions to the others wait.
    if (most := max(limits, default=math.inf)) == math.inf:
        return workflow, []
    said = f"Slurm takes {most:.0f} jobs of yours at a time"
    if most <= own:
        said = f"{said}, and the one that runs the study is one of them; leave --detach out, and use tmux"
        return workflow, [fail("jobs", said)]
    workflow = replace(workflow, max_jobs=min(workflow.max_jobs, int(most) - own))
    return workflow, [warn("jobs", f"{said}; the study submits {workflow.max_jobs}")]


def _submit_limit(queue: Mapping[str, str], machine: Machine) -> float:
    """Return how many jobs a user may have in a queue; infinity: any number."""
    shared = "MaxSubmitJobsPerUser,MaxSubmitJobsPerAccount,GrpSubmitJobs"
    found = _limits(queue, machine, "MaxSubmitJobs,GrpSubmitJobs", shared)
    return min(map(int, filter(str.isdecimal, found)), default=math.inf)


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
