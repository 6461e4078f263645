"""A start's weights as a model to train, and the trained weights as a folder of the start's own class.

A Llama without biases is our own architecture by name: it runs in `EuroBertForMaskedLM`, which is faster. Any other
class runs as it is, packed (`pretraining.model.adapted`). Exports keep the start's class, so that every library which
knows the start reads them.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from string import Template
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, LlamaConfig, LlamaForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from common.errors import UserError, first_line
from common.files import write_text
from common.manifest import FILES
from pretraining.data.tokenizer import load_tokenizer
from pretraining.model.adapted import AdaptedModel, check_packing
from pretraining.model.configuration import EncoderConfig, config_of, shape_fields, shape_of
from pretraining.model.directions import FLAG, SERVERS_READ_FLAG, has_own_flag, turn
from pretraining.model.encoder_folder import check_model, quiet, write_folder
from pretraining.model.model_folder import card_rows, copy_tokenizer, export, load_encoder, read_config
from pretraining.model.modeling import EuroBertForMaskedLM
from pretraining.models import PREDICTION_SHIFT
from pretraining.starts import Start, start_of

__all__ = [
    "Trained",
    "check_start",
    "data_config",
    "export_start",
    "load_start",
    "write_merged",
]

logger = logging.getLogger(__name__)

Trained = EuroBertForMaskedLM | AdaptedModel
"""A model as training uses it."""
_MULTIPLE = 64
"""What a vocabulary that grows is rounded up to."""
MINIMUM = "5.2"
"""The first version of transformers that reads `is_causal` of every family."""


def check_start(start: Start, tokenizer: Mapping[str, Any], data: str) -> None:
    """Refuse shards that were not written with the start's tokenizer, or have another mask.

    Raises:
        UserError: they were not; the command that writes them is named.
    """
    own = load_tokenizer(str(start.folder))
    if own.sha256 != tokenizer["sha256"]:
        raise UserError(
            f"{data} was written with another tokenizer than that of {start.text}; write shards with "
            f"`clm-or-mlm shards --tokenizer {start.text}`"
        )


def data_config(start: Start, tokenizer: Mapping[str, Any]) -> EncoderConfig:
    """Return what data and masks ask of a configuration: rows, positions and special tokens.

    Args:
        start: the start; its own special tokens do not count, but those of its tokenizer as shards use it.
        tokenizer: a shards manifest's `tokenizer`.
    """
    if start.is_own:
        return config_of(start.shape, tokenizer)
    rows = _grown(start.shape.vocab, tokenizer["vocab_size"])
    shape = start.shape
    plain = type(shape)(
        hidden=8, layers=1, heads=1, kv_heads=1, mlp=8, vocab=rows, max_length=_positions(start)
    )
    return config_of(plain, tokenizer)


def _positions(start: Start) -> int:
    """Return the longest sequence: RoBERTa's kind has two positions less than its configuration says."""
    kind = str(start.config.get("model_type", ""))
    before = int(start.config.get("pad_token_id") or 0) + 1
    return start.shape.max_length - (before if "roberta" in kind or kind == "camembert" else 0)


def load_start(start: Start, rows: int, seed: int) -> Trained:
    """Return a start's model in float32 on the CPU, its direction tried, with rows for its tokenizer.

    Args:
        start: the start.
        rows: ids of its tokenizer, the mask included.
        seed: of weights that the start lacks, such as the head of an encoder without one.

    Raises:
        UserError: it cannot be loaded, or not be trained in both directions.
    """
    if start.is_own:
        return _load_own(start, rows, seed)
    if (config := _own_config(start)) is not None:
        return _load_llama(start, config, rows)
    inner = _load_inner(start, seed)
    _grow(inner, start, rows)
    model = AdaptedModel(inner)
    check_packing(model, start.text)
    return model


def _load_own(start: Start, rows: int, seed: int) -> EuroBertForMaskedLM:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = load_encoder(start.folder, EuroBertForMaskedLM, is_causal=False)
    model.float()
    if rows > (have := model.config.vocab_size):
        raise UserError(
            f"{start.text}: its tokenizer has {rows} ids, but the embedding only {have} rows; they do not match"
        )
    return model


def _own_config(start: Start) -> EncoderConfig | None:
    """Return the configuration of our own class where the start is a Llama that it can be; None elsewhere."""
    fields = start.config
    if fields.get("model_type") != "llama" or not any(start.folder.glob("model*.safetensors")):
        return None
    others = ("rope_parameters", "rope_scaling", "hidden_act", "attention_bias", "mlp_bias", "head_dim")
    names = (*shape_fields(start.shape), *others)
    kept = {name: fields[name] for name in names if fields.get(name) is not None}
    kept.setdefault("rms_norm_eps", 1e-6)  # Llama's default, which is not ours
    # Padding has no row of its own here; which tokens are special, the shards say.
    kept |= dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id", "mask_token_id"), 0)
    try:
        return EncoderConfig(**kept)
    except UserError:
        return None  # biases, scaled rotary positions, another width of heads: transformers' class takes it


