import json
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError
from pretraining.plan.devices import DEVICES
from tests.pretraining.families import save_start


def test_json_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan", "--figure", "11", "--format", "json"])
    content = json.loads(capsys.readouterr().out)
    assert [model["name"] for model in content["models"]] == [
        "1b-mlm40-42k",
        "1b-clm-10k-mlm40-42k",
        "1b-clm-42k",
    ]
    assert content["costs"]["steps"] == 2 * 42_000 + 32_000
    assert set(content["costs"]["flops"]) == {"hoffmann", "model"}


def test_a_name_that_the_study_does_not_list_is_planned_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    main(["plan", "610m-mlm40-42k", "1b-mlm40-42k-s2"])
    assert not caplog.records
    main(["plan", "610m-mlm41-42k"])
    assert [record.getMessage() for record in caplog.records] == [
        "610m-mlm41-42k is not listed in the study 'paper'; going by its name; did you mean '610m-mlm40-42k'?"
    ]


def test_an_adapted_model_prints_what_is_added_to_its_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_start(tmp_path / "start", "qwen2")
    stages = '{train = "clm", steps = 10}, {train = "mlm30", steps = 30, decay = "sqrt:20 %"}'
    for text, rows in ((f"[{stages}]", 3), ('["mlm30:30"]', 2)):
        study = f'decay_steps = 6\n[models.mine]\nstart = "{tmp_path}/start"\nstages = {text}\n'
        (tmp_path / "s.toml").write_text(study)
        words = ["plan", "mine", "--study", f"{tmp_path}/s.toml", "--device", "A100", "--price", "9e8"]
        main(words)
        head, *lines = capsys.readouterr().out.split("\nadds ")[1].splitlines()
        assert head.split()[-5:] == ["model", "FLOPs", "A100", "hours", "money"]
        table = [line.split() for line in lines[: lines.index("")]]
        assert len(table) == rows
        main([*words, "--format", "json"])
        costs = json.loads(capsys.readouterr().out)["costs"]
        assert sum(int(row[1].replace(",", "")) for row in table) == costs["steps"]
        assert sum(float(row[4]) for row in table) == pytest.approx(costs["gpu_hours"], rel=0.01)
        assert sum(float(row[5].replace(",", "")) for row in table) == pytest.approx(costs["money"], rel=0.01)
    with pytest.raises(UserError, match=r"--tflops; did you mean .H100"):
        main(["plan", "mine", "--study", f"{tmp_path}/s.toml", "--device", "H1000"])


def test_memory_that_is_not_there_is_said_with_what_fits(capsys: pytest.CaptureFixture[str]) -> None:
    for model, said in (("610m-mlm40-42k", "training takes 3 by itself"), ("1b-mlm40-42k", "another device")):
        main(["plan", model, "--device", "rtx 4090"])
        [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("memory")]
        assert "more than the 24 GB" in line and said in line


@pytest.mark.parametrize(
    ("device", "words"),
    [
        (["H100"], "measured on this device"),
        (["MI250X"], "estimated from the paper's own hours"),
        *(([name], "estimated from an H100's") for name in DEVICES if name not in ("H100", "MI250X")),
        (["H100", "--tflops", "500"], "estimated from an H100's"),
        (["Voodoo", "--tflops", "500"], "estimated from an H100's"),
        (["A100", "--mfu", "0.4"], "from --mfu 0.4"),
    ],
)
def test_hours_say_what_they_come_from(
    device: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for asked in (["610m-mlm40-42k"], ["--hours", "24"]):
        assert not main(["plan", *asked, "--device", *device])
        text = capsys.readouterr().out
        assert words in text and ("measured on this" in text) == ("measured on this" in words)
        assert ("give" in text and "as --mfu" in text) == (asked[0] == "--hours" and "estimated" in words)
