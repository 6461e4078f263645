"""A trained state as a Hugging Face folder that transformers >= 5.3 loads natively, with its manifest and card.

The folder is a `eurobert` model: `config.json`, `model.safetensors`, the tokenizer's files, `manifest.json` and a
model card. No code travels with it and none is needed. It appears whole or not at all, and has the same bytes wherever
and whenever it is made; `provenance.json` alone says where and when that was.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from common.errors import UserError
from common.files import atomic_folder, sha256_bytes, sha256_file, write_text
from common.manifest import FILES, write_manifest
from common.provenance import provenance, provenance_path
from pretraining.model.configuration import EncoderConfig
from pretraining.model.heads import HEAD, check_state
from pretraining.model.state_dict_adapter import MANIFEST, check_model

__all__ = ["PACKAGES", "export", "model_card", "native_config"]

PACKAGES = ("torch", "mosaicml", "mosaicml-streaming", "transformers")
"""Packages whose versions a model's provenance names."""

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")

_FIELDS = (
    "model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "hidden_act", "max_position_embeddings", "rms_norm_eps", "rope_theta",
    "initializer_range", "bos_token_id", "eos_token_id", "pad_token_id", "mask_token", "mask_token_id",
    "classifier_pooling", "is_causal",
)  # fmt: skip


def export(
    checkpoint_state: Mapping[str, Tensor],
    config: EncoderConfig,
    tokenizer_dir: Path | None,
    manifest: Mapping[str, Any],
    out: Path,
    *,
    texts: Mapping[str, str] | None = None,
    origin: Mapping[str, Any] | None = None,
) -> Path:
    """Write the folder `out` and return it; one that holds the same model already is left as it is.

    Args:
        checkpoint_state: tensors named as in `EuroBertForMaskedLM`; the head may be absent.
        config: the model's configuration; `is_causal` says how it was trained last.
        tokenizer_dir: folder with `tokenizer.json` (and its companions), copied; None for none.
        manifest: what the model was made from, as JSON; written to `manifest.json`, with a hash of every file that is
            loaded, and shown in the card. No times, machines or paths: the same model has the same manifest.
        out: folder to make.
        texts: further files by name; the manifest has their hashes under `records`.
        origin: written to `provenance.json`; command, code and versions when left out.

    Raises:
        UserError: the tensors do not fit the configuration, the tokenizer is missing, `out` holds other things, or
            the disk is full.
    """
    check_state(checkpoint_state, config, "to export")
    texts = texts or {}
    records = {name: sha256_bytes(text.encode()) for name, text in texts.items()}
    content: dict[str, Any] = json.loads(json.dumps({**manifest, "records": records}))
    if tokenizer_dir is not None and not (tokenizer_dir / "tokenizer.json").is_file():
        raise UserError(f"tokenizer folder {tokenizer_dir} holds no tokenizer.json")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        there = check_model(out, "remove the folder or choose another") if out.is_dir() else None
        if there is not None and {key: value for key, value in there.items() if key != FILES} == content:
            return out
        raise UserError(f"{out} exists and is no export of this model: remove it or choose another folder")
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint_state.items()}
    dtype = str(next(iter(tensors.values())).dtype).removeprefix("torch.")
    fields = native_config(config, dtype=dtype, head=HEAD in tensors)
    try:
        with atomic_folder(out) as making:
            save_file(tensors, making / "model.safetensors", metadata={"format": "pt"})
            write_text(making / "config.json", json.dumps(fields, indent=2, sort_keys=True) + "\n")
            if tokenizer_dir is not None:
                for file in (tokenizer_dir / name for name in TOKENIZER_FILES):
                    if file.is_file():
                        shutil.copyfile(file, making / file.name)
            write_manifest(making / MANIFEST, content, _hashes(making))
            write_text(making / "README.md", model_card(config, manifest))
            for name, text in texts.items():
                write_text(making / name, text)
            origin = origin or provenance("full", PACKAGES)
            write_manifest(provenance_path(making, folder=True), origin, _hashes(making))
    except SafetensorError as error:
        raise UserError(
            f"{out}: could not be written: {error}; correct that and run the same command again"
        ) from None
    return out


def _hashes(folder: Path) -> dict[str, str]:
    return {path.name: sha256_file(path) for path in sorted(folder.iterdir())}


def native_config(config: EncoderConfig, *, dtype: str, head: bool = True) -> dict[str, Any]:
    """Return the fields of `config.json`: what both the native class and ours read.

    Args:
        config: the model's configuration.
        dtype: type of the weights, such as `float32`.
        head: whether the language-model head is among the weights.
    """
    return {name: getattr(config, name) for name in _FIELDS} | {
        "architectures": ["EuroBertForMaskedLM" if head else "EuroBertModel"],
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "attention_bias": False,
        "attention_dropout": 0.0,
        "hidden_dropout": 0.0,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": dtype,
    }


def model_card(config: EncoderConfig, manifest: Mapping[str, Any]) -> str:
    """Return the model card: what the model is, how to load it, and everything the manifest knows."""
    template = Template(Path(__file__).with_name("templates").joinpath("model_card.md").read_text("utf-8"))
    return template.substitute(
        _CAUSAL if config.is_causal else _BIDIRECTIONAL,
        name=manifest.get("model", "encoder"),
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        rows="\n".join(f"| {_cell(key)} | {_cell(value)} |" for key, value in _flat(manifest)),
    )


_CAUSAL = {
    "direction": "causal",
    "pipeline": "text-generation",
    "caution": """\
Its last objective was causal language modeling. The native class (transformers 5.23) follows `is_causal` in
batches without padding and attends in both directions in those with it; the class of the package that
trained it (`import pretraining.model.heads`, then `AutoModel.from_pretrained`) looks back only in both.
""",
}
_BIDIRECTIONAL = {
    "direction": "bidirectional",
    "pipeline": "fill-mask",
    "caution": "Its last objective was masked language modeling, with attention in both directions.\n",
}
"""What a card says of the last objective."""


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key in sorted(value):
        if isinstance(value[key], Mapping):
            yield from _flat(value[key], f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value[key]


def _cell(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
