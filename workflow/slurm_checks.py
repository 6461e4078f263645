"""The check of what Slurm says of a study's jobs before any is submitted: does it accept them, and do they ever start?

A `Request` holds the options of sbatch for a job by the setting that they come from, so that the setting because of
which Slurm refuses a job can be found and named.
"""

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
"""Limits on a job's total of a resource, and whether the total is multiplied by the job's minutes.

They belong to accounts and to qualities of service (QOS). Slurm accepts a job that exceeds one and lets it wait for
ever; so it does with the limit MaxWall on a job's minutes.
"""


def slurm(start: Start) -> Iterator[CheckLine]:
    """What Slurm offers here, and whether it would accept and start the longest job of each kind.

    Kinds are those of a site's file: jobs without a GPU, with one GPU, with several.
    """
    machine = start.machine
    # A planned study that runs on this machine needs no Slurm. Where no study is planned, there are no jobs, and only
    # the machine is checked.
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

    # One line for each partition: its name, longest job, nodes and GPUs.
    code, text = machine.output(["sinfo", "--noheader", "--format=%P %l %D node(s) %G"])
    rows = text.replace("(null)", "no GPU").splitlines()
    if code:
        seen = rows[-1] if rows else f"sinfo failed ({code})"
        yield fail("Slurm", f"{seen}; is slurmctld up?")
        return

    # For a planned study the answers on its jobs, below, say whether there is a partition for them.
    if not start.is_planned and rows:
        # A cluster may have dozens of partitions; six are named.
        yield ok("Slurm", "; ".join(rows[:6]))
    elif not start.is_planned:
        yield fail("Slurm", "no partition is visible; ask for access to one")

    # Without a planned study there are no jobs here. Of the jobs of each kind, the last one in order of time is kept:
    # the longest.
    workflow = start.workflow
    ordered = sorted(workflow.jobs.values(), key=lambda job: job.minutes)
    longest = {job.queue: job for job in ordered}
    for job in longest.values():
        yield _answer(workflow, job, machine)


def _answer(workflow: Workflow, job: Job, machine: Machine) -> CheckLine:
    """Return a line on whether Slurm would accept a job and start it some day.

    Where it would not, the sentence says what was asked, why Slurm refuses it, and which setting is wrong. A setting is
    wrong if Slurm would accept the job without the setting's options. The line is only a warning where the queue is
    full, or where nodes are down and no setting but their number is found wrong.
    """
    what = f"{job.queue} jobs"
    request = request_of(workflow, job)
    asked = f"sbatch {shlex.join(sbatch_words(request))}"
    why = _refusal(request, machine)

    # Slurm accepts the job. One limit below what the job asks for is enough to warn of.
    if not why:
        limit = next(_limits_below(workflow, job, machine), "")
        if not limit:
            return ok(what, f"Slurm takes {asked}")
        said = f"{what} may wait for ever: {limit} of your account or qos"
        return warn(what, f"{said}; correct [jobs.{job.queue}]")

    # Slurm refuses the job. A setting is wrong if Slurm accepts the job without it. To try one costs a call of sbatch,
    # so none is tried where Slurm says that its queue is full.
    is_full = SUBMIT_LIMIT.search(why) is not None
    wrong: list[str] = []
    if not is_full:
        wrong = [
            key for key in request if not _refusal(_without(request, key), machine)
        ]

    # Slurm's message may leave open which limit is reached: that of submitted jobs, or that of a job's size or time
    # (`no_room`). If the request is accepted without one of its settings, it is the limit of that setting. If none
    # helps, the queue has no room for any job.
    if is_full or (no_room(why) and not wrong):
        # Of several lines of Slurm's message, joined by semicolons, the first one is shown.
        seen = f"Slurm takes no more {what} of yours now ({why.partition(';')[0]})"
        return warn(what, f"{seen}; the study waits until it does")

    # Where no setting is found wrong, or only the number of nodes, too few nodes may be up at the moment.
    if not wrong or wrong == ["nodes"]:
        down = ", ".join(_down(request, machine))
        if down:
            seen = f"Slurm would not take {what} now ({why}), while {down} are down"
            return warn(what, seen)

    # Without a wrong setting a variable of the shell may be the reason. If none is, the settings that are often wrong
    # are named.
    names = wrong or _variables(request, machine)
    names = names or [f"account, [jobs.{job.queue}], gpus_per_node, nodes or cpus"]
    correct = f"correct {' or '.join(names)} (settings or site's file)"
    said = f"Slurm refuses {what} ({why}) submitted as `{asked}`; {correct}"
    return fail(what, f"{said}; `sinfo -o '%R %l %c %m %f %G'` shows what the site has")


