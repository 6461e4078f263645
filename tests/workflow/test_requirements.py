"""What a study needs before its first job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from common.errors import UserError
from workflow.requirements import check_requirements
from workflow.settings import Settings

READY = Settings(text=("a.jsonl",), tokenizer="t.json", make_datasets=("--train", "4"))


@pytest.mark.parametrize(
    ("change", "image", "profile", "message"),
    [
        ({"text": ()}, "", "local", "no text to pretrain on"),
        ({"tokenizer": ""}, "", "local", "no tokenizer"),
        ({"text": ("hf:a/b",)}, "", "local", "hf:a/b needs network and HF_HUB_OFFLINE is set"),
        ({}, "/no/full.sif", "local", "/no/full.sif does not exist; build it"),
        ({"make_datasets": (), "datasets": ("sst2",)}, "", "local", "lacks sst2; bring them"),
        ({}, "", "slurm", "sbatch is not on PATH"),
    ],
)
def test_what_is_missing_is_one_sentence(
    change: dict[str, tuple[str, ...]],
    image: str,
    profile: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("PATH", "/no/such/folder")
    with pytest.raises(UserError, match=message):
        check_requirements(replace(READY, **change), image, profile)  # type: ignore[arg-type]


def test_datasets_on_disk_are_enough(tmp_path: Path) -> None:
    check_requirements(READY, "", "local")
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2" / "manifest.json").touch()
    check_requirements(replace(READY, make_datasets=(), datasets=("sst2",), data=str(tmp_path)), "", "local")
