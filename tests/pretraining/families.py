"""Tiny random models of twelve families as Hugging Face folders, each with a tokenizer: what starts are tried on."""

import json
from pathlib import Path

import torch
import transformers as hf

from pretraining.data.tokenizer import train_tokenizer
from tests.pretraining.documents import make_documents

ROWS = 320
_PLAIN = {
    "vocab_size": ROWS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 96,
    "pad_token_id": 298,
    "bos_token_id": 297,
    "eos_token_id": 298,
}
_GROUPED = {**_PLAIN, "num_key_value_heads": 2}
_MIXED = ["sliding_attention", "full_attention"]

DECODERS = {
    # Without a padding row, which transformers' class would not train where it is the end of text.
    "llama": lambda: hf.LlamaForCausalLM(
        hf.LlamaConfig(**{**_GROUPED, "pad_token_id": None}, tie_word_embeddings=True)
    ),
    "mistral": lambda: hf.MistralForCausalLM(
        hf.MistralConfig(**_GROUPED, sliding_window=5)
    ),
    "qwen2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**_GROUPED)),
    "qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**_GROUPED, head_dim=16)),
    # Weights so large that scores and logits meet their soft caps.
    "gemma2": lambda: hf.Gemma2ForCausalLM(
        hf.Gemma2Config(
            **_GROUPED, head_dim=16, sliding_window=6, initializer_range=0.8
        )
    ),
    "gemma3": lambda: hf.Gemma3ForCausalLM(
        hf.Gemma3TextConfig(
            **_GROUPED, head_dim=16, sliding_window=6, layer_types=_MIXED
        )
    ),
    "olmo2": lambda: hf.Olmo2ForCausalLM(hf.Olmo2Config(**_GROUPED)),
    "gpt2": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(
            vocab_size=ROWS,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=96,
            bos_token_id=297,
            eos_token_id=298,
        )
    ),
}
ENCODERS = {
    "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(**_PLAIN)),
    "roberta": lambda: hf.RobertaForMaskedLM(
        hf.RobertaConfig(**{**_PLAIN, "pad_token_id": 1})
    ),
    "modernbert": lambda: hf.ModernBertForMaskedLM(
        hf.ModernBertConfig(
            **_PLAIN,
            local_attention=8,
            global_attn_every_n_layers=2,
            cls_token_id=297,
            sep_token_id=298,
        )
    ),
    "electra": lambda: hf.ElectraForMaskedLM(
        hf.ElectraConfig(**_PLAIN, embedding_size=32)
    ),
}
FAMILIES = {**DECODERS, **ENCODERS}
_ROBERTAS = {**_PLAIN, "pad_token_id": 1}
_DISTILLED = {
    "vocab_size": ROWS,
    "dim": 32,
    "hidden_dim": 48,
    "n_layers": 2,
    "n_heads": 4,
    "max_position_embeddings": 96,
    "pad_token_id": 298,
}
MORE_DECODERS = {
    "granite": lambda: hf.GraniteForCausalLM(hf.GraniteConfig(**_GROUPED)),
    "phi3": lambda: hf.Phi3ForCausalLM(hf.Phi3Config(**_GROUPED)),
    "starcoder2": lambda: hf.Starcoder2ForCausalLM(hf.Starcoder2Config(**_GROUPED)),
    "smollm3": lambda: hf.SmolLM3ForCausalLM(hf.SmolLM3Config(**_GROUPED)),
    "cohere2": lambda: hf.Cohere2ForCausalLM(
        hf.Cohere2Config(**_GROUPED, sliding_window=6)
    ),
    "gpt_neox": lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**_PLAIN)),
    "opt": lambda: hf.OPTForCausalLM(
        hf.OPTConfig(**_PLAIN, ffn_dim=48, word_embed_proj_dim=32)
    ),
    "gemma": lambda: hf.GemmaForCausalLM(hf.GemmaConfig(**_GROUPED, head_dim=16)),
    "mixtral": lambda: hf.MixtralForCausalLM(
        hf.MixtralConfig(**_GROUPED, num_local_experts=2, num_experts_per_tok=1)
    ),
    "glm4": lambda: hf.Glm4ForCausalLM(hf.Glm4Config(**_GROUPED, head_dim=16)),
}
MORE_ENCODERS = {
    "albert": lambda: hf.AlbertForMaskedLM(
        hf.AlbertConfig(**_PLAIN, embedding_size=16)
    ),
    "distilbert": lambda: hf.DistilBertForMaskedLM(hf.DistilBertConfig(**_DISTILLED)),
    "xlm-roberta": lambda: hf.XLMRobertaForMaskedLM(hf.XLMRobertaConfig(**_ROBERTAS)),
    "eurobert": lambda: hf.EuroBertForMaskedLM(
        hf.EuroBertConfig(**_GROUPED, mask_token_id=299)
    ),
    "data2vec-text": lambda: hf.Data2VecTextForMaskedLM(
        hf.Data2VecTextConfig(**_ROBERTAS)
    ),
}
PADDED = {
    "mpnet": lambda: hf.MPNetForMaskedLM(hf.MPNetConfig(**_ROBERTAS)),
    "deberta-v2": lambda: hf.DebertaV2ForMaskedLM(
        hf.DebertaV2Config(
            **_PLAIN, relative_attention=True, pos_att_type=["p2c", "c2p"]
        )
    ),
    "xlm": lambda: hf.XLMWithLMHeadModel(
        hf.XLMConfig(
            vocab_size=ROWS,
            emb_dim=32,
            n_layers=2,
            n_heads=4,
            max_position_embeddings=96,
            pad_index=298,
        )
    ),
}
"""Encoders whose classes do not take packed sequences."""
MORE = {**MORE_DECODERS, **MORE_ENCODERS, **PADDED}
"""Families on which exports are compared with their starts, and no more."""


def save_start(
    folder: Path, family: str, *, mask: str = "reserved", rows: int = ROWS
) -> Path:
    """Write a tiny start with its tokenizer, whose last special token is a mask, a reserved one, or missing (`new`).

    The tokenizer has 300 ids; `rows` are those of the embedding.
    """
    torch.manual_seed(0)
    model = {**FAMILIES, **MORE}[family]()
    if rows != ROWS:
        model.resize_token_embeddings(rows)
    model.save_pretrained(folder)
    train_tokenizer(make_documents(40), 300).save(folder)
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    if mask == "reserved":
        content["added_tokens"][-1]["content"] = "<file_sep>"
    elif mask == "new":
        content["added_tokens"].pop()
    path.write_text(json.dumps(content))
    given = json.loads((folder / "tokenizer_config.json").read_text())
    given.pop("mask_token")
    (folder / "tokenizer_config.json").write_text(json.dumps(given))
    (folder / "special_tokens_map.json").unlink()
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n# tiny\n")
    return folder