def _without(request: Request, setting: str) -> Request:
    return {key: words for key, words in request.items() if key != setting}


def _variables(request: Request, machine: Machine) -> list[str]:
    """Return the environment variables that sbatch reads and without which Slurm would accept a job.

    They act as options that the user's shell gives to each sbatch, beside those of the study's settings.
    """
    wrong = []
    for name in sorted(machine.environ):
        # sbatch reads SBATCH_ACCOUNT as --account, and so on.
        if name.startswith("SBATCH_"):
            environ = dict(machine.environ)
            del environ[name]
            if not _refusal(request, replace(machine, environ=environ)):
                wrong.append(f"{name} in your shell")
    return wrong


def _refusal(request: Request, machine: Machine) -> str:
    """Return why Slurm would refuse a job, or why none of its partitions would ever start it; empty: it would start.

    Nothing is submitted.
    """
    command = ["sbatch", "--test-only", *sbatch_words(request), "--wrap=true"]
    code, text = machine.output(command)
    if code:
        sentences = []
        for line in text.splitlines():
            sentence = line.removeprefix("sbatch: ").removeprefix("error: ")
            # `Try "sbatch --help" for more information` is no reason.
            if sentence.strip() and not sentence.startswith("Try "):
                sentences.append(sentence)
        return "; ".join(sentences) or f"sbatch exits with {code}"

    # Slurm accepts a job whose length or account fits no partition, and lets it wait for ever.
    partitions = _partitions(request, machine)
    exclusions = [_excluded(row, request, machine) for row in partitions]

    # An empty reason belongs to a partition that starts the job; one such partition suffices. Where no partition is
    # known, nothing speaks against the job: `all` is true of an empty list, and the joined text is empty.
    return " and ".join(exclusions) if all(exclusions) else ""


def _value(request: Request, option: str, machine: Machine) -> str:
    """Return the value of an option of sbatch in a request, else of sbatch's variable for it, else an empty text."""
    # Of two values, sbatch takes the last one.
    for word in reversed(sbatch_words(request)):
        if word.startswith(f"--{option}="):
            return word.partition("=")[2]
    return machine.environ.get(f"SBATCH_{option.upper()}", "")


def _partitions(request: Request, machine: Machine) -> list[dict[str, str]]:
    """Return the fields that Slurm shows of a job's partitions; of the default partition where the job names none."""
    _, text = machine.output(["scontrol", "--oneliner", "show", "partition"])
    rows = []
    for line in text.splitlines():
        # A line is `PartitionName=gpu AllowAccounts=ALL Default=YES MaxTime=1-00:00:00 ...`.
        words = [word for word in line.split() if "=" in word]
        rows.append(dict(word.split("=", 1) for word in words))
    names = _value(request, "partition", machine)
    if not names:
        return [row for row in rows if row.get("Default") == "YES"]
    chosen = names.split(",")
    return [row for row in rows if row.get("PartitionName") in chosen]


def _excluded(row: Mapping[str, str], request: Request, machine: Machine) -> str:
    """Return why a partition would never start a job, for the job's length or account; empty where it would.

    Args:
        row: the partition's fields, of `_partitions`.
        request: what the job asks for.
        machine: this machine.
    """
    name = row.get("PartitionName", "")
    longest = row.get("MaxTime", "")
    minutes = _value(request, "time", machine)

    # A time in another form, from `slurm_extra` or a variable, is not compared; MaxTime may be the word UNLIMITED.
    is_known = minutes.isdecimal() and ":" in longest
    if is_known and minutes_of(longest) < int(minutes):
        return f"partition {name} allows no jobs longer than {longest}"
    allowed = row.get("AllowAccounts", "ALL")
    denied = row.get("DenyAccounts", "")
    if allowed == "ALL" and not denied:
        return ""
    account = _value(request, "account", machine)
    if not account:  # the job belongs to the user's default account
        columns = ("DefaultAccount",)
        # One row, of this user; none where the site has no accounting, and then the account stays empty.
        for row_of_user in _accounting(machine, columns, "user", own_name()):
            account = row_of_user["DefaultAccount"]

    # Slurm shows the accounts that a partition allows, or those that it denies.
    is_accepted = account in allowed.split(",")
    if denied:
        is_accepted = account not in denied.split(",")

    # Without accounting, the account is not known.
    if is_accepted or not account:
        return ""
    return f"partition {name} takes no jobs of account {account}"


