from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel

from benchmarks.finetuning.encoders import Encoder, load, looks_both_ways
from common.errors import UserError

KINDS = ("ours", "ours-causal", "llama", "qwen2", "qwen3", "bert", "roberta", "modernbert")


@pytest.mark.parametrize("kind", KINDS)
def test_every_tokens_output_depends_on_later_tokens_and_not_on_padding(
    kind: str, model_folder: Callable[..., Path]
) -> None:
    encoder = load(str(model_folder(kind))).encoder.eval()
    assert encoder.lifted == (kind in ("llama", "qwen2", "qwen3"))
    ids = torch.arange(280, 300)[None]
    with torch.no_grad():
        base = encoder(ids, torch.tensor([20]))
        for last in (5, 19):
            other = ids.clone()
            other[0, last] = 250
            changed = (encoder(other, torch.tensor([20])) - base).abs().amax(-1)[0]
            # ModernBERT and windowed attention reach the first token through their global layer.
            assert changed[0] > 0
        alone = encoder(ids[:, :12], torch.tensor([12]))
        padded = encoder(torch.cat([ids[:, :12], torch.full((1, 8), 7)], dim=1), torch.tensor([12]))
    torch.testing.assert_close(alone, padded[:, :12], rtol=1e-4, atol=1e-5)


def test_a_decoder_left_as_it_is_does_not_look_both_ways(model_folder: Callable[..., Path]) -> None:
    base = AutoModel.from_pretrained(model_folder("llama"), attn_implementation="sdpa")
    assert not looks_both_ways(Encoder(base))
    assert looks_both_ways(Encoder(base, lifted=True))


def test_a_lifted_decoder_computes_full_attention(model_folder: Callable[..., Path]) -> None:
    """Our encoder has Llama's block: the same weights must give the same states without a causal mask."""
    ours, llama = (load(str(model_folder(kind))).encoder.eval() for kind in ("ours", "llama"))
    missing = llama.base.load_state_dict(ours.base.state_dict(), strict=False)
    assert not missing.missing_keys and not missing.unexpected_keys
    llama.base.norm.variance_epsilon = ours.base.config.rms_norm_eps
    for layer in llama.base.layers:
        for norm in (layer.input_layernorm, layer.post_attention_layernorm):
            norm.variance_epsilon = ours.base.config.rms_norm_eps
    ids, lengths = torch.randint(3, 300, (3, 15)), torch.tensor([15, 4, 9])
    with torch.no_grad():
        for a, b, n in zip(ours(ids, lengths), llama(ids, lengths), lengths, strict=True):
            torch.testing.assert_close(a[:n], b[:n], rtol=1e-4, atol=1e-5)


def test_a_model_that_stays_one_sided_is_refused(
    model_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.finetuning.encoders.looks_both_ways", lambda encoder: False)
    with pytest.raises(UserError, match="cannot be made bidirectional"):
        load(str(model_folder("llama")))


def test_the_authors_checkpoints_load_without_their_code(
    model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    ours = model_folder("ours")
    theirs = tmp_path / "610m-clm-42k"
    shutil.copytree(ours, theirs)
    _edit(
        "config.json",
        model_type="sl_model",
        architectures=["SLModel"],
        auto_map={"AutoConfig": "configuration_sl.SLConfig", "AutoModel": "modeling_sl.SLModel"},
        is_causal=True,
    )(theirs)
    ids, lengths = torch.randint(3, 300, (2, 9)), torch.tensor([9, 6])
    with torch.no_grad():
        one, other = (load(str(folder)).encoder.eval()(ids, lengths) for folder in (ours, theirs))
    torch.testing.assert_close(one, other, rtol=0, atol=0)


def _broken(folder: Path, tmp_path: Path, change: Callable[[Path], Any]) -> str:
    copy = tmp_path / "broken"
    shutil.copytree(folder, copy)
    change(copy)
    return str(copy)


def _edit(name: str, **values: object) -> Callable[[Path], Any]:
    def change(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**content, **values}))

    return change


def _remove(*names: str) -> Callable[[Path], Any]:
    return lambda folder: [(folder / name).unlink(missing_ok=True) for name in names]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_remove("config.json"), "holds no config.json"),
        (_remove("tokenizer.json", "tokenizer_config.json"), "has no tokenizer that loads"),
        (_remove("model.safetensors"), "holds no model.safetensors"),
        (_edit("config.json", model_type="nonesuch"), "does not load"),
        (_edit("config.json", vocab_size=300), "300"),
    ],
)
def test_broken_folders_are_told_in_one_sentence(
    change: Callable[[Path], Any], message: str, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load(_broken(model_folder("ours"), tmp_path, change))
    assert "\n" not in str(caught.value)


def test_a_tokenizer_without_any_end_is_refused(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        _edit("tokenizer_config.json", eos_token=None, sep_token=None)(folder)
        _edit("config.json", eos_token_id=None)(folder)
        _remove("special_tokens_map.json")(folder)

    with pytest.raises(UserError, match="neither an end-of-text nor a separator"):
        load(_broken(model_folder("ours"), tmp_path, change))


def test_a_misspelt_path_names_the_nearest(model_folder: Callable[..., Path]) -> None:
    folder = model_folder("ours")
    with pytest.raises(UserError, match="did you mean 'ours'"):
        load(str(folder.parent / "ors"))


def test_remote_code_is_refused_unless_asked_for(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        _edit("config.json", model_type="custom", auto_map={"AutoConfig": "c.C", "AutoModel": "c.M"})(folder)
        (folder / "c.py").write_text("raise SystemExit('remote code ran')")

    with pytest.raises(UserError, match="--trust-remote-code"):
        load(_broken(model_folder("ours"), tmp_path, change))


@pytest.mark.parametrize("kind", ["ours", "llama"])
def test_the_padding_row_that_is_the_end_of_text_gets_no_gradient(
    kind: str, model_folder: Callable[..., Path]
) -> None:
    encoder = load(str(model_folder(kind))).encoder
    encoder(torch.tensor([[5, 6, 1]]), torch.tensor([3])).square().sum().backward()
    gradient = encoder.base.get_input_embeddings().weight.grad
    assert gradient[5].any() and not gradient[1].any()
