"""A study's file is data: nothing in it, or in the settings of its commands, makes a command import or run code."""

import os
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError
from tests.commands import program

STUDY = """
prefix = "toy-"
decay_steps = 2
models = ["toy-t-mlm40-8"]
[sizes.t]
vocab = 384
hidden = 32
layers = 2
heads = 4
kv_heads = 2
mlp = 64
max_length = 128
[settings]
"""
PLAN = ("workflow", "toy-t-mlm40-8", "--dir", "study", "--dry-run")

IN_A_STUDY = (
    'callbacks = "evil:E"',
    'algorithms = "evil:E"',
    'loggers = "evil:E"',
    'callbacks = "SpeedMonitor, evil:E"',
    'callbacks = "evil:E.inner"',
    'callbacks = "evil"',
    'algorithms = ["evil:E"]',
    '[environment]\nLD_PRELOAD = "evil.so"',
    '[jobs]\nslurm_extra = "--export=ALL,PYTHONPATH=."',
)
"""Callbacks by their module, a name of Composer's that is none, and what only settings and a site may give."""

IN_A_SITE = (
    'tuning_options = ["--trust-remote-code"]',
    'pretraining_settings = ["callbacks=evil:E"]',
    'study = "study.toml"',
    'text = ["evil.py"]',
    'binds = [".:/usr/lib/python3.11"]',
)
IN_SETTINGS = (
    'pretraining_settings = ["callbacks = evil:E"]',
    'pretraining_settings = ["algorithms=evil:E"]',
    'tuning_options = ["--trust-remote-code"]',
    'tuning_options = ["--trust_remote_code=true"]',
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    ran = f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    (tmp_path / "evil.py").write_text(f"{ran}class E:\n    def __init__(self): {ran}")
    program(tmp_path / "evil.sh", f"touch {tmp_path / 'ran'}")
    for name in ("module", "sbatch", "sinfo"):
        program(tmp_path / "bin" / name, "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_same_files_without_code_are_taken(folder: Path) -> None:
    (folder / "study.toml").write_text(STUDY + 'callbacks = "SpeedMonitor"\n')
    (folder / "site.toml").write_text(
        'modules = ["apptainer/1.4"]\nbinds = ["/usr", "$HOME"]\n[environment]\nNCCL_IB_HCA = "mlx5"\n'
        '[jobs]\nslurm_extra = "--exclusive --nice=1"\n'
    )
    (folder / "s.toml").write_text(
        'study = "study.toml"\npretraining_settings = ["callbacks=SpeedMonitor"]\n'
    )
    assert not main((*PLAN, "--settings", "s.toml", "--site", "site.toml"))


def _refused(folder: Path, words: tuple[str, ...]) -> str:
    with pytest.raises(UserError) as found:
        main(words)
    assert "\n" not in str(found.value)
    assert not (folder / "ran").exists() and not (folder / "study").exists()
    return str(found.value)


@pytest.mark.parametrize("line", IN_A_STUDY)
@pytest.mark.parametrize("command", ["train", "plan", "workflow"])
def test_a_studys_file(folder: Path, line: str, command: str) -> None:
    (folder / "study.toml").write_text(STUDY + line + "\n")
    (folder / "s.toml").write_text('study = "study.toml"\n')
    words = {
        "train": (
            "train",
            "toy-t-mlm40-8",
            "--study",
            "study.toml",
            "--data",
            "shards",
            "--out",
            "out",
        ),
        "plan": ("plan", "--study", "study.toml"),
        "workflow": (*PLAN, "--settings", "s.toml"),
    }[command]
    # A name of Composer's, checked by the training
    if line == 'callbacks = "evil"' and command != "train":
        assert not main(words) and not (folder / "ran").exists()
    else:
        assert "study.toml" in _refused(folder, words) or command == "train"


@pytest.mark.parametrize("line", IN_A_SITE)
def test_a_sites_file(folder: Path, line: str) -> None:
    (folder / "study.toml").write_text(STUDY)
    (folder / "site.toml").write_text(f"{line}\n")
    (folder / "s.toml").write_text('study = "study.toml"\n')
    _refused(
        folder,
        (*PLAN, "--settings", "s.toml", "--site", "site.toml", "--profile", "slurm"),
    )


@pytest.mark.parametrize("line", IN_SETTINGS)
def test_the_settings_of_a_studys_jobs(folder: Path, line: str) -> None:
    (folder / "study.toml").write_text(STUDY)
    (folder / "s.toml").write_text(f'study = "study.toml"\n{line}\n')
    _refused(folder, (*PLAN, "--settings", "s.toml"))
