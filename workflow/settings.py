"""What a workflow runs and on what: a TOML file whose every key has a default fit for the paper's study.

    study = "mine.toml"              # as python -m pretraining plan --study takes it; the paper's without
    text = ["fineweb-edu/*.parquet"] # documents to pretrain on, already on this machine's disks
    tokenizer = "tokenizer.json"
    data = "/shared/data"            # datasets, as python -m benchmarks fetch writes them
    site = "jean-zay"                # a profile of workflow/sites, or a file of your own
    account = "abc"

Relative paths are taken from the file's folder. What the site's profile sets is a default for the file.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.protocol import DATASETS, LEARNING_RATES, SEEDS, get_dataset
from common.errors import UserError, nearest
from common.settings import read_settings, read_toml
from pretraining.plan.flops import PEAK_FLOPS
from workflow.site_file import QUEUES, Queue, SiteProfile, load_site

__all__ = ["Settings", "check_requirements", "load_settings"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything a study's jobs need to know."""

    study: str = ""
    """A study of your own (TOML); the paper's when empty."""
    text: tuple[str, ...] = ()
    """Documents to pretrain on: Parquet, JSON-lines or text files, folders, patterns, or hf:OWNER/NAME."""
    tokenizer: str = ""
    """Tokenizer folder, tokenizer.json or tiktoken file."""
    train_tokenizer: int = 0
    """Train a byte-level tokenizer of so many ids on the text instead; 0 does not."""
    shard_options: tuple[str, ...] = ()
    """More words for `python -m pretraining shards`."""
    pretraining_settings: tuple[str, ...] = ()
    """`key=value` words for `python -m pretraining train --set`."""
    data: str = ""
    """Folder of the datasets; `data` in the study's folder when empty."""
    make_datasets: tuple[str, ...] = ()
    """Write made-up datasets instead, with these words for `python -m benchmarks synthetic`; for trials only."""
    datasets: tuple[str, ...] = tuple(DATASETS)
    """Datasets that every model is measured on."""
    learning_rates: tuple[float, ...] = LEARNING_RATES
    """Learning rates of every cell."""
    seeds: tuple[int, ...] = SEEDS
    """Seeds of every cell."""
    tuning_options: tuple[str, ...] = ()
    """More words for `python -m benchmarks run`."""
    device: str = "H100"
    """GPU that hours are counted for: a name of `pretraining.plan.flops.PEAK_FLOPS`."""
    mfu: float = 0.4
    """Share of the GPU's peak rate that pretraining reaches."""
    gpus_per_node: int = 8
    """GPUs of a node, all of which a pretraining job takes; 0 computes on CPUs."""
    nodes: int = 1
    """Nodes of a pretraining job."""
    cpus: int = 8
    """CPU cores for each GPU, or for each job without GPUs."""
    memory_gb: float = 64.0
    """Memory for each GPU, or for each job without GPUs."""
    limit_hours: float = 20.0
    """Longest job the site allows; longer stages are saved and resume in the next job."""
    tuning_gpus: int = 1
    """GPUs of a fine-tuning job, all kept busy: 1 makes a job for each cell, more make a job for each model."""
    site: str = ""
    """Site profile: a name of `workflow/sites/` or a TOML file of your own; `generic` when empty."""
    account: str = ""
    """Slurm account; the site's default when empty."""
    partition: str = ""
    """Slurm partition of jobs for which the site's profile names none."""
    qos: str = ""
    """Quality of service of jobs for which the site's profile names none."""
    constraint: str = ""
    """Node features (such as h100) of jobs with GPUs for which the site's profile names none."""
    slurm_extra: str = ""
    """More words for sbatch, such as --reservation=NAME."""

    def __post_init__(self) -> None:
        """Refuse values that cannot be."""
        for name in self.datasets:
            get_dataset(name)
        if self.device not in PEAK_FLOPS:
            raise UserError(
                f"device {self.device!r} is unknown{nearest(self.device, PEAK_FLOPS)}; "
                f"known are {', '.join(PEAK_FLOPS)}"
            )
        for key in ("nodes", "cpus"):
            if getattr(self, key) < 1:
                raise UserError(f"{key} must be at least 1, not {getattr(self, key)}")
        if self.gpus_per_node < 0 or self.limit_hours <= 0 or not 0 < self.mfu <= 1 or self.memory_gb <= 0:
            raise UserError(
                "gpus_per_node, limit_hours, mfu and memory_gb must be positive, and mfu at most 1"
            )
        if self.tuning_gpus < 1 or self.tuning_gpus > max(1, self.gpus_per_node):
            raise UserError(
                f"tuning_gpus must be 1 to gpus_per_node ({self.gpus_per_node}), not {self.tuning_gpus}: a fine-tuning "
                "job runs on one node"
            )
        if not (self.datasets and self.learning_rates and self.seeds):
            raise UserError("datasets, learning_rates and seeds need at least one entry each")

    @property
    def needed_datasets(self) -> tuple[str, ...]:
        """The datasets and those they are trained on, each once."""
        return tuple(dict.fromkeys(n for name in self.datasets for n in (DATASETS[name].trained_on, name)))

    @cached_property
    def profile(self) -> SiteProfile:
        """The site's profile, with what these settings add for every kind of jobs."""
        site = load_site(self.site, self.account)
        return replace(site, queues={name: self._queue(name, site.queues[name]) for name in QUEUES})

    def _queue(self, name: str, queue: Queue) -> Queue:
        constraint = self.constraint if name != "cpu" else ""
        return replace(
            queue,
            partition=queue.partition or self.partition,
            qos=queue.qos or self.qos,
            constraint=queue.constraint or constraint,
            hours=queue.hours or self.limit_hours,
            slurm_extra=f"{queue.slurm_extra} {self.slurm_extra}".strip(),
        )


