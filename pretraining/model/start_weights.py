"""A start's weights as a model to train, and a start's class for weights that were trained.

A Llama without biases is our own architecture by name: it runs in `EuroBertForMaskedLM`, which is faster. Any other
class runs as it is, packed (`pretraining.model.adapted`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM

from common.errors import UserError, first_line
from common.files import write_text
from pretraining.data.tokenizer import text_tokenizer
from pretraining.model.adapted import AdaptedModel, check_packing
from pretraining.model.configuration import EncoderConfig, config_of, config_of_llama
from pretraining.model.directions import turn
from pretraining.model.encoder_folder import quiet
from pretraining.model.model_folder import load_encoder
from pretraining.model.modeling import EuroBertForMaskedLM
from pretraining.starts import Start

logger = logging.getLogger(__name__)

Trained = EuroBertForMaskedLM | AdaptedModel
"""A model as training uses it."""
LM_HEAD = "lm_head.safetensors"
"""A decoder's untied head, beside the weights of its class without one."""
_MULTIPLE = 64
"""What a vocabulary that grows is rounded up to."""


def data_config(start: Start, tokenizer: Mapping[str, Any], data: str) -> EncoderConfig:
    """Return what data and masks ask of a configuration: rows, positions and special tokens.

    Args:
        start: the start; its own special tokens do not count, but those of its tokenizer as shards use it.
        tokenizer: a shards manifest's `tokenizer`.
        data: where the shards are, for messages.

    Raises:
        UserError: the shards were not written with the start's tokenizer, or have another mask; the command that writes
            them is named.
    """
    # Its ends are those of the shards: an option may have named them.
    start_tokenizer = text_tokenizer(
        start.tokenizer, start.text, end=start.tokenizer.mask.token
    )
    ours = (start_tokenizer.sha256, start.mask.id)
    if ours != (tokenizer["sha256"], tokenizer["mask_id"]):
        raise UserError(
            f"{data} was written with another tokenizer or mask than that of {start.text}; write shards with "
            f"`clm-or-mlm shards --tokenizer {start.text}`"
        )
    shape = start.shape
    if start.is_own:
        return config_of(shape, tokenizer)
    first = start.tokenizer.first
    if tuple(tokenizer.get("first", ())) != first:
        logger.warning(
            "%s: its documents do not begin with %s, as texts do for the start; write the shards again with "
            "`clm-or-mlm shards --tokenizer %s`",
            data,
            " ".join(str(start_tokenizer.inner.id_to_token(number)) for number in first)
            or "a word of the text",
            start.folder,
        )
    rows = _grown(shape.vocab, start.tokenizer.rows)
    # Of another class its sizes are not asked for: any will do.
    small = type(shape)(
        hidden=8,
        layers=1,
        heads=1,
        kv_heads=1,
        mlp=8,
        vocab=rows,
        max_length=start.longest,
    )
    return config_of(small, tokenizer)


def load_start(start: Start, seed: int) -> Trained:
    """Return a start's model in float32 on the CPU, its direction tried, with rows for its tokenizer.

    Args:
        start: the start.
        seed: of weights that the start lacks, such as the head of an encoder without one.

    Raises:
        UserError: it cannot be loaded, or not be trained in both directions.
    """
    if start.is_own:
        return _load_own(start, seed)
    if (config := config_of_llama(start)) is not None:
        return _load_llama(start, config)
    inner = _load_inner(start, seed)
    _grow(inner, start)
    model = AdaptedModel(inner)
    check_packing(model, start.text)
    return model


def _load_own(start: Start, seed: int) -> EuroBertForMaskedLM:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = load_encoder(start.folder, EuroBertForMaskedLM, is_causal=False)
    model.float()
    if (rows := start.tokenizer.rows) > (have := model.config.vocab_size):
        raise UserError(
            f"{start.text}: its tokenizer has {rows} ids, but the embedding only {have} rows; they do not match"
        )
    return model


def _load_llama(start: Start, config: EncoderConfig) -> EuroBertForMaskedLM:
    inner = _load_inner(start, 0)
    _grow(inner, start)
    model = _own_class(start, config)
    model.load_state_dict(inner.state_dict())
    return model


def _own_class(start: Start, config: EncoderConfig) -> EuroBertForMaskedLM:
    """Return our own class in the shape of a Llama, with any weights."""
    config.vocab_size = _grown(config.vocab_size, start.tokenizer.rows)
    with torch.random.fork_rng(devices=[]):
        model = EuroBertForMaskedLM(config)
    if start.config.get("tie_word_embeddings"):
        model.lm_head.weight = model.model.embed_tokens.weight
    return model


def network_of(start: Start, config: EncoderConfig) -> Trained:
    """Return a model of the class and shape in which a start is trained; a checkpoint's weights are loaded into it.

    The start's folder is not read.

    Args:
        start: the start.
        config: what `data_config` returned; used only where the start is of our own architecture.
    """
    if start.is_own:
        return EuroBertForMaskedLM(config)
    if (llama := config_of_llama(start)) is not None:
        return _own_class(start, llama)
    return AdaptedModel(_untrained(start))


