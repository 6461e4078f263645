"""Trained weights as a folder of their start's own class, so that every library which knows the start reads them.

A start is the model from which training took its first weights, such as a decoder of the hub (`pretraining.starts`).
This package's own class is `eurobert`; what starts from random weights or from a `eurobert` is exported as one. Servers
are other programs that load such folders and embed texts; some read older fields of `config.json`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from common.description import first_difference
from common.embedding import Embedding, kept_embedding
from common.errors import UserError
from common.files import write_bytes
from common.manifest import FILES
from pretraining.data.tokenizer_files import read_tokenizer, write_tokenizer
from pretraining.model.configuration import EncoderConfig, shape_fields, shape_of
from pretraining.model.directions import (
    FLAG,
    SERVERS_READ_FLAG,
    has_own_flag,
    is_decoder,
)
from pretraining.model.encoder_folder import (
    EMBEDDING,
    ModelFiles,
    check_model,
    quiet,
    self_test_vector,
    write_config,
    write_folder,
)
from pretraining.model.model_folder import (
    card_rows,
    copy_tokenizer,
    encoder_config,
    eurobert_files,
    fill_card,
    load_encoder,
)
from pretraining.model.modeling import EuroBertForMaskedLM
from pretraining.model.start_weights import (
    LM_HEAD,
    is_eurobert,
    load_start,
    model_of,
)
from pretraining.models import PREDICTION_SHIFT
from pretraining.starts import Start, start_of

MINIMUM = "5.2"
"""The first version of transformers that reads the direction of attention, `is_causal`, for every family of models."""

_LLAMA_CPP = (
    "BertForMaskedLM",
    "BloomModel",
    "DistilBertForMaskedLM",
    "Gemma3TextModel",
    "LlamaModel",
    "ModernBertForMaskedLM",
    "Qwen2Model",
    "Qwen3Model",
)
"""Classes that llama.cpp's converter knows (its conversion/__init__.py), as exports name them."""
_LLAMA_CPP_BASES = ("camembert", "roberta", "xlm-roberta")
"""Families that it knows only as models without a head."""
_OF_EXPORTS = ("transformers", "start_name", "start_licence", "mask_token")
"""Fields of a manifest that `export_trained` adds by itself."""
_SPECIAL_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")
_LABELS = ("id2label", "label2id", "num_labels", "problem_type", "finetuning_task")
"""Fields of `config.json` for a head that classifies texts."""
_ROPE_OF_LAYERS = {
    "gemma3_text": ("rope_theta", "rope_local_base_freq"),
    "modernbert": ("global_rope_theta", "local_rope_theta"),
}
"""By family, older names of the base of rotary positions: for layers that see all tokens (full attention), and for
layers with a sliding window."""
_SCALING_OF_FULL_LAYERS = ("gemma3_text", "olmo3")
"""Families with two kinds of layers of which transformers gives `rope_scaling` to the full ones only.

Of others (ModernBERT, Gemma 4) it would scale the layers with a window as well, so they get no such field.
"""


def export_trained(
    start: Start | None,
    state: Mapping[str, Tensor],
    manifest: Mapping[str, Any],
    out: Path,
    *,
    config: EncoderConfig | None = None,
    tokenizer_dir: Path | None = None,
    texts: Mapping[str, str] | None = None,
    origin: Mapping[str, Any] | None = None,
) -> Path:
    """Write trained weights as a model's folder and return it; the model is a `eurobert`, or of its start's class.

    Args:
        start: the model that training started from; None for random weights.
        state: a checkpoint's tensors, as the trained model names them.
        manifest: what the model was made from; see `write_folder`.
        out: folder to make; if it holds the same model already, it is left as it is.
        config: the configuration of a `eurobert`, from `export_config`. None for a model of its start's class, which
            gets the start's configuration, made bidirectional.
        tokenizer_dir: folder with the tokenizer of a `eurobert`. Another class gets its start's tokenizer, and from
            this folder only the token that ends a text, if the start does not say which.
        texts: further text files by name.
        origin: content of `provenance.json`.

    Raises:
        UserError: `out` holds other things, or the model that was written does not see both sides.
    """
    if start is not None:
        # `kept`: how vectors are pooled, and the prompts before queries and documents. Trained weights keep
        # both.
        manifest = {**manifest, EMBEDDING: start.embedding.kept}

    if config is not None:
        files = eurobert_files(state, config, tokenizer_dir)
        return write_folder(out, files, manifest, texts=texts, origin=origin)

    assert start is not None, "random weights are a `eurobert`'s"
    model = model_of(start, state)
    write_tokenizer_files = partial(_write_companions, start=start, data=tokenizer_dir)
    card = partial(_card, made_from=start.name, licence=start.licence, name=out.name)
    files = _files_of(model, write_tokenizer_files, card)
    # `mask.origin`: `own` for a mask of the start's tokenizer, `was TOKEN` for a renamed token, or `new`.
    mask = start.mask
    about = {
        **manifest,
        "start_name": start.name,
        "start_licence": start.licence or "unknown",
        "mask_token": {"token": mask.token, "id": mask.id, "origin": mask.origin},
        "transformers": f">={MINIMUM}",
    }
    return write_folder(out, files, about, texts=texts, origin=origin)


