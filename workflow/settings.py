"""What a workflow runs and on what: a TOML file whose every key has a default fit for the paper's study.

    study = "mine.toml"              # as python -m pretraining plan --study takes it; the paper's without
    text = ["fineweb-edu/*.parquet"] # documents to pretrain on, already on this machine's disks
    tokenizer = "tokenizer.json"
    data = "/shared/data"            # datasets, as python -m benchmarks fetch writes them
    device = "H100"

Relative paths are taken from the file's folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.protocol import DATASETS, LEARNING_RATES, SEEDS, get_dataset
from common.errors import UserError, nearest
from common.settings import read_settings, read_toml
from pretraining.plan.flops import PEAK_FLOPS

__all__ = ["Settings", "load_settings"]


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
    partition: str = ""
    """Slurm partition; the site's default when empty."""
    account: str = ""
    """Slurm account; the site's default when empty."""
    slurm_extra: str = ""
    """More words for sbatch, such as --constraint=h100."""

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
        if not (self.datasets and self.learning_rates and self.seeds):
            raise UserError("datasets, learning_rates and seeds need at least one entry each")

    @property
    def needed_datasets(self) -> tuple[str, ...]:
        """The datasets and those they are trained on, each once."""
        return tuple(dict.fromkeys(n for name in self.datasets for n in (DATASETS[name].trained_on, name)))


_PATHS = ("study", "data", "tokenizer")


def load_settings(path: Path | None) -> Settings:
    """Return the settings of a TOML file, the defaults without one.

    Raises:
        UserError: an unreadable file, an unknown key (the nearest is named) or a value of another type.
    """
    if path is None:
        return Settings()
    values: dict[str, Any] = read_toml(path)
    for key in values.keys() & Settings.__dataclass_fields__.keys():
        _check_type(path, key, values[key], getattr(Settings(), key))
    folder = path.parent.resolve()
    for key in _PATHS:
        if values.get(key):
            values[key] = _absolute(folder, values[key])
    words = values.get("text", ())
    values["text"] = [word if word.startswith("hf:") else _absolute(folder, word) for word in words]
    return read_settings(Settings, values, str(path))


def _absolute(folder: Path, word: str) -> str:
    return str(folder / Path(word).expanduser())


def _check_type(path: Path, key: str, value: object, default: object) -> None:
    """Refuse what TOML writes in another type than the key's, such as nodes = "2"."""
    if isinstance(default, tuple):
        if not isinstance(value, list):
            raise UserError(f"{path}: {key} takes a list, not {value!r}")
    elif type(value) is not type(default) and not (isinstance(default, float) and type(value) is int):
        raise UserError(f"{path}: {key} takes a value of type {type(default).__name__}, not {value!r}")
