"""CONTRIBUTING.md: its first change does what it says; the hook before a commit is `make lint`."""

import ast
import re

import pytest
import yaml

from clm_or_mlm.__main__ import main
from common.provenance import ROOT
from pretraining.plan.devices import DEVICES, Device, device_of
from tests.messages import refused


def test_first_change_passes_its_test_and_prints_hours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (printed, peak), (name, tflops, memory, bandwidth) = (
        ast.literal_eval(row)
        for row in re.findall(r"^ {8}(\(.*\)),$", page, flags=re.MULTILINE)
    )
    (words,) = re.findall(r"`clm-or-mlm (plan .*)` refuses", page)
    with refused("unknown device 'A30'"):
        main(words.split())
    assert device_of(printed) is None
    device = Device(
        name=name, peak=tflops * 1e12, bandwidth=bandwidth * 1e12, memory_gb=memory
    )
    monkeypatch.setitem(DEVICES, name, device)
    assert (
        device_of(printed) is device and device.peak == peak and not main(words.split())
    )
    assert re.search(rf"^{name} hours +\d", capsys.readouterr().out, flags=re.MULTILINE)


def test_commit_hook_is_make_lint_and_fetches_nothing() -> None:
    config = yaml.safe_load(
        (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    )
    [[hook]] = [one["hooks"] for one in config["repos"] if one["repo"] == "local"]
    assert (hook["entry"], hook["language"], len(config["repos"])) == (
        "make lint",
        "system",
        1,
    )