_PATHS = ("study", "data", "tokenizer")


def load_settings(path: Path | None, site: str = "") -> Settings:
    """Return the settings of a TOML file, the defaults without one, over those of the site's profile.

    Args:
        path: the file; None: no settings of your own.
        site: the site's profile, in place of the one that the file names.

    Raises:
        UserError: an unreadable file, an unknown key (the nearest is named) or a value of another type.
    """
    values: dict[str, Any] = {} if path is None else read_toml(path)
    where = "" if path is None else str(path)
    folder = Path() if path is None else path.parent.resolve()
    named = {key: value for key, value in values.items() if key in ("site", "account")}
    own = read_settings(Settings, named, where)
    site = site or (_absolute(folder, own.site) if own.site.endswith(".toml") else own.site)
    profile = load_site(site, own.account)
    base = read_settings(Settings, profile.settings, f"site {profile.name}")
    settings = read_settings(Settings, values, where, base=base)
    paths: dict[str, Any] = {key: _absolute(folder, values[key]) for key in _PATHS if values.get(key)}
    text = tuple(word if word.startswith("hf:") else _absolute(folder, word) for word in settings.text)
    settings = replace(settings, site=site, text=text, **paths)
    _ = settings.profile
    return settings


def _absolute(folder: Path, word: str) -> str:
    return str(folder / Path(word).expanduser())


def check_requirements(settings: Settings, image: str, profile: str) -> None:
    """Refuse what the first job would fail for.

    Raises:
        UserError: no text, tokenizer, datasets, image, or no Slurm; or network is needed and switched off.
    """
    if not settings.text:
        raise UserError("no text to pretrain on: name it in the settings, text = [...]; see docs/hpc.md")
    if not settings.tokenizer and not settings.train_tokenizer:
        raise UserError("no tokenizer: name it in the settings, tokenizer = ...; see docs/hpc.md")
    for word in settings.text:
        if word.startswith("hf:") and os.environ.get("HF_HUB_OFFLINE"):
            raise UserError(f"{word} needs network and HF_HUB_OFFLINE is set; name files on disk in `text`")
        if word.startswith("hf:") and profile == "slurm" and settings.profile.offline:
            raise UserError(
                f"{word} needs network, which compute nodes of {settings.profile.name} do not have; bring the files on "
                "a login node and name them in `text`"
            )
    if image and not Path(image).is_file():
        raise UserError(f"{image} does not exist; build it (make image-full) or leave --image out")
    if not settings.make_datasets:
        folder = Path(settings.data) if settings.data else None
        wanted = settings.needed_datasets
        missing = [name for name in wanted if not (folder and (folder / name / "manifest.json").is_file())]
        if missing:
            where = folder or "the settings (data = ...)"
            raise UserError(f"{where} lacks {', '.join(missing)}; bring them: python -m benchmarks fetch")
    if profile == "slurm" and shutil.which("sbatch") is None:
        raise UserError("sbatch is not on PATH: this is no Slurm login node; take --profile local")
