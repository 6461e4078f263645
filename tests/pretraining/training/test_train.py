from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from common.errors import UserError
from common.files import sha256_file
from common.processes import AGAIN
from pretraining.__main__ import main
from pretraining.data.manifest import load_manifest
from pretraining.model.configuration import config_of
from pretraining.model.heads import EuroBertForMaskedLM
from pretraining.model.modeling import initialise
from pretraining.plan.study_file import Study
from pretraining.training import checkpoints
from pretraining.training.composer_adapter import _StepCallback
from pretraining.training.dataloader import Data, microbatch_size
from pretraining.training.log import LogWriter, read_log
from pretraining.training.objectives import loss_sum, loss_weights
from pretraining.training.schedule import stage_schedule
from pretraining.training.train import train
from tests.pretraining.small_study import MODEL, STUDY, changed, science, weights_hash

pytestmark = pytest.mark.filterwarnings(
    "ignore"
)  # Composer's and TensorBoard's own; ours are errors elsewhere


def test_the_log_follows_the_plan(done: Path) -> None:
    rows = read_log(done / "models" / MODEL / "log.jsonl")
    trained = [row for row in rows if row["split"] == "train"]
    assert [row["step"] for row in trained] == list(range(1, 25))
    assert [row["objective"] for row in trained] == ["clm"] * 9 + ["mlm"] * 15
    assert {row["stage"] for row in rows} == {"mini-s-clm", "mini-s-clm-9-mlm40", MODEL}
    rates = [row["lr"] / 3e-3 for row in trained]
    assert rates == pytest.approx([1 / 3, 2 / 3, *[1.0] * 16, *[step / 6 for step in (5, 4, 3, 2, 1, 0)]])
    checks = [(row["step"], row["objective"]) for row in rows if row["split"] == "validation"]
    assert checks[:5] == [(0, "clm"), (5, "clm"), (6, "clm"), (9, "clm"), (9, "mlm")]
    assert checks[5:] == [(12, "mlm"), (18, "mlm"), (24, "mlm")]
    assert [row["tokens"] for row in trained] == sorted({row["tokens"] for row in trained})
    assert all(row["tokens_per_second"] > 0 and row["memory_gb"] > 0 for row in trained)


def test_figure_12_reads_the_logs(done: Path, study: Study) -> None:
    from paper_figures.training_curves import training_losses

    frame = training_losses(done, {MODEL: [s.name for s in study.models[MODEL].stages]})
    rows = [row for row in read_log(done / "models" / MODEL / "log.jsonl") if row["split"] == "train"]
    assert sorted(frame["step"]) == list(range(1, 25))
    assert sorted(frame["loss"]) == sorted(row["loss"] for row in rows)


def test_the_model_is_a_folder_others_load(done: Path, data: Path) -> None:
    folder = done / "models" / MODEL
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["steps"] == 24
    assert manifest["data"] == load_manifest(data)["sha256"]
    assert manifest["tokens_seen"] == read_log(folder / "log.jsonl")[-1]["tokens"]
    model = EuroBertForMaskedLM.from_pretrained(folder)
    assert (model.config.is_causal, model.config.mask_token_id) == (False, 389)
    saved = load_file(done / "stages" / MODEL / "step-00000024" / "model.safetensors")
    assert all(torch.equal(value, saved[name]) for name, value in model.state_dict().items())


def test_a_plain_torch_loop_gives_the_same_losses(done: Path, study: Study, data: Path) -> None:
    """The same run without Composer: the loop written out, rates from the formula, loss by the weighing rule."""
    settings, torch_model = study.config, study.models[MODEL]
    config = config_of(study.shapes["mini-s"], load_manifest(data)["tokenizer"])
    source, model = Data(data, settings, config), EuroBertForMaskedLM(config)
    initialise(model, settings.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, betas=(0.9, 0.95), eps=1e-5, weight_decay=0.1)
    expected = []
    for stage in torch_model.stages:
        schedule = stage_schedule(torch_model, stage, warmup_steps=3, rewarm_steps=2)
        for step in range(stage.start, stage.end):
            parts = source.step(step, stage.objective, stage.ratio).microbatches
            factors = loss_weights([part.count for part in parts], "equal")
            losses = [loss_sum(model, p).total * f for p, f in zip(parts, factors, strict=True)]
            optimizer.zero_grad()
            torch.stack(losses).sum().backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for group in optimizer.param_groups:
                group["lr"] = 3e-3 * schedule(step)
            optimizer.step()
            expected.append((float(sum(losses)), float(norm)))
    rows = [row for row in read_log(done / "models" / MODEL / "log.jsonl") if row["split"] == "train"]
    assert [(row["loss"], row["grad_norm"]) for row in rows] == [
        pytest.approx(pair, rel=2e-5) for pair in expected
    ]
    final = EuroBertForMaskedLM.from_pretrained(done / "models" / MODEL).state_dict()
    for name, value in model.state_dict().items():
        assert torch.allclose(value, final[name], atol=2e-5), name


