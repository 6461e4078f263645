"""A start's weights as a model to train, and a start's class for weights that were trained.

A start is an existing model from which training takes its weights (`pretraining.starts`): one of this package or of
the paper's authors (an own one, exported as `eurobert`), or any other language model of transformers. A Llama without
biases computes the same as our own class, with the same names of weights: it is trained in `EuroBertForMaskedLM`, which
is faster. Any other class is trained as it is, on packed sequences (`pretraining.model.adapted`).

A model's embedding has a row for each token's id. A tokenizer that got a mask token may have more ids than the
embedding has rows: then the embedding grows, except that of an own model (`_load_own`). The head, which computes
logits, has as many rows; it is tied if it is the same tensor as the embedding.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

from common.errors import UserError, first_line
from common.plain_text import first_of
from pretraining.data.tokenizer import text_tokenizer
from pretraining.model.adapted import AdaptedModel, check_packing
from pretraining.model.configuration import EncoderConfig, config_of, shape_fields
from pretraining.model.directions import turn
from pretraining.model.encoder_folder import quiet
from pretraining.model.model_folder import load_encoder
from pretraining.model.modeling import EuroBertForMaskedLM
from pretraining.paper_settings import Shape
from pretraining.starts import Start, library_config, unloadable

logger = logging.getLogger(__name__)

Trained = EuroBertForMaskedLM | AdaptedModel
"""A model as training uses it."""
LM_HEAD = "lm_head.safetensors"
"""File with the untied head of a decoder, which is saved as its class without a head."""
_MULTIPLE = 64
"""A vocabulary that grows gets a multiple of so many rows."""
_PLAIN_ATTENTION = "eager"
"""transformers' name of its plain attention, the only one that every class has: a model is made with it, and
compared with it (`check_packing`). In packed passes `AdaptedModel` puts its own in place."""


def data_config(start: Start, tokenizer: Mapping[str, Any], data: str) -> EncoderConfig:
    """Return a configuration with what data and masks need to know of the model: rows, positions and special tokens.

    Args:
        start: the start. Special tokens are those that the shards were written with, not those of its configuration.
        tokenizer: what the manifest of the shards says of their tokenizer.
        data: where the shards are, for messages.

    Raises:
        UserError: the shards were not written with the start's tokenizer, or have another mask; the command that writes
            them is named.
    """
    # A tokenizer needs an end of text here, but it is not compared with the shards', since an option may have named
    # theirs. Any token will do.
    start_tokenizer = text_tokenizer(
        start.tokenizer, start.text, end=start.tokenizer.mask.token
    )
    # Hash and mask of the start's tokenizer (`start.mask` is `start.tokenizer.mask`), then of the shards' tokenizer
    # (`tokenizer`).
    ours = (start_tokenizer.sha256, start.mask.id)
    if ours != (tokenizer["sha256"], tokenizer["mask_id"]):
        raise UserError(
            f"{data} was written with another tokenizer or mask than that of {start.text}; write shards with "
            f"`clm-or-mlm shards --tokenizer {start.text}`"
        )

    shape = start.shape
    if start.is_own:
        return config_of(shape, tokenizer)

    # What the start's tokenizer puts before each text.
    first = start.tokenizer.first
    if tuple(tokenizer.get("first", ())) != first:
        words = [str(start_tokenizer.inner.id_to_token(number)) for number in first]
        logger.warning(
            "%s: its documents do not begin with %s, as texts do for the start; write the shards again with "
            "`clm-or-mlm shards --tokenizer %s`",
            data,
            # The start's tokenizer may also put nothing there, and the shards' something.
            " ".join(words) or "a word of the text",
            start.folder,
        )

    rows = _grown(shape.vocab, start.tokenizer.rows)
    # Of a start that is not an own model, only rows and positions are needed: the other sizes may be any.
    small = Shape(
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
    """Return a start's model, ready to train: in float32 on the CPU, with an embedding's row for each of its tokens.

    Args:
        start: the start.
        seed: seed for weights that the start lacks, such as the head of an encoder without one.

    Raises:
        UserError: the model cannot be loaded, or not be trained on packed sequences, which is tried.
    """
    return load_corrected(as_loaded(start), seed)


def load_corrected(start: Start, seed: int) -> Trained:
    """Return what `load_start` returns, without reading embedding and head once more to compare them.

    Args:
        start: the start, as `as_loaded` returned it.
        seed: seed for weights that the start lacks.

    Raises:
        UserError: as in `load_start`.
    """
    if start.is_own:
        return _load_own(start, seed)
    inner = _load_inner(start, seed)
    _grow(inner, start)

    # A Llama that our own class computes, with the same names of weights.
    config = _config_of_llama(start)
    if config is not None:
        ours = _own_class(start, config)
        ours.load_state_dict(inner.state_dict())
        return ours

    model = AdaptedModel(inner)
    check_packing(model, start.text)
    if model.is_padded:
        logger.warning(
            "%s: %s does not take packed sequences, so each pass pads them to the longest, which is slower",
            start.text,
            type(inner).__name__,
        )

    return model


def _load_own(start: Start, seed: int) -> EuroBertForMaskedLM:
    """Return the model of an own start; a head that its folder lacks is drawn from the seed."""
    # A missing head is drawn from torch's global generator, which is put back afterwards.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        # The direction of the folder does not count: in training each batch has that of its objective.
        model = load_encoder(start.folder, EuroBertForMaskedLM, is_causal=False)
    model.float()
    # An own model was trained with its mask token, so its embedding has a row for each id and never grows.
    ids, rows = start.tokenizer.rows, model.config.vocab_size
    if ids > rows:
        raise UserError(
            f"{start.text}: its tokenizer has {ids} ids, but the embedding only {rows} rows; they do not match"
        )
    return model


def _config_of_llama(start: Start) -> EncoderConfig | None:
    """Return the configuration with which our own class computes a start that is a Llama; None for other models.

    Own models do not come here: `_load_own` loads them.
    """
    # Also false for a Llama that our class would compute in another way, as one with biases.
    if not start.is_our_class:
        return None
    fields = start.config
    others = (
        "rope_parameters",
        "rope_scaling",
        "hidden_act",
        "attention_bias",
        "mlp_bias",
        "head_dim",
    )
    # Llama's default, which is not ours, unless the start gives another.
    ours: dict[str, Any] = {"rms_norm_eps": 1e-6}
    # Of `shape_fields` only the names are taken; the values are those of the start's own configuration.
    for name in (*shape_fields(start.shape), *others):
        if fields.get(name) is not None:
            ours[name] = fields[name]

    # 0 for each: padding has no row of its own in this class, and special tokens come from the shards.
    for name in ("bos_token_id", "eos_token_id", "pad_token_id", "mask_token_id"):
        ours[name] = 0
    return EncoderConfig(**ours)


def _own_class(start: Start, config: EncoderConfig) -> EuroBertForMaskedLM:
    """Return a model of our own class with the configuration of a Llama; its weights mean nothing yet."""
    config.vocab_size = _grown(config.vocab_size, start.tokenizer.rows)
    # The weights are drawn at random, which must not move the generator that others draw from.
    with torch.random.fork_rng(devices=[]):
        model = EuroBertForMaskedLM(config)
    # A configuration of our own class cannot say that the head is tied (`OUR_CLASS`), so it is tied here.
    if start.config.get("tie_word_embeddings"):
        model.lm_head.weight = model.model.embed_tokens.weight
    return model


def network_of(start: Start, config: EncoderConfig) -> Trained:
    """Return a model of the class and shape in which a start is trained, for a checkpoint's weights.

    The start's own weights are not read.

    Args:
        start: the start, as `as_loaded` returned it.
        config: what `data_config` returned; used only for an own start.
    """
    if start.is_own:
        return EuroBertForMaskedLM(config)
    llama = _config_of_llama(start)
    if llama is not None:
        return _own_class(start, llama)
    return AdaptedModel(_untrained(start))


def is_eurobert(start: Start | None) -> bool:
    """Return whether a model that is trained from a start (None: from random weights) is exported as a `eurobert`."""
    return start is None or start.is_own


def export_config(
    start: Start | None, shape: Shape, tokenizer: Mapping[str, Any], *, is_causal: bool
) -> EncoderConfig | None:
    """Return the configuration of a trained model that is exported as a `eurobert`; None if it is of another class.

    Args:
        start: the model that training started from; None for random weights.
        shape: the trained model's size.
        tokenizer: what the manifest of the shards says of their tokenizer.
        is_causal: whether attention looked back only in the last objective.
    """
    if not is_eurobert(start):
        return None
    return config_of(shape, tokenizer, is_causal=is_causal)


def as_loaded(start: Start) -> Start:
    """Return a start whose configuration agrees with its tensors, where its config.json says otherwise.

    Two fields are corrected, with a warning: the size of the vocabulary, and whether the head is tied to the embedding.

    Raises:
        UserError: embedding and head have different numbers of rows.
    """
    if start.is_own:
        return start

    # The embedding and the head, by their names in the files.
    names = _names_of(start)

    def in_file(name: str) -> str | None:
        """Return the name that a tensor of the class has in the files; None if it is not there."""
        # Files may leave out the prefix of the model without a head, such as `model.`, or have it where the class does
        # not.
        base = name.removeprefix(f"{names.prefix}.")
        for candidate in (name, base, f"{names.prefix}.{base}"):
            if candidate in start.tensors:
                return candidate
        return None

    embedding, head = in_file(names.embedding), in_file(names.head)
    # A tied head may be left out of the files.
    present = [name for name in (embedding, head) if name]

    # How many rows they have, and whether they are one tensor.
    rows = [start.tensors[name].shape[0] for name in present]
    if len(set(rows)) > 1:
        raise UserError(
            f"{start.text}: {embedding} has {rows[0]} rows and {head} has {rows[1]}; give weights of one vocabulary"
        )

    # Tied means one tensor: two with equal values may still be tied.
    is_apart = False
    if embedding and head:
        is_apart = not torch.equal(_tensor(start, embedding), _tensor(start, head))
    # Where the files have neither embedding nor head, the number in config.json stays.
    corrected = _corrected(start, rows[0] if rows else start.shape.vocab, is_apart)

    # What config.json says otherwise.
    for field, actual in corrected.config.items():
        stated = start.config.get(field)
        if stated == actual:
            continue

        # The only other field that is corrected is the tie.
        finding = f"have {actual} rows" if field == "vocab_size" else "are two"
        logger.warning(
            "%s: config.json says %s %s, but the weights (%s) %s; the weights count",
            start.text,
            field,
            json.dumps(stated),
            " and ".join(present),
            finding,
        )

    return corrected


def _corrected(start: Start, rows: int, is_apart: bool) -> Start:
    """Return a start with two fields of its configuration corrected.

    Args:
        start: the start.
        rows: number of rows that its embedding has.
        is_apart: whether its head is another tensor than its embedding, so that they are not tied.
    """
    config = dict(start.config)
    config["vocab_size"] = rows
    if is_apart and library_config(start).tie_word_embeddings:
        config["tie_word_embeddings"] = False
    return replace(start, config=config)


@dataclass(frozen=True, kw_only=True)
class _Names:
    """Names that a class of transformers has for some of its tensors."""

    prefix: str
    """What the names of all tensors but the head's begin with, as `model`."""
    embedding: str
    """Name of the embedding's weight; empty if it is not among the model's parts."""
    head: str
    """Name of the weight of the head's last layer; empty as for the embedding."""


