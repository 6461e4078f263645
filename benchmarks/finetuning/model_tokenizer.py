"""A model's tokenizer, set up as the paper's code sets it up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from benchmarks.finetuning.model_files import read_config
from benchmarks.finetuning.tokenization import end_of_text
from common.errors import UserError, first_line

__all__ = ["load_tokenizer"]


def load_tokenizer(folder: Path, *, from_config: bool = True) -> Any:
    """Load a model's fast tokenizer and set it up as the paper's code does.

    Padding is the end of text where the tokenizer has no padding token, and both sides of truncation and padding are
    the right one.

    Args:
        folder: the model's folder.
        from_config: copy the special tokens that the model's config names onto the tokenizer. The paper's code does,
            but not for retrieval (D20). They are copied all the same where the tokenizer has no end of text, without
            which the paper's code would stop.

    Raises:
        UserError: no tokenizer, a slow one, or neither an end-of-text nor a separator token.
    """
    try:
        tokenizer = _tokenizer_of_file(folder, AutoTokenizer.from_pretrained(folder))
    except Exception as error:  # tokenizers raises bare exceptions
        raise UserError(
            f"{folder} has no tokenizer that loads ({first_line(error)}); put tokenizer.json and "
            "tokenizer_config.json next to config.json"
        ) from None
    if not tokenizer.is_fast:
        raise UserError(
            f"{folder} has a slow tokenizer, which gives no character offsets; save it with a tokenizer.json"
        )
    if from_config or not end_of_text(tokenizer):
        _copy_special_tokens(tokenizer, read_config(folder))
    end = end_of_text(tokenizer)
    if not end:
        raise UserError(
            f"the tokenizer of {folder} has neither an end-of-text nor a separator token, and every text must "
            "end in one; set eos_token in tokenizer_config.json"
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = end
    tokenizer.padding_side = tokenizer.truncation_side = "right"
    return tokenizer


def _tokenizer_of_file(folder: Path, tokenizer: Any) -> Any:
    """Return a tokenizer that does what the folder's tokenizer.json says.

    transformers 5 makes the tokenizers of some classes (Qwen2's, for one) from the vocabulary alone, by rules and
    with tokens of the class; the file is what the model was trained with.
    """
    file = folder / "tokenizer.json"
    if not file.is_file() or not tokenizer.is_fast:
        return tokenizer
    recorded = Tokenizer.from_file(str(file))
    if tokenizer.backend_tokenizer.to_str() == recorded.to_str():
        return tokenizer
    special = {
        name: token
        for name, token in tokenizer.special_tokens_map.items()
        if recorded.token_to_id(str(token)) is not None
    }
    return PreTrainedTokenizerFast.from_pretrained(
        folder, model_input_names=tokenizer.model_input_names, **special
    )


def _copy_special_tokens(tokenizer: Any, config: Mapping[str, Any]) -> None:
    vocabulary = tokenizer.get_vocab()
    for name in ("bos", "eos", "pad", "mask"):
        number, text = config.get(f"{name}_token_id"), config.get(f"{name}_token")
        if isinstance(number, int) and number < len(tokenizer):
            text = tokenizer.convert_ids_to_tokens(number)
        if isinstance(text, str) and text in vocabulary:
            setattr(tokenizer, f"{name}_token", text)
