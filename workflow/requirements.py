"""What a study needs before its first job starts; what is missing is one sentence."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from common.errors import UserError
from workflow.settings import Settings

__all__ = ["check_requirements"]


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