def _names_of(start: Start) -> _Names:
    """Return the names that the start's class has for its tensors."""
    # On the meta device: only names are wanted, and billions of weights would fill the memory.
    with torch.device("meta"):
        inner = _from_config(start, start.shape.vocab)
    names = {}
    for name, module in inner.named_modules():
        names[module] = f"{name}.weight"
    embedding = names.get(inner.get_input_embeddings(), "")
    head = names.get(inner.get_output_embeddings(), "")
    return _Names(prefix=inner.base_model_prefix, embedding=embedding, head=head)


def _tensor(start: Start, name: str) -> Tensor:
    with safe_open(start.tensors[name].path, framework="pt") as file:
        tensor: Tensor = file.get_tensor(name)
        return tensor


def _class_of(start: Start) -> tuple[Any, Any]:
    """Return transformers' auto class that builds the start with a head for tokens, and the configuration to give it.

    The configuration is turned to both directions of attention.

    Raises:
        UserError: transformers has no such class.
    """
    config = library_config(start)
    turn(config, is_causal=False)
    auto = AutoModelForMaskedLM if start.is_encoder else AutoModelForCausalLM
    return auto, config


def _load_inner(start: Start, seed: int) -> Any:
    """Return the start's model in its class of transformers, with a head for tokens, turned to both directions.

    Args:
        start: the start, as `as_loaded` returned it.
        seed: seed for the weights of a head that the start lacks.

    Raises:
        UserError: the weights cannot be loaded, do not fit config.json, or lack some of the model without a head.
    """
    # The configuration is turned to both directions by `_class_of`.
    auto, config = _class_of(start)
    try:
        # transformers draws weights that the files lack from torch's global generator, which is put back afterwards.
        with torch.random.fork_rng(devices=[]), quiet():
            torch.manual_seed(seed)
            inner, info = auto.from_pretrained(
                start.folder,
                config=config,
                dtype=torch.float32,
                trust_remote_code=False,
                attn_implementation=_PLAIN_ATTENTION,
                use_safetensors=True,
                # Tensors of another shape than config.json says are then named in `info`, and refused in one
                # sentence.
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )

            # An export of this package has an untied head in a file of its own.
            if (start.folder / LM_HEAD).is_file():
                head = load_file(start.folder / LM_HEAD)
                # Not strict: the file holds no other tensor of the model.
                inner.load_state_dict(head, strict=False)
                info["missing_keys"] -= head.keys()
    except Exception as error:  # safetensors and transformers raise kinds of their own
        raise unloadable(start, error) from None

    _check_tensors(start, inner, info)
    return inner


