from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from common.errors import UserError
from pretraining.data.manifest import load_manifest
from pretraining.model.configuration import config_of
from pretraining.model.heads import EuroBertForMaskedLM
from pretraining.plan.study_file import Study
from pretraining.training import checkpoints
from pretraining.training.log import read_log
from pretraining.training.train import train
from tests.pretraining.small_study import MODEL, changed, weights_hash

pytestmark = pytest.mark.filterwarnings(
    "ignore"
)  # Composer's and TensorBoard's own; ours are errors elsewhere


MISTAKES = [
    (["peak_rl=1"], "did you mean 'peak_lr'"),
    (["max_length=128"], "longer than the model's 64 tokens"),
    (["global_batch=100000"], "fewer than the 100000 of one step"),
    (["backend=flash"], "needs the flash-attn package"),
]


@pytest.mark.parametrize(("words", "message"), MISTAKES)
def test_wrong_settings_are_reported(
    study: Study, data: Path, tmp_path: Path, words: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        train(MODEL, data=data, out=tmp_path, study=study, config=changed(study, *words))


def test_another_run_is_never_resumed(done: Path, study: Study, data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"was trained with peak_lr=0.003, not 0.001"):
        train(MODEL, data=data, out=done, study=study, config=changed(study, "peak_lr=1e-3"))
    with pytest.raises(UserError, match="was trained with peak_lr"):
        train("mini-s-clm-24", data=data, out=done, study=study, config=changed(study, "peak_lr=1e-3"))
    other = shutil.copytree(data, tmp_path / "other")
    manifest = json.loads((other / "manifest.json").read_text())
    (other / "manifest.json").write_text(json.dumps(manifest | {"sha256": "0" * 64}))
    with pytest.raises(UserError, match="with other shards than"):
        train(MODEL, data=other, out=done, study=study)
    manifest["tokenizer"]["sha256"] = "1" * 64
    (other / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="with another tokenizer than"):
        train(MODEL, data=other, out=done, study=study)
    manifest["tokenizer"]["vocab_size"] = 50_000
    (other / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=r"has 50000 ids, the model rows for 400"):
        train(MODEL, data=other, out=tmp_path / "new", study=study)
    with pytest.raises(UserError, match="no shards here"):
        train(MODEL, data=tmp_path, out=tmp_path / "new", study=study)
    with pytest.raises(UserError, match="did you mean 'mini-s-clm'"):
        train("mini-s-cml", data=data, out=tmp_path, study=study)


def test_a_loss_that_is_no_number_stops_with_the_last_checkpoint_kept(
    study: Study, data: Path, tmp_path: Path
) -> None:
    assert train("mini-s-clm-24-5", data=data, out=tmp_path, study=study)
    broken = tmp_path / "stages/mini-s-clm/step-00000005"
    from safetensors.torch import save_file

    good = load_file(broken / "model.safetensors")
    save_file({name: value * torch.nan for name, value in good.items()}, broken / "model.safetensors")
    with pytest.raises(UserError, match=r"the loss of step 6 is nan"):
        train(MODEL, data=data, out=tmp_path, study=study)
    steps = [item.step for item in checkpoints.checkpoint_steps(tmp_path / "stages/mini-s-clm")]
    assert steps == [5]
    save_file(good, broken / "model.safetensors")
    assert train(MODEL, data=data, out=tmp_path, study=study)


def test_a_full_disk_keeps_the_last_checkpoint(
    done: Path, study: Study, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage, calls = shutil.disk_usage(tmp_path), {"left": 3}

    def filling(path: object) -> object:
        calls["left"] -= 1
        return usage if calls["left"] >= 0 else usage._replace(free=1000)

    monkeypatch.setattr(shutil, "disk_usage", filling)
    with pytest.raises(UserError, match=r"checkpoint of step 6 needs .* GB .* free some space"):
        train(MODEL, data=data, out=tmp_path, study=study)
    monkeypatch.undo()
    assert [i.step for i in checkpoints.checkpoint_steps(tmp_path / "stages/mini-s-clm")] == [5]
    assert train(MODEL, data=data, out=tmp_path, study=study)
    assert weights_hash(tmp_path) == weights_hash(done)


def test_damaged_checkpoints_are_reported(done: Path, study: Study, data: Path, tmp_path: Path) -> None:
    out = shutil.copytree(done, tmp_path / "out")
    shutil.rmtree(out / "models")
    for folder in (MODEL, "mini-s-clm-9-mlm40"):
        shutil.rmtree(out / "stages" / folder)
    saved = checkpoints.latest(out / "stages/mini-s-clm", 9)
    assert saved is not None
    for file in ("optimizer.safetensors", "model.safetensors", "state.json"):
        content = (saved.path / file).read_bytes()
        (saved.path / file).write_bytes(content[:20])
        with pytest.raises(UserError, match=f"{file.split('.')[0]}.*is damaged|is damaged"):
            train(MODEL, data=data, out=out, study=study)
        (saved.path / file).write_bytes(content)
    with pytest.raises(UserError, match="belongs to another architecture"):
        config = config_of(study.shapes["mini-s"], load_manifest(data)["tokenizer"])
        config.hidden_size = 64
        model = EuroBertForMaskedLM(config)
        checkpoints.restore(saved, model, torch.optim.AdamW(model.parameters()))


def test_two_jobs_never_train_one_trunk(study: Study, data: Path, tmp_path: Path) -> None:
    import fcntl

    folder = tmp_path / "stages/mini-s-clm"
    folder.mkdir(parents=True)
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="another process is training mini-s-clm"):
            train(MODEL, data=data, out=tmp_path, study=study)


def test_compile_falls_back_and_logs_why(
    study: Study, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: Path
) -> None:
    def broken(self: EuroBertForMaskedLM, **options: object) -> None:
        for block in self.body.layers:
            block._compiled_call_impl = lambda *a, **k: (_ for _ in ()).throw(
                RuntimeError("no compiler here")
            )

    monkeypatch.setattr(EuroBertForMaskedLM, "compile_blocks", broken)
    assert train(MODEL, data=data, out=tmp_path, study=study, config=changed(study, "compile=on"))
    manifest = json.loads((tmp_path / "models" / MODEL / "manifest.json").read_text())
    assert manifest["compile"] == "off: no compiler here"
    assert weights_hash(tmp_path) == weights_hash(done)


def test_weights_and_biases_without_an_account_is_reported(
    study: Study, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wandb.errors import UsageError

    def refuse(**_: object) -> None:
        raise UsageError("No API key configured.\nUse `wandb login`.")

    monkeypatch.setattr("wandb.init", refuse)
    with pytest.raises(UserError, match=r"wandb=p\): No API key configured\.; log in .* WANDB_MODE=offline"):
        train(MODEL, data=data, out=tmp_path, study=study, config=changed(study, "wandb=p"))


@pytest.mark.slow
def test_weights_and_biases_get_every_step(
    study: Study, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """wandb itself, which keeps its runs on disk when offline."""
    import wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    runs: list[dict[str, float]] = []
    log = wandb.sdk.wandb_run.Run.log

    def logged(self: object, values: dict[str, float], *, step: int | None = None) -> None:
        runs.append(values | {"step": -1 if step is None else step})
        log(self, values, step=step)

    monkeypatch.setattr(wandb.sdk.wandb_run.Run, "log", logged)
    assert train("mini-s-clm-24-5", data=data, out=tmp_path / "out", study=study, config=changed(study, "wandb=p"))
    (kept,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    assert kept.stat().st_size > 1000
    losses = {int(row["step"]): row["clm/loss"] for row in runs if "clm/loss" in row}
    rows = read_log(tmp_path / "out/models/mini-s-clm-24-5/log.jsonl")
    assert list(losses.values()) == [row["loss"] for row in rows if row["split"] == "train"]
    assert wandb.run is None
