import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from common.errors import UserError
from pretraining.data.sampler import Cut
from pretraining.model.masking import MaskRule
from pretraining.model.modeling import EuroBertForMaskedLM, initialise
from pretraining.model.packed_batch import PackedBatch
from pretraining.plan.study_plan import Study
from pretraining.training import checkpoints
from pretraining.training.log import TIMINGS, read_log
from pretraining.training.objectives import ObjectiveBatch, clm, loss_sum, mlm
from pretraining.training.optimizer import stage_schedule
from tests.pretraining.packed import sequences
from tests.pretraining.small_study import (
    MODEL,
    QUIET,
    Run,
    model_config,
    open_data,
    weights_hash,
)

pytestmark = QUIET


def test_compile_falls_back_and_logs_why(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: Path
) -> None:
    def broken(self: EuroBertForMaskedLM, **options: object) -> None:
        for block in self.body.layers:
            block._compiled_call_impl = lambda *a, **k: (_ for _ in ()).throw(
                RuntimeError("no compiler here")
            )

    monkeypatch.setattr(EuroBertForMaskedLM, "compile_blocks", broken)
    assert run(MODEL, tmp_path, "compile=on")
    manifest = json.loads((tmp_path / "models" / MODEL / "manifest.json").read_text())
    assert manifest["compile"] == "off: no compiler here"
    assert weights_hash(tmp_path) == weights_hash(done)


def test_the_log_follows_the_plan(done: Path) -> None:
    rows = read_log(done / "models" / MODEL / "log.jsonl")
    trained = [row for row in rows if row["split"] == "train"]
    assert [row["step"] for row in trained] == list(range(1, 25))
    assert [row["objective"] for row in trained] == ["clm"] * 9 + ["mlm"] * 15
    assert {row["stage"] for row in rows} == {"mini-s-clm", "mini-s-clm-9-mlm40", MODEL}
    rates = [row["lr"] / 3e-3 for row in trained]
    assert rates == pytest.approx(
        [1 / 3, 2 / 3, *[1.0] * 16, *[step / 6 for step in (5, 4, 3, 2, 1, 0)]]
    )
    checks = [
        (row["step"], row["objective"]) for row in rows if row["split"] == "validation"
    ]
    assert checks[:5] == [(0, "clm"), (5, "clm"), (6, "clm"), (9, "clm"), (9, "mlm")]
    assert checks[5:] == [(12, "mlm"), (18, "mlm"), (24, "mlm")]
    assert [row["tokens"] for row in trained] == sorted(
        {row["tokens"] for row in trained}
    )
    timings = [
        json.loads(line)
        for name in ("mini-s-clm", "mini-s-clm-9-mlm40", MODEL)
        for line in (done / "stages" / name / TIMINGS).read_text().splitlines()
    ]
    assert [row["step"] for row in timings] == list(range(1, 25))
    assert all(row["tokens_per_second"] > 0 and row["memory_gb"] > 0 for row in timings)


def test_a_plain_torch_loop_gives_the_same_losses(
    done: Path, study: Study, data: Path
) -> None:
    """The same run without Composer: the loop written out, rates from the formula, loss by the weighing rule."""
    settings, torch_model = study.config, study.models[MODEL]
    config = model_config(study, data)
    source, model = open_data(study, data), EuroBertForMaskedLM(config)
    initialise(model, settings.seed)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1.0, betas=(0.9, 0.95), eps=1e-5, weight_decay=0.1
    )

    def groups(step: int, ratio: int | None) -> list[ObjectiveBatch]:
        """The paper's micro-batches: four neighbours of the step's order each, whatever the passes are."""
        by_id = sequences(part.inputs for part in source.step(step, "clm").microbatches)
        cut = Cut(shortest=4, longest=64, seed=0)
        ids = cut.spans(source.order.batch_of(step)[1])[0].tolist()
        assert sorted(ids) == sorted(by_id) and len(ids) == 8
        packed = [
            PackedBatch.of([by_id[i].numpy() for i in part], part)
            for part in (ids[:4], ids[4:])
        ]
        if ratio is None:
            return [clm(part) for part in packed]
        return [
            mlm(part, MaskRule.of(config, ratio=ratio / 100, seed=0)) for part in packed
        ]

    expected = []
    for stage in torch_model.stages:
        schedule = stage_schedule(torch_model, stage, settings.optimizer)
        for step in range(stage.first_step, stage.end):
            optimizer.zero_grad()
            loss = torch.stack(
                [loss_sum(model, group).mean for group in groups(step, stage.ratio)]
            ).mean()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for group in optimizer.param_groups:
                group["lr"] = 3e-3 * schedule(step)
            optimizer.step()
            expected.append((float(loss.detach()), float(norm)))
    rows = [
        row
        for row in read_log(done / "models" / MODEL / "log.jsonl")
        if row["split"] == "train"
    ]
    assert [(row["loss"], row["grad_norm"]) for row in rows] == [
        pytest.approx(pair, rel=2e-5) for pair in expected
    ]
    final = EuroBertForMaskedLM.from_pretrained(done / "models" / MODEL).state_dict()
    for name, value in model.state_dict().items():
        assert torch.allclose(value, final[name], atol=2e-5), name


