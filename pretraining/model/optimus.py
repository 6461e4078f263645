"""Optimus' `model.pt`, the paper's trainer's own form, read as our state dict; it fuses queries, keys and values."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from common.errors import UserError, first_line
from pretraining.model.configuration import EncoderConfig
from pretraining.model.model_folder import State, check_state
from pretraining.model.modeling import HEAD

__all__ = ["from_optimus", "read_optimus"]


def read_optimus(path: Path, config: EncoderConfig) -> State:
    """Return the tensors of a `model.pt` under our names; nothing in it is run (`weights_only`).

    Raises:
        UserError: unreadable, or of another configuration.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise UserError(f"{path} cannot be read as plain weights: {first_line(error)}") from None
    if not isinstance(state, dict) or not all(isinstance(tensor, Tensor) for tensor in state.values()):
        raise UserError(f"{path} holds no state dict, a mapping of names to tensors")
    return from_optimus(state, config, str(path))


def from_optimus(state: Mapping[str, Tensor], config: EncoderConfig, where: str = "state dict") -> State:
    """Return the tensors of Optimus' `model.pt` under our names, queries, keys and values split.

    The rotary layout is the same (halves, not pairs), so that no row moves. Prefixes that DDP and torch.compile put
    before names are dropped.
    """
    plain = {name.removeprefix("module.").removeprefix("_orig_mod."): t for name, t in state.items()}
    kv = config.num_key_value_heads * config.head_dim
    rows = [config.hidden_size, kv, kv]
    named: State = {}
    for ours, theirs in _optimus_names(config):
        if theirs not in plain:
            if ours == (HEAD,):
                continue
            raise UserError(
                f"checkpoint {where} lacks {theirs}: it is no Optimus model of this configuration"
            )
        tensor = plain.pop(theirs)
        if len(ours) == 1:
            named[ours[0]] = tensor
        elif tensor.shape[0] != sum(rows):
            raise UserError(
                f"checkpoint {where} does not fit its config: {theirs} has {tensor.shape[0]} rows, not {sum(rows)}"
            )
        else:
            named.update(zip(ours, (part.contiguous() for part in torch.split(tensor, rows)), strict=True))
    if plain:
        raise UserError(f"checkpoint {where} holds unknown tensors: {', '.join(sorted(plain)[:3])}")
    check_state(named, config, where)
    return named


def _optimus_names(config: EncoderConfig) -> Iterator[tuple[tuple[str, ...], str]]:
    yield ("model.embed_tokens.weight",), "embedding.weight"
    for layer in range(config.num_hidden_layers):
        ours, theirs = f"model.layers.{layer}", f"blocks.{layer}"
        yield (f"{ours}.input_layernorm.weight",), f"{theirs}.attn_norm.weight"
        fused = tuple(f"{ours}.self_attn.{part}_proj.weight" for part in "qkv")
        yield fused, f"{theirs}.attn.qkv_proj.weight"
        yield (f"{ours}.self_attn.o_proj.weight",), f"{theirs}.attn.out_proj.weight"
        yield (f"{ours}.post_attention_layernorm.weight",), f"{theirs}.mlp_norm.weight"
        yield (f"{ours}.mlp.gate_proj.weight",), f"{theirs}.mlp.fc_1.weight"
        yield (f"{ours}.mlp.up_proj.weight",), f"{theirs}.mlp.fc_2.weight"
        yield (f"{ours}.mlp.down_proj.weight",), f"{theirs}.mlp.proj.weight"
    yield ("model.norm.weight",), "final_layernorm.weight"
    yield (HEAD,), HEAD
