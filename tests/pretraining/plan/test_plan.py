from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import UserError
from common.settings import assignments, read_settings
from pretraining.__main__ import main
from pretraining.paper_settings import SHAPES
from pretraining.plan.config import TrainingConfig
from pretraining.plan.flops import PEAK_FLOPS
from pretraining.plan.plan import PAPER_TOTALS, plan_of
from pretraining.plan.report import FORMATS, render
from pretraining.plan.study_file import PAPER_STUDY, load_study

WHOLE = plan_of(tuple(PAPER_STUDY.models.values()))


def test_shared_steps_are_counted_once() -> None:
    """844,000 by hand: 15 x 42k base, 130k two-stage, 52k continued, 32k for the 1B two-stage model."""
    assert len(WHOLE.models) == 51
    assert WHOLE.costs().steps == 15 * 42_000 + 130_000 + 2 * 26_000 + 32_000
    done: set[tuple[str, int]] = set()
    for model in WHOLE.models:
        for stage in model.stages:
            done |= {(stage.name, step) for step in range(stage.start, stage.end, 1000)}
    assert len(done) * 1000 == WHOLE.costs().steps


def test_the_papers_totals() -> None:
    ours = {total.what.split(" (")[0]: total.ours for total in PAPER_TOTALS}
    assert ours["new steps of the 17 two-stage models and their endpoints"] == 130_000
    assert ours["new steps of continued pretraining"] == 52_000
    assert ours["expected tokens of one step"] == 2_373_120
    assert ours["steps of the 15 base models"] == 630_000


def test_trunks_keep_what_others_need() -> None:
    trunk = next(item for item in WHOLE.stages if item.name == "610m-clm")
    thousands = [1, 2, 3, 5, 6, 9, 10, 11, 17, 20, 21, 32, 40]
    assert trunk.keep == tuple(1000 * step for step in thousands)
    assert (trunk.start, trunk.end, trunk.parent) == (0, 40_000, None)
    decayed = next(item for item in WHOLE.stages if item.name == "610m-clm-42k")
    assert decayed.keep == (42_000,)
    assert {child.name for child in WHOLE.children("610m-clm-42k")} == {
        "610m-clm-dec42k-mlm40",
        "610m-clm-dec42k-mlm40-44k",
    }


def test_parents_come_first_and_hold_the_step() -> None:
    seen = {}
    for item in WHOLE.stages:
        if item.parent is not None:
            parent = seen[item.parent]
            assert parent.start < item.start <= parent.end
            assert item.start in parent.keep
        seen[item.name] = item


def test_costs_by_hand() -> None:
    """One base model: 42,000 steps of 2,373,120 tokens; 6ND needs nothing but the parameter count."""
    costs = plan_of([PAPER_STUDY.models["610m-clm-42k"]]).costs(device="A100", utilisation=0.5)
    tokens = 42_000 * 2_373_120
    assert costs.tokens == tokens
    assert costs.flops["six_nd"] == pytest.approx(6 * SHAPES["610m"].trained_parameters * tokens)
    assert costs.gpu_hours == pytest.approx(costs.flops["model"] / (PEAK_FLOPS["A100"] * 0.5 * 3600))
    assert costs.checkpoint_bytes == 2 * 12 * SHAPES["610m"].trained_parameters
    assert costs.model_bytes == 4 * SHAPES["610m"].trained_parameters


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_every_format_names_every_stage(form: str) -> None:
    text = render(WHOLE, form)
    assert all(item.name in text for item in WHOLE.stages)
    assert text.isascii()


def test_json_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan", "--figure", "11", "--format", "json"])
    content = json.loads(capsys.readouterr().out)
    assert [model["name"] for model in content["models"]] == [
        "1b-mlm40-42k",
        "1b-clm-10k-mlm40-42k",
        "1b-clm-42k",
    ]
    assert content["costs"]["steps"] == 2 * 42_000 + 32_000
    assert {"hoffmann", "six_nd"} <= set(content["costs"]["flops"])


