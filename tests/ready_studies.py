"""The study files of a day of one GPU, as they are and as their comments change them for a smaller one."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from clm_or_mlm.__main__ import main
from common.provenance import ROOT

READY = ("objectives", "larger-network", "adaptation")
GPUS = ("H100", "RTX 4090")
_SEEDS = re.compile(r"--seeds (\d)")


def file_of(name: str) -> Path:
    """Return the file of a ready study."""
    return ROOT / "pretraining/plan/studies" / f"{name}.toml"


def text_of(name: str, gpu: str) -> tuple[str, str]:
    """Return a study's text as it is a day of a GPU, and the seeds of its fine-tunings."""
    text = file_of(name).read_text("utf-8")
    head = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    usual, smaller = head.split("RTX 4090")
    seeds = _SEEDS.findall(usual) + _SEEDS.findall(smaller)
    if gpu == GPUS[0]:
        return text, seeds[0]
    changes = re.findall(r"(\w+) = (\[.*?\]|[\w.-]+)", smaller)
    assert changes
    for key, value in changes:
        text, count = re.subn(
            rf"^{key} = [^#\n]*", f"{key} = {value} ", text, flags=re.MULTILINE
        )
        assert count, f"{name}: {key} is not in the file"
    return text, seeds[-1]


def planned(
    name: str, gpu: str, folder: Path, capsys: pytest.CaptureFixture[str], *more: str
) -> dict[str, Any]:
    """Return what `plan` prints, as JSON, of a ready study on its GPU."""
    text, seeds = text_of(name, gpu)
    file = folder / "study.toml"
    file.write_text(text, "utf-8")
    capsys.readouterr()
    words = [
        "plan",
        "--study",
        f"{file}",
        "--device",
        gpu,
        "--rates",
        "3",
        "--seeds",
        seeds,
    ]
    assert not main([*words, "--format", "json", *more])
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content