def refuse_other_embedding(
    start: Start | None, manifest: Mapping[str, Any], where: str
) -> None:
    """Refuse a finished model that was written with another pooling or other prompts than its start has now.

    Args:
        start: the model that training started from; None for random weights.
        manifest: the finished model's manifest.
        where: the model's folder, for messages.

    Raises:
        UserError: they differ. The weights do not depend on them, so the model has only to be written again.
    """
    if start is None:
        return
    # A manifest without the field: the model is pooled by the mean and has no prompts, as `Embedding()`.
    recorded = manifest.get(EMBEDDING, Embedding().kept)
    differs = first_difference(recorded, start.embedding.kept)
    if differs is None:
        return
    name, theirs, ours = differs
    raise UserError(
        f"{where} was written with {name}={theirs!r:.80}, and its start has {ours!r:.80}; remove its folder and run "
        "the same command to write it again from its last checkpoint"
    )


def try_export(start: Start, model: nn.Module, tokenizer_dir: Path) -> None:
    """Refuse, before the first step, a start whose trained weights `export_trained` would refuse after the last one.

    The small files of an export are written to a temporary folder, and transformers loads the model from them, with its
    weights from memory. A start that is exported as a `eurobert` is not tried.

    Args:
        start: the model that training starts from, as `as_loaded` returned it.
        model: the model to train, as `load_start` returned it.
        tokenizer_dir: the shards' tokenizer folder.

    Raises:
        UserError: transformers does not load the export, or the model does not see both sides.
    """
    if is_eurobert(start):
        return
    inner = model_of(start, model.state_dict())
    with TemporaryDirectory() as name:
        folder = Path(name)
        inner.config.save_pretrained(folder)
        _write_config(folder, inner)
        _write_companions(folder, start, tokenizer_dir)
        self_test_vector(
            folder,
            start.text,
            "give a model of another family",
            state=_saved_part(inner).state_dict(),
        )


def export_llama(folder: Path, out: Path) -> Path:
    """Write a `eurobert` model again as transformers' Llama class, which more servers know, and return the folder.

    The two classes compute the same with the same names of weights.

    Args:
        folder: a bidirectional `eurobert` model with a head, as this package exports it.
        out: folder to make.

    Raises:
        UserError: `folder` holds another model, or a causal one.
    """
    encoder = load_encoder(folder, EuroBertForMaskedLM)
    config = encoder.config
    if config.is_causal:
        raise UserError(
            f"{folder} attends causally, so it is no encoder; export a model that ends in MLM"
        )

    names = {*shape_fields(shape_of(config)), *_SPECIAL_IDS}
    names.remove("rope_theta")  # transformers 5 has this field among `rope_parameters`
    fields = {name: getattr(config, name) for name in names}
    fields["rope_parameters"] = config.rope_parameters

    # On the meta device no memory is filled: `assign` puts the encoder's own tensors in place.
    with torch.device("meta"):
        llama = LlamaForCausalLM(LlamaConfig(**fields, is_causal=False))
    llama.load_state_dict(encoder.state_dict(), assign=True)
    made_from = f"{folder.name} (eurobert)"
    card = partial(_card, made_from=made_from, licence="", name=out.name)
    files = _files_of(llama, partial(copy_tokenizer, folder), card)

    # A folder without a manifest of this package only has its name to say.
    manifest = check_model(folder) or {"model": folder.name}
    # Without the hashes of the other folder's files: `write_folder` adds those of this one.
    about = _without(manifest, FILES, "records")

    # Pooling and prompts, from the files of sentence-transformers in the folder.
    about[EMBEDDING] = kept_embedding(folder).kept
    about["transformers"] = f">={MINIMUM}"
    return write_folder(out, files, about)


