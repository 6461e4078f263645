"""What Slurm says of a study's jobs before any is submitted: whether it takes them, and whether they ever start."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace

from container.check_lines import CheckLine, fail, ok, warn
from container.machine import Machine
from workflow.jobs import Job, Workflow
from workflow.slurm_queue import minutes_of, own_name
from workflow.slurm_request import (
    SUBMIT_LIMIT,
    Request,
    no_room,
    request_of,
    sbatch_words,
)
from workflow.start import Start

_TOTALS = {"MaxTRES": False, "MaxTRESMins": True, "GrpTRESMins": True}
"""Limits of accounts and qualities of service by which Slurm accepts a job and lets it wait for ever, as it does by
MaxWall; and whether one is of minutes."""


def slurm(start: Start) -> Iterator[CheckLine]:
    """What Slurm offers, and what it says of the longest job of each kind."""
    machine = start.machine
    if start.is_planned and start.profile == "local":
        return
    for name in ("sbatch", "squeue"):
        if machine.which(name):
            continue
        if start.is_planned:
            advice = "so this is not a Slurm login node; use --profile local"
            yield fail("Slurm", f"{name} is not on PATH, {advice}")
        else:
            said = f"no {name} here; only PROFILE=local works on this machine"
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
    workflow = start.workflow
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
    asked = f"sbatch {shlex.join(sbatch_words(request))}"
    why = _refusal(request, machine)
    if not why:
        limit = next(_limits_below(workflow, job, machine), "")
        if not limit:
            return ok(what, f"Slurm takes {asked}")
        said = f"{what} may wait for ever: {limit} of your account or qos"
        return warn(what, f"{said}; correct [jobs.{job.queue}]")

    is_full = SUBMIT_LIMIT.search(why) is not None
    wrong: list[str] = []
    if not is_full:  # each setting costs a call of sbatch
        wrong = [
            key for key in request if not _refusal(_without(request, key), machine)
        ]
    # Slurm may not say which limit is reached: the limit of submitted jobs, unless a smaller request would be taken.
    if is_full or (no_room(why) and not wrong):
        seen = f"Slurm takes no more {what} of yours now ({why.partition(';')[0]})"
        return warn(what, f"{seen}; the study waits until it does")

    if not wrong or wrong == ["nodes"]:
        down = ", ".join(_down(request, machine))
        if down:
            seen = f"Slurm would not take {what} now ({why}), while {down} are down"
            return warn(what, seen)

    names = wrong or _variables(request, machine)
    names = names or [f"account, [jobs.{job.queue}], gpus_per_node, nodes or cpus"]
    correct = f"correct {' or '.join(names)} (settings or site's file)"
    said = f"Slurm refuses {what} ({why}) submitted as `{asked}`; {correct}"
    return fail(what, f"{said}; `sinfo -o '%R %l %c %m %f %G'` shows what the site has")


def _without(request: Request, setting: str) -> Request:
    return {key: words for key, words in request.items() if key != setting}


def _variables(request: Request, machine: Machine) -> list[str]:
    """Return the environment variables that sbatch reads and because of which Slurm refuses a job."""
    wrong = []
    for name in sorted(machine.environ):
        if name.startswith("SBATCH_"):
            environ = dict(machine.environ)
            del environ[name]
            if not _refusal(request, replace(machine, environ=environ)):
                wrong.append(f"{name} in your shell")
    return wrong


def _refusal(request: Request, machine: Machine) -> str:
    """Return why Slurm would refuse a job, or never start it in any partition; nothing is submitted."""
    command = ["sbatch", "--test-only", *sbatch_words(request), "--wrap=true"]
    code, text = machine.output(command)
    if code:
        said = []
        for line in text.splitlines():
            sentence = line.removeprefix("sbatch: ").removeprefix("error: ")
            if sentence.strip() and not sentence.startswith("Try "):
                said.append(sentence)
        return "; ".join(said) or f"sbatch exits with {code}"
    # Slurm accepts a job whose length or account fits no partition, and lets it wait for ever.
    partitions = _partitions(request, machine)
    whys = [_excluded(row, request, machine) for row in partitions]
    # One partition that takes the job suffices.
    return " and ".join(whys) if all(whys) else ""


def _value(request: Request, option: str, machine: Machine) -> str:
    """Return what is asked for by an option of sbatch, or by its variable for it."""
    for word in reversed(sbatch_words(request)):  # of two, the last one counts
        if word.startswith(f"--{option}="):
            return word.partition("=")[2]
    return machine.environ.get(f"SBATCH_{option.upper()}", "")


def _partitions(request: Request, machine: Machine) -> list[dict[str, str]]:
    """Return the fields that Slurm shows of a job's partitions, or of the default partition where it names none."""
    _, text = machine.output(["scontrol", "--oneliner", "show", "partition"])
    rows = []
    for line in text.splitlines():
        words = [word for word in line.split() if "=" in word]
        rows.append(dict(word.split("=", 1) for word in words))
    names = _value(request, "partition", machine)
    if not names:
        return [row for row in rows if row.get("Default") == "YES"]
    chosen = names.split(",")
    return [row for row in rows if row.get("PartitionName") in chosen]


