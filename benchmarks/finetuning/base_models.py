"""Base models of a folder, without their heads: this package's own class, or what transformers has for the folder."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import CONFIG_MAPPING, AutoConfig, AutoModel, AutoModelForTextEncoding

from benchmarks.finetuning.model_files import read_config, weights_fault
from common.errors import UserError, first_line, nearest
from pretraining.model.model_folder import MODEL_TYPES, load_encoder
from pretraining.model.modeling import EuroBertModel

__all__ = ["FirstToken", "NoPooler", "load_base"]

log = logging.getLogger(__name__)


def load_base(folder: Path, *, trust_remote_code: bool) -> tuple[nn.Module, set[str], str]:
    """Return a base model, the names of its weights that the folder lacks, and what it is a part of."""
    name = read_config(folder).get("model_type")
    if name in MODEL_TYPES and not trust_remote_code:
        ours: nn.Module = load_encoder(folder, EuroBertModel, is_causal=False)
        return ours.float(), set(), ""
    try:
        return _load_with_transformers(folder, {"trust_remote_code": trust_remote_code})
    except UserError:
        raise
    except Exception as error:  # safetensors and transformers raise kinds of their own
        hint = nearest(str(name), [*MODEL_TYPES, *CONFIG_MAPPING]) if name not in CONFIG_MAPPING else ""
        if "trust_remote_code" in str(error):
            hint = "; --trust-remote-code runs the code that comes with it: read that first"
        faults = ((path, weights_fault(path)) for path in sorted(folder.glob("*.safetensors")))
        damaged = next((f"{path}: {why}" for path, why in faults if why), "")
        raise UserError(f"{damaged or f'{folder} does not load: {first_line(error)}'}{hint}") from None


def _load_with_transformers(folder: Path, options: dict[str, Any]) -> tuple[nn.Module, set[str], str]:
    config = AutoConfig.from_pretrained(folder, **options)
    kind: Any = AutoModel
    whole = bool(getattr(config, "is_encoder_decoder", False))
    if whole and type(config) in AutoModelForTextEncoding._model_mapping and not hasattr(config, "encoder"):
        kind, whole = AutoModelForTextEncoding, False  # T5's kind: the encoder alone
    if hasattr(config, "reference_compile"):
        config.reference_compile = False
    if hasattr(config, "use_cache"):
        config.use_cache = False
    options = {**options, "config": config, "dtype": torch.float32, "use_safetensors": True}
    options["output_loading_info"] = True
    try:
        base, info = kind.from_pretrained(folder, attn_implementation="sdpa", **options)
    except ValueError as error:
        if "attention" not in str(error):
            raise
        log.warning("%s knows no scaled-dot-product attention; its eager one is slower", folder)
        base, info = kind.from_pretrained(folder, attn_implementation="eager", **options)
    part = " of an encoder-decoder" if getattr(config, "is_encoder_decoder", False) else ""
    return base.get_encoder() if whole else base, set(info["missing_keys"]), part


class NoPooler(nn.Module):
    """Stands where a class that does not test for None has its pooler."""

    def forward(self, *args: Any) -> None:
        """Return nothing."""


class FirstToken(nn.Module):
    """ALBERT's and BigBird's pooler, whose activation and choice of the token are their classes' own."""

    def __init__(self, layer: nn.Linear, activation: nn.Module) -> None:
        """Put an activation on the layer."""
        super().__init__()
        self.layer = layer
        self.activation = activation

    def forward(self, hidden: Tensor) -> Tensor:
        """Return (B, H) of hidden states (B, L, H)."""
        found: Tensor = self.activation(self.layer(hidden[:, 0]))
        return found