def _check_tensors(start: Start, inner: Any, info: Mapping[str, Any]) -> None:
    """Refuse weights that do not fit their model or are not all there; warn of a new head and of unused tensors.

    Args:
        start: the start.
        inner: the model that transformers made of it.
        info: what transformers says of the loading, names of tensors by kind: `mismatched_keys` have two shapes
            each, `missing_keys` are only in the model, `unexpected_keys` only in the files.

    Raises:
        UserError: as in `_load_inner`.
    """
    # A tensor's name, its shape in the files and its shape by the configuration; the first name is enough.
    if info["mismatched_keys"]:
        name, in_file, in_class = min(info["mismatched_keys"])
        raise UserError(
            f"{start.text}: {name} has the shape {tuple(in_file)}, and by config.json it has {tuple(in_class)}; "
            "give the config.json of these weights, gathered if they were trained with ZeRO-3"
        )

    # `_untied` also fills in tensors that are only copies of others, and returns the remaining names.
    missing = _untied(inner, set(info["missing_keys"]))
    if missing:
        # Of the head, weights may be missing; of the model without it (the body), none.
        prefix = f"{inner.base_model_prefix}."
        body = [name for name in missing if name.startswith(prefix)]
        if body:
            unknown = sorted(info["unexpected_keys"])
            remedy = "fetch the model again"
            if unknown:
                remedy = (
                    f"its files name them otherwise ({unknown[0]}); save it with transformers' "
                    "save_pretrained"
                )

            raise UserError(
                f"{start.text} lacks weights of its class ({body[0]}); {remedy}"
            )

        logger.warning(
            "%s has no head for tokens; its weights are drawn from the seed", start.text
        )

    unused = sorted(info["unexpected_keys"])
    if unused:
        logger.warning(
            "%s: %s %s not part of %s; the export is without",
            start.text,
            first_of(unused, 3),
            "is" if len(unused) == 1 else "are",
            type(inner).__name__,
        )


