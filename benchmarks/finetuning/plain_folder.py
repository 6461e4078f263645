"""A fine-tuned model as a folder that plain transformers and sentence-transformers load, without code of ours.

A head goes into the class of transformers that computes the same; where there is none, the folder is the base model
with the head's weights next to it. The folder is loaded again and its outputs are compared with the model's, with and
without padding, before it counts. Its tokenizer reads texts as they were scored; for the paper's retrieval sets, as the
paper's evaluation reads them (D6).
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
    """Write a model's configuration and weights, and return the name of the class of transformers that loads them.

    Args:
        encoder: the model.
        head: the model's head; None for retrieval.
        folder: an existing folder to write into.
        device: where the model is, and the precision that it was evaluated in.
        labels: names of the head's outputs.
        problem: transformers' word for the kind of classification, `single_label_classification` for one; empty for
            tags.

    Raises:
        UserError: plain transformers cannot compute what the model computes.
    """
    if isinstance(head, TokenHead) and head.shift:
        raise UserError(
            "--keep best cannot keep this model: after MNTP its head reads the token before, "
            "which no class of transformers does; leave out --keep"
        )

    # Each class that may do is written and loaded again; the first that computes the same is kept.
    for kind, config in _classes(encoder, head, labels, problem):
        state = _state(kind, config, encoder, head)
        # The class has a weight that encoder and head lack.
        if state is None:
            continue

        # Tensors of the meta device have no memory: the model gets those of `state` in their place
        # (`assign`). `state` has all names of the class, so that nothing stays without memory although
        # `strict` is off. Whatever the class draws while it is made, `fork_rng` puts the global generator back.
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
    """Yield the classes of transformers that may compute a model, each with its configuration.

    First a class with such a head, if there is one, then the class of the base model alone.
    """
    # The configuration of the base model alone, and a second one for a class with the head.
    is_ours = isinstance(encoder.base, EuroBertModel)
    base: Any = encoder.base
    dtype = next(base.parameters()).dtype
    if is_ours:
        # Our class is written as transformers' EuroBERT, which has the same weights. `head=False`: there is
        # no language-model head; what a classifier needs is set below.
        dtype_name = str(dtype).removeprefix("torch.")
        config = transformers.EuroBertConfig(
            **native_config(base.config, dtype=dtype_name, head=False)
        )
    else:
        config = copy.deepcopy(base.config)

    # transformers reads `is_causal` of these decoders; servers read another field in its place.
    is_bidirectional = getattr(config, "is_causal", None) is False
    if config.model_type in SERVERS_READ_FLAG and is_bidirectional:
        setattr(config, FLAG, True)
    config.dtype = dtype
    config_of_base = copy.deepcopy(config)
    if head is not None:
        config.num_labels = len(labels)
        config.id2label = dict(enumerate(labels))
        config.label2id = {name: number for number, name in enumerate(labels)}
        config.problem_type = problem or None

    # The classes: which one has such a head depends on the kind of head.
    # A head that is itself from a class of transformers goes back into that class.
    if isinstance(head, ClassHead):
        yield type(head.model), config
    elif isinstance(head, TokenHead):
        mapping = AutoModelForTokenClassification._model_mapping
        kind = mapping.get(type(config), None)
        if kind is not None:
            yield kind, config
    # `pooling.eurobert` is what EuroBERT's classifier calls the pooling; empty where it does not have it.
    elif isinstance(head, SequenceHead) and head.pooling.eurobert:
        eurobert_config = config if is_ours else _as_eurobert(config)
        if eurobert_config is not None:
            eurobert_config.classifier_pooling = head.pooling.eurobert
            yield transformers.EuroBertForSequenceClassification, eurobert_config

    yield (transformers.EuroBertModel if is_ours else type(base)), config_of_base


def _as_eurobert(config: Any) -> Any | None:
    """Return a configuration of EuroBERT with which it computes what a Llama without its causal mask does.

    EuroBERT's class has the study's head on the mean of the tokens, which no class of decoders has.

    Returns:
        None for another model type, and for a Llama with biases, which EuroBERT has not.
    """
    if config.model_type != "llama" or config.attention_bias or config.mlp_bias:
        return None
    # What names the class, and what says the direction, which is given below.
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
    """Return whether a class of transformers has a head: `BertForTokenClassification` has one, `BertModel` has not."""
    return "Classification" in kind.__name__


def _state(
    kind: Any, config: Any, encoder: Encoder, head: Head | None
) -> dict[str, Tensor] | None:
    """Return encoder's and head's weights under a class's names; None if the class has one that both lack.

    A weight of another shape counts as lacking. Weights that the class lacks are left out:
    `_computes_the_same` shows later whether they matter.
    """
    # A class with a head holds its base model in an attribute: `bert.` before the names of BERT's weights.
    prefix = f"{kind.base_model_prefix}." if _has_head(kind) else ""
    state: dict[str, Tensor] = {}
    for name, tensor in encoder.base.state_dict().items():
        state[f"{prefix}{name}"] = tensor

    # The encoder took the pooler out of its base model (`encoders._make_bidirectional`); the class has it there.
    pooler: Any = encoder.pooler
    # `FirstToken` is put around the pooler of ALBERT and BigBird, which in their classes is only this linear
    # layer.
    if isinstance(pooler, FirstToken):
        pooler = pooler.layer
    if pooler is not None:
        for name, tensor in pooler.state_dict().items():
            state[f"{prefix}pooler.{name}"] = tensor

    # On the meta device only names and shapes are made.
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        wanted = kind(config).state_dict()

    # Only a class with a head has a prefix.
    if prefix and head is not None:
        names_in_head = [name for name in wanted if not name.startswith(prefix)]
        state |= _head_state(head, names_in_head)

    for name, tensor in wanted.items():
        if name not in state or state[name].shape != tensor.shape:
            return None

    return _on_cpu({name: state[name] for name in wanted})


def _head_state(head: Head, names: Sequence[str]) -> dict[str, Tensor]:
    """Return a head's weights under a class's names for them; nothing if the class's head has other weights.

    Args:
        head: the head.
        names: the class's names of the weights of its own head.
    """
    weights = head.state_dict()
    state = {}
    if isinstance(head, ClassHead):
        # The class itself is the head's `model`.
        for name, tensor in weights.items():
            state[name.removeprefix("model.")] = tensor
    elif isinstance(head, SequenceHead):
        # Its class is EuroBERT's, which has the same two layers and calls the second one `classifier`.
        for part in ("weight", "bias"):
            state[f"dense.{part}"] = weights[f"dense.{part}"]
            state[f"classifier.{part}"] = weights[f"out.{part}"]
    # A token head is one linear layer. So is the class's if it has two weights: `classifier.weight`, `classifier.bias`,
    # or under another name.
    elif len(names) == 2:
        for name in names:
            part = name.rpartition(".")[2]
            state[name] = weights[f"out.{part}"]

    return state


def _on_cpu(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return weights as safetensors writes them: on the CPU, each contiguous."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}


@torch.no_grad()
def _computes_the_same(
    kind: Any, folder: Path, encoder: Encoder, head: Head | None, device: RunDevice
) -> bool:
    """Return whether the folder's model gives the same outputs for random ids as the encoder and its head.

    The outputs are logits, or hidden states without a head. Three cases are compared, of two rows each: eleven tokens,
    six tokens, and one row of eleven beside one of six with padding. An encoder that computes each length by itself
    never sees padding, so the last case is left out for it.

    Args:
        kind: the folder's class of transformers.
        folder: the folder that was written.
        encoder: the encoder that it was made from.
        head: the head, if it is part of that class.
        device: where the encoder is, and the precision of the comparison.
    """
    # The folder's model, and what both models are to compute.
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
    cases = [
        (ids, torch.tensor([11, 11])),
        (ids[:, :6], torch.tensor([6, 6])),
    ]
    if not encoder.alone:
        cases.append((ids, torch.tensor([11, 6])))

    # The largest difference that counts as rounding, as a share of the largest output.
    # In bfloat16 two ways of one computation differ more.
    tolerance = 1e-3 if device.precision.name == "fp32" else 5e-2

    # Case by case: both models' outputs, then their largest difference.
    try:
        for module in modules:
            module.eval()
        for ids_on_cpu, lengths in cases:
            case_ids = ids_on_cpu.to(device.torch_device)
            # The encoder takes lengths on the CPU; the head takes them on the device.
            lengths_there = lengths.to(device.torch_device)
            places = torch.arange(case_ids.shape[1], device=case_ids.device)
            mask = places < lengths_there[:, None]
            with device.autocast():
                hidden = encoder(case_ids, lengths)
                wanted = hidden if head is None else head(hidden, lengths_there)
                outputs = plain(input_ids=case_ids, attention_mask=mask.long())

            actual = outputs.last_hidden_state if head is None else outputs.logits
            if actual.shape != wanted.shape:
                return False

            # Outputs of tokens (B, L, ...): those of padding may be anything.
            if wanted.dim() == 3:
                wanted, actual = wanted[mask], actual[mask]
            wanted, actual = wanted.float(), actual.float()
            gap = float((wanted - actual).abs().max())
            # With 1e-6, outputs near 0 have some room for rounding as well.
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
        tokenizer: a tokenizer that reads texts so, with the special tokens that it adds by itself.
        folder: the folder to write into.
        max_length: longest input in tokens.
        read: examples, each a text or a pair of texts, with the ids that the run read.

    Raises:
        UserError: the written tokenizer reads an example otherwise.
    """
    # Saved as it is, it would also say how its last call cut and padded texts, and another longest input.
    made_again(tokenizer, max_length=max_length).save_pretrained(folder)
    written = AutoTokenizer.from_pretrained(folder)
    for texts, ids in read:
        if written(*texts)["input_ids"] != ids:
            raise UserError(
                f"--keep best cannot keep this model: its tokenizer, written to a folder, reads {texts[-1][:40]!r} "
                "otherwise; leave out --keep"
            )
