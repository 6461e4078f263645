"""Models of any class look both ways, read so many tokens (D18), and may leave padding out."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModel, BertConfig, ModernBertConfig, RobertaConfig

from benchmarks.finetuning.device import choose_device
from benchmarks.finetuning.encoders import (
    Encoder,
    Limits,
    input_limits,
    load_model,
)
from benchmarks.ragged import packed_cost
from common.errors import UserError
from pretraining.model.directions import Trial, try_out, turn
from tests.benchmarks.tiny import resettable_of, untrained

KINDS = (
    "ours",
    "ours-causal",
    "llama",
    "qwen2",
    "qwen3",
    "bert",
    "roberta",
    "modernbert",
)


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_depend_on_later_tokens_and_not_on_padding(
    kind: str, model_folder: Callable[..., Path]
) -> None:
    encoder = load_model(str(model_folder(kind))).encoder.eval()
    assert encoder.is_decoder == (kind in ("llama", "qwen2", "qwen3"))
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
        padded = encoder(
            torch.cat([ids[:, :12], torch.full((1, 8), 7)], dim=1), torch.tensor([12])
        )
    torch.testing.assert_close(alone, padded[:, :12], rtol=1e-4, atol=1e-5)


def test_a_decoder_left_as_it_is_does_not_look_both_ways(
    model_folder: Callable[..., Path],
) -> None:
    base = AutoModel.from_pretrained(model_folder("llama"), attn_implementation="sdpa")
    assert not try_out(Encoder(base)).both_ways
    turn(base.config, is_causal=False)
    turned = try_out(Encoder(base))
    assert turned.both_ways and turned.padding and turned.width == 32


def test_one_causal_part_is_found_in_a_bidirectional_model(
    model_folder: Callable[..., Path],
) -> None:
    """As in hybrids: the other layers carry what comes later to every token, so that outputs alone show nothing."""
    base: Any = AutoModel.from_pretrained(
        model_folder("bert"), attn_implementation="sdpa"
    )
    attention = base.encoder.layer[0].attention.self
    theirs = attention.forward

    def causal(hidden: torch.Tensor, *args: Any, **more: Any) -> Any:
        rows = [
            theirs(hidden[:, : end + 1])[0][:, -1:] for end in range(hidden.shape[1])
        ]
        return torch.cat(rows, dim=1), None

    attention.forward = causal
    trial = try_out(Encoder(base))
    assert (
        trial.sees_later
        and trial.one_sided == ("BertSelfAttention",)
        and not trial.both_ways
    )


def test_a_lifted_decoder_computes_full_attention(
    model_folder: Callable[..., Path],
) -> None:
    """Our encoder has Llama's block: the same weights must give the same states without a causal mask."""
    ours, llama = (
        load_model(str(model_folder(kind))).encoder.eval() for kind in ("ours", "llama")
    )
    missing = llama.base.load_state_dict(ours.base.state_dict(), strict=False)
    assert not missing.missing_keys and not missing.unexpected_keys
    llama.base.norm.variance_epsilon = ours.base.config.rms_norm_eps
    for layer in llama.base.layers:
        for norm in (layer.input_layernorm, layer.post_attention_layernorm):
            norm.variance_epsilon = ours.base.config.rms_norm_eps
    ids, lengths = torch.randint(3, 300, (3, 15)), torch.tensor([15, 4, 9])
    with torch.no_grad():
        for a, b, n in zip(
            ours(ids, lengths), llama(ids, lengths), lengths, strict=True
        ):
            torch.testing.assert_close(a[:n], b[:n], rtol=1e-4, atol=1e-5)


