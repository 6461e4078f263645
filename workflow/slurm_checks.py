"""What Slurm says of a study's jobs before any is submitted: whether it takes them, and whether they ever start."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace

from container.check_lines import CheckLine, fail, ok, warn
from container.machine import Machine
from workflow.jobs import Job, Workflow
from workflow.slurm_queue import minutes_of, own_name
from workflow.slurm_request import FULL, Request, no_room, request_of, words_of
from workflow.start import Start

_LIMITS = ("MaxWall", "MaxTRES", "MaxTRESMins", "GrpTRESMins")
"""Limits of accounts and qualities of service by which Slurm accepts a job and lets it wait for ever."""


def slurm(start: Start) -> Iterator[CheckLine]:
    """What Slurm offers, and what it says of the longest job of each kind."""
    machine, workflow = start.machine, start.workflow
    if start.is_planned and start.profile == "local":
        return
    if missing := [name for name in ("sbatch", "squeue") if not machine.which(name)]:
        if start.is_planned:
            said = "so this is not a Slurm login node; use --profile local"
            yield fail("Slurm", f"{missing[0]} is not on PATH, {said}")
        else:
            said = f"no {missing[0]} here; only PROFILE=local works on this machine"
            yield warn("Slurm", said)
        return
    code, text = machine.output(["sinfo", "--noheader", "--format=%P %l %D node(s) %G"])
    rows = text.replace("(null)", "no GPU").splitlines()
    if code:
        seen = rows[-1] if rows else f"sinfo failed ({code})"
        yield fail("Slurm", f"{seen}; is slurmctld up?")
        return
    if not start.is_planned and rows:
        yield ok("Slurm", "; ".join(rows[:6]))
    elif not start.is_planned:
        yield fail("Slurm", "no partition is visible; ask for access to one")
    ordered = sorted(workflow.jobs.values(), key=lambda job: job.minutes)
    longest = {job.queue: job for job in ordered}
    for job in longest.values():
        yield _answer(workflow, job, machine)


def _answer(workflow: Workflow, job: Job, machine: Machine) -> CheckLine:
    """Return whether Slurm would take a job and start it some day.

    Where it would not, the sentence says what was asked, why not, and which setting is wrong: that without which Slurm
    would take the job. Where nodes are down and no other setting than their number can be wrong, it is a warning.
    """
    what = f"{job.queue} jobs"
    request = request_of(workflow, job)
    asked = f"sbatch {shlex.join(words_of(request))}"
    why = _refusal(request, machine)
    if not why:
        limit = next(_limits_below(workflow, job, machine), "")
        if limit:
            said = f"{what} may wait for ever: {limit} of your account or qos"
            return warn(what, f"{said}; correct [jobs.{job.queue}]")
        return ok(what, f"Slurm takes {asked}")
    is_full = FULL.search(why) is not None
    # Each costs a call of sbatch.
    keys = () if is_full else request
    wrong = [key for key in keys if not _refusal(_without(request, key), machine)]
    # Where Slurm does not say which limit it is: that of submitted jobs, unless a smaller job would be taken.
    if is_full or (no_room(why) and not wrong):
        seen = f"Slurm takes no more {what} of yours now ({why.partition(';')[0]})"
        return warn(what, f"{seen}; the study waits until it does")
    down = _down(request, machine) if set(wrong) <= {"nodes"} else []
    if down:
        seen = f"Slurm would not take {what} now ({why}), while {', '.join(down)}"
        return warn(what, f"{seen} are down")
    names = [_name(key, workflow, job) for key in wrong]
    several = f"[jobs.{job.queue}], gpus_per_node, nodes and cpus"
    names = names or list(_variables(request, machine)) or [several]
    correct = f"{' or '.join(names)} (settings or site's file)"
    said = f"Slurm refuses {what} ({why}) submitted as `{asked}`; correct {correct}"
    return fail(what, f"{said}; `sinfo -o '%R %l %c %m %f %G'` shows what the site has")


def _without(request: Request, setting: str) -> Request:
    return {key: words for key, words in request.items() if key != setting}


def _name(key: str, workflow: Workflow, job: Job) -> str:
    """Return how a sentence names the setting behind a part of a request."""
    if key == "hours":
        return f"limit_hours, or hours of [jobs.{job.queue}]"
    if key == "gres":
        return "gpus_per_node, or gres"
    is_of_queue = key in workflow.queue(job) and key != "account"
    return f"{key} of [jobs.{job.queue}]" if is_of_queue else key


def _variables(request: Request, machine: Machine) -> Iterator[str]:
    """Yield the variables of sbatch without which Slurm would take a job."""
    for name in sorted(machine.environ):
        environ = {key: machine.environ[key] for key in machine.environ if key != name}
        is_option = name.startswith("SBATCH_")
        if is_option and not _refusal(request, replace(machine, environ=environ)):
            yield f"{name} in your shell"


def _refusal(request: Request, machine: Machine) -> str:
    """Return why a job would not be taken, or no partition would ever start it; nothing is submitted."""
    command = ["sbatch", "--test-only", *words_of(request), "--wrap=true"]
    code, text = machine.output(command)
    if code:
        lines = [
            line.removeprefix("sbatch: ").removeprefix("error: ")
            for line in text.splitlines()
        ]
        said = [line for line in lines if line.strip() and not line.startswith("Try ")]
        return "; ".join(said) or f"sbatch exits with {code}"
    # What no partition takes for its length or its account is accepted, and waits for ever.
    whys = [
        _excluded(row, request, machine)
        for row in _partitions(_value(request, "partition", machine), machine)
    ]
    # Of several partitions, one that takes it suffices.
    return " and ".join(whys) if all(whys) else ""


def _value(request: Request, key: str, machine: Machine) -> str:
    """Return what is asked for by a key of a queue, or by sbatch's variable for it."""
    option = request.get(key, ["="])[0].partition("=")[2]
    return option or machine.environ.get(f"SBATCH_{key.upper()}", "")


