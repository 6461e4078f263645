"""The settings of a study's jobs: a TOML file with what they make and where they run; defaults are the paper's study.

    study = "mine.toml"              # as clm-or-mlm plan --study takes it; the paper's without
    text = ["fineweb-edu/*.parquet"] # documents to pretrain on, already on this machine's disks
    tokenizer = "tokenizer.json"
    data = "/shared/data"            # datasets, as clm-or-mlm fetch writes them
    site = "mine-site.toml"          # your cluster, as on docs/hpc.md
    account = "abc"

A site is a cluster, or the machine here: its GPUs, time limits and partitions, the folders that images show, and what
Slurm is asked for each job. A site's file sets only these, as defaults for the study's own file. $NAME in a path is
expanded. A site's file is its user's own, and may give any option of sbatch and any variable. Settings by which a
study's models or commands would load code of others are refused.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt

from benchmarks.protocol import DATASETS, LEARNING_RATES, SEEDS, get_dataset
from benchmarks.sweep.request import learning_rates, seeds_of
from common.errors import UserError, first_line, nearest
from common.reading import read_toml
from common.settings import (
    FileSettings,
    assignments,
    keys_of,
    read_settings,
    refuse_code,
)
from container.start import COMPAT
from pretraining.plan.devices import DEVICES
from workflow.jobs import QUEUES

_PATHS = ("study", "data", "tokenizer", "text", "image_key")
"""Settings that are paths: relative ones are taken from the folder of the file that they stand in."""

_REMOTE_CODE = re.compile(r"--(no-)?trust[-_]remote[-_]code", re.IGNORECASE)
"""The option, in each spelling that the command line takes, by which a model's own code is run."""


@dataclass(frozen=True, kw_only=True)
class JobOptions(FileSettings):
    """What Slurm is asked for one kind of jobs; what is empty is left to the site's default."""

    partition: str = ""
    """Slurm partition."""
    account: str = ""
    """Slurm account of these jobs, if it differs from `account`."""
    qos: str = ""
    """Quality of service."""
    constraint: str = ""
    """Features of the nodes, as sbatch's --constraint takes them."""
    hours: float = 0.0
    """Time limit of a job in hours; 0: limit_hours."""
    slurm_extra: str = ""
    """More options for sbatch, such as --reservation=NAME, or --mem-per-gpu=60G with memory_gb = 0."""

    def options(self) -> dict[str, str]:
        """Return the options that are set, without the time limit, which also depends on each job's estimated hours."""
        values = vars(self).items()
        return {key: str(value) for key, value in values if value and key != "hours"}

    def __post_init__(self) -> None:
        """Refuse values that cannot be."""
        try:
            shlex.split(self.slurm_extra)
        except ValueError as error:
            raise UserError(
                f"slurm_extra {self.slurm_extra!r}: {first_line(error).lower()}; correct its quotes or backslashes"
            ) from None


