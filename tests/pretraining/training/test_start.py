"""Training from a start: beside a loop in plain transformers, resumed to the bit, refused with another start."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import transformers as hf
from composer.core import Callback
from safetensors.torch import load_file, save_file

from common.errors import UserError
from common.files import sha256_file
from common.model_files import read_config
from pretraining.adapt import Adaptation
from pretraining.data.build_shards import build
from pretraining.data.shard_manifest import ShardSettings
from pretraining.data.tokenizer import train_tokenizer
from pretraining.model.encoder_folder import checked_encoder, write_folder
from pretraining.model.model_folder import eurobert_files
from pretraining.model.modeling import EuroBertForMaskedLM, initialise
from pretraining.model.start_folder import write_merged
from pretraining.model.start_weights import load_start
from pretraining.plan.study_plan import targets_of
from pretraining.starts import Start, start_of
from pretraining.training.context import TrainingContext
from pretraining.training.log import read_log
from pretraining.training.ranks import Ranks
from pretraining.training.stage import StageTraining
from pretraining.training.train import checkpoint_as_model, export_checkpoint, train
from tests.pretraining.documents import make_documents, write_jsonl
from tests.pretraining.families import DECODERS, FAMILIES, save_start
from tests.pretraining.sizes import config_for

SETTINGS = (
    "global_batch=4",
    "microbatch=2",
    "max_length=24",
    "eval_sequences=4",
    "eval_every=10",
    "save_every=4",
    "callbacks=",
    "peak_lr=1e-3",
)
"""With a rate at which tiny random models move."""


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    start = save_start(folder / "start", "llama")
    file = write_jsonl(folder / "documents.jsonl", make_documents(60))
    build(
        [str(file)],
        str(start),
        folder / "data",
        ShardSettings(validation_share=0.05),
        workers=0,
    )
    return folder / "data"


def made(
    start: Start, *settings: str, objective: str = "mlm30", steps: int = 20
) -> Adaptation:
    changes = (*SETTINGS, *settings)
    return Adaptation(start=start, objective=objective, steps=steps, changes=changes)


def run(start: Start, what: Adaptation, shards: Path, out: Path) -> bool:
    return train(
        replace(what.targets, start=start), data=shards, out=out, config=what.config
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_twenty_losses_equal_a_plain_loops(
    family: str, shards: Path, tmp_path: Path
) -> None:
    start = start_of(str(save_start(tmp_path / family, family)))
    what = made(start)
    assert run(start, what, shards, tmp_path / "out")
    model = what.targets.model
    rows = read_log(tmp_path / "out/models" / model.name / "log.jsonl")
    ours = [row["loss"] for row in rows if row["split"] == "train"]
    context = TrainingContext(
        targets=what.targets,
        config=what.config,
        source=shards,
        out=tmp_path,
        ranks=Ranks.here(),
    )
    torch.testing.assert_close(
        torch.tensor(ours),
        torch.tensor(_plain_losses(context, start, family)),
        rtol=0,
        atol=1e-4,
    )
    out = tmp_path / "out/models" / model.name
    assert len(checked_encoder(out)) == 3
    assert json.loads((out / "manifest.json").read_text())["start"] == start.identity
    assert read_config(out).get("sliding_window") == read_config(start.folder).get(
        "sliding_window"
    )


def _plain_losses(context: TrainingContext, start: Start, family: str) -> list[float]:
    """Return the losses of a loop without anything of ours but the batches: each sequence alone, under eager."""
    auto = hf.AutoModelForCausalLM if family in DECODERS else hf.AutoModelForMaskedLM
    plain = hf.AutoConfig.from_pretrained(start.folder)
    # Its window follows when a configuration is made with the flag
    if family == "gemma3":
        plain = type(plain)(**plain.to_dict() | {"use_bidirectional_attention": True})
    else:
        plain.is_causal = False
    inner = auto.from_pretrained(
        start.folder, config=plain, attn_implementation="eager"
    )
    adamw, losses = context.config.optimizer, []
    inner.eval()  # nothing is dropped out
    optimizer = torch.optim.AdamW(
        inner.parameters(),
        lr=adamw.peak_lr,
        betas=(adamw.beta1, adamw.beta2),
        eps=adamw.eps,
        weight_decay=adamw.weight_decay,
    )
    for step in range(20):
        rate = (step + 1) / 1 if step < 1 else 1.0
        rate = min(rate, 1.0 if step < 16 else 1 - ((step - 16 + 1) / 5) ** 0.5)
        parts = context.data.step(step, "mlm", 30 if step < 16 else 15).microbatches
        total, count = 0.0, 0
        for part in parts:
            bounds = part.inputs.cu_seqlens.tolist()
            labels = torch.full_like(part.inputs.tokens, -100)
            labels[part.positions] = part.labels
            for first, last in pairwise(bounds):
                logits = inner(input_ids=part.inputs.tokens[None, first:last]).logits[0]
                total = total + torch.nn.functional.cross_entropy(
                    logits, labels[first:last], reduction="sum"
                )
            count += part.count
        loss = total / count
        loss.backward()
        torch.nn.utils.clip_grad_norm_(inner.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = adamw.peak_lr * rate
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


@pytest.mark.slow
@pytest.mark.real_data
def test_a_real_decoders_losses_are_those_of_a_plain_loop(tmp_path: Path) -> None:
    """SmolLM2-135M on a textbook, 20 steps of 1,536 tokens: each is read for the first time when its loss is taken."""
    if not (os.environ.get("REAL_MODELS") and os.environ.get("REAL_DATA")):
        pytest.skip("REAL_MODELS or REAL_DATA is not set")
    start = start_of(str(Path(os.environ["REAL_MODELS"], "smollm2-135m")))
    text = (
        Path(os.environ["REAL_DATA"])
        / "pretrain/openstax-anatomy-physiology-2e.jsonl.zst"
    )
    build([str(text)], start.text, tmp_path / "data", ShardSettings(), workers=0)
    what = made(
        start,
        "global_batch=6",
        "microbatch=6",
        "max_length=256",
        "save_every=20",
        "peak_lr=1e-4",
    )
    assert run(start, what, tmp_path / "data", tmp_path / "out")
    context = TrainingContext(
        targets=what.targets,
        config=what.config,
        source=tmp_path / "data",
        out=tmp_path,
        ranks=Ranks.here(),
    )
    rows = read_log(tmp_path / "out/models" / what.targets.model.name / "log.jsonl")
    ours = torch.tensor([row["loss"] for row in rows if row["split"] == "train"])
    torch.testing.assert_close(
        ours, torch.tensor(_plain_losses(context, start, "llama")), rtol=0, atol=0.05
    )
    assert ours[-4:].mean() < ours[0] - 1


RESUMED = [
    pytest.param(
        family, marks=() if family in ("llama", "gemma3", "bert") else pytest.mark.slow
    )
    for family in FAMILIES
]
"""Our own class, one that wraps a decoder and one that wraps an encoder; the others are long repetitions of these."""


class StopAtFive(Callback):
    """Ask this process to stop in the fifth update, as a cluster does."""

    def batch_start(self, state: object, logger: object) -> None:
        if int(state.timestamp.batch) == 5:  # type: ignore[attr-defined]
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("family", RESUMED)
def test_three_stages_stopped_and_resumed_give_the_same_bytes(
    family: str, shards: Path, tmp_path: Path
) -> None:
    start = start_of(str(save_start(tmp_path / family, family)))
    first = "clm" if family in DECODERS else "mlm15"
    what = made(start, steps=12)
    study = what.targets.plan.study
    name = f"{what.targets.model.size}-{first}-4-mlm40-12"
    model = replace(study.design.parse(name), start=start.text)
    targets = replace(
        targets_of(name, replace(study, models={name: model})), start=start
    )
    assert len(targets.stages) == 3
    assert train(targets, data=shards, out=tmp_path / "whole", config=what.config)
    stopping = made(start, f"callbacks={__name__}:StopAtFive", steps=12).config
    assert not train(targets, data=shards, out=tmp_path / "halves", config=stopping)
    assert train(targets, data=shards, out=tmp_path / "halves", config=what.config)
    files = [
        f"models/{name}/{file}"
        for file in ("model.safetensors", "config.json", "log.jsonl", "manifest.json")
    ]
    for file in files:
        assert sha256_file(tmp_path / "whole" / file) == sha256_file(
            tmp_path / "halves" / file
        ), file


class StopAfterAPass(Callback):
    """Ask this process to stop once the first of two passes of the third update is over."""

    def after_backward(self, state: object, logger: object) -> None:
        if int(state.timestamp.batch) == 2:  # type: ignore[attr-defined]
            os.kill(os.getpid(), signal.SIGTERM)


def test_first_pass_tells_time_and_a_stop_waits_for_a_pass(
    shards: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The unfinished update is dropped, and made again to the bit."""
    caplog.set_level("INFO")
    start = start_of(str(save_start(tmp_path / "start", "llama")))
    what = made(start, steps=4)
    assert run(start, what, shards, tmp_path / "whole")
    name = f"callbacks={__name__}:StopAfterAPass"
    caplog.clear()
    out = tmp_path / "halves"
    assert not run(start, made(start, name, steps=4), shards, out)
    said = [record.getMessage() for record in caplog.records]
    lines = (
        "first pass of a validation, 4 updates in passes of 48 tokens take ",
        "validation loss",
        "first pass, 4 updates in passes of 48 tokens take ",
        "stopped and saved at step 2",
    )
    order = [
        next(number for number, line in enumerate(said) if words in line)
        for words in lines
    ]
    assert order == sorted(order)
    assert run(start, what, shards, out)
    model = what.targets.model.name
    for file in ("model.safetensors", "log.jsonl", "manifest.json"):
        ours, theirs = (
            place / "models" / model / file for place in (out, tmp_path / "whole")
        )
        assert ours.read_bytes() == theirs.read_bytes(), file