def test_a_second_call_does_nothing_and_trunks_are_shared(
    done: Path, study: Study, data: Path, tmp_path: Path
) -> None:
    before = {
        path: path.stat().st_mtime_ns for path in done.rglob("*") if path.is_file() and path.name != ".lock"
    }
    assert train(MODEL, data=data, out=done, study=study)
    after = {
        path: path.stat().st_mtime_ns for path in done.rglob("*") if path.is_file() and path.name != ".lock"
    }
    assert after == before
    out = shutil.copytree(done, tmp_path / "out")
    log = out / "models" / MODEL / "log.jsonl"
    log.unlink()
    assert train(MODEL, data=data, out=out, study=study)
    assert log.read_bytes() == (done / "models" / MODEL / "log.jsonl").read_bytes()
    trunk = (out / "stages/mini-s-clm/log.jsonl").read_bytes()
    assert train("mini-s-clm-24", data=data, out=out, study=study)
    assert (out / "stages/mini-s-clm/log.jsonl").read_bytes().startswith(trunk)
    alone = tmp_path / "alone"
    assert train("mini-s-clm-24", data=data, out=alone, study=study)
    log = "stages/mini-s-clm/log.jsonl"
    assert science(out / log) == science(alone / log)
    assert weights_hash(out, "mini-s-clm-24") == weights_hash(alone, "mini-s-clm-24")
    kept = [item.step for item in checkpoints.checkpoint_steps(alone / "stages/mini-s-clm")]
    assert kept == [5, 9, 18]
    assert EuroBertForMaskedLM.from_pretrained(alone / "models/mini-s-clm-24").config.is_causal


def test_continued_and_intermediate_models(done: Path, study: Study, data: Path, tmp_path: Path) -> None:
    assert train("mini-s-clm-dec24-mlm40-36", data=data, out=tmp_path, study=study)
    rows = read_log(tmp_path / "models/mini-s-clm-dec24-mlm40-36/log.jsonl")
    rates = {row["step"]: row["lr"] / 3e-3 for row in rows if row["split"] == "train"}
    assert [rates[step] for step in (24, 25, 26, 30)] == pytest.approx([0, 0.5, 1, 1])
    switch = {
        row["objective"]: row["loss"] for row in rows if row["step"] == 24 and row["split"] == "validation"
    }
    assert switch["mlm"] > switch["clm"]
    assert train("mini-s-clm-24-5", data=data, out=tmp_path, study=study)
    trunk = tmp_path / "stages/mini-s-clm/step-00000005/model.safetensors"
    ours = load_file(tmp_path / "models/mini-s-clm-24-5/model.safetensors")
    assert all(torch.equal(value, ours[name]) for name, value in load_file(trunk).items())


def test_a_longer_trunk_is_trained_again_where_its_checkpoint_was_not_kept(
    study: Study, data: Path, tmp_path: Path
) -> None:
    other = "mini-s-clm-7-mlm40-24"
    assert train("mini-s-clm-24", data=data, out=tmp_path / "late", study=study)
    trunk = tmp_path / "late/stages/mini-s-clm"
    assert 7 not in [item.step for item in checkpoints.checkpoint_steps(trunk)]
    assert train(other, data=data, out=tmp_path / "late", study=study)
    assert {5, 9, 18} <= {item.step for item in checkpoints.checkpoint_steps(trunk)}
    assert train(other, data=data, out=tmp_path / "alone", study=study)
    assert weights_hash(tmp_path / "late", other) == weights_hash(tmp_path / "alone", other)
    name = f"models/{other}/log.jsonl"
    assert science(tmp_path / "late" / name) == science(tmp_path / "alone" / name)


