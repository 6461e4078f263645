import gc
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from clm_or_mlm.__main__ import main
from common.errors import UserError
from common.locks import try_lease
from common.manifest import read_manifest, write_manifest
from common.processes import AGAIN
from pretraining.data.shard_manifest import load_manifest
from pretraining.model.modeling import EuroBertForMaskedLM
from pretraining.plan.study_plan import Study
from pretraining.training import checkpoints
from pretraining.training import train as train_module
from pretraining.training.log import LogWriter, read_log
from pretraining.training.stage import StageTraining
from tests.messages import refused
from tests.pretraining.small_study import (
    MODEL,
    QUIET,
    Run,
    change_a_loss,
    same_run,
    science,
    train_and_kill,
    weights_hash,
)

pytestmark = QUIET


def test_the_model_is_a_folder_others_load(done: Path, data: Path) -> None:
    folder = done / "models" / MODEL
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["steps"] == 24
    assert manifest["data"] == load_manifest(data)["sha256"]
    assert manifest["tokens_seen"] == read_log(folder / "log.jsonl")[-1]["tokens"]
    model = EuroBertForMaskedLM.from_pretrained(folder)
    assert (model.config.is_causal, model.config.mask_token_id) == (False, 389)
    saved = load_file(done / "stages" / MODEL / "step-00000024" / "model.safetensors")
    assert all(
        torch.equal(value, saved[name]) for name, value in model.state_dict().items()
    )


def test_nothing_of_a_stage_is_kept_for_the_next(run: Run, tmp_path: Path) -> None:
    """Neither model nor optimizer: on a GPU the next stage needs the room."""

    def alive() -> dict[int, object]:
        # By type: asking a weak proxy for its class raises where its object is gone.
        kinds = (StageTraining, EuroBertForMaskedLM)
        return {
            id(one): one for one in gc.get_objects() if issubclass(type(one), kinds)
        }

    before = alive()
    assert run(MODEL, tmp_path / "out")
    gc.collect()
    assert alive().keys() <= before.keys()


def test_another_pretraining_is_the_same_model_with_another_seed(
    run: Run, tmp_path: Path
) -> None:
    name = "mini-s-clm-24"
    assert run(name, tmp_path / "set", "seed=3")
    assert run(name, tmp_path / "first")
    # It has a trunk of its own, next to the first one's.
    assert run(f"{name}-s3", tmp_path / "first")
    named, by_hand = (
        weights_hash(tmp_path / "first", f"{name}-s3"),
        weights_hash(tmp_path / "set", name),
    )
    assert named == by_hand != weights_hash(tmp_path / "first", name)


def test_a_second_call_does_nothing_and_trunks_are_shared(
    run: Run, done: Path, tmp_path: Path
) -> None:
    files = [
        path for path in done.rglob("*") if path.is_file() and path.name != ".lock"
    ]
    before = [path.stat().st_mtime_ns for path in files]
    assert run(MODEL, done)
    assert [path.stat().st_mtime_ns for path in files] == before
    assert {
        path for path in done.rglob("*") if path.is_file() and path.name != ".lock"
    } == {*files}
    out = shutil.copytree(done, tmp_path / "out")
    log = out / "models" / MODEL / "log.jsonl"
    log.unlink()
    assert run(MODEL, out)
    assert log.read_bytes() == (done / "models" / MODEL / "log.jsonl").read_bytes()
    trunk = (out / "stages/mini-s-clm/log.jsonl").read_bytes()
    assert run("mini-s-clm-24", out)
    assert (out / "stages/mini-s-clm/log.jsonl").read_bytes().startswith(trunk)
    alone = tmp_path / "alone"
    assert run("mini-s-clm-24", alone)
    log = "stages/mini-s-clm/log.jsonl"
    assert science(out / log) == science(alone / log)
    assert weights_hash(out, "mini-s-clm-24") == weights_hash(alone, "mini-s-clm-24")
    kept = [
        item.step for item in checkpoints.checkpoint_steps(alone / "stages/mini-s-clm")
    ]
    assert kept == [5, 9, 18]
    assert EuroBertForMaskedLM.from_pretrained(
        alone / "models/mini-s-clm-24"
    ).config.is_causal