@pytest.mark.parametrize("step", [0, 2, 4, 5])
def test_validation_that_was_stopped_is_made_when_it_resumes(
    step: int, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first update, in a stage, and in the last step of each of the two."""
    start = start_of(str(save_start(tmp_path / "start", "llama")))
    what = made(start, "eval_every=2", steps=5)
    assert run(start, what, shards, tmp_path / "whole")
    with monkeypatch.context() as patch:
        validate = StageTraining._validate

        def stopping(self: StageTraining) -> float | None:
            if self.progress.step == step:
                os.kill(os.getpid(), signal.SIGTERM)
            return validate(self)

        patch.setattr(StageTraining, "_validate", stopping)
        assert not run(start, what, shards, tmp_path / "halves")
    assert run(start, what, shards, tmp_path / "halves")
    logs = [
        read_log(tmp_path / part / "models" / what.targets.model.name / "log.jsonl")
        for part in ("whole", "halves")
    ]
    assert logs[0] == logs[1]
    assert any(row["step"] == step and row["split"] == "validation" for row in logs[1])


@pytest.mark.parametrize(
    ("tokens", "step_tokens", "updates"),
    [(1e6, 2048, 489), (2e7, 16_384, 1221), (1e9, 262_144, 3815)],
)
def test_budget_makes_updates_before_tokens(
    tokens: float, step_tokens: int, updates: int, tmp_path: Path
) -> None:
    start = start_of(str(save_start(tmp_path / "start", "llama")))
    what = Adaptation(start=start, tokens=tokens, changes=("max_length=32",))
    batches = what.config.batches
    found = batches.global_batch * batches.max_length, what.updates
    assert found == (step_tokens, updates)


@pytest.mark.parametrize(("steps", "warmup"), [(99, 0), (100, 10), (1000, 30)])
def test_warm_up_has_ten_steps_or_none(steps: int, warmup: int, tmp_path: Path) -> None:
    start = start_of(str(save_start(tmp_path / "start", "llama")))
    what = Adaptation(start=start, steps=steps)
    assert what.config.optimizer.warmup_steps == warmup


SMALL_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "README.md",
    "LICENSE",
)


class DamageAtTwo(Callback):
    """Spoil the small files of a start in the second update."""

    folder: Path
    spoil: Callable[[Path], object]

    def batch_start(self, state: object, logger: object) -> None:
        if int(state.timestamp.batch) == 1:  # type: ignore[attr-defined]
            for name in SMALL_FILES:
                if (self.folder / name).is_file():
                    type(self).spoil(self.folder / name)


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text("{")])
def test_starts_files_do_not_matter_after_the_first_step(
    spoil: Callable[[Path], object],
    shards: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exported = []
    for place, callbacks in (("whole", ""), ("spoilt", f"{__name__}:DamageAtTwo")):
        folder = save_start(tmp_path / place / "a", "qwen2")
        (folder / "LICENSE").write_text("Take it.")
        monkeypatch.setattr(DamageAtTwo, "folder", folder, raising=False)
        monkeypatch.setattr(DamageAtTwo, "spoil", staticmethod(spoil), raising=False)
        start = start_of(str(folder))
        what = made(start, f"callbacks={callbacks}", steps=4)
        assert run(start, what, shards, tmp_path / place)
        out = tmp_path / place / "models" / what.targets.model.name
        exported.append(
            {path.name: sha256_file(path) for path in out.iterdir() if path.is_file()}
        )
    assert exported[0].pop("provenance.json") and exported[1].pop("provenance.json")
    assert exported[0] == exported[1] and "LICENSE" in exported[0]


def test_checkpoint_is_not_resumed_with_another_start(
    shards: Path, tmp_path: Path
) -> None:
    start = start_of(str(save_start(tmp_path / "a", "qwen2")))
    other = start_of(str(save_start(tmp_path / "a2", "qwen3")))
    what = made(start, steps=4)
    assert run(start, what, shards, tmp_path / "out")
    assert run(start, what, shards, tmp_path / "out")  # the export fits, and is used
    with pytest.raises(UserError, match="original start"):
        run(other, what, shards, tmp_path / "out")
    alone = replace(
        what.targets, model=replace(what.targets.model, start=""), start=None
    )
    with pytest.raises(UserError):
        train(alone, data=shards, out=tmp_path / "out", config=what.config)


@pytest.mark.parametrize("released", [False, True])
def test_own_exports_and_released_models_stay_eurobert(
    released: bool, shards: Path, tmp_path: Path
) -> None:
    model = EuroBertForMaskedLM(
        config_for(
            "tiny",
            vocab_size=320,
            bos_token_id=297,
            eos_token_id=298,
            pad_token_id=298,
            mask_token_id=299,
        )
    )
    initialise(model, 3)
    own = write_folder(
        tmp_path / "own",
        eurobert_files(model.state_dict(), model.config, shards / "tokenizer"),
        {"model": "own"},
    )
    if released:  # as the authors' are: another type, a base model without a head
        state = load_file(own / "model.safetensors")
        base = {
            name.removeprefix("model."): tensor
            for name, tensor in state.items()
            if name != "lm_head.weight"
        }
        save_file(base, own / "model.safetensors")
        fields = json.loads((own / "config.json").read_text())
        (own / "config.json").write_text(
            json.dumps(fields | {"model_type": "sl_model"})
        )
        (own / "manifest.json").unlink()
    start = start_of(str(own))
    what = made(start, steps=4)
    assert run(start, what, shards, tmp_path / "out")
    finished = tmp_path / "out/models" / what.targets.model.name
    assert (
        json.loads((finished / "config.json").read_text())["model_type"] == "eurobert"
    )
    assert (
        json.loads((finished / "manifest.json").read_text())["start"] == start.identity
    )
    assert len(checked_encoder(finished)) == 3
    with pytest.raises(UserError, match="original start"):
        run(
            start_of(str(save_start(tmp_path / "a", "qwen2"))),
            what,
            shards,
            tmp_path / "out",
        )
    for share, name in ((0.5, "merge50"), (0.501, "merge50.1"), (0.004, "merge0.4")):
        assert write_merged(start, finished, share).name.endswith(name)


def test_undecayed_checkpoint_is_exported_and_is_a_start(
    shards: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    start = start_of(str(save_start(tmp_path / "a", "qwen2")))
    what = made(start, steps=8)
    assert run(start, what, shards, tmp_path / "out")
    trunk = what.targets.stages[0][0].name
    (checkpoint,) = (tmp_path / "out/stages" / trunk).glob("step-*")
    with pytest.raises(UserError, match=r"pretraining export .*step-0000\d* --start"):
        checkpoint_as_model(str(checkpoint), shards, tmp_path / "again")
    with pytest.raises(UserError, match="--start"):
        export_checkpoint(checkpoint, shards, tmp_path / "trunk")
    path = start.folder / "tokenizer_config.json"
    path.write_text(f"{path.read_text()}\n")
    repaired = start_of(str(start.folder))
    with pytest.raises(UserError, match="original start"):
        run(repaired, what, shards, tmp_path / "out")
    export_checkpoint(checkpoint, shards, tmp_path / "trunk", start=repaired)
    assert "tokenizer's files have changed" in caplog.text
    assert len(checked_encoder(tmp_path / "trunk")) == 3
    train_tokenizer(make_documents(40, seed=5), 300).save(start.folder)
    with pytest.raises(UserError, match="another tokenizer"):
        export_checkpoint(
            checkpoint, shards, tmp_path / "other", start=start_of(str(start.folder))
        )
    again = start_of(str(tmp_path / "trunk"))
    assert run(again, made(again, steps=4), shards, tmp_path / "again")


class KeepWeights(Callback):
    """Keep the weights before each update."""

    kept: list[dict[str, torch.Tensor]]

    def batch_start(self, state: object, logger: object) -> None:
        tensors = state.model.state_dict()  # type: ignore[attr-defined]
        self.kept.append({name: value.clone() for name, value in tensors.items()})


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_step_without_a_target_changes_no_weight(
    family: str,
    shards: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(KeepWeights, "kept", [], raising=False)
    start = start_of(str(save_start(tmp_path / family, family)))
    settings = (
        f"callbacks={__name__}:KeepWeights",
        "global_batch=1",
        "max_length=8",
        "eval_sequences=1",
        "weight_decay=0.5",
    )
    what = made(start, *settings, objective="mlm5", steps=30)
    assert run(start, what, shards, tmp_path / "out")
    log = tmp_path / "out/models" / what.targets.model.name / "log.jsonl"
    rows = [row for row in read_log(log) if row["split"] == "train"]
    predicted = [row["predicted"] for row in rows]
    assert 0 < predicted.count(0) < 30
    assert [("loss" in row, "grad_norm" in row) for row in rows] == [
        (count > 0, count > 0) for count in predicted
    ]
    for (before, after), count in zip(
        pairwise(KeepWeights.kept), predicted, strict=False
    ):
        same = all(torch.equal(before[name], after[name]) for name in before)
        assert same is (count == 0)
    assert "a step has no token to predict, so it changes nothing" in caplog.text
    validations = [row for row in read_log(log) if row["split"] == "validation"]
    assert all(("loss" in row) == (row["predicted"] > 0) for row in validations)


def _occupied(places: dict[str, Path]) -> None:
    places["model"].mkdir(parents=True)
    (places["model"] / "thesis.txt").write_text("mine")


def _of_another_tokenizer(places: dict[str, Path]) -> None:
    (places["data"] / "tokenizer" / "tokenizer_config.json").write_text("{}")


def _not_numbers(places: dict[str, Path]) -> None:
    path = places["start"] / "model.safetensors"
    tensors = load_file(path)
    tensors["model.norm.weight"][0] = torch.inf
    save_file(tensors, path, metadata={"format": "pt"})


def _attending_back(forward: Callable[..., object]) -> Callable[..., object]:
    """Return a model's pass that is causal where nobody asks for eager attention, as exports are loaded."""

    def causal(model: hf.PreTrainedModel, *args: object, **options: object) -> object:
        if model.config._attn_implementation == "sdpa":
            model.config.is_causal = True
        return forward(model, *args, **options)

    return causal


@pytest.mark.parametrize(
    ("family", "break_it", "said"),
    [
        ("qwen2", _occupied, r"holds other files \(thesis\.txt\)"),
        ("qwen2", _of_another_tokenizer, "is not the tokenizer that the shards"),
        ("llama", _not_numbers, "outputs that are no numbers"),
        ("qwen2", _not_numbers, "outputs that are no numbers"),
        ("one-sided", None, "does not see both sides"),
    ],
)
def test_what_an_export_refuses_is_refused_before_step_one(
    family: str,
    break_it: Callable[[dict[str, Path]], None] | None,
    said: str,
    shards: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = save_start(
        tmp_path / "start", "qwen2" if family == "one-sided" else family
    )
    data = shutil.copytree(shards, tmp_path / "data")
    out = tmp_path / "out"
    name = made(start_of(str(folder)), steps=4).targets.model.name
    places = {"model": out / "models" / name, "start": folder, "data": data}
    if break_it is None:  # a class that looks both ways with a head alone
        forward = _attending_back(hf.Qwen2Model.forward)
        monkeypatch.setattr(hf.Qwen2Model, "forward", forward)
    else:
        break_it(places)
    start = start_of(str(folder))
    with pytest.raises(UserError, match=said):
        run(start, made(start, steps=4), data, out)
    assert not any(out.rglob("step-*"))


def test_a_model_that_ends_in_clm_is_refused_before_its_training(
    shards: Path, tmp_path: Path
) -> None:
    start = start_of(str(save_start(tmp_path / "a", "qwen2")))
    targets = made(start, steps=4).targets
    study = targets.plan.study
    model = replace(study.design.parse(f"{targets.model.size}-clm-4"), start=start.text)
    targets = replace(
        targets_of(model.name, replace(study, models={model.name: model})), start=start
    )
    with pytest.raises(UserError, match="end with MLM"):
        train(targets, data=shards, out=tmp_path / "out", config=study.config)
    assert not (tmp_path / "out/stages").exists()


def test_the_average_lies_between_start_and_encoder(
    shards: Path, tmp_path: Path
) -> None:
    start = start_of(str(save_start(tmp_path / "a", "llama")))
    what = made(start, steps=4)
    assert run(start, what, shards, tmp_path / "out")
    finished = tmp_path / "out/models" / what.targets.model.name
    merged = write_merged(start, finished, 0.25)
    before, after, mean = (
        load_start(item, 0).state_dict()
        for item in (start, start_of(str(finished)), start_of(str(merged)))
    )
    for name, tensor in mean.items():
        torch.testing.assert_close(tensor, 0.75 * after[name] + 0.25 * before[name])
    assert len(checked_encoder(merged)) == 3


def test_each_choice_is_printed_with_its_reason(
    tmp_path: Path,
) -> None:
    start = start_of(str(save_start(tmp_path / "a", "qwen2")))
    found = Adaptation(
        start=start,
        tokens=1e6,
        changes=("peak_lr=3e-4", "max_length=32", "global_batch=8"),
    )
    assert found.targets.model.steps == 3907
    said = found.advice
    assert "peak_lr" not in said
    assert found.config.optimizer.peak_lr == 3e-4
    assert said["decay"].startswith("decay = 781: ")
    for steps, tokens in ((None, None), (3, 1e6), (1, None)):
        with pytest.raises(UserError, match=r"give|leave one"):
            Adaptation(start=start, steps=steps, tokens=tokens)
