"""The encoder's configuration: the fields of the released checkpoints, under the model type `eurobert`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import PretrainedConfig

from common.errors import UserError, nearest
from pretraining.paper_settings import SHAPES, SPECIAL_TOKENS, TINY, Shape

__all__ = ["EncoderConfig", "config_for", "config_of", "native_config", "shape_of"]

_OF_SHAPE = {
    "vocab_size": "vocab",
    "hidden_size": "hidden",
    "intermediate_size": "mlp",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "max_position_embeddings": "max_length",
    "rope_theta": "rope_theta",
    "rms_norm_eps": "norm_eps",
    "initializer_range": "init_std",
}
"""The fields that a shape fixes, and their names in `Shape`."""
_ONLY: dict[str, object] = {
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "tie_word_embeddings": False,
}
"""The fields in which other architectures differ, and the value that this one has."""


_OTHERS = (
    "model_type", "head_dim", "bos_token_id", "eos_token_id", "pad_token_id", "mask_token", "mask_token_id",
    "classifier_pooling", "is_causal",
)  # fmt: skip
"""The other fields of `config.json`."""


class EncoderConfig(PretrainedConfig):  # type: ignore[misc]  # transformers is untyped
    """Shape, special tokens and direction of attention of one encoder (the released configs' fields).

    The model type is that of transformers' native `eurobert`, so that a folder loads with its classes and with ours,
    without remote code; which of them `AutoModel` takes is decided by `pretraining.model.modeling`.
    """

    model_type = "eurobert"
    keys_to_ignore_at_inference = ("past_key_values",)

    def __init__(
        self,
        vocab_size: int = 128_256,
        hidden_size: int = 768,
        intermediate_size: int = 3072,
        num_hidden_layers: int = 12,
        num_attention_heads: int = 12,
        num_key_value_heads: int | None = None,
        max_position_embeddings: int = 2048,
        rope_theta: float = 10_000.0,
        rms_norm_eps: float = 1e-5,
        initializer_range: float = 0.02,
        bos_token_id: int = SPECIAL_TOKENS.begin_id,
        eos_token_id: int = SPECIAL_TOKENS.end_id,
        pad_token_id: int = SPECIAL_TOKENS.end_id,
        mask_token_id: int = SPECIAL_TOKENS.mask_id,
        mask_token: str = SPECIAL_TOKENS.mask,
        is_causal: bool = False,
        classifier_pooling: str = "mean",
        **kwargs: object,
    ) -> None:
        """Take the fields of a Hugging Face config; unknown ones are kept as attributes, as that library does.

        Those of the shape mean what they mean in `Shape`. There are as many key and value heads as query heads when
        their number is left out; `rope_parameters` (transformers >= 5) wins over `rope_theta`; padding has the id of
        the end of text, as in the released configs; `is_causal` says whether attention looks back only, and
        `classifier_pooling` is for transformers' native classifiers.

        Raises:
            UserError: a value that this architecture does not have.
        """
        rope = kwargs.pop("rope_parameters", None)
        scaling = kwargs.pop("rope_scaling", None)
        for given in (rope, scaling):
            if isinstance(given, dict) and given.get("rope_type", given.get("type", "default")) != "default":
                raise UserError(f"this encoder supports only the default rotary embedding, not {given}")
        if isinstance(rope, dict):
            rope_theta = rope.get("rope_theta", rope_theta)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads or num_attention_heads
        self.max_position_embeddings = max_position_embeddings
        self.rope_theta = float(rope_theta)
        self.rms_norm_eps = rms_norm_eps
        self.initializer_range = initializer_range
        self.mask_token_id = mask_token_id
        self.mask_token = mask_token
        self.is_causal = is_causal
        self.classifier_pooling = classifier_pooling
        for name, only in _ONLY.items():
            if (value := kwargs.setdefault(name, only)) != only:
                raise UserError(f"config: {name} is {value!r}; this encoder supports only {only!r}")
        shape_of(self)
        if not isinstance(is_causal, bool):
            raise UserError(f"config: is_causal must be true or false, not {is_causal!r}")
        for name, token in (
            ("bos", bos_token_id),
            ("eos", eos_token_id),
            ("pad", pad_token_id),
            ("mask", mask_token_id),
        ):
            if (token or 0) < 0:
                raise UserError(f"config: {name}_token_id must be at least 0, not {token}")
        super().__init__(
            bos_token_id=bos_token_id, eos_token_id=eos_token_id, pad_token_id=pad_token_id, **kwargs
        )

    @property
    def head_dim(self) -> int:
        """Dimension of one attention head."""
        return int(self.hidden_size // self.num_attention_heads)

    @head_dim.setter
    def head_dim(self, value: int | None) -> None:
        """Accept the value that transformers >= 5 writes, when it is the one that follows from the rest."""
        if value is not None and value * self.num_attention_heads != self.hidden_size:
            raise UserError(
                f"head_dim {value} x num_attention_heads {self.num_attention_heads} must equal hidden_size "
                f"{self.hidden_size}"
            )


def config_for(size: str, **overrides: object) -> EncoderConfig:
    """Return the configuration of `210m`, `610m`, `1b` (protocol: Table 1) or `tiny`, with fields overridden.

    Raises:
        UserError: an unknown size, or an unknown field among the overrides.
    """
    shapes = {**SHAPES, "tiny": TINY}
    if size not in shapes:
        raise UserError(f"unknown size {size!r}; sizes are {', '.join(shapes)}{nearest(size, shapes)}")
    known = {*EncoderConfig().to_dict(), "num_labels"}
    for name in overrides:
        if name not in known:
            raise UserError(f"unknown model setting {name!r}{nearest(name, known)}")
    return EncoderConfig(**{**_fields(shapes[size]), **overrides})  # type: ignore[arg-type]


def config_of(shape: Shape, tokenizer: Mapping[str, Any], *, is_causal: bool = False) -> EncoderConfig:
    """Return the configuration of a shape with the special tokens of a shards manifest's `tokenizer`."""
    end, begin = tokenizer["eos_id"], tokenizer["bos_id"]
    return EncoderConfig(
        **_fields(shape),  # type: ignore[arg-type]
        bos_token_id=end if begin is None else begin,
        eos_token_id=end,
        pad_token_id=end,
        mask_token_id=tokenizer["mask_id"],
        is_causal=is_causal,
    )


def _fields(shape: Shape) -> dict[str, object]:
    return {ours: getattr(shape, name) for ours, name in _OF_SHAPE.items()}


def shape_of(config: EncoderConfig) -> Shape:
    """Return the shape that a configuration describes: what `flops` and the plan count with."""
    return Shape(**{name: getattr(config, ours) for ours, name in _OF_SHAPE.items()})


def native_config(config: EncoderConfig, *, dtype: str, head: bool = True) -> dict[str, Any]:
    """Return the fields of `config.json`: what both transformers' native class and ours read.

    Args:
        config: the model's configuration.
        dtype: type of the weights, such as `float32`.
        head: whether the language-model head is among the weights.
    """
    return {name: getattr(config, name) for name in (*_OF_SHAPE, *_ONLY, *_OTHERS)} | {
        "architectures": ["EuroBertForMaskedLM" if head else "EuroBertModel"],
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "torch_dtype": dtype,
    }