def _limits_below(workflow: Workflow, job: Job, machine: Machine) -> Iterator[str]:
    """Yield words on each limit below what a job asks for, such as `16 is more than MaxTRES cpu=4`.

    Limits belong to the account, to the job's quality of service (QOS), and to its partition's quality of service.
    """
    # What the job asks for on each of its nodes, by Slurm's names of resources (TRES). Memory is not compared.
    asked = {"cpu": job.cpus, "node": 1, "gres/gpu": job.gpus}
    for limits in _limits(request_of(workflow, job), machine):
        longest = limits["MaxWall"]
        if longest and minutes_of(longest) < job.minutes:
            yield f"{job.minutes} min is more than MaxWall {longest}"
        for name, counts_minutes in _TOTALS.items():
            factor = job.nodes
            if counts_minutes:
                factor *= job.minutes

            # A limit's value is a list such as `cpu=4,gres/gpu=2`.
            for word in limits[name].split(","):
                # A resource that `asked` lacks, such as memory, counts as 0 and so is below every limit. A limit that
                # is not a whole number is not compared: it is empty where none is set, and memory has a unit.
                kind, _, limit = word.partition("=")
                total = asked.get(kind, 0) * factor
                if limit.isdecimal() and int(limit) < total:
                    yield f"{total} is more than {name} {word}"


def _limits(request: Request, machine: Machine) -> Iterator[dict[str, str]]:
    """Yield the limits that a job would have: those of its account, then those of each quality of service (QOS).

    Each is a row of sacctmgr, in which a limit that is not set is empty.
    """
    limits = ("MaxWall", *_TOTALS)
    columns = ("DefaultAccount", "Account", "DefaultQOS", *limits)
    account = _value(request, "account", machine)
    qos = _value(request, "qos", machine)
    qualities = set()

    # One row for each account that the user belongs to.
    for row in _accounting(machine, columns, "user", own_name(), "withassoc"):
        if row["Account"] == (account or row["DefaultAccount"]):
            # What the job asks for, else the account's default, else the quality that Slurm's accounting begins with.
            qualities.add(qos or row["DefaultQOS"] or "normal")
            yield row

    # A partition may have a quality of service of its own, whose limits hold in addition to the job's. Of several
    # partitions only the first is looked at. An empty name, of one without its own, fits no row below.
    for partition in _partitions(request, machine)[:1]:
        qualities.add(partition.get("QoS", ""))
    for row in _accounting(machine, ("Name", *limits), "qos"):
        if row["Name"] in qualities:
            yield row


def _accounting(
    machine: Machine, columns: tuple[str, ...], *words: str
) -> list[dict[str, str]]:
    """Return the rows that `sacctmgr show` prints, as dictionaries by column; none where a site has no accounting.

    Args:
        machine: this machine.
        columns: names of the columns.
        words: what is shown, as sacctmgr takes it: `"user", NAME`, or `"qos"`.
    """
    command = ["sacctmgr", "--noheader", "--parsable2", "show", *words]
    code, text = machine.output([*command, f"format={','.join(columns)}"])
    if code:
        return []
    # A site may print lines of its own, which have no such columns.
    rows = [line.split("|") for line in text.splitlines()]
    whole = [row for row in rows if len(row) == len(columns)]
    return [dict(zip(columns, row, strict=True)) for row in whole]


def _down(request: Request, machine: Machine) -> list[str]:
    """Return the nodes that are down or drained in a job's partition, or in all partitions where the job names none."""
    command = ["sinfo", "-N", "--noheader", "--format=%N"]
    command.append("--states=down,drain,fail,maint")
    partition = _value(request, "partition", machine)
    if partition:
        command += ["--partition", partition]
    code, text = machine.output(command)
    return [] if code else sorted(set(text.split()))
