"""Tiny tokenizers and configurations of every kind of model that the package measures."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoModel,
    BertConfig,
    LlamaConfig,
    ModernBertConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
    RobertaConfig,
)

from benchmarks.finetuning.device import RunDevice, choose_device
from benchmarks.finetuning.encoders import load_model
from benchmarks.sweep.work import ResettableModel
from benchmarks.tasks.base import Setting
from pretraining.model.configuration import EncoderConfig
from pretraining.model.modeling import EuroBertModel

CPU = choose_device("cpu", "fp32")
END, BEGIN, MASK = "<|end_of_text|>", "<|begin_of_text|>", "<|mask|>"


def make_tokenizer(
    texts: list[str], *, begin: bool = True, size: int = 700
) -> PreTrainedTokenizerFast:
    """Byte-level BPE in the manner of Llama 3: BOS by default, EOS only where it is written out."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[BEGIN, END, MASK],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    steps: list[Any] = [processors.ByteLevel(trim_offsets=False)]
    if begin:
        steps.append(
            processors.TemplateProcessing(
                single=f"{BEGIN} $A", pair=f"{BEGIN} $A $B", special_tokens=[(BEGIN, 0)]
            )
        )
    tokenizer.post_processor = processors.Sequence(steps)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BEGIN,
        eos_token=END,
        mask_token=MASK,
        pad_token=END,
    )


def make_config(
    kind: str, *, vocab: int, positions: int = 512, hidden: int = 32, layers: int = 2
) -> Any:
    """A tiny configuration of each kind of model that the package measures."""
    shape = {
        "vocab_size": vocab,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "intermediate_size": 2 * hidden,
        "max_position_embeddings": positions,
    }
    ids = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    match kind:
        case "ours":
            return EncoderConfig(**shape, **ids, num_key_value_heads=2, mask_token_id=2)
        case "ours-causal":
            return EncoderConfig(
                **shape, **ids, num_key_value_heads=2, mask_token_id=2, is_causal=True
            )
        case "llama":
            return LlamaConfig(**shape, **ids, num_key_value_heads=2)
        case "qwen2":
            return Qwen2Config(
                **shape,
                **ids,
                num_key_value_heads=2,
                use_sliding_window=True,
                sliding_window=4,
            )
        case "qwen3":
            return Qwen3Config(**shape, **ids, num_key_value_heads=2, head_dim=8)
        case "bert":
            return BertConfig(**shape, pad_token_id=1)
        case "roberta":
            return RobertaConfig(**shape, **ids)
        case "modernbert":
            return ModernBertConfig(
                **shape, **ids, sep_token_id=1, cls_token_id=0, local_attention=8
            )
    raise AssertionError(kind)


def untrained(config: Any) -> Any:
    """A base model of a configuration, ours or the library's, with weights from torch's generator."""
    if isinstance(config, EncoderConfig):
        return EuroBertModel._from_config(config)
    return AutoModel.from_config(config)


def resettable_of(folder: Path, device: RunDevice = CPU) -> ResettableModel:
    """The model of a folder on a device, with the paper's settings."""
    return ResettableModel(Setting(loaded=load_model(str(folder)), device=device))


def save_model(
    folder: Path, tokenizer: PreTrainedTokenizerFast, kind: str = "ours", **options: int
) -> Path:
    """Save a tiny model of a kind, its weights drawn from one seed, with its tokenizer, and return the folder."""
    torch.manual_seed(0)
    config = make_config(kind, vocab=len(tokenizer), **options)
    untrained(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