def _untied(inner: Any, missing: set[str]) -> list[str]:
    """Fill in tensors that the files lack because the class ties them to others.

    BERT's class, for example, ties the head's weight to the embedding, and has two tied biases in the head, of which
    older files contain only one. If the head has a weight of its own, nothing is tied, and the second bias is missing:
    it gets the values of the first.

    Args:
        inner: the model.
        missing: names of its tensors that were not in the files.

    Returns:
        The names that are still missing, sorted.
    """
    # For each tied tensor, the one that it is tied to.
    ties = dict(inner._tied_weights_keys or {})
    # If the model is tied, transformers has filled all in. If even the head's weight is missing, there is no head.
    lacks_weight = any(name in missing for name in ties if name.endswith(".weight"))
    # In both cases nothing is to be filled in here.
    if inner.config.tie_word_embeddings or lacks_weight:
        return sorted(missing)
    copied = set()
    for target, source in ties.items():
        if target in missing and source not in missing:
            copied.add(target)

    parameters = dict(inner.named_parameters())
    for target in copied:
        with torch.no_grad():
            parameters[target].copy_(parameters[ties[target]])

    return sorted(missing - copied)


def model_of(start: Start, state: Mapping[str, Tensor]) -> Any:
    """Return a model of the start's class in transformers with trained weights; the start's own are not read.

    Args:
        start: the start, which is not an own one.
        state: the trained weights, named as in the model that `load_start` returns.

    Raises:
        UserError: the weights do not fit this class.
    """
    # `AdaptedModel` has the model of transformers as its attribute `inner`.
    weights = {name.removeprefix("inner."): tensor for name, tensor in state.items()}
    names = _names_of(start)
    # As in `as_loaded`: the tensors decide how many rows there are and whether the head is tied.
    if {names.embedding, names.head} <= weights.keys():
        embedding, head = weights[names.embedding], weights[names.head]
        start = _corrected(start, len(embedding), not torch.equal(embedding, head))

    with torch.device("meta"):
        inner = _untrained(start)
    try:
        inner.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        raise UserError(
            f"{start.text}: the trained weights do not fit it: {first_line(error)}"
        ) from None

    # `assign` has put each tensor in place by itself. Two that the class ties are made one again here.
    inner.tie_weights()
    # The start's configuration names a padding whose id has no row (`Start.padding`): set that of the token that pads.
    if start.config.get("pad_token_id") is not None and start.padding is None:
        inner.config.pad_token_id = start.id_of(start.pad_token)
    return inner


