"""A fine-tuned model as a folder that plain transformers and sentence-transformers load, without code of ours.

A head goes into the class of transformers that computes the same; where there is none, the folder is the base model
with the head's weights next to it. What was written is loaded again and compared with the model, padded or not, before
it counts. Its tokenizer reads texts as they were scored: that of the paper's retrieval as its evaluation does (D6).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import AutoModelForTokenClassification, AutoTokenizer

from benchmarks.finetuning.base_models import FirstToken
from benchmarks.finetuning.device import RunDevice
from benchmarks.finetuning.encoders import Encoder
from benchmarks.finetuning.heads import (
    ClassHead,
    Head,
    SequenceHead,
    TokenHead,
)
from benchmarks.finetuning.own_ends import made_again
from common.errors import UserError
from pretraining.model.configuration import native_config
from pretraining.model.directions import FLAG, SERVERS_READ_FLAG, probe_ids
from pretraining.model.encoder_folder import quiet
from pretraining.model.modeling import EuroBertModel

HEAD_FILE = "head.safetensors"
"""The head of a model for which transformers has no class."""


def write_model(
    encoder: Encoder,
    head: Head | None,
    folder: Path,
    device: RunDevice,
    labels: Sequence[str],
    problem: str,
) -> str:
    """Write a model's configuration and weights, and return the name of the class that they are of.

    Args:
        encoder: the model.
        head: the model's head; None for retrieval.
        folder: where to, a folder that is there.
        device: where the model is, and the precision that it was evaluated in.
        labels: names of the head's outputs.
        problem: what transformers calls the problem: `single_label_classification`, ...; empty for tags.

    Raises:
        UserError: plain transformers cannot compute what the model computes.
    """
    if isinstance(head, TokenHead) and head.shift:
        raise UserError(
            "--keep best cannot keep this model: after MNTP its head reads the token before, "
            "which no class of transformers does; leave out --keep"
        )
    for kind, config in _classes(encoder, head, labels, problem):
        state = _state(kind, config, encoder, head)
        if state is None:
            continue
        with torch.device("meta"), torch.random.fork_rng(devices=[]):
            model = kind(config)
        model.load_state_dict(state, strict=False, assign=True)
        # Remove weights that an earlier class wrote, which did not compute the same.
        for old in folder.glob("*.safetensors*"):
            old.unlink()
        with quiet():
            model.save_pretrained(folder)
        head_of_class = head if _has_head(kind) else None
        if head is not None and head_of_class is None:
            save_file(_on_cpu(head.state_dict()), folder / HEAD_FILE)
        if _computes_the_same(kind, folder, encoder, head_of_class, device):
            return str(kind.__name__)
    raise UserError(
        f"--keep best cannot keep this model ({encoder.description}): plain transformers does not compute the same "
        f"from a folder of {type(encoder.base).__name__}; leave out --keep"
    )


def _classes(
    encoder: Encoder, head: Head | None, labels: Sequence[str], problem: str
) -> Iterator[tuple[Any, Any]]:
    """Yield classes of transformers with their configurations: with such a head, then the base model's own."""
    ours = isinstance(encoder.base, EuroBertModel)
    base: Any = encoder.base
    if ours:
        dtype = str(next(base.parameters()).dtype).removeprefix("torch.")
        config = transformers.EuroBertConfig(
            **native_config(base.config, dtype=dtype, head=False)
        )
    else:
        config = copy.deepcopy(base.config)
    if (
        config.model_type in SERVERS_READ_FLAG
        and getattr(config, "is_causal", None) is False
    ):
        setattr(config, FLAG, True)
    config.dtype = next(base.parameters()).dtype
    plain = copy.deepcopy(config)
    if head is not None:
        config.num_labels = len(labels)
        config.id2label = dict(enumerate(labels))
        config.label2id = {name: number for number, name in enumerate(labels)}
        config.problem_type = problem or None
    if isinstance(head, ClassHead):
        yield type(head.model), config
    elif isinstance(head, TokenHead):
        mapping = AutoModelForTokenClassification._model_mapping
        kind = mapping.get(type(config), None)
        if kind is not None:
            yield kind, config
    elif isinstance(head, SequenceHead) and head.pooling.eurobert:
        eurobert = config if ours else _as_eurobert(config)
        if eurobert is not None:
            eurobert.classifier_pooling = head.pooling.eurobert
            yield transformers.EuroBertForSequenceClassification, eurobert
    yield (transformers.EuroBertModel if ours else type(base)), plain


def _as_eurobert(config: Any) -> Any | None:
    """Return the configuration of the EuroBERT that a Llama is without its mask; None where there is none.

    EuroBERT has the study's head on the mean of the tokens, which no class of decoders has.
    """
    if config.model_type != "llama" or config.attention_bias or config.mlp_bias:
        return None
    left_out = (
        "model_type",
        "architectures",
        "transformers_version",
        FLAG,
        "is_causal",
    )
    fields = {
        name: value for name, value in config.to_dict().items() if name not in left_out
    }
    # The class demands a mask's id; a classifier masks nothing, so 0 will do.
    mask = fields.pop("mask_token_id", None) or 0
    return transformers.EuroBertConfig(**fields, mask_token_id=mask, is_causal=False)