def _class_of(start: Start) -> tuple[Any, Any]:
    """Return transformers' `AutoModelFor...` with a head for tokens, and the start's configuration, both directions on.

    The configuration is that in memory, given to transformers as the file that its own rules want.

    Raises:
        UserError: transformers has no such class.
    """
    try:
        with TemporaryDirectory() as folder:
            write_text(Path(folder, "config.json"), json.dumps(start.config))
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except (
        Exception
    ) as error:  # whatever the code of a configuration of any class may raise
        raise _unloadable(start, error) from None
    turn(config, is_causal=False)
    return AutoModelForMaskedLM if start.is_encoder else AutoModelForCausalLM, config


def _unloadable(start: Start, error: Exception) -> UserError:
    """Return the error to raise where transformers does not load a start."""
    hint = ""
    if "trust_remote_code" in str(error) or "auto_map" in start.config:
        hint = "; code that comes with a model is not run: give a family that transformers has itself"
    return UserError(f"{start.text} cannot be loaded: {first_line(error)}{hint}")


def _load_inner(start: Start, seed: int) -> Any:
    """Return the start in transformers' class, with a head for tokens, turned to both directions."""
    auto, config = _class_of(start)
    try:
        with torch.random.fork_rng(devices=[]), quiet():
            torch.manual_seed(seed)
            inner, info = auto.from_pretrained(
                start.folder,
                config=config,
                dtype=torch.float32,
                trust_remote_code=False,
                attn_implementation="eager",
                use_safetensors=True,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
            if (start.folder / LM_HEAD).is_file():
                head = load_file(start.folder / LM_HEAD)
                inner.load_state_dict(head, strict=False)
                info["missing_keys"] -= head.keys()
    except Exception as error:  # safetensors and transformers raise kinds of their own
        raise _unloadable(start, error) from None
    if wrong := sorted(name for name, *_ in info["mismatched_keys"]):
        raise UserError(
            f"{start.text} has tensors that do not fit its config.json ({wrong[0]}); fetch the model again"
        )
    missing = sorted(info["missing_keys"])
    if missing:
        body = [
            name for name in missing if name.startswith(f"{inner.base_model_prefix}.")
        ]
        if body:
            raise UserError(
                f"{start.text} lacks weights of its class ({body[0]}); fetch the model again"
            )
        logger.warning(
            "%s has no head for tokens; its weights are drawn from the seed", start.text
        )
    return inner


def model_of(start: Start, state: Mapping[str, Tensor]) -> Any:
    """Return a model of the start's class in transformers with trained weights; the start's own are not read.

    Args:
        start: what was trained, and is not an own model.
        state: the weights, as `load_start`'s model names them.

    Raises:
        UserError: the weights are not of this class.
    """
    with torch.device("meta"):
        inner = _untrained(start)
    weights = {name.removeprefix("inner."): tensor for name, tensor in state.items()}
    try:
        inner.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        raise UserError(
            f"{start.text}: the trained weights do not fit it: {first_line(error)}"
        ) from None
    inner.tie_weights()
    return inner


def _untrained(start: Start) -> Any:
    """Return a model of the start's class in transformers with rows for its tokenizer and any weights."""
    auto, config = _class_of(start)
    config.vocab_size = _grown(config.vocab_size, start.tokenizer.rows)
    with torch.random.fork_rng(devices=[]), quiet():
        return auto.from_config(
            config, dtype=torch.float32, attn_implementation="eager"
        )


def _grown(have: int, rows: int) -> int:
    """Return how many rows an embedding that has `have` gets where `rows` are needed."""
    return have if rows <= have else -(-rows // _MULTIPLE) * _MULTIPLE


@torch.no_grad()
def _grow(inner: Any, start: Start) -> None:
    """Give the model rows for its tokenizer; new rows are the mean of those before them, tied or not."""
    embedding = inner.get_input_embeddings().weight
    old_rows, needed, mask = embedding.shape[0], start.tokenizer.rows, start.mask
    if needed > old_rows:
        with quiet():
            inner.resize_token_embeddings(_grown(old_rows, needed), mean_resizing=False)
    elif mask.origin != "new":
        return
    # Otherwise the new mask's id has a row already, which no token used.
    if (lacks := needed - old_rows - (mask.origin == "new")) > 0:
        logger.warning(
            "%s: %d ids of its tokenizer have no row in the model; they begin at the mean",
            start.text,
            lacks,
        )
    first_new = old_rows if needed > old_rows else mask.id
    layers = [inner.get_input_embeddings()]
    if (
        head := inner.get_output_embeddings()
    ) is not None and head.weight is not layers[0].weight:
        layers.append(head)
    biases = [] if head is None or head.bias is None else [head.bias]
    for tensor in [layer.weight for layer in layers] + biases:
        new = slice(old_rows, None) if needed > old_rows else mask.id
        tensor[new] = tensor[:first_new].mean(0)