def _untrained(start: Start) -> Any:
    """Return a model of the start's class in transformers, with a row for each token; its weights mean nothing yet."""
    return _from_config(start, _grown(start.shape.vocab, start.tokenizer.rows))


def _from_config(start: Start, rows: int) -> Any:
    """Return a model of the start's class in transformers with so many rows; its weights mean nothing yet."""
    auto, config = _class_of(start)
    config.vocab_size = rows
    try:
        # A new model draws weights from torch's global generator, which is put back afterwards.
        with torch.random.fork_rng(devices=[]), quiet():
            return auto.from_config(
                config, dtype=torch.float32, attn_implementation=_PLAIN_ATTENTION
            )
    except Exception as error:  # whatever the code of a class may raise
        raise unloadable(start, error) from None


def _grown(rows: int, needed: int) -> int:
    """Return how many rows an embedding of `rows` rows has after it has grown to hold `needed`, if it has to."""
    if needed <= rows:
        return rows
    return math.ceil(needed / _MULTIPLE) * _MULTIPLE


@torch.no_grad()
def _grow(inner: Any, start: Start) -> None:
    """Give the model's embedding and head a row for each of the tokenizer's ids; new rows are the mean of the old ones.

    A token that was added as the mask also begins at the mean, if its id has a row that no token has used.
    """
    embedding = inner.get_input_embeddings().weight
    old_rows, needed = embedding.shape[0], start.tokenizer.rows
    is_new_mask = start.mask.origin == "new"
    if needed > old_rows:
        # With mean_resizing, transformers would draw new rows from a normal distribution around the mean.
        with quiet():
            inner.resize_token_embeddings(_grown(old_rows, needed), mean_resizing=False)
        first_new, new = old_rows, slice(old_rows, None)
    elif is_new_mask:
        # The new mask's id has a row already, which no token has used. The rows before it are those of real tokens.
        first_new, new = start.mask.id, slice(start.mask.id, start.mask.id + 1)
    else:
        return

    # Warn of ids without a row; of a mask that was added just now that is no surprise.
    lacks = needed - old_rows
    if is_new_mask:
        lacks -= 1
    if lacks > 0:
        logger.warning(
            "%s: %d ids of its tokenizer have no row in the model; they begin at the mean",
            start.text,
            lacks,
        )

    # `resize_token_embeddings` may have replaced the tensor. A tied head is the same tensor and is set with it.
    embedding = inner.get_input_embeddings().weight
    tensors = [embedding]
    head = inner.get_output_embeddings()
    if head is not None and head.weight is not embedding:
        tensors.append(head.weight)
    if head is not None and head.bias is not None:
        tensors.append(head.bias)
    for tensor in tensors:
        tensor[new] = tensor[:first_new].mean(0)
