"""A model as a Hugging Face folder: written, checked and read; the authors' `SLModel` folders are read, too.

The folder is a `eurobert` model that transformers >= 5.3 loads natively: `config.json`, `model.safetensors`, the
tokenizer's files, `manifest.json` and a model card. No code travels with it, and nothing is ever run from a folder. It
appears whole or not at all, and has the same bytes wherever and whenever it is made; only `provenance.json` says where
and when that was.

Weights are a state dict with the names of `EuroBertForMaskedLM`: `model.layers.0.self_attn.q_proj.weight`, ...,
`lm_head.weight`. The released checkpoints are base models: the same names without `model.`, and, as far as is known,
without a head.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from string import Template
from typing import Any, TypeVar

from safetensors.torch import save_file
from torch import Tensor

from common.errors import UserError, first_line
from common.model_files import read_object
from common.plain_text import first_of
from pretraining.model.configuration import EncoderConfig, native_config
from pretraining.model.encoder_folder import (
    ModelFiles,
    check_model,
    quiet,
    write_config,
)
from pretraining.model.modeling import HEAD, EuroBertPreTrainedModel
from pretraining.paper_settings import is_own_type

logger = logging.getLogger(__name__)

_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)

AnyEncoder = TypeVar("AnyEncoder", bound=EuroBertPreTrainedModel)


def eurobert_files(
    state: Mapping[str, Tensor], config: EncoderConfig, tokenizer_dir: Path | None
) -> ModelFiles:
    """Return what `write_folder` needs to write a `eurobert` model.

    Args:
        state: the weights, named as in `EuroBertForMaskedLM`; the head may be absent.
        config: the model's configuration; its `is_causal` is the direction in which the model was trained last.
        tokenizer_dir: folder whose `tokenizer.json` and other tokenizer files are copied; None for no tokenizer.

    Raises:
        UserError: the tokenizer is missing.
    """
    if tokenizer_dir is not None and not (tokenizer_dir / "tokenizer.json").is_file():
        raise UserError(f"tokenizer folder {tokenizer_dir} has no tokenizer.json")
    tensors = {
        name: tensor.detach().cpu().contiguous() for name, tensor in state.items()
    }

    # All weights have one type, so the first one's is the model's.
    first_tensor = next(iter(tensors.values()))
    dtype = str(first_tensor.dtype).removeprefix("torch.")
    fields = native_config(config, dtype=dtype, head=HEAD in tensors)

    def save(folder: Path) -> None:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        write_config(folder, fields)
        if tokenizer_dir is not None:
            copy_tokenizer(tokenizer_dir, folder)

    # With a width, `write_folder` adds a self-test. The self-test embeds a text, for which it needs a tokenizer and a
    # model that looks both ways.
    is_tried = tokenizer_dir is not None and not config.is_causal
    return ModelFiles(
        save=save,
        card=partial(model_card, config),
        width=config.hidden_size if is_tried else None,
    )


def copy_tokenizer(source: Path, folder: Path) -> None:
    """Copy a tokenizer's files."""
    for file in (source / name for name in _TOKENIZER_FILES):
        if file.is_file():
            shutil.copyfile(file, folder / file.name)


def model_card(config: EncoderConfig, manifest: Mapping[str, Any]) -> str:
    """Return the model card: what the model is, how to load it, and everything the manifest knows."""
    return fill_card(
        "model_card.md",
        name=manifest.get("model", "encoder"),
        direction="causal" if config.is_causal else "bidirectional",
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        rows=card_rows(manifest),
    )


def fill_card(file: str, **fields: object) -> str:
    """Return a template of a model card with its fields filled in."""
    path = Path(__file__).with_name("templates") / file
    return Template(path.read_text("utf-8")).substitute(fields)


