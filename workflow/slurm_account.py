"""Slurm account, partition, QoS and constraint of jobs, and more words for sbatch.

A study's account is a line of its settings, `account = "abc"`; a site's file may name another for one kind of jobs,
`[jobs.gpu] account = "{account}@h100"` (docs/hpc.md). Standard library only.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from common.errors import UserError

__all__ = ["OWN", "QUEUES", "Queue", "check_extra", "options_of", "queue_name"]

QUEUES = ("cpu", "gpu", "gpus")
"""Kinds of jobs to a site: without a GPU, with one, with more."""


@dataclass(frozen=True, kw_only=True)
class Queue:
    """What Slurm is asked for one kind of jobs; what is empty is left to the site's default."""

    partition: str = ""
    """Slurm partition."""
    account: str = ""
    """Slurm account."""
    qos: str = ""
    """Quality of service."""
    constraint: str = ""
    """Features of the nodes, as sbatch's --constraint takes them."""
    hours: float = 0.0
    """Longest job; 0: the settings' limit_hours."""
    slurm_extra: str = ""
    """More words for sbatch."""

    def resources(self) -> dict[str, str]:
        """Return what of it is set, by the names that Snakemake's Slurm executor gives it."""
        names = {"slurm_partition": self.partition, "slurm_account": self.account}
        names |= {"qos": self.qos, "constraint": self.constraint}
        return {name: value for name, value in names.items() if value}


def queue_name(nodes: int, gpus: int) -> str:
    """Return which of `QUEUES` a job of so many nodes with so many GPUs belongs to."""
    return QUEUES[min(2, nodes * gpus)]


OWN: Mapping[str, str] = {
    "--account -A": "the key `account`",
    "--partition -p": "the key `partition`",
    "--qos -q": "the key `qos`",
    "--constraint -C": "the key `constraint`",
    "--time -t": "the keys `limit_hours` and `hours`",
    "--nodes -N": "the setting `nodes`",
    "--gres": "the site's `gres` and the setting `gpus_per_node`",
    "--gpus -G --gpus-per-node --gpus-per-task --gpus-per-socket": "the setting `gpus_per_node`",
    "--cpus-per-task -c --cpus-per-gpu": "the setting `cpus`",
    "--mem --mem-per-cpu --mem-per-gpu": "the setting `memory_gb`",
    "--ntasks -n --ntasks-per-node --ntasks-per-gpu": "nothing: there is one process a GPU",
    "--job-name -J --comment --parsable --wrap": "nothing: Snakemake follows its jobs by them",
    "--output -o --error -e": "nothing: logs are in the study's folder, logs/",
    "--export": "the site's [environment]",
    "--chdir -D --workdir": "the option --dir",
    "--clusters -M": "nothing: a study runs on one cluster",
    "--array -a --dependency -d": "nothing: the order of jobs follows from what they need",
}
"""Options that the workflow or Snakemake's Slurm executor sets, with what to use in their place."""

_SETS = {option: advice for options, advice in OWN.items() for option in options.split()}


def options_of(words: str, where: str) -> list[str]:
    """Return the options among words for sbatch, each without its value.

    Raises:
        UserError: a quote that is not closed, or a word that belongs to no option.
    """
    try:
        parts = shlex.split(words)
    except ValueError as error:
        raise UserError(f"{where}: slurm_extra {words!r} cannot be read: {error}") from None
    found: list[str] = []
    for number, word in enumerate(parts):
        if word.startswith("-"):
            found.append(word.split("=")[0] if word.startswith("--") else word[:2])
        elif number == 0 or not parts[number - 1].startswith("-"):
            raise UserError(f"{where}: slurm_extra has {word!r}, which belongs to no option of sbatch")
    return found


def check_extra(words: str, where: str) -> None:
    """Refuse options that the workflow sets itself; others are asked of sbatch (`workflow.slurm.site_check`).

    Raises:
        UserError: one of these, with what to use in its place.
    """
    for option in options_of(words, where):
        whole = next((name for name in _SETS if len(option) > 3 and name.startswith(option)), option)
        if advice := _SETS.get(whole):
            raise UserError(f"{where}: slurm_extra must not hold {option}; use {advice}")