def _load_llama(start: Start, config: EncoderConfig, rows: int) -> EuroBertForMaskedLM:
    inner = _load_inner(start, 0)
    _grow(inner, start, rows)
    config.vocab_size = inner.config.vocab_size
    with torch.device("meta"):
        model = EuroBertForMaskedLM(config)
    model.load_state_dict(inner.state_dict(), assign=True)
    if inner.config.tie_word_embeddings:
        model.lm_head.weight = model.model.embed_tokens.weight
    return model


def _load_inner(start: Start, seed: int) -> Any:
    """Return the start in transformers' class, with a head for tokens, turned to both directions."""
    try:
        config = AutoConfig.from_pretrained(start.folder, trust_remote_code=False)
        kind = str(config.model_type)
        auto: Any = (
            AutoModelForMaskedLM if kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES else AutoModelForCausalLM
        )
        turn(config, is_causal=False)
        with torch.random.fork_rng(devices=[]), quiet():
            torch.manual_seed(seed)
            inner, info = auto.from_pretrained(
                start.folder,
                config=config,
                dtype=torch.float32,
                trust_remote_code=False,
                attn_implementation="eager",
                use_safetensors=True,
                output_loading_info=True,
            )
    except Exception as error:  # safetensors and transformers raise kinds of their own
        hint = ""
        if "trust_remote_code" in str(error) or "auto_map" in start.config:
            hint = "; code that comes with a model is not run: give a family that transformers has itself"
        raise UserError(f"{start.text} cannot be loaded: {first_line(error)}{hint}") from None
    missing = sorted(info["missing_keys"])
    if missing:
        body = [name for name in missing if name.startswith(f"{inner.base_model_prefix}.")]
        if body:
            raise UserError(f"{start.text} lacks weights of its class ({body[0]}); fetch the model again")
        logger.warning("%s has no head for tokens; its weights are drawn from the seed", start.text)
    return inner