def _has_head(kind: Any) -> bool:
    """Return whether a class of transformers has a head on its base model."""
    return "Classification" in kind.__name__


def _state(
    kind: Any, config: Any, encoder: Encoder, head: Head | None
) -> dict[str, Tensor] | None:
    """Return the weights under a class's names; None if the class has other weights than these."""
    prefix = f"{kind.base_model_prefix}." if _has_head(kind) else ""
    state: dict[str, Tensor] = {}
    for name, tensor in encoder.base.state_dict().items():
        state[f"{prefix}{name}"] = tensor
    pooler: Any = encoder.pooler
    if isinstance(pooler, FirstToken):
        pooler = pooler.layer
    if pooler is not None:
        for name, tensor in pooler.state_dict().items():
            state[f"{prefix}pooler.{name}"] = tensor
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        wanted = kind(config).state_dict()
    if prefix and head is not None:
        names_in_head = [name for name in wanted if not name.startswith(prefix)]
        state |= _head_state(head, names_in_head)
    for name, tensor in wanted.items():
        if name not in state or state[name].shape != tensor.shape:
            return None
    return _on_cpu({name: state[name] for name in wanted})


def _head_state(head: Head, names: Sequence[str]) -> dict[str, Tensor]:
    """Return a head's weights under a class's names for them; nothing if the class's head has other weights."""
    ours = head.state_dict()
    state = {}
    if isinstance(head, ClassHead):
        for name, tensor in ours.items():
            state[name.removeprefix("model.")] = tensor
    elif isinstance(head, SequenceHead):
        for part in ("weight", "bias"):
            state[f"dense.{part}"] = ours[f"dense.{part}"]
            state[f"classifier.{part}"] = ours[f"out.{part}"]
    elif len(names) == 2:  # a linear layer, whatever its name
        for name in names:
            part = name.rpartition(".")[2]
            state[name] = ours[f"out.{part}"]
    return state


def _on_cpu(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return weights as safetensors writes them: on the CPU, each contiguous."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}


@torch.no_grad()
def _computes_the_same(
    kind: Any, folder: Path, encoder: Encoder, head: Head | None, device: RunDevice
) -> bool:
    """Return whether the folder's model gives the encoder's logits, or hidden states without a head, for random ids.

    Two rows of eleven tokens, two of six, and one of each, padded; an encoder that computes each length by itself never
    sees padding, and is not asked for it.
    """
    with quiet():
        plain = kind.from_pretrained(
            folder, dtype=next(encoder.parameters()).dtype
        ).eval()
    plain.to(device.torch_device)
    ids = probe_ids(plain.get_input_embeddings(), 22).view(2, 11).cpu()
    modules: list[nn.Module] = [encoder]
    if head is not None:
        modules.append(head)
    was_training = encoder.training
    full, short = torch.tensor([11, 11]), torch.tensor([6, 6])
    cases = [(ids, full), (ids[:, :6], short)]
    if not encoder.alone:
        cases.append((ids, torch.tensor([11, 6])))
    tolerance = 1e-3 if device.precision.name == "fp32" else 5e-2
    try:
        for module in modules:
            module.eval()
        for case_ids, lengths in cases:
            read = case_ids.to(device.torch_device)
            lengths_there = lengths.to(device.torch_device)
            places = torch.arange(read.shape[1], device=read.device)
            mask = places < lengths_there[:, None]
            with device.autocast():
                hidden = encoder(read, lengths)
                wanted = hidden if head is None else head(hidden, lengths_there)
                outputs = plain(input_ids=read, attention_mask=mask.long())
            actual = outputs.last_hidden_state if head is None else outputs.logits
            if actual.shape != wanted.shape:
                return False
            if wanted.dim() == 3:  # of tokens: what padding has does not matter
                wanted, actual = wanted[mask], actual[mask]
            wanted, actual = wanted.float(), actual.float()
            gap = float((wanted - actual).abs().max())
            largest = float(wanted.abs().max() + 1e-6)
            # `not <=` counts nan as a difference.
            if not gap <= tolerance * largest:
                return False
    finally:
        for module in modules:
            module.train(was_training)
    return True


def write_tokenizer(
    tokenizer: Any,
    folder: Path,
    *,
    max_length: int,
    read: Iterable[tuple[tuple[str, ...], list[int]]],
) -> None:
    """Write a tokenizer that reads texts as fine-tuning and evaluation read them.

    Args:
        tokenizer: what reads them so, by its own special tokens.
        folder: where to.
        max_length: longest input in tokens.
        read: examples, texts or pairs, with the ids that the run read.

    Raises:
        UserError: one is read otherwise.
    """
    made_again(tokenizer, max_length=max_length).save_pretrained(folder)
    written = AutoTokenizer.from_pretrained(folder)
    for text, ids in read:
        if written(*text)["input_ids"] != ids:
            raise UserError(
                f"--keep best cannot keep this model: its tokenizer, written to a folder, reads {text[-1][:40]!r} "
                "otherwise; leave out --keep"
            )
