"""At a rate of 1e-9 the export is the start, in plain transformers: whatever its files say, and however it was made."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from torch import Tensor

from common.model_files import read_config
from pretraining.adapt import Adaptation
from pretraining.data.build_shards import build
from pretraining.data.shard_manifest import ShardSettings
from pretraining.model.start_folder import write_merged
from pretraining.model.start_weights import LM_HEAD
from pretraining.starts import Start, start_of
from pretraining.training.train import train
from tests.pretraining.documents import make_documents, write_jsonl
from tests.pretraining.families import (
    DECODERS,
    FAMILIES,
    MORE,
    MORE_DECODERS,
    save_start,
)
from tests.pretraining.training.test_start import StopAtFive

SETTINGS = (
    "global_batch=2",
    "microbatch=2",
    "max_length=24",
    "eval_sequences=0",
    "callbacks=",
    "warmup_steps=0",
    "peak_lr=1e-9",
)
TEXT = "The baker SOLD a map; <|begin_of_text|> the judge forgot. NewWord7, Bäcker 42."


def make_shards(start: Path, out: Path) -> Path:
    file = write_jsonl(out.with_suffix(".jsonl"), make_documents(60))
    settings = ShardSettings(validation_share=0.05)
    build([str(file)], str(start), out, settings, workers=0)
    return out


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    return make_shards(save_start(folder / "start", "llama"), folder / "data")


def adapted(folder: Path, shards: Path, out: Path) -> tuple[Start, Path]:
    """Return a start and what becomes of it in two steps at a rate of 1e-9."""
    start = start_of(str(folder))
    if folder.name == "eurobert":  # its configuration names another mask
        shards = make_shards(folder, out / "data")
    what = Adaptation(start=start, objective="mlm15", steps=2, changes=SETTINGS)
    assert train(
        replace(what.targets, start=start), data=shards, out=out, config=what.config
    )
    return start, out / "models" / what.targets.model.name


def is_decoder(folder: Path) -> bool:
    kind = read_config(folder)["model_type"]
    return kind in {*DECODERS, *MORE_DECODERS, "gemma3_text"}


def plain(folder: Path, *, is_start: bool) -> Any:
    """Return a folder as plain transformers loads it with a head for tokens; a start is turned to both sides."""
    auto = hf.AutoModelForCausalLM if is_decoder(folder) else hf.AutoModelForMaskedLM
    if read_config(folder)["model_type"] == "xlm":
        auto = hf.XLMWithLMHeadModel
    config = hf.AutoConfig.from_pretrained(folder)
    if is_start and config.model_type == "gemma3_text":
        flag = {"use_bidirectional_attention": True}
        config = type(config)(**config.to_dict() | flag)
    elif is_start:
        config.is_causal = False
    model = auto.from_pretrained(
        folder, config=config, dtype=torch.float32, attn_implementation="eager"
    )
    if (folder / LM_HEAD).is_file():
        model.load_state_dict(load_file(folder / LM_HEAD), strict=False)
    return model.eval()


@torch.no_grad()
def outputs(model: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return logits and last hidden states."""
    out = model(input_ids=ids, output_hidden_states=True)
    return out.logits, out.hidden_states[-1]


def assert_same(start: Start, out: Path, *, head: bool = True) -> None:
    ids = hf.AutoTokenizer.from_pretrained(out)(TEXT, return_tensors="pt").input_ids
    before = plain(start.folder, is_start=True)
    rows = before.get_input_embeddings().weight.shape[0]
    assert len(ids[0]) > 10
    known = ids[ids < rows][None]
    wanted, found = (
        outputs(model, known) for model in (before, plain(out, is_start=False))
    )
    if not head:
        wanted, found = wanted[1:], found[1:]
    for right, actual in zip(wanted, found, strict=True):
        actual = actual[..., : right.shape[-1]]
        scale = float(right.abs().max())
        torch.testing.assert_close(actual, right, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("family", [*FAMILIES, *MORE])
def test_the_export_is_the_start(family: str, shards: Path, tmp_path: Path) -> None:
    start, out = adapted(save_start(tmp_path / family, family), shards, tmp_path)
    assert_same(start, out)


def change_config(folder: Path, **fields: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def change_weights(
    folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]
) -> None:
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})


OWN_HEADS = {
    "llama": "lm_head.weight",
    "gemma": "lm_head.weight",
    "bert": "cls.predictions.decoder.weight",
}


