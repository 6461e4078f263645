"""What a pretraining starts from in place of random weights: a model of transformers, of the authors, or of our own.

A start is a folder, or a hub id: its configuration, its safetensors and its tokenizer. No code that comes with a model
is run, and pickled weights are not opened. Its identity is the hash of these files; checkpoints record it, so that none
is resumed with another start. No torch: what is wrong with a folder is said at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common.embedding import LIMITS, Embedding, kept_embedding
from common.errors import UserError, first_line
from common.files import write_text
from common.model_files import (
    TensorHead,
    is_its_own,
    licence_of,
    read_config,
    refuse_unfinished,
    resolve,
    tensor_heads,
    tokenizer_hash,
    weights_hash,
    weights_states,
)
from common.reading import read_bounded
from pretraining.data.tokenizer_files import (
    TOKENIZER,
    MaskToken,
    TokenizerFiles,
    read_tokenizer,
    without_json,
)
from pretraining.paper_settings import Shape, is_own_type

_NOTICES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "NOTICE")
"""Files of a start that its exports have, too."""
_FLOATS = ("F64", "F32", "F16", "BF16")
_QUANTISED = "its weights are quantised; give the original model, in bf16 or fp32"
_PARTS = {
    "vision_config": "it has a part for images; give a model of text alone",
    "audio_config": "it has a part for sound; give a model of text alone",
    **dict.fromkeys(
        ("quantization_config", "quantization", "compression_config"), _QUANTISED
    ),
}
"""Fields of a configuration that no start can have, and why."""
_POSITIONS = "position_embeddings"
_CHECKPOINT = re.compile(r"step-\d{8}")
OUR_CLASS: Mapping[str, object] = {
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "tie_word_embeddings": False,
}
"""Fields of `config.json` in which architectures differ, and the value that our own class computes."""
_ROPE = ("rope_parameters", "rope_scaling")
_KNOWN: Mapping[str, Mapping[str, Any]] = {
    "HuggingFaceTB/SmolLM2-135M": {
        "model_type": "llama",
        "hidden_size": 576,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "intermediate_size": 1536,
        "vocab_size": 49_152,
        "max_position_embeddings": 8_192,
    },
}
"""Configurations by hub id that plans are made with, so that a ready study is planned before anything is fetched."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """A model whose weights a pretraining starts from, and what it is.

    `start_of` reads all its small files, each once, before the first step. Training and export ask this object, and go
    back to the folder for weights alone: what happens to the other files meanwhile changes nothing.
    """

    text: str
    """Folder or hub id, as given."""
    folder: Path
    """Where its files are."""
    config: Mapping[str, Any] = field(repr=False)
    """Its `config.json`."""
    tokenizer: TokenizerFiles = field(repr=False)
    """Its tokenizer, with a mask token in it."""
    licence: str = ""
    """Its licence; empty if unknown."""
    notices: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Texts of its licence and notices, by the name of their file."""
    tensors: Mapping[str, TensorHead] = field(default_factory=dict, repr=False)
    """What its weights' files say of each tensor; empty where it is only planned with."""
    embedding: Embedding = field(default_factory=Embedding)
    """How its maker means its texts to become vectors; its encoder keeps pooling and prompts."""

    @property
    def name(self) -> str:
        """The last part of the start's path or id."""
        # A folder in the hub's cache is models--OWNER--NAME/snapshots/REVISION.
        cache = self.folder.parent.parent.name
        if self.folder.parent.name == "snapshots" and cache.startswith("models--"):
            return cache.rpartition("--")[2]
        return Path(self.text.rstrip("/")).name

    @property
    def kind(self) -> str:
        """Its family, as transformers calls it: `model_type`."""
        return str(self.config.get("model_type", ""))

    @property
    def is_own(self) -> bool:
        """Whether it is a `eurobert` or one of the authors' models, which are exported as `eurobert`."""
        return is_own_type(self.kind)

    @property
    def is_our_class(self) -> bool:
        """Whether it is trained in our own class, whose blocks are compiled and whose memory is counted: so are Llamas
        without biases, scaled rotary positions and another width of heads."""
        if self.kind != "llama":
            return self.is_own
        kept = {
            name: self.config[name]
            for name in (*_ROPE, "hidden_act", "attention_bias", "mlp_bias")
            if self.config.get(name) is not None
        }
        width = self.config.get("head_dim")
        return not other_architecture(kept) and width in (None, self.shape.head_dim)

    @property
    def is_encoder(self) -> bool:
        """Whether its family has a head for masked tokens; where not, it is a decoder."""
        from transformers.models.auto.modeling_auto import (
            MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        )

        return self.is_own or self.kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES

    @property
    def mask(self) -> MaskToken:
        """Its mask token, and where that comes from."""
        return self.tokenizer.mask

    @cached_property
    def identity(self) -> dict[str, str]:
        """What makes two starts the same: the hashes of weights with configuration, and of the tokenizer."""
        # Remember the files' states before they are hashed, for `check_unchanged`.
        _ = self._states
        return {
            "weights": weights_hash(self.folder),
            "tokenizer": tokenizer_hash(self.folder),
        }

    @cached_property
    def _states(self) -> dict[Path, tuple[int, ...]]:
        """States of the weights' files when `identity` was first asked for, before they were hashed."""
        return weights_states(self.folder)

    def check_unchanged(self) -> None:
        """Refuse weights whose files have changed since they were hashed.

        Raises:
            UserError: they have.
        """
        if weights_states(self.folder) != self._states:
            raise UserError(
                f"{self.folder} changed while it was being read; wait until the model is whole there, then run the "
                "same command again"
            )

    @cached_property
    def longest(self) -> int:
        """Positions of its longest sequence, as its class counts them where its weights have a table of positions."""
        parts = {part for name in self.tensors for part in name.split(".")}
        if _POSITIONS not in parts or self.is_own:
            return self.shape.max_length
        import torch
        from transformers import AutoModel

        try:
            with torch.device("meta"):
                model = AutoModel.from_config(library_config(self))
        except Exception as error:  # whatever the code of a class may raise
            raise unloadable(self, error) from None
        usable = [
            table.num_embeddings - first_position(table)
            for table in position_tables(model)
        ]
        return int(min([self.shape.max_length, *usable]))

    @property
    def pad_token(self) -> str:
        """What pads its texts; what ends them where its files name no padding."""
        special = self.tokenizer.special
        names = ("pad_token", "eos_token", "sep_token")
        return next(
            (special[name] for name in names if special.get(name)), self.mask.token
        )

    def id_of(self, token: str | None) -> int | None:
        """Return the id of an added token; None where it has no such."""
        added = self.tokenizer.content.get("added_tokens", ())
        return next((item["id"] for item in added if item["content"] == token), None)

    @property
    def padding(self) -> int | None:
        """Id of its padding that its embedding has a row for: of its configuration, else of its tokenizer."""
        of_tokenizer = self.id_of(self.tokenizer.special.get("pad_token"))
        # Not every id is usable: the first Llamas have -1, other models an id beyond their embedding.
        for number in (self.config.get("pad_token_id"), of_tokenizer):
            if isinstance(number, int) and 0 <= number < self.shape.vocab:
                return number
        return None

    @cached_property
    def shape(self) -> Shape:
        """Its size, for plans and checkpoints: near enough where the family has other layers than a Llama's.

        Raises:
            UserError: its configuration lacks a width, layers or heads.
        """
        config, where = self.config, self.folder / "config.json"

        def number(*names: str, default: int = 0) -> int:
            value = default
            for name in names:
                if isinstance(config.get(name), int):
                    value = config[name]
                    break
            if not value:
                raise UserError(
                    f"{where} has no {names[0]}; give the folder of a language model"
                )
            return int(value)

        kept: dict[str, float] = {}
        # Other families may give these fields another meaning, and plans do not need them.
        if self.is_own:
            rope = config.get("rope_parameters")
            if not isinstance(rope, dict):
                rope = config  # where transformers had it before version 5
            numbers = {
                "rope_theta": rope.get("rope_theta"),
                "norm_eps": config.get("rms_norm_eps"),
                "init_std": config.get("initializer_range"),
            }
            for name, value in numbers.items():
                if isinstance(value, int | float):
                    kept[name] = float(value)
        hidden = number("hidden_size", "n_embd", "dim", "d_model", "emb_dim")
        heads = number("num_attention_heads", "n_head", "n_heads", "num_heads")
        return Shape(
            hidden=hidden,
            layers=number("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
            heads=heads,
            kv_heads=number("num_key_value_heads", default=heads),
            mlp=number(
                "intermediate_size",
                "n_inner",
                "hidden_dim",
                "ffn_dim",
                default=4 * hidden,
            ),
            vocab=number("vocab_size"),
            max_length=number("max_position_embeddings", "n_positions", default=2048),
            **kept,
        )


def library_config(start: Start) -> Any:
    """Return a start's configuration as transformers makes it of its file, with a padding that has a row.

    The configuration is that in memory, given to transformers as the file that its own rules want.

    Raises:
        UserError: transformers has no such class.
    """
    from transformers import AutoConfig

    fields = dict(start.config)
    if fields.get("pad_token_id") is not None:
        fields["pad_token_id"] = start.padding
    try:
        with TemporaryDirectory() as folder:
            write_text(Path(folder, "config.json"), json.dumps(fields))
            return AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except (
        Exception
    ) as error:  # whatever the code of a configuration of any class may raise
        raise unloadable(start, error) from None


def unloadable(start: Start, error: Exception) -> UserError:
    """Return the error to raise where transformers does not load a start."""
    hint = ""
    if "trust_remote_code" in str(error) or "auto_map" in start.config:
        hint = "; code that comes with a model is not run: give a family that transformers has itself"
    return UserError(f"{start.text} cannot be loaded: {first_line(error)}{hint}")


def position_tables(model: Any) -> list[Any]:
    """Return the tables of learned positions of a model of transformers."""
    return [
        module
        for name, module in model.named_modules()
        if name.rpartition(".")[2] == _POSITIONS and hasattr(module, "num_embeddings")
    ]


def first_position(table: Any) -> int:
    """Return the row of a sequence's first token: RoBERTa's kind counts from behind that of the padding."""
    return 0 if table.padding_idx is None else int(table.padding_idx) + 1


def other_architecture(config: Mapping[str, Any]) -> str:
    """Return a sentence on a field of a `config.json` that our class does not compute; empty if it computes all."""
    for name in _ROPE:
        rope = config.get(name)
        if (
            isinstance(rope, dict)
            and rope.get("rope_type", rope.get("type", "default")) != "default"
        ):
            return (
                f"this encoder supports only the default rotary embedding, not {rope}"
            )
    for name, only in OUR_CLASS.items():
        value = config.get(name, only)
        if value != only:
            return f"config: {name} is {value!r}; this encoder supports only {only!r}"
    return ""


def is_checkpoint(text: str) -> bool:
    """Return whether a text is the folder of a stage's checkpoint, which is written as a model before it is a start."""
    path = Path(text).expanduser()
    return bool(_CHECKPOINT.fullmatch(path.name)) and (path / "state.json").is_file()


def start_to_plan(text: str) -> Start:
    """Return a start whose size and class alone are asked, without a look at its weights.

    Raises:
        UserError: as `start_of`.
    """
    if text not in _KNOWN:
        return start_of(text, is_planned=True)
    config = _KNOWN[text]
    mask = MaskToken(token="", id=0, origin="new")
    tokenizer = TokenizerFiles(
        content={}, mask=mask, special={}, rows=config["vocab_size"]
    )
    return Start(text=text, folder=Path(), config=config, tokenizer=tokenizer)


def start_of(
    text: str, *, revision: str | None = None, is_planned: bool = False
) -> Start:
    """Return the start that a folder or hub id is.

    Args:
        text: a folder with `config.json`, safetensors and `tokenizer.json`, or a hub id OWNER/NAME.
        revision: branch, tag or commit of a hub id.
        is_planned: only plan with it, which needs no library that reads weights.

    Raises:
        UserError: it is none, or one of its files is damaged: which, and why, in one sentence.
    """
    folder = resolve(text, revision=revision)
    config = read_config(folder)
    if (folder / "adapter_config.json").is_file():
        raise UserError(
            f"{folder} contains an adapter (adapter_config.json); merge it into the weights (peft's merge_and_unload) "
            "and save them as a model first"
        )
    for name, why in _PARTS.items():
        if config.get(name):
            raise UserError(f"{folder} cannot be a start: {why}")
    if config.get("is_encoder_decoder"):
        raise UserError(
            f"{folder} cannot be a start: it is an encoder-decoder; give a decoder or an encoder"
        )
    if not (folder / TOKENIZER).is_file():
        raise without_json(folder)
    if not any(folder.glob("*.safetensors")):
        raise UserError(
            f"{folder} has no safetensors; pickled weights (*.bin) are not opened: save the model with transformers' "
            "save_pretrained"
        )
    embedding = kept_embedding(folder)
    # A plan needs only config.json, and may be made before weights are fetched.
    tensors = {} if is_planned else tensor_heads(folder)
    _refuse_quantised(folder, tensors)
    refuse_unfinished(folder, tensors)
    notices = {
        name: read_bounded(folder / name)
        for name in _NOTICES
        if is_its_own(folder / name)
    }
    tokenizer = read_tokenizer(folder, is_planned=is_planned)
    if embedding.lower and not _reads_lower_case(tokenizer):
        raise UserError(
            f"{folder} reads texts in lower case by its {LIMITS}, and shards are written by "
            f"{TOKENIZER} alone; load it with sentence-transformers and save it again, which moves that there, and "
            "start from the copy"
        )
    return Start(
        text=text,
        folder=folder,
        config=config,
        tokenizer=tokenizer,
        licence=licence_of(folder),
        notices=notices,
        tensors=tensors,
        embedding=embedding,
    )


def _reads_lower_case(tokenizer: TokenizerFiles) -> bool:
    """Return whether a tokenizer.json has a step that makes a text lower case."""
    normalizer = tokenizer.content.get("normalizer") or {}
    steps = normalizer.get("normalizers", [normalizer])
    return any(
        step.get("type") == "Lowercase" or step.get("lowercase") for step in steps
    )


def _refuse_quantised(folder: Path, tensors: Mapping[str, TensorHead]) -> None:
    """Refuse weights that are no floating-point numbers."""
    # A configuration need not say that weights are quantised, and int8 weights would be trained as they are.
    for name, head in tensors.items():
        if "weight" in name and head.type not in _FLOATS:
            raise UserError(
                f"{folder} cannot be a start: {_QUANTISED} ({name}: {head.type})"
            )
