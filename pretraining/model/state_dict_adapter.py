"""Checkpoints of other forms, read as ours: the authors' `SLModel` folders and Optimus' `model.pt`.

Ours are a state dict with the names of `EuroBertForMaskedLM`: `model.layers.0.self_attn.q_proj.weight`, ...,
`lm_head.weight`. The released checkpoints are base models (the same names without `model.`, and, as far as is known,
without a head); Optimus fuses queries, keys and values into one matrix. Nothing is ever run from a checkpoint:
weights come from safetensors, or through `torch.load(weights_only=True)`.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from common.errors import UserError
from common.manifest import FILES, SEAL, check_files, read_manifest
from common.reading import read_json
from pretraining.model.configuration import EncoderConfig, config_for
from pretraining.model.heads import HEAD, EuroBertForCausalLM, EuroBertForMaskedLM, check_state
from pretraining.model.modeling import EuroBertPreTrainedModel
from pretraining.paper_settings import SHAPES

__all__ = [
    "MANIFEST", "check_model", "from_optimus", "from_released", "load_encoder", "read_config", "read_optimus",
    "read_state",
]  # fmt: skip

logger = logging.getLogger(__name__)

MANIFEST = "manifest.json"
"""Name of the manifest in a folder that this package wrote."""

MODEL_TYPES = ("eurobert", "sl_model")

Model = TypeVar("Model", bound=EuroBertPreTrainedModel)
State = dict[str, Tensor]


_DTYPES = ("dtype", "torch_dtype")
"""Fields that the weights' own types say better."""


def read_config(folder: Path) -> EncoderConfig:
    """Return the configuration of a folder of ours or of the authors'; `is_causal` is read, not guessed.

    Raises:
        UserError: no readable `config.json`, or another kind of model.
    """
    path = folder / "config.json"
    try:
        fields = read_json(path, "fetch the model again")
    except FileNotFoundError:
        raise UserError(f"{folder} holds no config.json: a checkpoint is a folder with one") from None
    if not isinstance(fields, dict):
        raise UserError(f"{path} cannot be read: it holds no record")
    kind = fields.pop("model_type", None)
    if kind not in MODEL_TYPES:
        raise UserError(f"{path}: model_type is {kind!r}; known are {' and '.join(MODEL_TYPES)}")
    if "is_causal" not in fields:
        logger.warning("%s: no is_causal in it; taken as bidirectional", path)
    if "clf_pooling" in fields:
        fields["classifier_pooling"] = fields.pop("clf_pooling")
    for name in ("auto_map", "architectures", "transformers_version"):
        fields.pop(name, None)
    kept = {
        name: value
        for name, value in fields.items()
        if name.startswith("rope_") or (name not in _DTYPES and not isinstance(value, dict | list))
    }
    try:
        config = EncoderConfig(**kept)
        config.to_dict()
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except Exception as error:  # the library has its own for every field
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path} describes no model: {reason}") from None
    return config


def read_state(folder: Path) -> State:
    """Return the tensors of a folder's `model.safetensors`, or of the shards its index names, as they are called.

    Raises:
        UserError: no safetensors, or one that cannot be read; pickled weights are never opened.
    """
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.is_file():
        files = [single]
    elif index.is_file():
        content = read_json(index, "fetch it again")
        try:
            names = {str(name) for name in content["weight_map"].values()}
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{index} is no index of safetensors ({error}); fetch it again") from None
        if strays := [name for name in names if Path(name).name != name]:
            raise UserError(f"{index} names a file outside its folder: {strays[0]}")
        files = [folder / name for name in sorted(names)]
    else:
        raise UserError(f"{folder} holds no model.safetensors; pickled weights (*.bin) are not opened")
    state: State = {}
    for file in files:
        try:
            state.update(load_file(file))
        except (SafetensorError, OSError) as error:
            raise UserError(f"{file} cannot be read: {error}; fetch it again") from None
    return state


def from_released(state: Mapping[str, Tensor], config: EncoderConfig, where: str = "state dict") -> State:
    """Return an `SLModel`'s (or any Hugging Face EuroBERT's) tensors under our names; its head may be absent."""
    bare = not any(name.startswith("model.") for name in state)
    named = {f"model.{name}" if bare and name != HEAD else name: tensor for name, tensor in state.items()}
    check_state(named, config, where)
    return named


