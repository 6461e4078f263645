import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from common.errors import UserError
from common.manifest import read_manifest
from pretraining.data.shard_manifest import load_manifest, shard_manifest_text
from pretraining.paper_settings import SHAPES
from pretraining.plan.config import MachineSettings, TrainingConfig
from pretraining.plan.study_plan import load_study
from pretraining.training import context
from pretraining.training.pass_memory import PassMemory
from pretraining.training.ranks import Ranks
from tests.pretraining.small_study import (
    MODEL,
    QUIET,
    STUDY,
    Run,
    seal_again,
    weights_hash,
)

pytestmark = QUIET


MISTAKES = [
    (["max_length=128"], "above the model's limit of 64 tokens"),
    (["precision=bf16"], "precision=bf16 needs a GPU"),
    (["global_batch=100000"], "but one step needs 100000"),
    (["backend=flash2"], "attention backend flash2 needs a GPU and bf16 or fp16"),
]


@pytest.mark.parametrize(("words", "message"), MISTAKES)
def test_wrong_settings_are_reported(
    run: Run, tmp_path: Path, words: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        run(MODEL, tmp_path, *words)


def change_manifest(data: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change shards' manifest and seal it again, as that of other shards would be."""
    content = load_manifest(data)
    change(content)
    (data / "manifest.json").write_text(shard_manifest_text(content))


def test_new_model_refuses_shards_begun_for_a_start(
    run: Run, data: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(data, tmp_path / "other"))
    change_manifest(
        other, lambda content: content["tokenizer"].__setitem__("first", [1])
    )
    with pytest.raises(UserError, match=r"a new model.* tokenizer.json alone"):
        run(MODEL, tmp_path / "out", data=other)


def test_another_run_is_never_resumed(
    run: Run, done: Path, data: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"was trained with peak_lr=0.003, not 0.001"):
        run(MODEL, done, "peak_lr=1e-3")
    with pytest.raises(
        UserError, match="was trained with gradients='fp32', not 'bf16'"
    ):
        run(MODEL, done, "gradients=bf16")
    with pytest.raises(UserError, match="was trained with peak_lr"):
        run("mini-s-clm-24", done, "peak_lr=1e-3")
    with pytest.raises(UserError, match="was trained with seed=0, not 3"):
        run(MODEL, done, "seed=3")
    other = Path(shutil.copytree(data, tmp_path / "other"))
    change_manifest(
        other, lambda content: content["splits"]["train"].__setitem__("documents", 7)
    )
    with pytest.raises(
        UserError, match=r"with data='.*; use its original --data or choose"
    ):
        run(MODEL, done, data=other)
    change_manifest(
        other, lambda content: content["tokenizer"].__setitem__("sha256", "1" * 64)
    )
    with pytest.raises(
        UserError, match=r"with tokenizer='.*; use its original --data or choose"
    ):
        run(MODEL, done, data=other)
    change_manifest(
        other, lambda content: content["tokenizer"].__setitem__("vocab_size", 50_000)
    )
    with pytest.raises(
        UserError, match=r"has 50000 ids, but the model has rows for only 400"
    ):
        run(MODEL, tmp_path / "new", data=other)
    with pytest.raises(UserError, match="no shards here"):
        run(MODEL, tmp_path / "new", data=tmp_path)
    with pytest.raises(UserError, match="did you mean 'mini-s-clm'"):
        run("mini-s-cml", tmp_path)


def test_a_trunk_of_another_design_is_never_reused(
    run: Run, done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names are the same: where stages begin, and the decay, are not."""
    (tmp_path / "mini.toml").write_text(
        STUDY.replace("decay_steps = 6", "decay_steps = 5")
    )
    other = load_study(tmp_path / "mini.toml")
    with pytest.raises(
        UserError,
        match=rf"models/{MODEL} was trained with stages=.*{MODEL} from step 18 to 24', not",
    ):
        run(MODEL, done, study=other)
    out = Path(shutil.copytree(done, tmp_path / "out"))
    shutil.rmtree(out / "models")
    with pytest.raises(
        UserError, match=rf"stages/{MODEL}/step-00000024 was trained with stages="
    ):
        run(MODEL, out, study=other)
    shutil.rmtree(out / "stages" / MODEL)
    assert run(MODEL, out, study=other)
    monkeypatch.setattr(context, "TRAINING_VERSION", context.TRAINING_VERSION + 1)
    for model in (MODEL, "mini-s-clm-24"):
        with pytest.raises(
            UserError,
            match="was trained with results=1, not 2; continue with the version",
        ):
            run(model, done)


def test_checkpoint_of_another_stage_or_seed_is_never_taken(
    run: Run, done: Path, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(done, tmp_path / "out"))
    shutil.rmtree(out / "models")
    with pytest.raises(UserError, match="step-00000009 was trained with seed=0, not 3"):
        run(MODEL, out, "seed=3")
    last = out / "stages" / MODEL / "step-00000024"
    last.rename(renamed := last.with_name("step-00000023"))
    with pytest.raises(
        UserError, match=r"step-00000023/state\.json belongs to another checkpoint"
    ):
        run(MODEL, out)
    renamed.rename(last)
    for name in ("mini-s-clm-9-mlm40", MODEL):
        shutil.rmtree(out / "stages" / name)
    shutil.copytree(done / "stages/mini-s-clm-9-mlm40", out / "stages/mini-s-mlm40")
    with pytest.raises(
        UserError, match="stages/mini-s-mlm40/step-00000018 was trained with stages="
    ):
        run("mini-s-mlm40-24", out)
    saved = out / "stages/mini-s-clm/step-00000009"
    settings = read_manifest(saved / "state.json", "")["science"]
    for field, value, message in (
        ("science", {"peak_lr": 3e-3}, "was trained with"),
        (
            "science",
            settings | {"on_spike": "skip"},
            "on_spike='skip'.* leave batches out with --set skip=STEP:COUNT",
        ),
        ("shape", {"hidden": 32}, "was trained with"),
        ("stages", [], "was trained with stages="),
        (
            "interventions",
            {"skip": [], "peak_lr_from": [[2, 1e-3]]},
            "was trained with",
        ),
    ):
        before = (saved / "state.json").read_bytes()
        seal_again(saved, **{field: value})
        with pytest.raises(UserError, match=f"step-00000009 .*{message}"):
            run(MODEL, out)
        (saved / "state.json").write_bytes(before)
    # Version 1 recorded a setting that is gone; where it changed nothing, its checkpoints are taken.
    # Nor did it name the type of gradients, which was float32.
    del settings["gradients"]
    seal_again(saved, interventions={"skip": [], "peak_lr_from": []}, science=settings)
    assert run(MODEL, out)
    assert weights_hash(out) == weights_hash(done)


QWEN = SimpleNamespace(is_our_class=False)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 24),
        ({"bf16": False}, 12),
        ({"config": TrainingConfig(machine=MachineSettings(compile="off"))}, 12),
        ({"start": SimpleNamespace(is_our_class=True)}, 24),
        ({"start": QWEN}, 16),
        ({"start": QWEN, "bf16": False}, 12),
    ],
)
def test_the_pass_fills_a_gpu_where_its_memory_is_known(
    given: dict[str, Any], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of our own class is counted, that of another's measured."""
    monkeypatch.setattr(
        torch.cuda, "mem_get_info", lambda device: (83_700_000_000, 85_000_000_000)
    )
    monkeypatch.setattr(
        context, "measured_gb", lambda *given, several: PassMemory(fixed=10.0, each=4.0)
    )
    ranks = Ranks(rank=0, world=1, device=torch.device("cuda"))
    usual = {
        "bf16": True,
        "config": TrainingConfig(),
        "start": None,
        "ranks": ranks,
        "shape": SHAPES["610m"],
    }
    usual["model_config"] = None
    assert (
        context.TrainingContext._microbatch(SimpleNamespace(**usual | given))
        == expected
    )
