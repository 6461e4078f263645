"""What a workflow runs and on what: a TOML file whose every key has a default fit for the paper's study.

    study = "mine.toml"              # as clm-or-mlm plan --study takes it; the paper's without
    text = ["fineweb-edu/*.parquet"] # documents to pretrain on, already on this machine's disks
    tokenizer = "tokenizer.json"
    data = "/shared/data"            # datasets, as clm-or-mlm fetch writes them
    site = "jean-zay"                # a file of workflow/sites, or your own
    account = "abc"

What the site's file sets is a default for this one (`workflow.site`).
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from benchmarks.protocol import DATASETS, LEARNING_RATES, SEEDS, get_dataset
from common.errors import UserError
from workflow.site import Site, read_site

__all__ = ["Settings", "check_requirements", "load_settings"]


@dataclass(frozen=True, kw_only=True)
class Settings(Site):
    """Everything a study's jobs need to know."""

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
        for name in self.datasets:
            get_dataset(name)
        if not (self.datasets and self.learning_rates and self.seeds):
            raise UserError("datasets, learning_rates and seeds need at least one entry each")
        for key in ("datasets", "learning_rates", "seeds"):
            given = getattr(self, key)
            if twice := [value for value in dict.fromkeys(given) if given.count(value) > 1]:
                raise UserError(f"{key} lists {twice[0]} more than once; list it once")
        for rate in self.learning_rates:
            if not 1e-9 <= rate < 1:
                raise UserError(
                    f"`learning_rates` contains {rate:g}, which is not a valid rate; use values between 1e-9 and 1"
                )
        for seed in self.seeds:
            if not 0 <= seed < 2**31:
                raise UserError(
                    f"`seeds` contains {seed}, which is not a valid seed; use whole numbers from 0 to {2**31 - 1}"
                )

    @property
    def needed_datasets(self) -> tuple[str, ...]:
        """The datasets and those they are trained on, each once."""
        return tuple(dict.fromkeys(n for name in self.datasets for n in (DATASETS[name].trained_on, name)))


def load_settings(path: Path | None, site: str = "") -> Settings:
    """Return the settings of a TOML file, the defaults without one, over those of its site; `read_site` has more."""
    return read_site(Settings, path, site)


def check_requirements(settings: Settings, image: str, profile: str) -> None:
    """Refuse what the first job would fail for.

    Raises:
        UserError: no text, tokenizer, datasets, image, or no Slurm; or network is needed and switched off.
    """
    if not settings.text:
        raise UserError("no text to pretrain on; set text = [...] in the settings (docs/hpc.md)")
    if not settings.tokenizer and not settings.train_tokenizer:
        raise UserError("no tokenizer; set tokenizer = ... in the settings (docs/hpc.md)")
    for word in settings.text:
        if not word.startswith("hf:") and not any(
            Path(Path(word).anchor).glob(word.removeprefix(Path(word).anchor))
        ):
            raise UserError(f"{word} matches no file; correct `text` in the settings")
        if word.startswith("hf:") and os.environ.get("HF_HUB_OFFLINE"):
            raise UserError(
                f"{word} needs network access, but HF_HUB_OFFLINE is set; list files on disk in `text`"
            )
        if word.startswith("hf:") and profile == "slurm" and settings.offline:
            raise UserError(
                f"{word} needs network access, which compute nodes of {Path(settings.site).stem} lack; download the "
                "files on a login node and list them in `text`"
            )
    for path, key in ((settings.tokenizer, "tokenizer"), (settings.image_key, "image_key")):
        if path and not Path(path).exists():
            raise UserError(f"{path} does not exist; correct `{key}` in the settings")
    if image and not Path(image).is_file():
        raise UserError(f"{image} does not exist; build it (make image-full) or leave --image out")
    if not settings.make_datasets:
        folder = Path(settings.data) if settings.data else None
        wanted = settings.needed_datasets
        missing = [name for name in wanted if not (folder and (folder / name / "manifest.json").is_file())]
        if missing:
            where = f"{folder} lacks" if folder else "the settings name no folder (data = ...) with"
            raise UserError(f"{where} {', '.join(missing)}; download them: clm-or-mlm fetch")
    if profile == "slurm" and shutil.which("sbatch") is None:
        raise UserError("sbatch is not on PATH, so this is not a Slurm login node; use --profile local")