def _without(manifest: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return a manifest's content without the fields of these names."""
    return {key: value for key, value in manifest.items() if key not in names}


def _files_of(
    model: Any,
    write_tokenizer: Callable[[Path], None],
    card: Callable[[Any, Mapping[str, Any]], str],
) -> ModelFiles:
    """Return what `write_folder` needs to write a model of a class of transformers.

    Args:
        model: the model.
        write_tokenizer: writes the tokenizer's files into a folder.
        card: returns the text of the model card, from the model and the manifest's content.
    """

    def save(folder: Path) -> None:
        saved = _saved_part(model)
        # Larger than any model, so that the weights are one file.
        with quiet():
            saved.save_pretrained(folder, max_shard_size="1000GB")
        head = _head_outside(model, saved)
        if head:
            save_file(head, folder / LM_HEAD, metadata={"format": "pt"})
        # An encoder generates no text.
        (folder / "generation_config.json").unlink(missing_ok=True)
        _write_config(folder, model)
        write_tokenizer(folder)

    return ModelFiles(
        save=save,
        card=partial(card, model),
        width=int(model.config.hidden_size),
    )


def _saved_part(inner: Any) -> Any:
    """Return the part of a model that is saved in its folder: of a decoder without its head, otherwise the whole.

    Servers take a decoder's class without a head (`LlamaModel`) for an encoder, and look for the names that weights
    have in it, which do not begin with `model.`.
    """
    return inner.base_model if is_decoder(inner.config) else inner


def write_merged(start: Start, finished: Path, share: float) -> Path:
    """Write the average of the weights of a start and of the model that was trained from it, and return the folder.

    Args:
        start: the start.
        finished: the folder of the trained model; the average goes next to it.
        share: the start's share of the average, 0 to 1.

    Raises:
        UserError: the model was trained from another start.
    """
    out = merged_folder(finished, share)
    # The finished model, opened as a start is, so that its weights can be loaded.
    trained = start_of(str(finished))
    manifest = check_model(finished) or {}

    # A model that does not record its start cannot be compared with it: that counts as no difference.
    recorded = manifest.get("start", start.identity)
    if recorded["weights"] != start.identity["weights"]:
        raise UserError(
            f"{start.text} has changed since {finished} was trained from it; put the weights back, then run the same "
            "command again"
        )

    # The seed, 0, only draws a head that a folder lacks. An encoder's vectors do not depend on its head.
    before = load_start(start, 0).state_dict()
    state = load_start(trained, 0).state_dict()
    for name, tensor in state.items():
        # Tensors of integers, such as position ids, are no weights.
        if tensor.is_floating_point():
            state[name] = torch.lerp(tensor, before[name], share)

    # Left out: fields that the export writes itself, and losses, which are those of other weights.
    about = _without(manifest, FILES, "records", *_OF_EXPORTS, "validation")
    about |= {"model": out.name, "share_of_the_start": share}
    config = encoder_config(finished) if is_eurobert(start) else None
    return export_trained(
        start, state, about, out, config=config, tokenizer_dir=finished
    )


def merged_folder(finished: Path, share: float) -> Path:
    """Return the folder next to a trained model's for its average with the start, by the start's share in percent."""
    return finished.with_name(f"{finished.name}-merge{100 * share:.10g}")


def _head_outside(inner: Any, saved: nn.Module) -> dict[str, Tensor]:
    """Return the tensors that a model has besides the saved part of it: the head's, unless they are tied to others.

    A tied head shares the memory of the embedding, which is saved.
    """
    saved_storages = {tensor.data_ptr() for tensor in saved.state_dict().values()}
    return {
        name: tensor.contiguous()
        for name, tensor in inner.state_dict().items()
        if tensor.data_ptr() not in saved_storages
    }


def _write_config(folder: Path, inner: nn.Module) -> None:
    """Rewrite the `config.json` that transformers has saved: add the direction, and older fields that servers read."""
    fields: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
    config: Any = inner.config
    # Fields of the start that are no longer true: how its objective shifted predictions, and labels of a removed head.
    for name in (PREDICTION_SHIFT, *_LABELS):
        fields.pop(name, None)

    # Both directions, whatever the last objective was (`export_trained`). Families with a field of their own
    # for the direction have it in their saved configuration already.
    if has_own_flag(config):
        fields.pop("is_causal", None)
    else:
        fields["is_causal"] = False

    # The direction once more: for these families servers read this field in place of `is_causal`.
    if config.model_type in SERVERS_READ_FLAG:
        fields[FLAG] = True
    fields |= _older_rope(fields)
    write_config(folder, fields)


def _older_rope(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return rotary positions in the fields that servers still read, in addition to transformers' `rope_parameters`."""
    rope = fields.get("rope_parameters") or {}
    # Families with two kinds of layers have two nested tables of fields, others one table for all layers.
    full = rope.get("full_attention", rope)
    has_one_kind = full is rope
    sliding = rope.get("sliding_attention", {})
    kind = str(fields["model_type"])
    names = _ROPE_OF_LAYERS.get(kind, ("rope_theta",))
    older: dict[str, Any] = {}

    # Most families have only one older name, for the base of the full layers: `zip` then leaves the others out.
    for name, of_layers in zip(names, (full, sliding), strict=False):
        if "rope_theta" in of_layers:
            older[name] = of_layers["rope_theta"]

    is_scaled = full.get("rope_type", "default") != "default"
    if is_scaled and (has_one_kind or kind in _SCALING_OF_FULL_LAYERS):
        older["rope_scaling"] = full
    return older


def _write_companions(folder: Path, start: Start, data: Path | None) -> None:
    """Write the files beside weights and configuration: the start's tokenizer with a mask token, and its licence.

    Args:
        folder: the folder to write to.
        start: the start.
        data: the shards' tokenizer folder, where a token that ends a text is looked up if the start names none.
    """
    mask = start.mask
    special = {**start.tokenizer.special, "mask_token": mask.token}
    if start.tokenizer.end is None and data is not None:
        # The start names no end of text: it is the one that an option named when the shards were written. The
        # other special tokens are the start's own, since shards of another tokenizer or mask are refused
        # (`data_config`).
        special |= read_tokenizer(data).special

    # Tokenizers such as BERT's name no end of text: the token that separates two texts also ends one.
    end = special.get("eos_token") or special.get("sep_token")
    special.setdefault("pad_token", end or mask.token)
    # A tokenizer.json may have been saved with cutting and padding of texts turned on.
    content = {**start.tokenizer.content, "truncation": None, "padding": None}

    # A start such as a decoder has no mask token of its own: one was added, or a reserved token was made the mask.
    if mask.origin != "own":
        # `lstrip` lets the mask take the space before it, as RoBERTa's and ModernBERT's do: in "the <|mask|>" there is
        # then no token for the space.
        added = []
        for item in content["added_tokens"]:
            if item["id"] == mask.id:
                item = {**item, "lstrip": True}
            added.append(item)
        content["added_tokens"] = added

    inputs = ["input_ids", "attention_mask"]
    types = start.config.get("type_vocab_size")
    # Families like BERT mark the second text of a pair by token types.
    if isinstance(types, int) and types > 1:
        inputs.insert(1, "token_type_ids")
    write_tokenizer(
        folder,
        json.dumps(content, ensure_ascii=False) + "\n",
        special,
        max_length=start.longest,
        padding_side="right",
        model_input_names=inputs,
    )
    for name, notice in start.notices.items():
        write_bytes(folder / name, notice)


def _card(
    inner: Any, manifest: Mapping[str, Any], *, made_from: str, licence: str, name: str
) -> str:
    """Return the model card of a model of a class of transformers.

    Args:
        inner: the model.
        manifest: the manifest's content.
        made_from: name of the model that it was made from.
        licence: that model's licence; empty if unknown.
        name: what the model is called if its manifest does not say.
    """
    front = ""
    # The hub's front matter takes only an identifier, not a licence in words.
    if licence and " " not in licence:
        front = f"license: {licence}\n"
    config = inner.config
    saved_class = type(_saved_part(inner)).__name__
    title = manifest.get("model", name)
    servers = _servers(config, saved_class)
    rows = card_rows(manifest)
    return fill_card(
        "adapted_card.md",
        name=title,
        start=made_from,
        licence=licence or "unknown",
        front=front,
        kind=config.model_type,
        servers=servers,
        minimum=MINIMUM,
        rows=rows,
    )


def _servers(config: Any, name: str) -> str:
    """Return a card's sentence on which servers read the folder.

    Args:
        config: the model's configuration.
        name: the class that the folder names, by which llama.cpp's converter decides.
    """
    if name in _LLAMA_CPP:
        return "llama.cpp's converter reads this folder as it is."
    if config.model_type in _LLAMA_CPP_BASES:
        return (
            "llama.cpp's converter knows this family without a head alone: write a copy with "
            "`AutoModel.from_pretrained(...).save_pretrained(...)`, and the tokenizer beside it."
        )

    if config.model_type == "mistral" and config.sliding_window is None:
        return (
            "Without a sliding window a Mistral is a Llama: for llama.cpp and text-embeddings-inference, set "
            '`model_type` to `llama` and `architectures` to `["LlamaModel"]` in the `config.json` of a copy.'
        )

    return (
        f"llama.cpp's converter does not know {name}: serve this folder with sentence-transformers or vLLM, or "
        "export it to ONNX."
    )