def from_optimus(state: Mapping[str, Tensor], config: EncoderConfig, where: str = "state dict") -> State:
    """Return the tensors of Optimus' `model.pt` under our names, queries, keys and values split.

    The rotary layout is the same (halves, not pairs), so that no row moves. Prefixes that DDP and torch.compile put
    before names are dropped.
    """
    plain = _without_prefixes(state)
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


def read_optimus(path: Path, config: EncoderConfig | None = None) -> tuple[State, EncoderConfig]:
    """Read Optimus' `model.pt`; without a configuration, its size follows from its tensors' shapes.

    Raises:
        UserError: unreadable, or of no known size.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path} cannot be read as plain weights: {reason}") from None
    if not isinstance(state, dict) or not all(isinstance(tensor, Tensor) for tensor in state.values()):
        raise UserError(f"{path} holds no state dict, a mapping of names to tensors")
    config = config or _size_of_optimus(state, path)
    return from_optimus(state, config, str(path)), config


def check_model(folder: Path, remedy: str = "fetch or export the model again") -> dict[str, Any] | None:
    """Compare the files of a model folder with its manifest, where that is one of this package.

    Each file is hashed once in this process as long as it does not change. What others made has no such manifest.

    Returns:
        The manifest; None where there is none of ours.

    Raises:
        UserError: the manifest or a file is missing or damaged.
    """
    path = folder / MANIFEST
    try:
        content = read_json(path, remedy)
    except FileNotFoundError:
        return None
    if not isinstance(content, dict) or not {SEAL, FILES} & set(content):
        return None
    manifest = read_manifest(path, remedy)
    if not manifest.get(FILES):
        raise UserError(f"{path}: it names no files; {remedy}")
    check_files(folder, manifest[FILES], remedy)
    return manifest


def load_encoder(folder: Path, kind: type[Model], **options: object) -> Model:
    """Return a model of class `kind` with the weights of a folder of ours or of the authors', checked.

    A folder that this package sealed is compared with its hashes first.

    A head that the folder lacks is initialised from torch's global generator, as `from_pretrained` does.

    Args:
        folder: `config.json` and safetensors.
        kind: `EuroBertModel` or a class of `pretraining.model.heads`.
        options: fields of the configuration to change (`is_causal`, ...), and `torch_dtype`.

    Raises:
        UserError: the folder cannot be read, or its tensors do not fit its configuration.
    """
    check_model(folder)
    config = read_config(folder)
    dtype = options.pop("torch_dtype", None)
    for name, value in options.items():
        setattr(config, name, value)
    state = from_released(read_state(folder), config, str(folder))
    if not issubclass(kind, EuroBertForMaskedLM | EuroBertForCausalLM):
        state.pop(HEAD, None)
    model: Model = kind.from_pretrained(None, config=config, state_dict=state, torch_dtype=dtype)
    return model


def _size_of_optimus(state: Mapping[str, Tensor], path: Path) -> EncoderConfig:
    plain = _without_prefixes(state)
    try:
        vocab, hidden = plain["embedding.weight"].shape
        mlp = plain["blocks.0.mlp.fc_1.weight"].shape[0]
        fused = plain["blocks.0.attn.qkv_proj.weight"].shape[0]
    except (KeyError, ValueError):
        raise UserError(
            f"{path} is no Optimus checkpoint: it has no embedding.weight or no blocks.0"
        ) from None
    layers = len({name.split(".")[1] for name in plain if name.startswith("blocks.")})
    for size, shape in SHAPES.items():
        rows = shape.hidden + 2 * shape.kv_heads * shape.head_dim
        if (hidden, layers, mlp, fused) == (shape.hidden, shape.layers, shape.mlp, rows):
            return config_for(size, vocab_size=vocab)
    # The head dimension cannot be read off a fused matrix.
    raise UserError(
        f"{path} has hidden size {hidden}, {layers} layers and an MLP of {mlp}, which is none of "
        f"{', '.join(SHAPES)}: give its configuration"
    )


def _without_prefixes(state: Mapping[str, Tensor]) -> State:
    return {name.removeprefix("module.").removeprefix("_orig_mod."): t for name, t in state.items()}


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