def test_one_stage_alone(study: Study, data: Path, done: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"branches off mini-s-clm at step 9.* first `train mini-s-clm`"):
        train("mini-s-clm-9-mlm40", data=data, out=tmp_path, study=study)
    assert train("mini-s-clm", data=data, out=tmp_path, study=study)
    assert train("mini-s-clm-9-mlm40", data=data, out=tmp_path, study=study)
    assert not (tmp_path / "models").exists()
    ours = science(tmp_path / "stages/mini-s-clm-9-mlm40/log.jsonl")
    assert ours == science(done / "stages/mini-s-clm-9-mlm40/log.jsonl")


def _run(study: Study, data: Path, out: Path) -> None:
    torch.set_num_threads(1)
    train(MODEL, data=data, out=out, study=study)


def test_killed_at_ten_random_moments_it_ends_the_same_bit_for_bit(
    done: Path, study: Study, data: Path, tmp_path: Path
) -> None:
    """Kill -9 by the parent's clock; losses, rates, norms, batches, masks and weights are the uninterrupted run's."""
    generator, kills = random.Random(1), 0
    context = multiprocessing.get_context("fork")
    for attempt in range(20):
        out = tmp_path / str(attempt)
        while not (out / "models" / MODEL / "log.jsonl").exists():
            process = context.Process(target=_run, args=(study, data, out))
            process.start()
            process.join(generator.uniform(0.02, 0.4) if kills < 10 else 120)
            if process.is_alive():
                os.kill(process.pid or 0, signal.SIGKILL)
                process.join()
                kills += 1
        _same_run(out, done)
        if kills >= 10:
            return
    pytest.fail(f"only {kills} kills came before the end")