def test_mistakes_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="did you mean '610m-mlm40-42k'"):
        main(["plan", "--model", "610-mlm40-42k"])
    with pytest.raises(UserError, match="no figure 13"):
        main(["plan", "--figure", "13"])
    with pytest.raises(UserError, match=r"unknown device 'H10'.*did you mean"):
        main(["plan", "--device", "H10"])
    with pytest.raises(UserError, match="--mfu"):
        main(["plan", "--mfu", "0"])
    capsys.readouterr()


def test_planning_needs_no_torch() -> None:
    code = "import sys, pretraining.plan.report, pretraining.__main__; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


MINI = """
prefix = "mini-"
decay_steps = 4
models = ["mini-s-clm-12", "mini-s-clm-4-mlm40-12", "mini-s-clm-dec12-mlm40-20"]
[sizes.s]
hidden = 32
layers = 2
heads = 4
kv_heads = 2
mlp = 64
vocab = 512
[settings]
global_batch = 8
warmup_steps = 2
"""


def test_a_study_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mini.toml"
    path.write_text(MINI)
    study = load_study(path)
    plan = plan_of(tuple(study.models.values()), study)
    assert study.config.global_batch == 8
    assert study.shapes["mini-s"].vocab == 512
    assert plan.costs().steps == 12 + 8 + 8
    assert {item.name for item in plan.stages} == {
        "mini-s-clm",
        "mini-s-clm-12",
        "mini-s-clm-4-mlm40",
        "mini-s-clm-4-mlm40-12",
        "mini-s-clm-dec12-mlm40",
        "mini-s-clm-dec12-mlm40-20",
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("global_batch", "global_batchs", "unknown key 'global_batchs'; did you mean 'global_batch'"),
        ("layers", "layer", "did you mean 'layers'"),
        ("mlp = 64", "", r"\[sizes.s\]: mlp is missing"),
        ("decay_steps", "decay", "did you mean 'decay_steps'"),
        ("mini-s-clm-12", "mini-t-clm-12", "unknown model"),
        ("prefix =", "prefix", "not a TOML file"),
        ("warmup_steps = 2", 'warmup_steps = "x"', "warmup_steps takes a whole number"),
    ],
)
def test_a_wrong_study_file_is_reported(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "mini.toml"
    path.write_text(MINI.replace(old, new, 1))
    with pytest.raises(UserError, match=message) as error:
        load_study(path)
    assert str(path) in str(error.value)


def read(words: list[str]) -> TrainingConfig:
    return read_settings(TrainingConfig, assignments(words), "--set")


def test_settings_are_read_by_type(capsys: pytest.CaptureFixture[str]) -> None:
    config = read(["peak_lr=1e-3", "warmup_steps=1e3", "tensorboard=no", "wandb=runs"])
    assert (config.peak_lr, config.warmup_steps, config.tensorboard, config.wandb) == (
        1e-3,
        1000,
        False,
        "runs",
    )
    assert TrainingConfig().tokens_per_step == 2_373_120
    main(["settings", "--set", "global_batch=96"])
    out = capsys.readouterr().out
    assert "global_batch = 96\n    Sequences per step" in out
    assert all(f"\n{key} = " in f"\n{out}" for key in TrainingConfig().as_dict())


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("peak_rl=1", "did you mean 'peak_lr'"),
        ("peak_lr", "takes key=value"),
        ("peak_lr=fast", "takes a number"),
        ("global_batch=1.5", "takes a whole number"),
        ("tensorboard=maybe", "takes true or false"),
        ("weighting=tokens", "did you mean 'token'"),
        ("beta2=1", r"beta2 must be in \[0, 1\)"),
        ("clip_norm=0", "above 0"),
        ("min_length=4096", "above max_length"),
        ("microbatch=0", "at least 1"),
        ("seed=-1", "seed must be at least 0"),
        ("seed=4294967296", r"seed must be below 2\^32"),
        ("warmup_steps=-1", "warmup_steps must be at least 0"),
    ],
)
def test_wrong_settings_are_refused(word: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read([word])


def test_only_two_modules_know_mosaicmls_libraries() -> None:
    room = Path(__file__).parents[3] / "pretraining"
    found = {
        path.name
        for path in room.rglob("*.py")
        for line in path.read_text().splitlines()
        if line.strip().startswith(("from composer", "import composer", "from streaming", "import streaming"))
    }
    assert found == {"composer_adapter.py", "shard_files.py"}
