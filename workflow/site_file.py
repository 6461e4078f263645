"""Site profiles: what a cluster wants from each kind of job, as TOML files; `workflow/sites/` has some.

    base = "whole-node"        # optional: another profile to start from
    gres = "gpu:h100"          # what Slurm calls a GPU
    modules = ["apptainer"]    # loaded before each job
    binds = ["/scratch"]       # folders that images show
    runtime = "nvidia"         # or rocm, none; found out by itself without
    offline = true             # compute nodes see no hub ...
    hub = "/scratch/hub"       # ... but files brought into this folder (HF_HOME)
    [settings]                 # defaults for the study's settings: device, gpus_per_node, cpus, memory_gb ...
    [environment]              # variables of every job; $NAME is expanded in the job
    [jobs.cpu]                 # jobs without a GPU: partition, account, qos, constraint, hours, slurm_extra
    [jobs.gpu]                 # jobs of one GPU
    [jobs.gpus]                # jobs of more

`{account}` stands for the settings' account.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from common.errors import UserError, nearest
from common.settings import need_table, read_settings, read_toml

__all__ = ["QUEUES", "SITES", "Queue", "SiteProfile", "load_site", "queue_name", "site_names"]

SITES = Path(__file__).resolve().parent / "sites"
"""Where the profiles are that come with this package."""

QUEUES = ("cpu", "gpu", "gpus")
"""Kinds of jobs to a site: without a GPU, with one, with more."""


def queue_name(nodes: int, gpus: int) -> str:
    """Return which of `QUEUES` a job of so many nodes with so many GPUs belongs to."""
    return QUEUES[min(2, nodes * gpus)]


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
        names = {"slurm_partition": self.partition, "slurm_account": self.account, "qos": self.qos}
        names |= {"constraint": self.constraint, "slurm_extra": self.slurm_extra}
        return {name: value for name, value in names.items() if value}


@dataclass(frozen=True, kw_only=True)
class _Plain:
    """The keys of a site's file that are no tables."""

    title: str = ""
    """What it is, in a few words."""
    checked: str = ""
    """How far it was tried."""
    gres: str = "gpu"
    """What Slurm calls a GPU: `gpu`, or with its type, `gpu:h100`."""
    modules: tuple[str, ...] = ()
    """Environment modules that each job loads."""
    binds: tuple[str, ...] = ()
    """Folders that images show; $NAME is expanded in the job, and what does not exist there is left out."""
    runtime: Literal["", "nvidia", "rocm", "none"] = ""
    """GPU runtime of images; found out on the node when empty."""
    offline: bool = False
    """Whether compute nodes see no network outside the site."""
    hub: str = ""
    """Folder of files brought from a hub (HF_HOME) for jobs."""


@dataclass(frozen=True, kw_only=True)
class SiteProfile(_Plain):
    """One cluster."""

    name: str = "generic"
    """Its file's name."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Defaults for the study's settings."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables of every job."""
    queues: dict[str, Queue] = field(default_factory=lambda: {name: Queue() for name in QUEUES})
    """What each kind of jobs asks for."""

    def variables(self) -> dict[str, str]:
        """Return the variables of every job, with those that follow from other fields."""
        found = {"CLM_OR_MLM_GPU": self.runtime, "HF_HOME": self.hub}
        return {key: value for key, value in found.items() if value} | self.environment


def site_names() -> list[str]:
    """Return the names of the profiles that come with this package."""
    return sorted(path.stem for path in SITES.glob("*.toml"))


def load_site(name: str, account: str = "") -> SiteProfile:
    """Return a site's profile.

    Args:
        name: one of `site_names()`, or a TOML file of your own; empty: `generic`.
        account: what `{account}` stands for.

    Raises:
        UserError: no such profile, an unknown key (the nearest is named), a value of another type, or a profile that
            needs an account and none is given.
    """
    site = _read(_path(name or "generic"), ())

    def fill(text: str) -> str:
        if "{account}" in text and not account:
            raise UserError(
                f"the site {site.name} needs the project's account: set account = ... in the settings"
            )
        return text.replace("{account}", account)

    queues = {
        name: replace(queue, account=fill(queue.account or account)) for name, queue in site.queues.items()
    }
    environment = {key: fill(value) for key, value in site.environment.items()}
    return replace(site, queues=queues, environment=environment)


def _path(name: str) -> Path:
    known = site_names()
    if name.endswith(".toml"):
        path = Path(name).expanduser()
        if not path.is_file():
            raise UserError(f"{path} does not exist; a site is a TOML file or one of {', '.join(known)}")
        return path
    if name not in known:
        raise UserError(f"unknown site {name!r}{nearest(name, known)}; sites are {', '.join(known)}")
    return SITES / f"{name}.toml"


def _read(path: Path, before: tuple[Path, ...]) -> SiteProfile:
    if path in before:
        raise UserError(f"{path} is its own base, by {', '.join(map(str, before))}")
    values = read_toml(path)
    base = SiteProfile()
    if word := str(values.pop("base", "")):
        near = path.parent / word
        base = _read(near if word.endswith(".toml") and near.is_file() else _path(word), (*before, path))
    settings, environment, jobs = (
        need_table(path, key, values.pop(key, {})) for key in ("settings", "environment", "jobs")
    )
    site = cast(SiteProfile, read_settings(_Plain, values, str(path), base=base))
    queues = dict(site.queues)
    for name, table in jobs.items():
        if name not in QUEUES:
            raise UserError(f"{path}: unknown kind of jobs {name!r}; kinds are {', '.join(QUEUES)}")
        where = f"{path}: jobs.{name}"
        queues[name] = read_settings(Queue, need_table(path, f"jobs.{name}", table), where, base=queues[name])
    return replace(
        site,
        name=path.stem,
        queues=queues,
        settings=site.settings | settings,
        environment=site.environment | {key: str(value) for key, value in environment.items()},
    )
