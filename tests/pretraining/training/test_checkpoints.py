import shutil
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from common.errors import UserError
from pretraining.model.modeling import EuroBertForMaskedLM
from pretraining.plan.study_plan import Study
from pretraining.training import checkpoints
from tests.flips import flips
from tests.pretraining.small_study import (
    MODEL,
    QUIET,
    Run,
    model_config,
    seal_again,
    weights_hash,
)

pytestmark = QUIET


def test_a_full_disk_keeps_the_last_checkpoint(
    run: Run, done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = checkpoints.save_file, {"left": 6}

    def filling(*args: object) -> None:
        calls["left"] -= 1
        if calls["left"] < 0:
            raise SafetensorError("I/O error: No space left on device (os error 28)")
        original(*args)

    monkeypatch.setattr(checkpoints, "save_file", filling)
    with pytest.raises(
        UserError, match=r"step-00000006 could not .* No space .* free some space"
    ):
        run(MODEL, tmp_path)
    monkeypatch.undo()
    assert [
        i.step for i in checkpoints.checkpoint_steps(tmp_path / "stages/mini-s-clm")
    ] == [5]
    assert run(MODEL, tmp_path)
    assert weights_hash(tmp_path) == weights_hash(done)


def test_damaged_checkpoints_are_reported(
    run: Run, done: Path, study: Study, data: Path, tmp_path: Path
) -> None:
    out = shutil.copytree(done, tmp_path / "out")
    shutil.rmtree(out / "models")
    for folder in (MODEL, "mini-s-clm-9-mlm40"):
        shutil.rmtree(out / "stages" / folder)
    saved = checkpoints.latest(out / "stages/mini-s-clm", 9)
    assert saved is not None
    for file in ("optimizer.safetensors", "model.safetensors", "state.json"):
        content = (saved.path / file).read_bytes()
        (saved.path / file).write_bytes(content[:20])
        with pytest.raises(
            UserError,
            match=r"step-00000009.* is damaged.*; remove its folder to resume",
        ):
            run(MODEL, out)
        (saved.path / file).unlink()
        with pytest.raises(
            UserError, match=f"{file} is missing|no checkpoint at that step|damaged"
        ):
            run("mini-s-clm-9-mlm40", out)
        (saved.path / file).write_bytes(content)
    with pytest.raises(UserError, match="belongs to another architecture"):
        config = model_config(study, data)
        config.hidden_size = 64
        model = EuroBertForMaskedLM(config)
        checkpoints.restore(saved, model, torch.optim.AdamW(model.parameters()))


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "file", ["model.safetensors", "optimizer.safetensors", "state.json"]
)
def test_no_flipped_bit_of_a_checkpoint_passes(
    done: Path, study: Study, data: Path, tmp_path: Path, file: str, count: int
) -> None:
    folder = Path(
        shutil.copytree(
            done / "stages/mini-s-clm/step-00000009", tmp_path / "step-00000009"
        )
    )
    saved = checkpoints.Checkpoint(path=folder, step=9)
    model = EuroBertForMaskedLM(model_config(study, data))
    optimizer = torch.optim.AdamW(model.parameters())

    def believe() -> None:
        checkpoints.restore(saved, model, optimizer)

    believe()
    assert flips(folder / file, count, believe) == 0


def test_a_finished_stage_is_looked_at_before_it_is_believed(
    run: Run, done: Path, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(done, tmp_path / "out"))
    path = out / "stages/mini-s-clm/step-00000009/optimizer.safetensors"
    assert run("mini-s-clm-9-mlm40", out)
    saved = out / "stages/mini-s-clm-9-mlm40/step-00000018/model.safetensors"
    for damaged, stage in ((saved, "mini-s-clm-9-mlm40"), (path, "mini-s-clm")):
        content = bytearray(damaged.read_bytes())
        content[-1] ^= 1
        damaged.write_bytes(content)
        if stage == "mini-s-clm-9-mlm40":
            with pytest.raises(UserError, match="its content has changed"):
                run(stage, out)
    with pytest.raises(UserError, match="its content has changed"):
        run("mini-s-clm-9-mlm20-24", out)


def test_a_forged_optimizer_state_is_refused(
    done: Path, study: Study, data: Path, tmp_path: Path
) -> None:
    """Sealed again by whoever forged it: no tensor of another shape reaches the optimizer."""
    folder = Path(
        shutil.copytree(
            done / "stages/mini-s-clm/step-00000009", tmp_path / "step-00000009"
        )
    )
    tensors = load_file(folder / "optimizer.safetensors")
    name = next(name for name in tensors if name.startswith("exp_avg."))
    model = EuroBertForMaskedLM(model_config(study, data))
    saved = checkpoints.Checkpoint(path=folder, step=9)
    for forged in (
        tensors | {name: torch.zeros(3)},
        {k: v for k, v in tensors.items() if k != name},
    ):
        save_file(forged, folder / "optimizer.safetensors")
        seal_again(folder)
        with pytest.raises(
            UserError, match="its optimizer state belongs to another model"
        ):
            checkpoints.restore(saved, model, torch.optim.AdamW(model.parameters()))
