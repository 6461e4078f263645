"""The encoder's configuration: the fields of the released checkpoints, under the model type `eurobert`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import EuroBertConfig

from common.errors import UserError
from pretraining.paper_settings import SPECIAL_TOKENS, Shape
from pretraining.starts import OUR_CLASS, other_architecture

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
_OTHERS = (
    "model_type",
    "head_dim",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "mask_token",
    "mask_token_id",
    "classifier_pooling",
    "is_causal",
)
"""The other fields of `config.json`."""


class EncoderConfig(EuroBertConfig):  # type: ignore[misc]  # transformers is untyped
    """Shape, special tokens and direction of attention of one encoder (the released configs' fields).

    It is transformers' own configuration of `eurobert` with one more field, the direction. So a model's folder loads
    with transformers' classes (which `AutoModel` takes) as well as with ours, without remote code.
    """

    def __init__(
        self,
        *,
        is_causal: bool = False,
        rope_theta: float = 10_000.0,
        mask_token: str = SPECIAL_TOKENS.mask,
        **fields: Any,
    ) -> None:
        """Take the fields of a Hugging Face config; unknown ones are kept as attributes, as that library does.

        `rope_parameters` (transformers >= 5) wins over `rope_theta`. A padding that is left out has transformers'
        default for `eurobert`: the id of the end of text, as in the released configs.

        Args:
            is_causal: whether attention looks back only.
            rope_theta: base of the rotary position embedding.
            mask_token: text of the mask.
            fields: the others; those of the shape mean what they mean in `Shape`.

        Raises:
            UserError: a value that this architecture does not have.
        """
        problem = other_architecture(fields)
        if problem:
            raise UserError(problem)

        # Of these fields only one value is possible, as was just checked. One that is left out must not get
        # another default of transformers.
        fields = {**OUR_CLASS, **fields}

        # Rotary positions. Older versions of transformers wrote rope_theta as a field of its own, newer ones
        # inside rope_parameters.
        rope = fields.pop("rope_parameters", None)

        # The older name of rope_parameters. Positions are never scaled here (`other_architecture` refuses
        # that), so it says nothing more.
        fields.pop("rope_scaling", None)
        if isinstance(rope, dict):
            rope_theta = rope.get("rope_theta", rope_theta)
        theta = float(rope_theta)

        # Values that are wrong, but that transformers would take.
        if not isinstance(is_causal, bool):
            raise UserError(
                f"config: is_causal must be true or false, not {is_causal!r}"
            )

        for name in ("bos_token_id", "eos_token_id", "pad_token_id", "mask_token_id"):
            # An id may be missing or None.
            if (fields.get(name) or 0) < 0:
                raise UserError(
                    f"config: {name} must be at least 0, not {fields[name]}"
                )

        # For fields that are left out: transformers has other defaults for these two.
        defaults = {"max_position_embeddings": 2048, "classifier_pooling": "mean"}
        fields["rope_parameters"] = {"rope_type": "default", "rope_theta": theta}
        # transformers checks the types of all fields that were not checked above, with an error of its own.
        try:
            super().__init__(
                **{**defaults, **fields}, is_causal=is_causal, mask_token=mask_token
            )
        except StrictDataclassError as error:
            raise UserError(f"config: {' '.join(str(error).split())[:200]}") from None

        # transformers keeps it only inside rope_parameters; the model and `shape_of` read it as a field of
        # its own.
        self.rope_theta = theta
        shape = shape_of(self)
        if self.head_dim != shape.head_dim:
            raise UserError(
                f"head_dim {self.head_dim} x num_attention_heads {shape.heads} must equal hidden_size {shape.hidden}"
            )


def config_of(
    shape: Shape, tokenizer: Mapping[str, Any], *, is_causal: bool = False
) -> EncoderConfig:
    """Return the configuration of a shape with special tokens of a tokenizer.

    Args:
        shape: the model's size.
        tokenizer: what the manifest of shards says of their tokenizer.
        is_causal: whether attention looks back only.
    """
    # Some tokenizers have no token for the begin of a text: the one for its end stands in.
    # The token for the end is the padding as well.
    end, begin = tokenizer["eos_id"], tokenizer["bos_id"]
    return EncoderConfig(
        **shape_fields(shape),
        bos_token_id=end if begin is None else begin,
        eos_token_id=end,
        pad_token_id=end,
        mask_token_id=tokenizer["mask_id"],
        is_causal=is_causal,
    )


def shape_fields(shape: Shape) -> dict[str, Any]:
    """Return the fields of a configuration that a shape fixes."""
    return {field: getattr(shape, name) for field, name in _OF_SHAPE.items()}


def shape_of(config: EncoderConfig) -> Shape:
    """Return the shape that a configuration describes, from which `pretraining.plan` computes FLOPs and memory."""
    values = {name: getattr(config, field) for field, name in _OF_SHAPE.items()}
    return Shape(**values)


def native_config(
    config: EncoderConfig, *, dtype: str, head: bool = True
) -> dict[str, Any]:
    """Return the fields of `config.json`, which both transformers' own class and ours read.

    Args:
        config: the model's configuration.
        dtype: type of the weights, such as `float32`.
        head: whether the language-model head is among the weights.
    """
    names = (*_OF_SHAPE, *OUR_CLASS, *_OTHERS)
    fields = {name: getattr(config, name) for name in names}
    return fields | {
        "architectures": ["EuroBertForMaskedLM" if head else "EuroBertModel"],
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "torch_dtype": dtype,
        # The oldest version that loads it. Without this field, transformers may warn about the tokenizer.
        "transformers_version": "5.3.0",
    }
