"""Each error that docs/install.md quotes is what its command says now."""

import json
import shlex
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError
from common.provenance import ROOT
from tests.docs.console import Step, steps

PAGE = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
TEXT = " ".join(PAGE.split())
STEPS = steps(PAGE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the page's reader has: a store with one run of a model of their own, its table, and a few documents."""
    run = tmp_path / "results" / "results" / "bert-base" / "SC" / "sst2" / "lr1e-04_sd0"
    run.mkdir(parents=True)
    split = {"score": 0.5, "scores_i": [1, 0]}
    (run / "results.json").write_text(json.dumps({"validation": split, "test": split}))
    (tmp_path / "runs.csv").write_text(
        (ROOT / "tests/data/released_sst2_610m-mlm40-42k.csv").read_text(
            encoding="utf-8"
        )
    )
    (tmp_path / "documents.jsonl").write_text('{"text": "a few words"}\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLM_OR_MLM_CACHE", str(tmp_path / "cache"))
    # No name is resolved: a machine without network.
    for key, value in {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "url.file:///nowhere/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://",
    }.items():
        monkeypatch.setenv(key, value)
    return tmp_path


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.command.strip()[10:60])
def test_the_command_gives_the_quoted_error(step: Step, folder: Path) -> None:
    program, *words = shlex.split(step.command)
    assert program == "clm-or-mlm"
    with pytest.raises(UserError) as raised:
        main(words, program)
    assert step.agrees(f"error: {raised.value}\n"), raised.value


def test_the_error_without_torch_is_the_quoted_one() -> None:
    quoted = "this command needs torch, which is not installed"
    assert quoted in TEXT
    source = (ROOT / "clm_or_mlm" / "__main__.py").read_text(encoding="utf-8")
    assert quoted.replace("torch", "{package}") in source