def test_a_model_that_stays_one_sided_is_refused(
    model_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trial(width=32, sees_later=True, one_sided=("LlamaAttention",) * 2)
    monkeypatch.setattr("benchmarks.finetuning.encoders.try_out", lambda encoder: trial)
    with pytest.raises(
        UserError,
        match=r"a token sees only one side in 2 of its modules \(LlamaAttention\)",
    ):
        load_model(str(model_folder("llama")))


def test_rows_on_their_own_have_the_states_that_they_have_alone(
    model_folder: Callable[..., Path],
) -> None:
    base = load_model(str(model_folder("bert"))).encoder.base
    encoder = Encoder(base, alone=True).eval()
    ids, kinds = torch.randint(3, 300, (4, 9)), torch.randint(0, 2, (4, 9))
    lengths = torch.tensor([4, 9, 4, 1])
    with torch.no_grad():
        found = encoder(ids, lengths, kinds)
        for row, length in enumerate(lengths.tolist()):
            one = encoder(
                ids[row : row + 1, :length],
                torch.tensor([length]),
                kinds[row : row + 1, :length],
            )
            torch.testing.assert_close(
                found[row, :length], one[0], rtol=1e-4, atol=1e-5
            )
            assert not found[row, length:].any()


def test_the_authors_checkpoints_load_without_their_code(
    model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    ours = model_folder("ours")
    theirs = tmp_path / "610m-clm-42k"
    shutil.copytree(ours, theirs)
    config = json.loads((theirs / "config.json").read_text()) | {
        "model_type": "sl_model",
        "architectures": ["SLModel"],
        "auto_map": {
            "AutoConfig": "configuration_sl.SLConfig",
            "AutoModel": "modeling_sl.SLModel",
        },
        "is_causal": True,
    }
    (theirs / "config.json").write_text(json.dumps(config))
    ids, lengths = torch.randint(3, 300, (2, 9)), torch.tensor([9, 6])
    with torch.no_grad():
        one, other = (
            load_model(str(folder)).encoder.eval()(ids, lengths)
            for folder in (ours, theirs)
        )
    torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["ours", "llama"])
def test_padding_row_that_ends_texts_gets_no_gradient(
    kind: str, model_folder: Callable[..., Path]
) -> None:
    encoder = load_model(str(model_folder(kind))).encoder
    encoder(torch.tensor([[5, 6, 1]]), torch.tensor([3])).square().sum().backward()
    gradient = encoder.base.get_input_embeddings().weight.grad
    assert gradient[5].any() and not gradient[1].any()


SHAPE = {
    "vocab_size": 50,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}
IDS = {
    f"{name}_token_id": number
    for number, name in enumerate(("bos", "pad", "eos", "cls", "sep"))
}
NO_LIMIT = 10**30


def base(kind: type, **options: int) -> nn.Module:
    with torch.device("meta"):
        model: nn.Module = untrained(
            kind(**SHAPE, **IDS, intermediate_size=8, **options)
        )
    return model


@pytest.mark.parametrize(
    ("model", "tokens", "limits"),
    [
        # The tokenizer's own limit enters for retrieval only.
        (base(ModernBertConfig, max_position_embeddings=1_024), 512, (1_014, 507, 512)),
        (base(RobertaConfig, max_position_embeddings=514), 512, (509, 507, 512)),
        # Its positions are counted from behind the padding's: two of the 514 are never a token's.
        (base(RobertaConfig, max_position_embeddings=514), NO_LIMIT, (509, 509, 512)),
        (base(BertConfig, max_position_embeddings=512), NO_LIMIT, (507, 507, 512)),
        (
            base(ModernBertConfig, max_position_embeddings=8_192),
            NO_LIMIT,
            (2_028, 2_028, 2_048),
        ),
    ],
)
def test_limits_follow_the_positions(
    model: nn.Module, tokens: int, limits: tuple[int, int, int]
) -> None:
    found = input_limits(model, SimpleNamespace(model_max_length=tokens))
    assert found == Limits(
        labelled=limits[0], retrieval=limits[1], paper_retrieval=limits[2]
    )


def test_requested_length_leaves_the_papers_evaluation_alone(
    model_folder: Callable[..., Path],
) -> None:
    limits = load_model(str(model_folder("ours")), max_length=100).limits
    assert limits == Limits(labelled=100, retrieval=100, paper_retrieval=512)


LENGTHS = {"unequal": [9, 2, 5, 1], "equal": [6, 6, 6], "one": [4]}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_hidden_states_are_those_of_the_padded_pass_to_the_bit(
    lengths: list[int], model_folder: Callable[..., Path]
) -> None:
    encoder = load_model(str(model_folder("ours"))).encoder
    tokens, real = (
        torch.tensor(lengths),
        torch.arange(max(lengths)) < torch.tensor(lengths)[:, None],
    )
    ids = torch.randint(3, 300, real.shape, generator=torch.Generator().manual_seed(0))
    found, gradients = [], []
    for encoder.packs in (False, True):
        encoder.train().zero_grad()
        hidden = encoder(ids, tokens)
        (hidden * real[..., None]).square().sum().backward()
        found.append(hidden.detach())
        gradients.append(
            {
                name: parameter.grad.clone()
                for name, parameter in encoder.named_parameters()
            }
        )
    assert torch.equal(found[0][real], found[1][real]) and not found[1][~real].any()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(
            gradients[1][name], gradient, rtol=1e-4, atol=1e-6, msg=name
        )
    # Evaluation scores what padding predicts, too
    assert torch.equal(encoder.eval()(ids, tokens), found[0])


def test_padding_is_left_out_where_that_pays() -> None:
    device = choose_device("cpu", "fp32")
    short, alike = np.array([30, *[4] * 31]), np.array([70] * 32)
    assert [len(part) for part in device.passes(short, [32], packed=True)] == [32]
    assert (
        len(device.passes(alike, [32], packed=True))
        == len(device.passes(alike, [32], packed=False))
        == 2
    )
    assert packed_cost(150, 960) < 960 and packed_cost(2_240, 2_240) > 2_240


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_other_classes_and_exact_micro_batches_are_padded(
    kind: str, model_folder: Callable[..., Path]
) -> None:
    for model, exact in ((kind, False), ("ours", True)):
        device = choose_device("cpu", "fp32", exact=exact)
        made = resettable_of(model_folder(model), device)
        assert not made.setting.loaded.encoder.packs
    assert [
        list(part)
        for part in device.passes(np.array([5, 300, 7]), [2, 1], packed=False)
    ] == [
        [0, 1],
        [2],
    ]


@pytest.mark.parametrize(
    ("pattern", "fields", "said"),
    [
        ("_orig_mod.{}", {}, r"torch.compile put `_orig_mod\.`.*unwrap_model"),
        ("module.{}", {}, r"DataParallel, DDP or DeepSpeed put `module\.`"),
        ("mine.{}", {}, "lacks weights of its class"),
        ("{}", {"vocab_size": 7}, "its weights do not fit its config.json"),
        ("{}", {"pad_token_id": 32_000}, "no row for the pad_token_id"),
    ],
)
def test_weights_that_would_be_drawn_anew_are_refused(
    pattern: str,
    fields: dict[str, int],
    said: str,
    model_folder: Callable[..., Path],
    tmp_path: Path,
) -> None:
    folder = shutil.copytree(model_folder("bert"), tmp_path / "bert")
    tensors = load_file(folder / "model.safetensors")
    renamed = {pattern.format(name): tensor for name, tensor in tensors.items()}
    save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | fields))
    with pytest.raises(UserError, match=said):
        load_model(str(folder))
