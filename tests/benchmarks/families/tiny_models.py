"""The text models of the installed transformers, each of its own configuration class, made tiny and drawn at random."""

import inspect
import re
from pathlib import Path
from typing import Any

import torch
from transformers import (
    CONFIG_MAPPING,
    AutoModel,
    AutoModelForTextEncoding,
    PreTrainedTokenizerFast,
)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

_OTHER_INPUTS = {
    "pixel_values",
    "input_features",
    "bbox",
    "images",
    "image",
    "visual_feats",
    "visual_embeds",
    "audio_input_ids",
    "speaker_id",
    "char_ids",
    "xpath_tags_seq",
}
"""Of models that read more than text."""

_SIZES: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embedding_size", "true_hidden_size",
                     "intra_bottleneck_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers",
                     "num_encoder_layers", "num_decoder_layers"), 4),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
                     "decoder_attention_heads", "num_encoder_attention_heads", "num_decoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "multi_query_group_num"), 2),
    **dict.fromkeys(("intermediate_size", "d_ff", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_inner", "n_inner",
                     "ffn_hidden_size", "hidden_dim", "moe_intermediate_size", "feed_forward_size",
                     "shared_expert_intermediate_size", "intermediate_size_mlp", "ffn_dim_multiplier"), 64),
    **dict.fromkeys(("head_dim", "d_kv", "d_head", "dim_head", "attention_head_size"), 8),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_encoder_position_embeddings",
                     "max_decoder_position_embeddings", "n_ctx"), 256),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    "num_experts_per_tok": 2, "local_attention": 8, "sliding_window": 8, "attention_window": 8,
    "n_group": 1, "topk_group": 1, "rotary_dim": 8,
}  # fmt: skip
"""Sizes by what configurations call them."""

_PARTS = re.compile("_vl_|4v|image|ocr|sam3|tipsv2|clip_|cosmos|aria|docling|molmo")
"""Names of text halves of models that see, which nobody loads alone."""
_LATENT = {
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "num_key_value_heads": 4,
}
_MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8}
_HALF = {
    "layer_types": ["mamba", "attention"] * 2,
    "layers_block_type": ["mamba", "attention"] * 2,
}
_T5GEMMA = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 64,
    "max_position_embeddings": 256,
    "sliding_window": 8,
}
_OWN: dict[str, dict[str, Any]] = {
    "bamba": {**_MAMBA, "attn_layer_indices": [1, 3]},
    "cohere_compass_text": {"layer_types": ["full_attention"] * 4, "rope_parameters": {
        kind: {"rope_type": "default", "rope_theta": 1e4} for kind in ("full_attention", "sliding_attention")}},
    "cosmos3_edge_text": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1},
    "esmc": {"num_key_value_heads": 4},
    "funnel": {"block_sizes": [2, 2], "block_repeats": [1, 1]},
    "gemma3n_text": {"vocab_size_per_layer_input": 400, "hidden_size_per_layer_input": 8, "num_kv_shared_layers": 0,
                     "layer_types": ["sliding_attention", "full_attention"] * 2, "intermediate_size": [64] * 4,
                     "laurel_rank": 8, "activation_sparsity_pattern": [0.0] * 4},
    "glm5_next_text": {"num_key_value_heads": 4, "qk_rope_head_dim": 0},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]], "num_layers": 4, "window_size": 8},
    "granitemoehybrid": {**_MAMBA, **_HALF, "shared_intermediate_size": 32},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 8, "mamba_dt_rank": 8,
              "use_mamba_kernels": False},
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2, "num_dense_layers": 1},
    "luke": {"entity_vocab_size": 10, "entity_emb_size": 16},
    "mamba2": {"num_heads": 8, "head_dim": 8, "n_groups": 2, "state_size": 8},
    "muse_spark_text": {"moe_hidden_size": 32},
    "reformer": {"axial_pos_embds": False, "attn_layers": ["local", "local"], "num_hidden_layers": 2,
                 "attention_head_size": 8},
    "roc_bert": {"pronunciation_vocab_size": 10, "shape_vocab_size": 10, "pronunciation_embed_dim": 16,
                 "shape_embed_dim": 16},
    "t5gemma": {"encoder": _T5GEMMA, "decoder": _T5GEMMA},
    "zamba": {"layers_block_type": ["mamba", "hybrid"] * 2, "attention_hidden_size": 64, "attention_head_dim": 16,
              "mamba_dt_rank": 8, "use_mamba_kernels": False},
    "zamba2": {"layers_block_type": ["mamba", "hybrid"] * 2, "n_mamba_heads": 4, "mamba_headdim": 16,
               "mamba_d_state": 8, "attention_hidden_size": 64, "attention_head_dim": 16, "kv_channels": 8,
               "num_query_groups": 4},
    "zaya": {"num_experts_per_tok": 1},
}  # fmt: skip
"""What single families need besides."""


def family(name: str) -> type | None:
    """Return the configuration class of a model type that reads tokens, and nothing else; None of others."""
    try:
        config = CONFIG_MAPPING[name]
        auto: Any = (
            AutoModelForTextEncoding if name.startswith("t5gemma") else AutoModel
        )
        kind = auto._model_mapping[config]
        inputs = inspect.signature(
            (kind[0] if isinstance(kind, tuple) else kind).forward
        ).parameters
        made = config()
    except (
        Exception
    ):  # not every configuration can be made, nor every class be imported
        return None
    if _PARTS.search(name):
        return None
    parts = [
        key
        for key, value in made.to_dict().items()
        if key.endswith("_config") and isinstance(value, dict)
    ]
    text = "input_ids" in inputs and not _OTHER_INPUTS & inputs.keys() and not parts
    known = (
        text and getattr(made, "vocab_size", 0) and config.model_type == name
    ) or name in _OWN
    return config if known else None


def families() -> dict[str, type]:
    """Return the configuration classes by model type, of all that read tokens, and nothing else."""
    found = ((name, family(name)) for name in CONFIG_MAPPING_NAMES)
    return {name: config for name, config in found if config is not None}


def tiny_config(name: str, config: Any, tokenizer: PreTrainedTokenizerFast) -> Any:
    known = config().to_dict()
    names = {**getattr(config, "attribute_map", {})}
    given = {
        key: value for key, value in _SIZES.items() if key in known or key in names
    }
    if isinstance(known.get("kv_lora_rank"), int):
        given |= {
            key: value
            for key, value in _LATENT.items()
            if isinstance(known.get(key), int)
        }
    given = {key: value for key, value in given.items() if names.get(key) not in given}
    given["vocab_size"] = len(tokenizer)
    for role in ("pad", "bos", "eos", "cls", "sep"):
        number = getattr(tokenizer, f"{role}_token_id")
        if number is not None:
            given[f"{role}_token_id"] = number
    given |= _OWN.get(name, {})
    # Of a model of two halves, each has a vocabulary of its own.
    return config(
        **{
            key: {**value, "vocab_size": len(tokenizer)}
            if key in ("encoder", "decoder")
            else value
            for key, value in given.items()
        }
    )


def save_tiny(
    name: str, config: Any, tokenizer: PreTrainedTokenizerFast, folder: Path
) -> int:
    """Write a model with its tokenizer, and return the number of its parameters."""
    torch.manual_seed(0)
    made = tiny_config(name, config, tokenizer)
    kind: Any = AutoModel
    with torch.device("meta"):
        count = sum(
            parameter.numel() for parameter in kind.from_config(made).parameters()
        )
    assert count < 20_000_000, f"{name} has {count:,} parameters"
    kind.from_config(made).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return count