def test_validation_can_be_left_out(run: Run, tmp_path: Path, done: Path) -> None:
    assert run(MODEL, tmp_path, "eval_sequences=0", "log_every=4", "save_every=7")
    rows = read_log(tmp_path / "models" / MODEL / "log.jsonl")
    assert {row["split"] for row in rows} == {"train"}
    assert [row["step"] for row in rows] == [4, 8, 9, 12, 16, 18, 20, 24]
    assert weights_hash(tmp_path) == weights_hash(done)


def test_checkpoints_come_by_the_clock_too_and_change_nothing(
    run: Run, tmp_path: Path, done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved, original = [], checkpoints.write_checkpoint

    def noted(folder: Path, step: int, *rest: Any) -> checkpoints.Checkpoint:
        saved.append(step)
        return original(folder, step, *rest)

    monkeypatch.setattr(checkpoints, "write_checkpoint", noted)
    for minutes, steps in (("0", [5, 9, 18, 24]), ("1e-9", list(range(1, 25)))):
        saved.clear()
        assert run(
            MODEL, tmp_path / minutes, "save_every=1000", f"save_minutes={minutes}"
        )
        assert saved == steps
        assert weights_hash(tmp_path / minutes) == weights_hash(done)
        last = Path("stages", MODEL, "step-00000024", "state.json")
        assert (tmp_path / minutes / last).read_bytes() == (done / last).read_bytes()


def test_batches_are_left_out_from_a_step_on(
    run: Run, tmp_path: Path, done: Path
) -> None:
    """After a stop at step 9, for steps to come; what was done before must stay what it was."""
    shutil.copytree(done / "stages/mini-s-clm", tmp_path / "stages/mini-s-clm")
    assert run(MODEL, tmp_path, "skip=10:3")
    plain, ours = (
        {
            row["step"]: row
            for row in read_log(out / "models" / MODEL / "log.jsonl")
            if row["split"] == "train"
        }
        for out in (done, tmp_path)
    )
    fingerprints = {step: row["batch"] for step, row in plain.items()}
    assert [ours[step]["batch"] == fingerprints[step] for step in (9, 10, 11)] == [
        True,
        True,
        False,
    ]
    assert all(ours[step]["batch"] == fingerprints[step + 3] for step in range(11, 22))
    manifest = json.loads((tmp_path / "models" / MODEL / "manifest.json").read_text())
    assert manifest["recipe"]["skip"] == "10:3"
    with pytest.raises(
        UserError,
        match=rf"models/{MODEL} was trained with skip=\[\[10, 3\]\], not \[\]",
    ):
        run(MODEL, tmp_path)
    shutil.rmtree(tmp_path / "models")
    shutil.rmtree(tmp_path / "stages" / MODEL)
    with pytest.raises(
        UserError,
        match=r"was trained with skip=\[\[10, 3\]\], not \[\]; change only later steps",
    ):
        run(MODEL, tmp_path)


def test_another_pass_over_the_data_is_announced(
    run: Run, study: Study, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    each = open_data(study, data).order.steps_per_epoch
    # What is left out brings the end of the first epoch near.
    assert run("mini-s-clm", tmp_path, f"skip=2:{each - 9}", "eval_sequences=0")
    assert (
        f"the shards last for {each:,} steps; at step 9 epoch 2 begins" in caplog.text
    )
