"""Base models of a folder, without their heads, and tokenizers, set up as the paper's code sets them up."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForTextEncoding,
    AutoTokenizer,
    PreTrainedTokenizerFast,
)
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from benchmarks.finetuning.tokenization import end_of_text
from common.errors import UserError, first_line, nearest, refused_as
from common.model_files import read_config, refuse_unfinished, tensor_heads
from common.reading import MOST_BYTES, open_plain
from pretraining.model.encoder_folder import quiet
from pretraining.model.model_folder import load_encoder
from pretraining.model.modeling import EuroBertModel
from pretraining.paper_settings import is_own_type

log = logging.getLogger(__name__)


_REASONS = {
    "ignore_mismatched_sizes": "its weights do not fit its config.json; give the one that was saved with them",
    "Padding_idx": "its embedding has no row for the pad_token_id of its config.json; set it to null there",
}
"""What to say in place of a sentence of transformers or torch, by a word of that sentence."""


def is_decoder_type(model_type: str | None) -> bool:
    """Return whether transformers' models of a type predict next tokens, and none of them masked ones."""
    if is_own_type(model_type) or model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        return False
    return model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES


def load_base(
    folder: Path, *, trust_remote_code: bool
) -> tuple[nn.Module, set[str], str]:
    """Load the base model of a folder, without a head, in float32.

    Returns:
        The model; the names of weights of its class that the folder lacks; and the words ` of an encoder-decoder` if
        the model is only the encoder of one, else nothing.

    Raises:
        UserError: it cannot be loaded; the message says why.
    """
    model_type = read_config(folder).get("model_type")
    # Empty weights, and weights saved within what they were trained in; the headers of the files show both.
    refuse_unfinished(folder, tensor_heads(folder))
    # Our own class reads our own model types. With --trust-remote-code transformers reads them: it runs the
    # folder's code.
    if is_own_type(model_type) and not trust_remote_code:
        ours: nn.Module = load_encoder(folder, EuroBertModel, is_causal=False)
        return ours.float(), set(), ""

    try:
        return _load_with_transformers(folder, {"trust_remote_code": trust_remote_code})
    except UserError:
        # Already a sentence for the user, as the one on weights that the folder lacks.
        raise
    except Exception as error:  # safetensors and transformers raise kinds of their own
        # A later hint replaces an earlier one: what the error itself says counts more than the model's type.
        hint = ""
        # `nearest` gives `; did you mean ...?`, or nothing where no known type is close.
        if model_type not in CONFIG_MAPPING:
            hint = nearest(str(model_type), CONFIG_MAPPING)
        if "trust_remote_code" in str(error):
            hint = "; --trust-remote-code runs the code that comes with it, so read that first"
        if isinstance(error, SafetensorError):
            hint = "; its weights are damaged: fetch the model again"
        reason = first_line(error)
        for words, why in _REASONS.items():
            if words in reason:
                reason = why

        raise UserError(f"{folder} cannot be loaded: {reason}{hint}") from None


def _load_with_transformers(
    folder: Path, options: dict[str, Any]
) -> tuple[nn.Module, set[str], str]:
    """Return what `load_base` does, with the class of transformers that the config names.

    Args:
        folder: the model's folder.
        options: options of transformers' `from_pretrained`.
    """
    # The class, and how it is to be loaded.
    config = AutoConfig.from_pretrained(folder, **options)
    auto_class: Any = AutoModel
    # Of an encoder-decoder the encoder is taken: out of the loaded whole, or loaded without the decoder.
    has_decoder = bool(getattr(config, "is_encoder_decoder", False))
    takes_encoder_out = has_decoder

    # Models like T5 have a class that loads only the encoder. T5Gemma, whose configuration nests that of the encoder,
    # has one too, but it refuses encoder-decoders.
    if (
        has_decoder
        and type(config) in AutoModelForTextEncoding._model_mapping
        and not hasattr(config, "encoder")
    ):
        auto_class = AutoModelForTextEncoding
        takes_encoder_out = False

    # A cache of keys and values is for generation only.
    if hasattr(config, "use_cache"):
        config.use_cache = False
    options = {
        **options,
        "config": config,
        "dtype": torch.float32,
        # Pickled weights are not opened.
        "use_safetensors": True,
    }

    # `from_pretrained` then also returns which weights were missing.
    options["output_loading_info"] = True
    # Load it, with scaled-dot-product attention, as the paper's code does, where the class has it.
    # transformers would warn of unused heads, and of missing weights, which are refused below.
    with quiet():
        try:
            base, info = auto_class.from_pretrained(
                folder, attn_implementation="sdpa", **options
            )
        except ValueError as error:
            # Only the words of the error tell that a class lacks this attention.
            if "attention" not in str(error):
                raise
            log.warning(
                "%s has no scaled-dot-product attention; using its slower eager attention",
                folder,
            )
            base, info = auto_class.from_pretrained(
                folder, attn_implementation="eager", **options
            )

    # Weights that the folder lacks.
    # A missing pooler is no fault: it is drawn for each run. Nor is a missing buffer, which the class fills itself.
    parameters = dict(base.named_parameters())
    lacking = []
    for name in sorted(info["missing_keys"]):
        if name in parameters and "pooler" not in name:
            lacking.append(name)

    # transformers draws missing weights at random, and the model would be measured all the same. What an
    # encoder-decoder lacks may belong to its decoder, which is not used.
    if lacking and not has_decoder:
        raise UserError(
            f"{folder} lacks weights of its class ({lacking[0]}); fetch the model again"
        )

    part = " of an encoder-decoder" if has_decoder else ""
    if takes_encoder_out:
        base = base.get_encoder()
    return base, set(info["missing_keys"]), part