def card_rows(manifest: Mapping[str, Any]) -> str:
    """Return everything that a manifest says as rows of a Markdown table."""
    return "\n".join(
        f"| {_cell(key)} | {_cell(value)} |" for key, value in _flat(manifest)
    )


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested tables in the order of their keys, which are joined by dots: `science.peak_lr`."""
    for key in sorted(value):
        if isinstance(value[key], Mapping):
            yield from _flat(value[key], f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value[key]


def _cell(value: object) -> str:
    """Return a value as a cell of a Markdown table, without what would end the cell or be read as HTML."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


_DTYPES = ("dtype", "torch_dtype")
"""Fields with the type of the weights, which is read from the weights themselves."""


def encoder_config(folder: Path) -> EncoderConfig:
    """Return the configuration of a model's folder that this package or the paper's authors wrote.

    Raises:
        UserError: no readable `config.json`, or another kind of model.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise UserError(f"{folder} has no config.json, so it is not a checkpoint")
    fields = read_object(path)
    kind = fields.pop("model_type", None)
    if not is_own_type(kind):
        raise UserError(
            f"{path}: model_type is {kind!r}; give a folder that this package exported, or one of the paper's authors"
        )

    if "is_causal" not in fields:
        logger.warning(
            "%s: is_causal is missing; the model is treated as bidirectional", path
        )

    # An older name of the field.
    if "clf_pooling" in fields:
        fields["classifier_pooling"] = fields.pop("clf_pooling")
    # Fields that say how the folder was written: code beside the file, which is never run, the class that was
    # saved, and the version that saved it. None of them changes what is computed.
    for name in ("auto_map", "architectures", "transformers_version"):
        fields.pop(name, None)

    # Of nested fields only those of rotary positions change what is computed. The others are left out, so
    # that their content, which may be anything, cannot make transformers fail.
    kept = {}
    for name, value in fields.items():
        is_rotary = name.startswith("rope_")
        is_nested = isinstance(value, dict | list)
        if is_rotary or not (is_nested or name in _DTYPES):
            kept[name] = value

    try:
        config = EncoderConfig(**kept)
        # Called for its errors only: a configuration that transformers cannot write again is refused here,
        # before any weights are read.
        config.to_dict()
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except Exception as error:  # transformers raises errors of many kinds
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path} does not describe a model: {reason}") from None

    return config


def load_encoder(
    folder: Path, kind: type[AnyEncoder], *, is_causal: bool | None = None
) -> AnyEncoder:
    """Return a model of class `kind` with the weights of a folder that this package or the paper's authors wrote.

    A folder that has a manifest of this package is compared with its hashes first. transformers then finds the weights,
    whether they are one file or several, and whether they have the names of the base model or of the one with a head.
    Pickled weights are never opened. A head that the folder lacks is initialised from torch's global generator.

    Args:
        folder: a folder with `config.json` and safetensors.
        kind: a class of `pretraining.model.modeling`, such as `EuroBertModel`.
        is_causal: the direction, if it is not to be that of the configuration.

    Raises:
        UserError: the folder cannot be read, or its tensors do not fit its configuration; three are named.
    """
    check_model(folder)
    config = encoder_config(folder)
    if is_causal is not None:
        config.is_causal = is_causal
    model: AnyEncoder
    try:
        with quiet():
            model, info = kind.from_pretrained(
                folder,
                config=config,
                use_safetensors=True,
                # Tensors of another shape than config.json says are then named in `info`, and refused below.
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
    except Exception as error:  # safetensors and transformers raise kinds of their own
        raise UserError(
            f"{folder} has no weights that can be read, or only pickled ones (*.bin): {first_line(error)}; fetch the "
            "model again"
        ) from None

    # Sets of names of tensors; a mismatch also has both shapes.
    mismatched = {name for name, *_ in info["mismatched_keys"]}
    faults = {
        "lacks": info["missing_keys"],
        "has unknown tensors": info["unexpected_keys"],
        "has tensors that do not fit its config": mismatched,
    }
    for fault, names in faults.items():
        # The head is left out: a folder may lack it, and a `kind` without one finds it unexpected.
        wrong = sorted(names - {HEAD})
        if wrong:
            raise UserError(f"checkpoint {folder} {fault}: {first_of(wrong, 3)}")

    return model