def _excluded(row: Mapping[str, str], request: Request, machine: Machine) -> str:
    """Return why a partition never starts a job, by its length or its account; empty where it does."""
    name = row.get("PartitionName", "")
    longest = row.get("MaxTime", "")
    minutes = _value(request, "time", machine)
    is_known = minutes.isdecimal() and ":" in longest
    if is_known and minutes_of(longest) < int(minutes):
        return f"partition {name} allows no jobs longer than {longest}"
    allowed = row.get("AllowAccounts", "ALL")
    denied = row.get("DenyAccounts", "")
    if allowed == "ALL" and not denied:
        return ""
    account = _value(request, "account", machine)
    if not account:  # Slurm takes the user's default account
        for own in _accounting(machine, ("DefaultAccount",), "user", own_name()):
            account = own["DefaultAccount"]
    is_taken = account in allowed.split(",")
    if denied:
        is_taken = account not in denied.split(",")
    if is_taken or not account:
        return ""
    return f"partition {name} takes no jobs of account {account}"


def _limits_below(workflow: Workflow, job: Job, machine: Machine) -> Iterator[str]:
    """Yield what a job asks for beyond a limit, `16 is more than MaxTRES cpu=4`.

    Limits are of the account, of the job's quality of service and of its partition's.
    """
    asked = {"cpu": job.cpus, "node": 1, "gres/gpu": job.gpus}
    for limits in _limits(request_of(workflow, job), machine):
        longest = limits["MaxWall"]
        if longest and minutes_of(longest) < job.minutes:
            yield f"{job.minutes} min is more than MaxWall {longest}"
        for name, minutes in _TOTALS.items():
            factor = job.nodes * (job.minutes if minutes else 1)
            for word in limits[name].split(","):
                kind, _, limit = word.partition("=")
                total = asked.get(kind, 0) * factor
                if limit.isdecimal() and int(limit) < total:
                    yield f"{total} is more than {name} {word}"


def _limits(request: Request, machine: Machine) -> Iterator[dict[str, str]]:
    """Yield the limits of the account and of each quality of service that a job would have."""
    limits = ("MaxWall", *_TOTALS)
    columns = ("DefaultAccount", "Account", "DefaultQOS", *limits)
    account = _value(request, "account", machine)
    qos = _value(request, "qos", machine)
    qualities = set()
    for row in _accounting(machine, columns, "user", own_name(), "withassoc"):
        if row["Account"] == (account or row["DefaultAccount"]):
            qualities.add(qos or row["DefaultQOS"] or "normal")
            yield row
    # A partition may have a quality of service whose limits hold in addition to the job's.
    for partition in _partitions(request, machine)[:1]:
        qualities.add(partition.get("QoS", ""))
    for row in _accounting(machine, ("Name", *limits), "qos"):
        if row["Name"] in qualities:
            yield row


def _accounting(
    machine: Machine, columns: tuple[str, ...], *words: str
) -> list[dict[str, str]]:
    """Return rows of what `sacctmgr show` prints, by column; none where there is no accounting."""
    command = ["sacctmgr", "--noheader", "--parsable2", "show", *words]
    code, text = machine.output([*command, f"format={','.join(columns)}"])
    if code:
        return []
    rows = [line.split("|") for line in text.splitlines()]
    whole = [row for row in rows if len(row) == len(columns)]
    return [dict(zip(columns, row, strict=True)) for row in whole]


def _down(request: Request, machine: Machine) -> list[str]:
    """Return the nodes that are down or drained in a job's partition, or in all where it names none."""
    command = ["sinfo", "-N", "--noheader", "--format=%N"]
    command.append("--states=down,drain,fail,maint")
    partition = _value(request, "partition", machine)
    if partition:
        command += ["--partition", partition]
    code, text = machine.output(command)
    return [] if code else sorted(set(text.split()))
