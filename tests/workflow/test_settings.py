"""Settings of a study, read strictly from TOML, and what its first job needs."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path

import pytest

from common.errors import UserError
from common.settings import describe_settings
from workflow.settings import Settings, check_requirements, load_settings


def test_settings_are_read_strictly(tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    for text, message in (
        ("devise = 'H100'", "unknown key 'devise'; did you mean 'device'"),
        ("device = 'H10'", "device 'H10' is unknown; did you mean 'H100'"),
        ("nodes = '2'", "nodes takes a whole number, not '2'"),
        ("datasets = ['sst3']", "did you mean 'sst2'"),
        ("seeds = []", "at least one entry"),
        ("mfu = 2", "mfu at most 1"),
        ("nodes = 0", "nodes must be at least 1"),
        ("seeds = [0, 1, 0]", "seeds names 0 twice"),
        ("seeds = [-1]", "seeds has -1, which is none"),
        ("learning_rates = [-1e-4]", "learning_rates has -0.0001, which is none"),
        ("datasets = ['sst2', 'sst2']", "datasets names sst2 twice"),
        ("datasets = 'sst2'", "datasets takes a list, not 'sst2'"),
        ("x = ", "not a TOML file"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            load_settings(path)
    path.write_text("limit_hours = 4\ntokenizer = 'tok'\ntext = ['hf:a/b', 'x/*.parquet']\n")
    found = load_settings(path)
    assert found.limit_hours == 4.0
    assert found.tokenizer == str(tmp_path / "tok")
    assert found.text == ("hf:a/b", str(tmp_path / "x/*.parquet"))


def test_every_setting_is_described() -> None:
    text = describe_settings(Settings())
    for item in dataclasses.fields(Settings):
        assert f"\n{item.name} = " in f"\n{text}"


def test_a_sites_text_is_a_default_for_the_files(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("text = ['hf:a/b']\ncpus = 3\n")
    (tmp_path / "w.toml").write_text("site = 'mine.toml'\n")
    found = load_settings(tmp_path / "w.toml")
    assert (found.text, found.cpus, found.site) == (("hf:a/b",), 3, str(tmp_path / "mine.toml"))
    (tmp_path / "w.toml").write_text("site = 'mine.toml'\ntext = ['x']\n")
    assert load_settings(tmp_path / "w.toml").text == (str(tmp_path / "x"),)


READY = Settings(text=(__file__,), tokenizer=__file__, make_datasets=("--train", "4"))


@pytest.mark.parametrize(
    ("change", "image", "profile", "message"),
    [
        ({"text": ()}, "", "local", "no text to pretrain on"),
        ({"text": (f"{__file__}.*",)}, "", "local", "matches no file here; correct `text`"),
        ({"tokenizer": ""}, "", "local", "no tokenizer"),
        ({"tokenizer": "/no/t.json"}, "", "local", "/no/t.json does not exist; correct `tokenizer`"),
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