def test_model_has_the_same_bytes_at_another_place_and_time(
    run: Run,
    done: Path,
    study: Study,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All but provenance.json and the timings: other folders, words, commit, cache, clock, user and machine."""
    monkeypatch.setattr("sys.argv", ["pretraining", "train", "--elsewhere"])
    monkeypatch.setenv("CLM_OR_MLM_COMMIT", "f" * 40)
    monkeypatch.setattr("platform.python_version", lambda: "9.9")
    monkeypatch.setattr("common.provenance.git_commit", lambda: "f" * 40)
    original = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: 1e6 + 3 * original())
    moved = shutil.copytree(data, tmp_path / "moved")
    assert run(
        MODEL, tmp_path / "out", f"cache={tmp_path / 'cache'}", "cache_gb=1", data=moved
    )
    stages = (done / "stages" / stage.name for stage in study.models[MODEL].stages)
    names = {
        path.relative_to(done)
        for folder in (done / "models" / MODEL, *stages)
        for path in folder.rglob("*")
        if path.is_file()
    }
    apart = {"provenance.json", "timings.jsonl", ".lock"}
    same = {
        name
        for name in names
        if name.name not in apart and name.parts[1] != "mini-s-clm"
    }
    same |= {
        Path("stages/mini-s-clm") / rest
        for rest in ("log.jsonl", "step-00000009/state.json")
    }
    expected = {"README.md", "manifest.json", "log.jsonl", "state.json", "config.json"}
    assert {path.name for path in same} >= expected
    for name in sorted(same):
        assert (tmp_path / "out" / name).read_bytes() == (done / name).read_bytes(), (
            name
        )
    first, second = (
        read_manifest(out / "models" / MODEL / "provenance.json", "")
        for out in (done, tmp_path / "out")
    )
    assert first["commit"] != second["commit"] == "f" * 40
    assert first["command"] != second["command"] and first["machine"] == "1 x cpu"
    for text in (
        (done / "models" / MODEL / name).read_text()
        for name in ("README.md", "manifest.json")
    ):
        assert (
            str(tmp_path) not in text
            and "tokens_per_second" not in text
            and "command" not in text
        )


CHANGED = "mini-s-clm: the rows up to step {} as they were written"


@pytest.mark.parametrize(
    ("damage", "said", "lacks"),
    [
        (
            lambda path: path.unlink(),
            "no log here",
            ["mini-s-clm: 9 of the steps 1 to 9"],
        ),
        (
            lambda path: path.write_bytes(b"\xff" + path.read_bytes()[1:]),
            "line 1 is not a row",
            [CHANGED.format(9)],
        ),
        (change_a_loss, "have changed since", [CHANGED.format(9)]),
        (
            lambda path: path.write_text(
                "".join(path.read_text().splitlines(keepends=True)[:-4])
            ),
            "it has no rows of mini-s-clm",
            None,
        ),
    ],
    ids=["lost", "a byte", "a loss", "its end"],
)
def test_a_lost_or_damaged_log_does_not_stop_an_export(
    run: Run,
    done: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[Path], object],
    said: str,
    lacks: list[str] | None,
) -> None:
    out = Path(shutil.copytree(done, tmp_path / "out"))
    shutil.rmtree(out / "models")
    damage(out / "stages/mini-s-clm/log.jsonl")
    assert run(MODEL, out)
    assert said in caplog.text
    manifest = json.loads((out / "models" / MODEL / "manifest.json").read_text())
    if lacks is None:
        assert manifest["log_lacks"][0].endswith("to 9")
    else:
        assert manifest["log_lacks"] == lacks
    assert weights_hash(out) == weights_hash(done)
    (out / "models" / MODEL / "log.jsonl").unlink()
    assert run(MODEL, out) and (out / "models" / MODEL / "log.jsonl").is_file()


def test_log_changed_before_a_resume_is_named_in_the_model(
    run: Run, done: Path, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(done, tmp_path / "out"))
    change_a_loss(out / "stages/mini-s-clm/log.jsonl")
    assert run("mini-s-clm-24", out)
    manifest = json.loads((out / "models/mini-s-clm-24/manifest.json").read_text())
    assert manifest["log_lacks"] == [CHANGED.format(18)]


def test_the_log_is_on_the_disk_before_its_checkpoint_has_a_name(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    sync, write = LogWriter.sync, checkpoints.write_checkpoint
    monkeypatch.setattr(LogWriter, "sync", lambda log: (order.append("log"), sync(log)))
    monkeypatch.setattr(
        checkpoints,
        "write_checkpoint",
        lambda *words: (order.append("checkpoint"), write(*words)),
    )
    assert run("mini-s-clm", tmp_path / "out", "save_every=8")
    assert order and order == ["log", "checkpoint"] * (len(order) // 2)


def test_a_damaged_model_is_never_called_finished(
    run: Run, done: Path, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(done, tmp_path / "out"))
    folder = out / "models" / MODEL
    for name in (
        "model.safetensors",
        "config.json",
        "tokenizer.json",
        "log.jsonl",
        "manifest.json",
    ):
        path = folder / name
        good = path.read_bytes()
        for bad in (good[:-1], good[:-3] + bytes([good[-3] ^ 1]) + good[-2:]):
            path.write_bytes(bad)
            with pytest.raises(
                UserError, match=rf"{name}.*; remove .* to write it again"
            ):
                run(MODEL, out)
        if name != "log.jsonl":
            path.unlink()
            if name != "manifest.json":
                with pytest.raises(UserError, match=f"{name} is missing"):
                    run(MODEL, out)
        path.write_bytes(good)
    shutil.rmtree(folder)
    assert run(MODEL, out)
    assert weights_hash(out) == weights_hash(done)


def test_continued_and_intermediate_models(
    run: Run, done: Path, tmp_path: Path
) -> None:
    assert run("mini-s-clm-dec24-mlm40-36", tmp_path)
    rows = read_log(tmp_path / "models/mini-s-clm-dec24-mlm40-36/log.jsonl")
    rates = {row["step"]: row["lr"] / 3e-3 for row in rows if row["split"] == "train"}
    assert [rates[step] for step in (24, 25, 26, 30)] == pytest.approx([0, 0.5, 1, 1])
    switch = {
        row["objective"]: row["loss"]
        for row in rows
        if row["step"] == 24 and row["split"] == "validation"
    }
    assert switch["mlm"] > switch["clm"]
    assert run("mini-s-clm-24-5", tmp_path)
    trunk = tmp_path / "stages/mini-s-clm/step-00000005/model.safetensors"
    ours = load_file(tmp_path / "models/mini-s-clm-24-5/model.safetensors")
    assert all(
        torch.equal(value, ours[name]) for name, value in load_file(trunk).items()
    )


@pytest.mark.slow
def test_longer_trunk_is_retrained_without_its_checkpoint(
    run: Run, tmp_path: Path
) -> None:
    other = "mini-s-clm-7-mlm40-24"
    assert run("mini-s-clm-24", tmp_path / "late")
    trunk = tmp_path / "late/stages/mini-s-clm"
    assert 7 not in [item.step for item in checkpoints.checkpoint_steps(trunk)]
    assert run(other, tmp_path / "late")
    assert {5, 9, 18} <= {item.step for item in checkpoints.checkpoint_steps(trunk)}
    assert run(other, tmp_path / "alone")
    assert weights_hash(tmp_path / "late", other) == weights_hash(
        tmp_path / "alone", other
    )
    name = f"models/{other}/log.jsonl"
    assert science(tmp_path / "late" / name) == science(tmp_path / "alone" / name)


def test_another_precision_before_a_resume_stands_in_the_model(
    run: Run, tmp_path: Path
) -> None:
    assert run("mini-s-clm", tmp_path)
    saved = checkpoints.latest(tmp_path / "stages/mini-s-clm", 9)
    assert saved is not None
    state = checkpoints.load_state(saved)
    write_manifest(saved.path / "state.json", {**state, "precision": "bf16"})
    assert run(MODEL, tmp_path)
    manifest = json.loads((tmp_path / "models" / MODEL / "manifest.json").read_text())
    assert (manifest["earlier_precision"], manifest["precision"]) == (
        {"9": "bf16"},
        "fp32",
    )


def test_one_stage_alone(run: Run, done: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UserError,
        match=r"branches off mini-s-clm at step 9.* first run `train mini-s-clm`",
    ):
        run("mini-s-clm-9-mlm40", tmp_path)
    assert run("mini-s-clm", tmp_path)
    assert run("mini-s-clm-9-mlm40", tmp_path)
    assert not (tmp_path / "models").exists()
    ours = science(tmp_path / "stages/mini-s-clm-9-mlm40/log.jsonl")
    assert ours == science(done / "stages/mini-s-clm-9-mlm40/log.jsonl")


def test_killed_ten_times_it_ends_the_same_to_the_bit(
    done: Path, study: Study, data: Path, tmp_path: Path
) -> None:
    """Kill -9 by the parent's clock; losses, rates, norms, batches, masks and weights are the uninterrupted run's."""
    kills = 0
    for attempt in range(20):
        out = tmp_path / str(attempt)
        kills += train_and_kill(
            MODEL, out, data, study, most=10 - kills, within=(0.02, 0.4), seed=attempt
        )
        same_run(out, done)
        if kills >= 10:
            return
    pytest.fail(f"only {kills} kills came before the end")


def test_a_checkpoint_is_exported(done: Path, data: Path, tmp_path: Path) -> None:
    saved = done / "stages/mini-s-clm/step-00000009"
    words = [
        "pretraining",
        "export",
        "--data",
        str(data),
        "--out",
        str(tmp_path / "model"),
    ]
    main([*words, str(saved)])
    model = EuroBertForMaskedLM.from_pretrained(tmp_path / "model")
    assert model.config.is_causal
    with pytest.raises(UserError, match="no checkpoint here"):
        main([*words, str(tmp_path / "absent")])


def test_two_jobs_never_train_one_trunk(run: Run, tmp_path: Path) -> None:
    with (
        try_lease(tmp_path / "stages/mini-s-clm/.lock"),
        refused(
            "stages/mini-s-clm", f"process {os.getpid()}", "is training mini-s-clm"
        ),
    ):
        run(MODEL, tmp_path)


def test_a_training_that_lost_its_lease_writes_no_more(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Another process took it over, as after a machine that was suspended; it ends with the code of `run again`."""

    def lost_at_once(path: Path, lost: Callable[[], None]) -> object:
        lost()
        return try_lease(path, lost)

    def end(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(train_module, "try_lease", lost_at_once)
    monkeypatch.setattr(os, "_exit", end)
    with pytest.raises(SystemExit) as ended:
        run(MODEL, tmp_path)
    assert ended.value.code == AGAIN
    assert "another process took over the training of mini-s-clm" in caplog.text
    assert not list(tmp_path.rglob("*.safetensors"))
