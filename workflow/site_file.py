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

`{account}` stands for the settings' account. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from common.errors import UserError, nearest
from common.settings import need_table, read_settings, read_toml
from workflow.slurm_account import QUEUES, Queue, check_extra

__all__ = ["SITES", "SiteProfile", "load_site", "site_names"]

SITES = Path(__file__).resolve().parent / "sites"
"""Where the profiles are that come with this package."""

_RUNTIMES = ("", "nvidia", "rocm", "none")


@dataclass(frozen=True, kw_only=True)
class SiteProfile:
    """One cluster."""

    name: str = "generic"
    """Its file's name."""
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
    runtime: str = ""
    """GPU runtime of images: nvidia, rocm or none; found out on the node when empty."""
    offline: bool = False
    """Whether compute nodes see no network outside the site."""
    hub: str = ""
    """Folder of files brought from a hub (HF_HOME) for jobs."""
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
        UserError: no such profile, an unknown key (the nearest is named), a value of another type, an option that the
            workflow itself sets, or a profile that needs an account and none is given.
    """
    return _filled(_read(_path(name or "generic"), ()), account)


def _path(name: str) -> Path:
    if name.endswith(".toml"):
        path = Path(name).expanduser()
        if not path.is_file():
            raise UserError(
                f"{path} does not exist; a site is a TOML file or one of {', '.join(site_names())}"
            )
        return path
    if name not in site_names():
        known = site_names()
        raise UserError(f"unknown site {name!r}{nearest(name, known)}; sites are {', '.join(known)}")
    return SITES / f"{name}.toml"


def _read(path: Path, before: tuple[Path, ...]) -> SiteProfile:
    if path in before:
        raise UserError(f"{path} is its own base, by {', '.join(map(str, before))}")
    values = read_toml(path)
    base = SiteProfile()
    if "base" in values:
        word = str(values.pop("base"))
        near = path.parent / word
        own = word.endswith(".toml") and near.is_file()
        base = _read(near if own else _path(word), (*before, path))
    tables = {key: need_table(path, key, values.pop(key, {})) for key in ("settings", "environment", "jobs")}
    for key in ("queues", "name"):
        if key in values:
            raise UserError(f"{path}: unknown key {key!r}{nearest(key, ['jobs', 'title'])}")
    site: SiteProfile = replace(base, name=path.stem)
    plain = {item.name for item in fields(SiteProfile)} - {"settings", "environment", "queues", "name"}
    for key in values:
        if key not in plain:
            known = (*sorted(plain), *tables, "base")
            raise UserError(f"{path}: unknown key {key!r}{nearest(key, known)}; keys are {', '.join(known)}")
    site = replace(site, **_typed(path, values))
    if site.runtime not in _RUNTIMES:
        raise UserError(f"{path}: runtime must be nvidia, rocm, none or left out, not {site.runtime!r}")
    queues = dict(site.queues)
    for name, table in tables["jobs"].items():
        if name not in QUEUES:
            raise UserError(f"{path}: unknown kind of jobs {name!r}; kinds are {', '.join(QUEUES)}")
        where = f"{path}: jobs.{name}"
        queues[name] = read_settings(Queue, need_table(path, f"jobs.{name}", table), where, base=queues[name])
        check_extra(queues[name].slurm_extra, where)
    environment = {key: str(value) for key, value in tables["environment"].items()}
    return replace(
        site,
        queues=queues,
        settings=site.settings | tables["settings"],
        environment=site.environment | environment,
    )


def _typed(path: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain values, lists as tuples; another type than the field's is refused."""
    found = {}
    for key, value in values.items():
        default = getattr(SiteProfile(), key)
        given = tuple(value) if isinstance(value, list) else value
        if type(given) is not type(default):
            raise UserError(f"{path}: {key} takes a {type(default).__name__}, not {value!r}")
        found[key] = given
    return found


def _filled(site: SiteProfile, account: str) -> SiteProfile:
    """Return the site with `{account}` replaced."""

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