def _same_run(ours: Path, done: Path) -> None:
    name = Path("models", MODEL, "log.jsonl")
    assert science(ours / name) == science(done / name)
    assert weights_hash(ours) == weights_hash(done)
    for item in ("optimizer.safetensors", "model.safetensors"):
        path = Path("stages", MODEL, "step-00000024", item)
        assert sha256_file(ours / path) == sha256_file(done / path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_saves_and_the_next_call_resumes(
    done: Path, study: Study, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    batch_start = _StepCallback.batch_start

    def signalled(self: _StepCallback, state: object, logger: object) -> None:
        if int(state.timestamp.batch) == 12:  # type: ignore[attr-defined]
            signal.raise_signal(number)
        batch_start(self, state, logger)  # type: ignore[arg-type]

    monkeypatch.setattr(_StepCallback, "batch_start", signalled)
    arguments = [
        "train",
        MODEL,
        "--data",
        str(data),
        "--out",
        str(tmp_path),
        "--study",
        str(tmp_path / "s.toml"),
    ]
    (tmp_path / "s.toml").write_text(STUDY)
    assert main(arguments) == AGAIN
    assert checkpoints.latest(tmp_path / "stages/mini-s-clm-9-mlm40", 99).step == 13  # type: ignore[union-attr]
    monkeypatch.undo()
    assert main(arguments) is None
    assert science(tmp_path / "models" / MODEL / "log.jsonl") == science(
        done / "models" / MODEL / "log.jsonl"
    )


def test_a_stop_file_does_the_same(
    done: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stop, batch_start = tmp_path / "stop", _StepCallback.batch_start

    def touched(self: _StepCallback, state: object, logger: object) -> None:
        if int(state.timestamp.batch) == 12:  # type: ignore[attr-defined]
            stop.touch()
            self.hooks.stop_file_checked = 0.0  # type: ignore[attr-defined]
        batch_start(self, state, logger)  # type: ignore[arg-type]

    monkeypatch.setattr(_StepCallback, "batch_start", touched)
    (tmp_path / "s.toml").write_text(STUDY)
    words = ["train", MODEL, "--data", str(data), "--out", str(tmp_path), "--study", str(tmp_path / "s.toml")]
    words += ["--stop-file", str(stop)]
    assert main(words) == AGAIN
    assert checkpoints.latest(tmp_path / "stages/mini-s-clm-9-mlm40", 99).step == 13  # type: ignore[union-attr]
    monkeypatch.undo()
    with pytest.raises(UserError, match="is there already and asks training to stop; remove it first"):
        main(words)
    stop.unlink()
    assert main(words) is None
    name = Path("models", MODEL, "log.jsonl")
    assert science(tmp_path / name) == science(done / name)


def test_ranks_share_batches_and_masks(study: Study, data: Path) -> None:
    source = Data(data, study.config, config_of(study.shapes["mini-s"], load_manifest(data)["tokenizer"]))
    for step in (0, 3, 50):
        for objective, ratio in (("clm", None), ("mlm", 40)):
            whole = source.step(step, objective, ratio)
            shares = [source.step(step, objective, ratio, rank=rank, world=2) for rank in range(2)]
            assert sum(share.fingerprint for share in shares) % 2**64 == whole.fingerprint
            inputs = [part.inputs.tokens for share in shares for part in share.microbatches]
            assert torch.equal(torch.cat(inputs), torch.cat([p.inputs.tokens for p in whole.microbatches]))
        assert source.step(step, "clm").tokens == source.step(step, "mlm", 40).tokens
    clm, mlm = source.step(1, "clm"), source.step(1, "mlm", 40)
    originals = torch.cat([part.inputs.tokens for part in clm.microbatches])
    masked = torch.cat([part.inputs.tokens for part in mlm.microbatches])
    assert ((originals == masked) | (masked == 389)).all()
    assert source.step(1, "mlm", 20).fingerprint != mlm.fingerprint
    assert microbatch_size(10, 4) == 2


def test_documents_can_be_kept_apart(study: Study, data: Path) -> None:
    config = config_of(study.shapes["mini-s"], load_manifest(data)["tokenizer"])
    apart = Data(data, changed(study, "attention=document"), config)
    whole = Data(data, study.config, config)
    end, seen = load_manifest(data)["tokenizer"]["eos_id"], []
    for step in range(20):
        ours = apart.step(step, "clm").microbatches
        theirs = whole.step(step, "clm").microbatches
        assert torch.equal(
            torch.cat([p.inputs.tokens for p in ours]), torch.cat([p.inputs.tokens for p in theirs])
        )
        for part in ours:
            for place in range(len(part.inputs)):
                first, last = part.inputs.cu_seqlens[place], part.inputs.cu_seqlens[place + 1]
                assert end not in part.inputs.tokens[first : last - 1]
            seen += part.inputs.sample_ids.tolist()
    assert len(set(seen)) == len(seen)
    fixed = Data(data, changed(study, "cut=fixed"), config).step(0, "mlm", 40)
    assert {int(n) for part in fixed.microbatches for n in part.inputs.lengths} == {64}


def test_validation_masks_never_change(study: Study, data: Path) -> None:
    config = config_of(study.shapes["mini-s"], load_manifest(data)["tokenizer"])
    source = Data(data, study.config, config)
    first, second = (list(source.validation("mlm", 40)) for _ in range(2))
    assert all(torch.equal(a.inputs.tokens, b.inputs.tokens) for a, b in zip(first, second, strict=True))
    shares = [part.count for rank in range(3) for part in source.validation("mlm", 40, rank=rank, world=3)]
    assert sum(shares) == sum(part.count for part in first)


def test_validation_can_be_left_out(study: Study, data: Path, tmp_path: Path, done: Path) -> None:
    config = changed(study, "eval_sequences=0", "log_every=4", "save_every=7")
    assert train(MODEL, data=data, out=tmp_path, study=study, config=config)
    rows = read_log(tmp_path / "models" / MODEL / "log.jsonl")
    assert {row["split"] for row in rows} == {"train"}
    assert [row["step"] for row in rows] == [4, 8, 9, 12, 16, 18, 20, 24]
    assert weights_hash(tmp_path) == weights_hash(done)


def test_a_checkpoint_is_exported(done: Path, data: Path, tmp_path: Path) -> None:
    saved = done / "stages/mini-s-clm/step-00000009"
    main(["export", str(saved), "--data", str(data), "--out", str(tmp_path / "model")])
    model = EuroBertForMaskedLM.from_pretrained(tmp_path / "model")
    assert model.config.is_causal
    with pytest.raises(UserError, match="no checkpoint here"):
        main(["export", str(tmp_path / "absent"), "--data", str(data), "--out", str(tmp_path / "model2")])


def test_unfinished_lines_of_a_log_are_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    row = {"step": 1, "split": "train", "objective": "clm", "ratio": None, "stage": "a", "loss": 1.0}
    path.write_text(json.dumps(row) + "\n" + '{"step": 2, "spl')
    assert read_log(path) == [row]
    writer = LogWriter(path)
    writer.write(row | {"step": 2})
    writer.write(row | {"loss": 3.0})
    writer.close()
    assert [(item["step"], item["loss"]) for item in read_log(path)] == [(1, 3.0), (2, 1.0)]
    path.write_text("no\n" + json.dumps(row) + "\n")
    with pytest.raises(UserError, match="line 1 is no row"):
        read_log(path)
    path.write_text(json.dumps(row | {"step": "first"}) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(UserError, match="line 1 is no row"):
        read_log(path)
    path.write_bytes(b"\x80\x04\x95\xff")
    with pytest.raises(UserError, match="no text in UTF-8, so no training log; give a log"):
        read_log(path)
    with pytest.raises(UserError, match="no log here"):
        read_log(tmp_path / "absent")
    with pytest.raises(UserError, match="is a folder"):
        read_log(tmp_path)


@pytest.mark.slow
def test_two_processes_train_on_the_same_batches_and_masks(done: Path, data: Path, tmp_path: Path) -> None:
    """Under torchrun with gloo; with every token weighing the same, the losses agree too."""
    logs = [
        _launched([sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"],
                  data, tmp_path / str(ranks))
        for ranks in (1, 2)
    ]  # fmt: skip
    _agree(logs[0], logs[1], science(done / "models" / MODEL / "log.jsonl"))


def _slurm_nodes() -> int:
    if not shutil.which("sinfo"):
        return 0
    found = subprocess.run(["sinfo", "-h", "-N", "-t", "idle", "-o", "%N"], capture_output=True, text=True)
    return len(set(found.stdout.split()))


@pytest.mark.slow
@pytest.mark.slurm
@pytest.mark.skipif(_slurm_nodes() < 2, reason="no Slurm with two idle nodes answers here")
def test_two_nodes_train_on_the_same_batches_and_masks(done: Path, data: Path, tmp_path: Path) -> None:
    """Under srun, without a launcher; the nodes must see one file system and each other's names."""
    nodes = ["srun", "--nodes=2", "--ntasks-per-node=1", "--time=10", sys.executable]
    logs = [_launched(words, data, tmp_path / str(len(words))) for words in ([sys.executable], nodes)]
    _agree(logs[0], logs[1], science(done / "models" / MODEL / "log.jsonl"))


def _launched(launcher: list[str], data: Path, folder: Path) -> list[dict[str, Any]]:
    """Train by a launcher of Python processes and return the log."""
    folder.mkdir()
    (folder / "s.toml").write_text(STUDY)
    command = [
        *launcher,
        "-m",
        "pretraining",
        "train",
        MODEL,
        "--data",
        str(data),
        "--out",
        str(folder / "out"),
    ]
    command += ["--study", str(folder / "s.toml"), "--set", "weighting=token", "--set", "microbatch=2"]
    ended = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert ended.returncode == 0, ended.stderr[-6000:]
    assert ended.stderr.count("mini-s-clm: step 0 to 9") == 1, "the first process speaks for all"
    return science(folder / "out" / "models" / MODEL / "log.jsonl")


def _agree(one: list[dict[str, Any]], two: list[dict[str, Any]], undisturbed: list[dict[str, Any]]) -> None:
    for single, double, plain in zip(one, two, undisturbed, strict=True):
        assert single.get("batch") == double.get("batch") == plain.get("batch")
        assert (single["tokens"], single["predicted"]) == (double["tokens"], double["predicted"])
        assert single["loss"] == pytest.approx(double["loss"], rel=1e-4)


@pytest.mark.slow
def test_a_killed_command_resumes(done: Path, data: Path, tmp_path: Path) -> None:
    """The command itself, killed ten times at random moments from its start on."""
    (tmp_path / "s.toml").write_text(STUDY)
    out, environment = tmp_path / "out", {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pretraining", "train", MODEL, "--data", str(data)]
    command += ["--study", str(tmp_path / "s.toml"), "--out"]
    generator, kills = np.random.default_rng(0), 0
    began = time.monotonic()
    subprocess.run([*command, str(tmp_path / "first")], check=True, capture_output=True, env=environment)
    whole = time.monotonic() - began
    while not (out / "models" / MODEL / "log.jsonl").exists():
        process = subprocess.Popen([*command, str(out)], stderr=subprocess.DEVNULL, env=environment)
        try:
            process.wait(generator.uniform(0.3 * whole, 0.9 * whole) if kills < 10 else 300)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
    _same_run(tmp_path / "first", done)
    _same_run(out, done)