@dataclass(frozen=True, kw_only=True)
class Site(FileSettings):
    """One cluster, or the machine here."""

    account: str = ""
    """Slurm account; if empty, the site's default."""
    gres: str = "gpu"
    """What Slurm calls a GPU: `gpu`, or with its type, `gpu:h100`."""
    modules: tuple[str, ...] = ()
    """Environment modules that each job loads."""
    binds: tuple[str, ...] = ()
    """Folders to mount in images, where they are; $NAME is expanded in the job, and missing folders are skipped."""
    runtime: Literal["", "nvidia", "rocm", "none"] = ""
    """GPU runtime of images; if empty, detected on the node. With none, jobs compute on CPUs."""
    cuda_compat: str = ""
    """Folder of NVIDIA's forward-compatibility libraries (libcuda.so.1) on the nodes, for drivers older than 580."""
    numa_binding: Literal["", "node", "socket", "exclusive", "core-complex"] = ""
    """How torchrun binds processes to cores near their GPUs, which needs numactl in jobs; if empty, not at all."""
    counts_files: bool = False
    """Whether the site limits the number of files; jobs then run in `build/full.sif` unless you name an image."""
    billed: float = 1.0
    """Hours that the site bills for one GPU hour."""
    offline: bool = False
    """Whether compute nodes lack network access outside the site."""
    device: str = "H100"
    """GPU that hours are estimated for: a name in `pretraining.plan.devices.DEVICES`."""
    gpus_per_node: Annotated[int, Ge(0)] = 8
    """GPUs per node; a pretraining job uses all of them. 0: compute on CPUs."""
    network_gb: Annotated[float, Ge(0)] = 0.0
    """GB/s of each GPU between nodes: hours then have the time in which nodes sum gradients; 0: they leave it out."""
    nodes: Annotated[int, Ge(1)] = 1
    """Nodes per pretraining job."""
    cpus: Annotated[int, Ge(1)] = 8
    """CPU cores per GPU, or per job without GPUs."""
    memory_gb: Annotated[float, Ge(0)] = 64.0
    """Memory per GPU, or per job without GPUs, in GB; 0 if the site refuses --mem."""
    limit_hours: Annotated[float, Gt(0)] = 20.0
    """Longest job that the site allows, in hours; longer stages are saved and resume in the next job."""
    tuning_gpus: int = 1
    """GPUs per fine-tuning job, all kept busy: 1 makes one job per cell, more make one job per model."""
    max_jobs: Annotated[int, Ge(1)] = 200
    """Most jobs of the study in Slurm's queue at a time."""
    restarts: Annotated[int, Ge(0)] = 2
    """How often a job that died without a message is started again before it counts as failed."""
    environment: dict[str, str | int | float] = field(default_factory=dict)
    """Environment variables of every job; $NAME is expanded in the job."""
    jobs: dict[str, JobOptions] = field(default_factory=dict)
    """Slurm options of each kind of job (`cpu`, `gpu`, `gpus`); in a file, [jobs] applies to all kinds."""

    def __post_init__(self) -> None:
        """Refuse values that cannot be."""
        if self.device not in DEVICES:
            raise UserError(
                f"unknown device {self.device!r}; devices are {', '.join(DEVICES)}"
                f"{nearest(self.device, DEVICES)}"
            )

        for place in self.binds:
            # SOURCE:DESTINATION would show a folder under another path than the one that other settings name.
            if ":" in place or not place.startswith(("/", "$")):
                raise UserError(
                    f"binds: {place!r} is not one folder; give its full path, or one that begins with $NAME"
                )

        # Where jobs compute on CPUs (`gpus_per_node = 0`), only the default of 1 is left.
        if not 1 <= self.tuning_gpus <= max(1, self.gpus_per_node):
            raise UserError(
                f"tuning_gpus must be from 1 to gpus_per_node ({self.gpus_per_node}), not {self.tuning_gpus}: a "
                "fine-tuning job runs on one node"
            )

    def hours(self, queue: str) -> float:
        """Return the most hours that a job may take, by its kind, one of `workflow.jobs.QUEUES`."""
        own = self.jobs[queue].hours if queue in self.jobs else 0.0
        return own or self.limit_hours

    def variables(self) -> dict[str, str]:
        """Return the variables of every job: `environment`, and those that `runtime` and `cuda_compat` set."""
        derived = {"CLM_OR_MLM_GPU": self.runtime, COMPAT: self.cuda_compat}
        variables = {key: value for key, value in derived.items() if value}
        own = {key: str(value) for key, value in self.environment.items()}
        return variables | own


@dataclass(frozen=True, kw_only=True)
class StudySettings(Site):
    """Everything a study's jobs need to know."""

    site: str = ""
    """File of the site whose settings are the defaults (TOML, docs/hpc.md)."""
    study: str = ""
    """Your own study (TOML); if empty, the paper's."""
    text: tuple[str, ...] = ()
    """Documents to pretrain on: Parquet, JSON-lines or text files, folders, patterns, or hf:OWNER/NAME."""
    tokenizer: str = ""
    """Tokenizer folder, tokenizer.json or tiktoken file."""
    train_tokenizer: int = 0
    """Train a byte-level tokenizer with this vocabulary size on the text instead; 0: do not train one."""
    shard_options: tuple[str, ...] = ()
    """More options for `clm-or-mlm shards`."""
    repeat_text: bool = False
    """Train on the text more than once where it has fewer tokens than the study needs; otherwise that is refused."""
    pretraining_settings: tuple[str, ...] = ()
    """`key=value` settings for `clm-or-mlm train --set`."""
    data: str = ""
    """Folder of the datasets; if empty, `data` in the study's folder."""
    make_datasets: tuple[str, ...] = ()
    """For trials only: write made-up datasets instead, with these arguments for `clm-or-mlm synthetic`."""
    datasets: tuple[str, ...] = tuple(DATASETS)
    """Datasets that every model is evaluated on."""
    learning_rates: tuple[float, ...] = LEARNING_RATES
    """Learning rates of every cell."""
    seeds: tuple[int, ...] = SEEDS
    """Seeds of every cell."""
    tuning_options: tuple[str, ...] = ()
    """More options for `clm-or-mlm benchmarks run`."""
    image_key: str = ""
    """Public key (PEM) that the image must be signed with."""

    def __post_init__(self) -> None:
        """Refuse values that cannot be."""
        super().__post_init__()
        # Settings that name a class to import would run code of whoever wrote the file.
        refuse_code(assignments(self.pretraining_settings), "pretraining_settings")
        for word in self.tuning_options:
            if _REMOTE_CODE.match(word):
                raise UserError(
                    f"tuning_options: {word} runs a model's code, which no file may ask for; remove it"
                )

        for name in self.datasets:
            get_dataset(name)  # refuses an unknown name
        if not (self.datasets and self.learning_rates and self.seeds):
            raise UserError(
                "datasets, learning_rates and seeds need at least one entry each"
            )

        # The functions `learning_rates` and `seeds_of` refuse a value that cannot be a learning rate or a seed, and
        # return each value once (`checked`). The field still has each value as often as the file (`listed`): a value
        # that is listed twice is found there.
        lists = {
            "datasets": self.datasets,
            "learning_rates": learning_rates(self.learning_rates),
            "seeds": seeds_of(self.seeds),
        }
        for key, checked in lists.items():
            listed = getattr(self, key)
            for value in checked:
                if listed.count(value) > 1:
                    raise UserError(f"{key} lists {value} more than once; list it once")

    @property
    def needed_datasets(self) -> tuple[str, ...]:
        """The datasets, and the datasets that models are fine-tuned on for them, each once."""
        names: list[str] = []
        for name in self.datasets:
            names += [DATASETS[name].trained_on, name]
        return tuple(dict.fromkeys(names))


