"""Tokenizers in the manner of Llama 3, BERT and RoBERTa, trained on what a test gives."""

from collections.abc import Iterable

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import BertTokenizerFast, PreTrainedTokenizerFast

from tests.benchmarks.tiny import make_tokenizer

KINDS = ("llama3", "bert", "roberta")


def train(kind: str, texts: Iterable[str], size: int) -> PreTrainedTokenizerFast:
    """Train a tokenizer of a kind.

    `llama3`: byte-level BPE, a space in the token after it and in its offsets. `bert`: WordPiece with [CLS], [SEP] and
    token type ids. `roberta`: byte-level BPE whose offsets leave spaces out.
    """
    if kind == "llama3":
        return make_tokenizer(list(texts), size=size)
    if kind == "bert":
        inner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        inner.normalizer = normalizers.BertNormalizer()
        inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        inner.train_from_iterator(
            texts,
            trainers.WordPieceTrainer(
                vocab_size=size, special_tokens=special, show_progress=False
            ),
        )
        return BertTokenizerFast(vocab=inner.get_vocab())
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=special,
            initial_alphabet=alphabet,
            show_progress=False,
        ),
    )
    inner.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        mask_token="<mask>",
        cls_token="<s>",
        sep_token="</s>",
        unk_token="<unk>",
    )