class NoPooler(nn.Module):
    """A stand-in for the pooler in classes that call it without testing whether it is None."""

    def forward(self, *args: Any) -> None:
        """Return nothing."""


class FirstToken(nn.Module):
    """The pooler of ALBERT and BigBird, whose classes choose the token and apply the activation themselves."""

    def __init__(self, layer: nn.Linear, activation: nn.Module) -> None:
        """Put an activation on the layer."""
        super().__init__()
        self.layer = layer
        self.activation = activation

    def forward(self, hidden: Tensor) -> Tensor:
        """Return (B, H) of hidden states (B, L, H)."""
        pooled: Tensor = self.activation(self.layer(hidden[:, 0]))
        return pooled


def load_tokenizer(folder: Path, *, from_config: bool = True) -> Any:
    """Load a model's fast tokenizer and set it up as the paper's code does.

    Padding is the end of text where the tokenizer has no padding token, and both sides of truncation and padding are
    the right one.

    Args:
        folder: the model's folder.
        from_config: whether the tokenizer gets the special tokens that the model's config names. In the paper's code
            it does, but not for retrieval (D20). A tokenizer without an end of text, with which the paper's code would
            stop, gets them in any case.

    Raises:
        UserError: no config, no tokenizer, a slow one, or neither an end-of-text nor a separator token.
    """
    # Read here first, because transformers would read a file that is no configuration whole, of any size.
    config = read_config(folder)

    def sentence(error: BaseException) -> str:
        return (
            f"the tokenizer of {folder} cannot be loaded ({first_line(error)}); put tokenizer.json and "
            "tokenizer_config.json next to config.json"
        )

    # Whatever is raised in this block becomes a `UserError` with that sentence.
    with refused_as(sentence):
        with contextlib.suppress(FileNotFoundError):
            # Opened only to refuse a file that is too large: transformers would read one of any size. A
            # folder without this file may have older ones, of which transformers makes a fast tokenizer.
            os.close(open_plain(folder / "tokenizer.json", MOST_BYTES))
        tokenizer = _tokenizer_of_file(folder, AutoTokenizer.from_pretrained(folder))

    if not tokenizer.is_fast:
        raise UserError(
            f"{folder} has a slow tokenizer, which gives no character offsets; save a fast one, with a tokenizer.json"
        )

    if from_config or not end_of_text(tokenizer):
        _copy_special_tokens(tokenizer, config)
    end = end_of_text(tokenizer)
    if not end:
        raise UserError(
            f"the tokenizer of {folder} has neither an end-of-text nor a separator token, but every text must "
            "end with one; set eos_token in tokenizer_config.json"
        )

    if tokenizer.pad_token is None:
        tokenizer.pad_token = end
    tokenizer.padding_side = tokenizer.truncation_side = "right"
    return tokenizer


def _tokenizer_of_file(folder: Path, tokenizer: Any) -> Any:
    """Return a tokenizer that does what the folder's tokenizer.json says.

    transformers 5 makes the tokenizers of some classes (Qwen2's, for one) from the vocabulary alone, by rules and
    with tokens of the class; the file is what the model was trained with.

    A tokenizer without such a file is returned as it is. So is a slow one, which `load_tokenizer` refuses.
    """
    file = folder / "tokenizer.json"
    if not file.is_file() or not tokenizer.is_fast:
        return tokenizer
    recorded = Tokenizer.from_file(str(file))
    if tokenizer.backend_tokenizer.to_str() == recorded.to_str():
        return tokenizer

    # Tokens that only the class has are left out.
    special = {
        name: token
        for name, token in tokenizer.special_tokens_map.items()
        if recorded.token_to_id(str(token)) is not None
    }

    # By itself the general class gives no token type ids, which models such as BERT read (D19): the names of
    # the inputs are those of the model's own class.
    return PreTrainedTokenizerFast.from_pretrained(
        folder, model_input_names=tokenizer.model_input_names, **special
    )


def _copy_special_tokens(tokenizer: Any, config: Mapping[str, Any]) -> None:
    """Set the tokenizer's special tokens to those that the config names by id, or else by text.

    A token that is not in the tokenizer's vocabulary is left out.
    """
    vocabulary = tokenizer.get_vocab()
    for name in ("bos", "eos", "pad", "mask"):
        number = config.get(f"{name}_token_id")
        text = config.get(f"{name}_token")
        # The id may be no token's: the first Llamas have -1 for their padding.
        if isinstance(number, int) and 0 <= number < len(tokenizer):
            text = tokenizer.convert_ids_to_tokens(number)
        if isinstance(text, str) and text in vocabulary:
            setattr(tokenizer, f"{name}_token", text)