def _grown(have: int, rows: int) -> int:
    return have if rows <= have else -(-rows // _MULTIPLE) * _MULTIPLE


@torch.no_grad()
def _grow(inner: Any, start: Start, rows: int) -> None:
    """Give the model rows for its tokenizer; a new mask's row is the mean of those before it, tied or not."""
    embedding = inner.get_input_embeddings().weight
    have, mask = embedding.shape[0], start.mask
    if rows > have:
        with quiet():
            inner.resize_token_embeddings(_grown(have, rows), mean_resizing=False)
    if mask.origin != "new":
        return
    first = min(mask.id, have)
    layers = [inner.get_input_embeddings()]
    if (head := inner.get_output_embeddings()) is not None and head.weight is not layers[0].weight:
        layers.append(head)
    for tensor in [layer.weight for layer in layers] + ([head.bias] if head.bias is not None else []):
        mean = tensor[:first].mean(0)
        tensor[mask.id :] = mean if rows > have else tensor[mask.id :]
        tensor[mask.id] = mean


def export_start(
    start: Start,
    state: Mapping[str, Tensor],
    manifest: Mapping[str, Any],
    out: Path,
    *,
    rows: int,
    texts: Mapping[str, str] | None = None,
    origin: Mapping[str, Any] | None = None,
) -> Path:
    """Write trained weights as a folder of the start's class and return it; the same one that is there stays.

    Args:
        start: what was trained, and is not an own model.
        state: a checkpoint's tensors, as `load_start`'s model names them.
        manifest: what the model was made from; see `pretraining.model.model_folder.export`.
        out: folder to make.
        rows: ids of the tokenizer.
        texts: further files by name.
        origin: written to `provenance.json`.

    Raises:
        UserError: `out` holds other things, or what was written does not see both sides.
    """
    about = {
        **manifest,
        "start_name": start.name,
        "start_licence": start.licence or "unknown",
        "mask_token": {"token": start.mask.token, "id": start.mask.id, "origin": start.mask.origin},
    }
    return _write(
        lambda: _filled(start, state, rows), partial(write_tokenizer, start=start), about, out,
        made_from=start.name, licence=start.licence, texts=texts, origin=origin,
    )  # fmt: skip


def export_llama(folder: Path, out: Path) -> Path:
    """Write the twin of an own export in transformers' Llama class, which servers know, and return it.

    Args:
        folder: a bidirectional `eurobert` model with a head, as this package exports it.
        out: folder to make.

    Raises:
        UserError: it is another model, or a causal one.
    """
    own = load_encoder(folder, EuroBertForMaskedLM)
    config = own.config
    if config.is_causal:
        raise UserError(f"{folder} attends causally, so it is no encoder; export a model that ends in MLM")
    names = {*shape_fields(shape_of(config)), "bos_token_id", "eos_token_id", "pad_token_id"} - {"rope_theta"}
    fields = {name: getattr(config, name) for name in names}

    def made() -> Any:
        with torch.device("meta"):
            inner = LlamaForCausalLM(
                LlamaConfig(**fields, rope_parameters=config.rope_parameters, is_causal=False)
            )
        inner.load_state_dict(own.state_dict(), assign=True)
        return inner

    manifest = check_model(folder) or {"model": folder.name}
    about = {key: value for key, value in manifest.items() if key not in (FILES, "records")}
    return _write(
        made, partial(copy_tokenizer, folder), about, out, made_from=f"{folder.name} (eurobert)", licence=""
    )


def _write(
    make: Callable[[], Any],
    tokenizer: Callable[[Path], None],
    about: Mapping[str, Any],
    out: Path,
    *,
    made_from: str,
    licence: str,
    texts: Mapping[str, str] | None = None,
    origin: Mapping[str, Any] | None = None,
) -> Path:
    inner = make()

    def fill(making: Path) -> None:
        with quiet():
            inner.save_pretrained(making, max_shard_size="1000GB")
        (making / "generation_config.json").unlink(missing_ok=True)
        _write_config(making, inner)
        tokenizer(making)

    return write_folder(
        out, {**about, "transformers": f">={MINIMUM}"}, fill,
        lambda content: _card(inner, made_from, licence, content, out.name),
        width=int(inner.config.hidden_size), texts=texts, origin=origin,
    )  # fmt: skip


def write_merged(start: Start, finished: Path, share: float) -> Path:
    """Write the average of a start and what was trained from it next to the latter, and return the folder.

    Args:
        start: the start.
        finished: an export of what was trained.
        share: that of the start, 0 to 1.
    """
    out = finished.with_name(f"{finished.name}-merge{round(100 * share)}")
    trained = start_of(str(finished))
    manifest = check_model(finished) or {}
    rows = load_tokenizer(str(start.folder)).vocab_size
    before, after = (load_start(item, rows, 0).state_dict() for item in (start, trained))
    state = {
        name: torch.lerp(tensor, before[name], share) if tensor.is_floating_point() else tensor
        for name, tensor in after.items()
    }
    made_here = ("files", "records", "transformers", "start_name", "start_licence", "mask_token")
    about = {key: value for key, value in manifest.items() if key not in made_here}
    about |= {"model": out.name, "share_of_the_start": share}
    if start.is_own:
        return export(state, read_config(finished), finished, about, out)
    return export_start(start, state, about, out, rows=rows)


def _filled(start: Start, state: Mapping[str, Tensor], rows: int) -> Any:
    """Return the start's model in transformers' class with trained weights in it."""
    inner = _load_inner(start, 0)
    _grow(inner, start, rows)
    named = {name.removeprefix("inner."): tensor for name, tensor in state.items()}
    try:
        inner.load_state_dict(named)
    except RuntimeError as error:
        raise UserError(f"{start.text}: the trained weights do not fit it: {first_line(error)}") from None
    return inner


def _write_config(folder: Path, inner: nn.Module) -> None:
    path = folder / "config.json"
    fields: dict[str, Any] = json.loads(path.read_text("utf-8"))
    config: Any = inner.config
    kind = str(config.model_type)
    if kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        # Servers take `*Model` for an encoder; every class of the family loads it all the same.
        fields["architectures"] = [type(inner.base_model).__name__]
    fields.pop(PREDICTION_SHIFT, None)  # the start's, not that of what was trained
    if has_own_flag(config):
        fields.pop("is_causal", None)
    else:
        fields["is_causal"] = False
    if kind in SERVERS_READ_FLAG:
        fields[FLAG] = True
    write_text(path, json.dumps(fields, indent=2, sort_keys=True) + "\n")


def write_tokenizer(folder: Path, start: Start) -> None:
    """Write the start's tokenizer with its mask token; it reads texts as the start's did."""
    write_text(folder / "tokenizer.json", json.dumps(start.tokenizer[0], ensure_ascii=False) + "\n")
    path = start.folder / "tokenizer_config.json"
    given: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    special: dict[str, Any] = {}
    more = start.folder / "special_tokens_map.json"
    for source in (json.loads(more.read_text("utf-8")) if more.is_file() else {}, given):
        for name in ("bos_token", "eos_token", "pad_token", "unk_token", "cls_token", "sep_token"):
            token = source.get(name)
            token = token.get("content") if isinstance(token, dict) else token
            if isinstance(token, str):
                special[name] = token
    special["mask_token"] = start.mask.token
    special.setdefault("pad_token", special.get("eos_token") or special.get("sep_token") or start.mask.token)
    fields = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": _positions(start),
        "padding_side": "right",
        **special,
    }
    write_text(folder / "tokenizer_config.json", json.dumps(fields, indent=2, sort_keys=True) + "\n")
    write_text(folder / "special_tokens_map.json", json.dumps(special, indent=2, sort_keys=True) + "\n")
    for name in ("LICENSE", "LICENSE.txt", "LICENSE.md", "NOTICE"):
        if (start.folder / name).is_file():
            shutil.copyfile(start.folder / name, folder / name)


def _card(inner: Any, made_from: str, licence: str, manifest: Mapping[str, Any], name: str) -> str:
    template = Template(Path(__file__).with_name("templates").joinpath("adapted_card.md").read_text("utf-8"))
    return template.substitute(
        name=manifest.get("model", name),
        start=made_from,
        licence=licence or "unknown",
        front=f"license: {licence}\n" if licence and " " not in licence else "",
        kind=inner.config.model_type,
        minimum=MINIMUM,
        rows=card_rows(manifest),
    )