def _partitions(names: str, machine: Machine) -> list[dict[str, str]]:
    """Return what Slurm says of partitions, by its words; of the default one where none is named."""
    _, text = machine.output(["scontrol", "--oneliner", "show", "partition"])
    lines = [
        [word for word in line.split() if "=" in word] for line in text.splitlines()
    ]
    rows = [dict(word.split("=", 1) for word in words) for words in lines]
    if not names:
        return [row for row in rows if row.get("Default") == "YES"]
    return [row for row in rows if row.get("PartitionName") in names.split(",")]


def _excluded(row: Mapping[str, str], request: Request, machine: Machine) -> str:
    """Return why a partition never starts a job, by its length or its account; empty where it does."""
    name, longest = row.get("PartitionName", ""), row.get("MaxTime", "")
    minutes = float(_value(request, "hours", machine) or 0)
    if ":" in longest and minutes_of(longest) < minutes:
        return f"partition {name} allows no jobs longer than {longest}"
    allowed, denied = row.get("AllowAccounts", "ALL"), row.get("DenyAccounts", "")
    if allowed == "ALL" and not denied:
        return ""
    account = _value(request, "account", machine)
    if not account:  # Slurm takes the user's own
        rows = _accounting(machine, "user", own_name(), "format=DefaultAccount")
        account = "".join(row[0] for row in rows[:1])
    taken = account in allowed.split(",")
    if denied:
        taken = account not in denied.split(",")
    if taken or not account:
        return ""
    return f"partition {name} takes no jobs of account {account}"


def _limits_below(workflow: Workflow, job: Job, machine: Machine) -> Iterator[str]:
    """Yield what a job asks for beyond a limit, `16 is more than MaxTRES cpu=4`.

    Limits are of the account, of the job's quality of service and of its partition's.
    """
    request = request_of(workflow, job)
    asked = {"cpu": job.cpus, "node": 1, "gres/gpu": job.gpus}
    for limits in _limits(request, machine):
        for name, text in zip(_LIMITS, limits, strict=True):
            if name == "MaxWall":
                if text and minutes_of(text) < job.minutes:
                    yield f"{job.minutes} min is more than MaxWall {text}"
                continue
            factor = job.nodes * (job.minutes if name.endswith("Mins") else 1)
            for word in text.split(","):
                kind, _, limit = word.partition("=")
                total = asked.get(kind, 0) * factor
                if limit.isdecimal() and int(limit) < total:
                    yield f"{total} is more than {name} {word}"


def _limits(request: Request, machine: Machine) -> Iterator[list[str]]:
    """Yield the values of `_LIMITS` of the account and each quality of service that a job would have."""
    columns = ",".join(_LIMITS)
    format_ = f"format=DefaultAccount,Account,DefaultQOS,{columns}"
    rows = _accounting(machine, "user", own_name(), "withassoc", format_)
    account = _value(request, "account", machine)
    mine = [row for row in rows if row[1] == (account or row[0])]
    partitions = _partitions(_value(request, "partition", machine), machine)
    qos = _value(request, "qos", machine)
    qualities = {qos or row[2] or "normal" for row in mine}
    qualities |= {row.get("QoS", "") for row in partitions[:1]}
    yield from (row[3:] for row in mine)
    rows = _accounting(machine, "qos", f"format=Name,{columns}")
    yield from (row[1:] for row in rows if row[0] in qualities)


def _accounting(machine: Machine, *words: str) -> list[list[str]]:
    """Return rows of what `sacctmgr show` prints; none where there is no accounting."""
    command = ["sacctmgr", "--noheader", "--parsable2", "show", *words]
    code, text = machine.output(command)
    columns = words[-1].count(",") + 1
    rows = [] if code else [line.split("|") for line in text.splitlines()]
    return [row for row in rows if len(row) == columns]


def _down(request: Request, machine: Machine) -> list[str]:
    """Return the nodes that are down or drained in a job's partition, or in all where it names none."""
    partition = _value(request, "partition", machine)
    where = ["--partition", partition] if partition else []
    states = "--states=down,drain,fail,maint"
    command = ["sinfo", "-N", "--noheader", states, "--format=%N", *where]
    code, text = machine.output(command)
    return [] if code else sorted(set(text.split()))