def load_settings(path: Path | None, site: str = "") -> StudySettings:
    """Return the settings of a file over those of the site that it names.

    Args:
        path: the file; None: none of your own.
        site: a site's file, in place of the one that the file names.

    Raises:
        UserError: a file that cannot be read, an unknown key or kind of job, or a value of another type.
    """
    folder = Path()
    values: dict[str, Any] = {}
    if path is not None:
        folder = path.parent.resolve()
        values = read_toml(path)

    # A site's path on the command line starts from the current folder, one in the file from the file's folder.
    site_file = ""
    if site:
        site_file = _absolute(Path(), site)
    elif values.get("site"):
        site_file = _absolute(folder, str(values["site"]))

    if site_file:
        values = _merged(_site_values(Path(site_file)), values | {"site": site_file})
    settings = read_settings(StudySettings, _by_kind(values), str(path or ""))

    # A site's file has none of these paths, so they all start from the folder of the study's file.
    paths = {key: getattr(settings, key) for key in _PATHS}
    absolute = {key: _absolute(folder, path) for key, path in paths.items() if path}
    return replace(settings, **absolute)


def _site_values(site_file: Path) -> dict[str, Any]:
    """Return the values of a site's file, after they were checked.

    Raises:
        UserError: the file does not exist, sets what only a study's own file may set, or has a wrong key or value.
    """
    try:
        values = read_toml(site_file)
    except FileNotFoundError:
        raise UserError(
            f"{site_file} does not exist; a site is a TOML file of your own (docs/hpc.md)"
        ) from None

    # The settings of a study that a site does not have. Of several that stand in the file, the first in the alphabet is
    # named, since the loop ends with its first turn.
    study_keys = keys_of(StudySettings).keys() - keys_of(Site).keys()
    for key in sorted(study_keys.intersection(values)):
        raise UserError(
            f"{site_file}: a site's file cannot set {key!r}; set it in the study's own file (--settings)"
        )

    # Read only to check them, so that the sentence on a wrong value names this file and not the study's.
    read_settings(Site, _by_kind(values), str(site_file))
    return values


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the values of two files; where both set a value, that of `new`. Tables are merged key by key."""
    merged = old | new
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(key), dict):
            merged[key] = _merged(old[key], value)
    return merged


def _by_kind(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a file, with the settings that stand in [jobs] for all kinds of jobs copied to each kind.

    `jobs = {qos = "normal", gpu = {qos = "long"}}` becomes a table for each kind: `qos` is `long` for `gpu`, and
    `normal` for `cpu` and `gpus`.
    """
    jobs = values.get("jobs", {})
    if not isinstance(jobs, dict):  # `read_settings` refuses it
        return values

    # Tables in [jobs] are settings of one kind of jobs, all other values settings of all kinds.
    kinds = {name: table for name, table in jobs.items() if isinstance(table, dict)}
    for name in kinds:
        if name not in QUEUES:
            raise UserError(
                f"unknown kind of job {name!r}; kinds are {', '.join(QUEUES)}"
            )

    shared = {key: value for key, value in jobs.items() if key not in kinds}
    # The site's account holds for all kinds that do not name their own.
    if "account" in values:
        shared = {"account": values["account"]} | shared

    # A setting of one kind of jobs overrides the setting for all kinds.
    return values | {"jobs": {name: shared | kinds.get(name, {}) for name in QUEUES}}


def _absolute(folder: Path, value: Any) -> Any:
    """Return a path, or each of a tuple of paths, with $NAME and ~ expanded; a relative path starts from `folder`."""
    if isinstance(value, tuple):
        # Texts of a hub, `hf:OWNER/NAME`, stay as they are.
        return tuple(
            word if word.startswith("hf:") else _absolute(folder, word)
            for word in value
        )
    return str(folder / Path(os.path.expandvars(value)).expanduser())
