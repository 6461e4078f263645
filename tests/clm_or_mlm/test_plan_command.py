import json
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError
from pretraining.adapt import Adaptation
from pretraining.plan.devices import DEVICES
from pretraining.starts import start_of
from tests.commands import python
from tests.pretraining.families import save_start
from tests.ready_studies import READY, file_of
from tests.test_imports import HEAVY


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


def test_unlisted_name_is_planned_with_a_warning(
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
        words = [
            "plan",
            "mine",
            "--study",
            f"{tmp_path}/s.toml",
            "--device",
            "A100",
            "--price",
            "9e8",
        ]
        main(words)
        head, *lines = capsys.readouterr().out.split("\nadds ")[1].splitlines()
        assert head.split()[-5:] == ["model", "FLOPs", "A100", "hours", "money"]
        table = [line.split() for line in lines[: lines.index("")]]
        assert len(table) == rows
        main([*words, "--format", "json"])
        costs = json.loads(capsys.readouterr().out)["costs"]
        assert sum(int(row[1].replace(",", "")) for row in table) == costs["steps"]
        assert sum(float(row[4]) for row in table) == pytest.approx(
            costs["gpu_hours"], rel=0.01
        )
        assert sum(float(row[5].replace(",", "")) for row in table) == pytest.approx(
            costs["money"], rel=0.01
        )
    with pytest.raises(UserError, match=r"--tflops; did you mean .H100"):
        main(["plan", "mine", "--study", f"{tmp_path}/s.toml", "--device", "H1000"])


def test_memory_that_is_not_there_is_said_with_what_fits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for model, said in (
        ("610m-mlm40-42k", "training takes 3 by itself"),
        ("1b-mlm40-42k", "another device"),
    ):
        main(["plan", model, "--device", "rtx 4090"])
        [line] = [
            line
            for line in capsys.readouterr().out.splitlines()
            if line.startswith("memory")
        ]
        assert "more than the 24 GB" in line and said in line


@pytest.mark.parametrize(
    ("device", "words"),
    [
        (["H100"], "measured on this device"),
        (["MI250X"], "estimated from the paper's own hours"),
        *(
            ([name], "estimated from an H100's")
            for name in DEVICES
            if name not in ("H100", "MI250X")
        ),
        (["H100", "--tflops", "500"], "estimated from an H100's"),
        (["Voodoo", "--tflops", "500"], "estimated from an H100's"),
        (["A100", "--mfu", "0.4"], "from --mfu 0.4"),
    ],
)
def test_hours_say_what_they_come_from(
    device: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    study = ["--study", f"{file_of('objectives')}"]
    for asked in (["610m-mlm40-42k"], study):
        if asked == study and device == ["H100"]:  # a size that nobody measured
            words = "estimated from other sizes' speeds on this device"
        assert not main(["plan", *asked, "--device", *device])
        text = capsys.readouterr().out
        assert words in text and ("measured on this" in text) == (
            "measured on this" in words
        )
        assert ("give" in text and "as --mfu" in text) == (
            asked == study and "estimated" in words
        )


def test_one_adaptation_has_hours_money_and_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that `adapt` counts, in the largest passes that fit the device."""
    start = save_start(tmp_path / "start", "llama")
    words = [
        "plan",
        "--start",
        str(start),
        "--tokens",
        "2e7",
        "--device",
        "RTX 4090",
        "--price",
        "0.6",
    ]
    assert not main([*words, "--format", "json"])
    said = json.loads(capsys.readouterr().out)
    gpu = DEVICES["RTX 4090"]
    costs = (
        Adaptation(start=start_of(str(start)), tokens=2e7)
        .plan_on(gpu)
        .costs(device=gpu)
    )
    assert (
        costs.gpu_hours > 0
        and costs.memory_gb < 24
        and costs.tokens == pytest.approx(2e7, rel=0.02)
    )
    assert said["costs"]["gpu_hours"] == pytest.approx(costs.gpu_hours)
    main(words)
    out = capsys.readouterr().out
    assert all(
        word in out
        for word in ("RTX 4090 hours", "money", "memory", "sequences in a pass")
    )
    assert "compiled blocks" not in out
    words[2] = str(save_start(tmp_path / "other", "qwen3"))
    main(words)
    assert "counted for compiled blocks" in capsys.readouterr().out


def test_starts_and_studies_are_planned_without_heavy_libraries(tmp_path: Path) -> None:
    start = save_start(tmp_path / "start", "llama")
    commands = [
        ["plan", "--start", f"{start}", "--tokens", "2e7"],
        ["plan", "--start", "HuggingFaceTB/SmolLM2-135M", "--tokens", "2e9"],
        *(["plan", "--study", f"{file_of(name)}"] for name in READY),
    ]
    code = (
        "import sys\nfrom clm_or_mlm.__main__ import main\n"
        f"for name in {sorted(HEAVY | {'huggingface_hub', 'safetensors'})!r}:\n    sys.modules[name] = None\n"
        f"for words in {commands!r}:\n    assert not main(words), words"
    )
    out = python("-c", code, code=0).stdout
    assert out.count("H100 hours") >= 5 and out.count("Smallest difference") == 3
