"""Settings of a study, and what its first job needs; what is refused of them is in `test_user_mistakes`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from common.errors import UserError
from workflow.settings import Settings, check_requirements, load_settings


def test_paths_of_a_file_are_those_next_to_it(tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    path.write_text("limit_hours = 4\ntokenizer = 'tok'\ntext = ['hf:a/b', 'x/*.parquet']\n")
    found = load_settings(path)
    assert found.limit_hours == 4.0
    assert found.tokenizer == str(tmp_path / "tok")
    assert found.text == ("hf:a/b", str(tmp_path / "x/*.parquet"))


def test_a_sites_text_is_a_default_for_the_files(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("text = ['hf:a/b']\ncpus = 3\n")
    (tmp_path / "w.toml").write_text("site = 'mine.toml'\n")
    found = load_settings(tmp_path / "w.toml")
    assert (found.text, found.cpus, found.site) == (("hf:a/b",), 3, str(tmp_path / "mine.toml"))
    (tmp_path / "w.toml").write_text("site = 'mine.toml'\ntext = ['x']\n")
    assert load_settings(tmp_path / "w.toml").text == (str(tmp_path / "x"),)


READY = Settings(text=(__file__,), tokenizer=__file__, make_datasets=("--train", "4"))


def test_what_this_machine_lacks_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("PATH", "/no/such/folder")
    with pytest.raises(UserError, match="hf:a/b needs network access, but HF_HUB_OFFLINE is set"):
        check_requirements(replace(READY, text=("hf:a/b",)), "", "local")
    with pytest.raises(UserError, match="sbatch is not on PATH"):
        check_requirements(READY, "", "slurm")


def test_datasets_on_disk_are_enough(tmp_path: Path) -> None:
    check_requirements(READY, "", "local")
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2" / "manifest.json").touch()
    check_requirements(replace(READY, make_datasets=(), datasets=("sst2",), data=str(tmp_path)), "", "local")