@pytest.mark.parametrize("family", OWN_HEADS)
def test_a_head_of_its_own_stays_where_the_config_says_tied(
    family: str, shards: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = save_start(tmp_path / family, family)
    head = torch.randn(320, 32, generator=torch.Generator().manual_seed(1))
    change_weights(folder, lambda tensors: tensors | {OWN_HEADS[family]: head})
    start, out = adapted(folder, shards, tmp_path)
    assert "config.json says tie_word_embeddings true" in caplog.text
    assert OWN_HEADS[family] in caplog.text
    assert read_config(out)["tie_word_embeddings"] is False
    assert_same(start, out)
    change_config(folder, tie_word_embeddings=False)
    assert_same(start_of(str(folder)), out)


def test_a_head_of_its_own_is_resumed_to_the_same_bytes(
    shards: Path, tmp_path: Path
) -> None:
    folder = save_start(tmp_path / "llama", "llama")
    head = torch.randn(320, 32, generator=torch.Generator().manual_seed(1))
    change_weights(folder, lambda tensors: tensors | {"lm_head.weight": head})
    start = start_of(str(folder))
    stopped = f"callbacks={StopAtFive.__module__}:StopAtFive"
    settings = (*SETTINGS, "peak_lr=1e-3", "save_every=2")
    written = []
    for place, changes in (("whole", [()]), ("halves", [(stopped,), ()])):
        out = tmp_path / place
        for change in changes:
            what = Adaptation(
                start=start,
                objective="mlm15",
                steps=8,
                changes=(*settings, *change),
            )
            targets = replace(what.targets, start=start)
            ended = train(targets, data=shards, out=out, config=what.config)
            assert ended is not bool(change)
        model = out / "models" / what.targets.model.name
        written.append(
            [(model / name).read_bytes() for name in ("model.safetensors", LM_HEAD)]
        )
    assert written[0] == written[1]


@pytest.mark.parametrize("family", ["llama", "bert"])
def test_a_vocabulary_of_which_most_words_are_new_is_an_encoder(
    family: str, tmp_path: Path
) -> None:
    folder = save_start(tmp_path / family, family)
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    word = content["added_tokens"][-1] | {"special": False}
    content["added_tokens"] += [
        word | {"id": 300 + number, "content": f"NewWord{number}"}
        for number in range(400)
    ]
    path.write_text(json.dumps(content))
    data = make_shards(folder, tmp_path / "data")
    start, out = adapted(folder, data, tmp_path)
    assert read_config(out)["vocab_size"] == 704
    assert_same(start, out)


@pytest.mark.parametrize("family", ["llama", "bert"])
def test_rows_that_the_config_does_not_count_are_kept(
    family: str, shards: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = save_start(tmp_path / family, family)
    whole = start_of(str(folder))
    copied = tmp_path / "one_less"
    folder.rename(copied)
    change_config(copied, vocab_size=319)
    _, out = adapted(copied, shards, tmp_path)
    assert "config.json says vocab_size 319" in caplog.text
    change_config(copied, vocab_size=320)
    assert_same(replace(whole, folder=copied), out)


@pytest.mark.parametrize(("family", "head"), [("bert", "cls."), ("qwen2", "lm_head.")])
def test_a_headless_start_keeps_its_hidden_states(
    family: str, head: str, shards: Path, tmp_path: Path
) -> None:
    folder = save_start(tmp_path / family, family)
    change_weights(
        folder,
        lambda tensors: {
            name.removeprefix("model."): tensor
            for name, tensor in tensors.items()
            if not name.startswith(head)
        },
    )
    start, out = adapted(folder, shards, tmp_path)
    assert_same(start, out, head=False)


@pytest.mark.parametrize("family", ["llama", "qwen3", "modernbert", "eurobert"])
def test_the_mean_of_a_start_and_its_export_is_the_start(
    family: str, shards: Path, tmp_path: Path
) -> None:
    start, out = adapted(save_start(tmp_path / family, family), shards, tmp_path)
    assert_same(start, write_merged(start, out, 0.5))


@pytest.mark.parametrize("number", [-1, 320, 32_000])
def test_a_padding_without_a_row_becomes_the_tokenizers(
    number: int, shards: Path, tmp_path: Path
) -> None:
    folder = save_start(tmp_path / "qwen2", "qwen2")
    change_config(folder, pad_token_id=number)
    start, out = adapted(folder, shards, tmp_path)
    tokenizer = hf.AutoTokenizer.from_pretrained(out)
    assert read_config(out)["pad_token_id"] == tokenizer.pad_token_id == 298
    change_config(folder, pad_token_id=298)
    assert_same(start, out)


def test_labels_and_a_pooler_that_the_export_lacks_are_left_out(
    shards: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = save_start(tmp_path / "bert", "bert")
    labels = {"0": "good", "1": "bad", "2": "none"}
    change_config(folder, id2label=labels, problem_type="single_label_classification")
    pooler = {"bert.pooler.dense.weight": torch.ones(32, 32)}
    change_weights(folder, lambda tensors: tensors | pooler)
    start, out = adapted(folder, shards, tmp_path)
    assert "bert.pooler.dense.weight is not part of BertForMaskedLM" in caplog.text
    assert not {"id2label", "label2id", "problem_type"} & read_config(out).keys()
    assert hf.AutoConfig.from_pretrained(out).num_labels == 2
    assert_same(start, out)
