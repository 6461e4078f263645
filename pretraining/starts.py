"""What a pretraining starts from in place of random weights: a model of transformers, of the authors, or of our own.

A start is given as a folder or a hub id. Three things of it are read: its configuration, its safetensors and its
tokenizer. No code that comes with a model is run, and pickled weights are not opened. The identity of a start is the
hash of these files. Checkpoints record this identity, so that no checkpoint is resumed with another start.

"Our own class" is the encoder of this package (`pretraining.model`), whose configurations have the `model_type`
eurobert. Other starts are trained in the class that transformers has for them.

This module does not import torch, so that a fault of a folder is reported at once.
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
"""Files of a start that are copied into the models exported from it."""
_FLOATS = ("F64", "F32", "F16", "BF16")
"""Names that safetensors has for floating-point types."""
_QUANTISED = "its weights are quantised; give the original model, in bf16 or fp32"
_PARTS = {
    "vision_config": "it has a part for images; give a model of text alone",
    "audio_config": "it has a part for sound; give a model of text alone",
    **dict.fromkeys(
        ("quantization_config", "quantization", "compression_config"), _QUANTISED
    ),
}
"""Fields of a configuration that no start can have, each with the reason."""
_POSITIONS = "position_embeddings"
"""Name that modules of transformers give to a table of learned positions."""
_CHECKPOINT = re.compile(r"step-\d{8}")
"""Name of a checkpoint's folder: `step-00010000`."""
OUR_CLASS: Mapping[str, object] = {
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "tie_word_embeddings": False,
}
"""Fields of `config.json` in which architectures differ, each with the only value that our own class can compute."""
_ROPE = ("rope_parameters", "rope_scaling")
"""Fields that describe the rotary position embedding, in transformers from version 5 on and before."""
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
"""Configurations by hub id, so that studies that come with this package can be planned before a model is downloaded."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """A model whose weights a pretraining starts from, and what is known of it.

    `start_of` reads all small files of the model once, before the first step. Training and export take what they need
    from this object, and go back to the folder only for weights. Changes to the small files meanwhile have no effect.
    """

    text: str
    """Folder or hub id, as given."""
    folder: Path
    """Folder of the model's files, on this machine."""
    config: Mapping[str, Any] = field(repr=False)
    """Content of the model's `config.json`."""
    tokenizer: TokenizerFiles = field(repr=False)
    """The model's tokenizer, with a mask token in it."""
    licence: str = ""
    """The model's licence; empty if unknown."""
    notices: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Content of the files with the model's licence and notices, by file name."""
    tensors: Mapping[str, TensorHead] = field(default_factory=dict, repr=False)
    """Type and shape of each tensor, from the headers of the weights' files; empty where the start is only planned
    with."""
    embedding: Embedding = field(default_factory=Embedding)
    """How the model's maker turns a text into one vector; the encoder that is exported keeps this pooling and these
    prompts."""

    @property
    def name(self) -> str:
        """Name of the model: the last part of its path or id."""
        # A folder in the hub's cache is models--OWNER--NAME/snapshots/REVISION.
        cache = self.folder.parent.parent.name
        if self.folder.parent.name == "snapshots" and cache.startswith("models--"):
            return cache.rpartition("--")[2]
        return Path(self.text.rstrip("/")).name

    @property
    def kind(self) -> str:
        """The architecture's name in transformers: `model_type` of the configuration."""
        return str(self.config.get("model_type", ""))

    @property
    def is_own(self) -> bool:
        """Whether this is a `eurobert` or one of the authors' models, which are exported as `eurobert`."""
        return is_own_type(self.kind)

    @property
    def is_our_class(self) -> bool:
        """Whether the model is trained in our own class, whose blocks are compiled and whose memory can be predicted.

        Besides `eurobert`, this is true for a Llama that computes the same: one without biases, without scaled rotary
        positions, and with heads of the usual width.
        """
        if self.kind != "llama":
            return self.is_own
        # Fields that decide what a Llama's blocks compute. Null stands for a field's default.
        fields = {}
        for name in (*_ROPE, "hidden_act", "attention_bias", "mlp_bias"):
            if self.config.get(name) is not None:
                fields[name] = self.config[name]
        head_dim = self.config.get("head_dim")
        is_usual_width = head_dim in (None, self.shape.head_dim)
        # `other_architecture` returns a sentence, which is empty if our class computes all fields.
        return not other_architecture(fields) and is_usual_width

    @property
    def is_encoder(self) -> bool:
        """Whether transformers has a masked-language-modeling head for the architecture; if not, it is a decoder."""
        from transformers.models.auto.modeling_auto import (
            MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        )

        return self.is_own or self.kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES

    @property
    def mask(self) -> MaskToken:
        """The mask token, and whether it was the tokenizer's own, a renamed one or a new one."""
        return self.tokenizer.mask

    @cached_property
    def identity(self) -> dict[str, str]:
        """Hashes that are equal for equal starts: one of weights and configuration, one of the tokenizer."""
        # Reading the property remembers the files' states before they are hashed, for `check_unchanged`.
        _ = self._states
        return {
            "weights": weights_hash(self.folder),
            "tokenizer": tokenizer_hash(self.folder),
        }

    @cached_property
    def _states(self) -> dict[Path, tuple[int, ...]]:
        """State of each weights' file (such as its size and time of change) when this property was first read."""
        return weights_states(self.folder)

    def check_unchanged(self) -> None:
        """Refuse weights whose files have changed since they were hashed.

        Raises:
            UserError: a file has changed.
        """
        if weights_states(self.folder) != self._states:
            raise UserError(
                f"{self.folder} changed while it was being read; wait until the model is whole there, then run the "
                "same command again"
            )

    @cached_property
    def longest(self) -> int:
        """Tokens of the longest sequence that the model can read.

        Where the weights have a table of learned positions, this is asked of the model's class, since some rows of the
        table may not be usable.
        """
        # Names of tensors are dotted: `embeddings.position_embeddings.weight`.
        name_parts = {part for name in self.tensors for part in name.split(".")}
        # A model of our own type has rotary positions, for which `max_length` is the only limit.
        if _POSITIONS not in name_parts or self.is_own:
            return self.shape.max_length
        import torch
        from transformers import AutoModel

        try:
            # On the meta device a model has shapes but no memory.
            with torch.device("meta"):
                model = AutoModel.from_config(library_config(self))
        except Exception as error:  # whatever the code of a class may raise
            raise unloadable(self, error) from None

        lengths = [self.shape.max_length]
        for table in position_tables(model):
            # The rows before the first position (of the padding) are no token's position.
            lengths.append(table.num_embeddings - first_position(table))
        return int(min(lengths))

    @property
    def pad_token(self) -> str:
        """Text of the token that pads sequences.

        Where the tokenizer's files name none, it is the token that ends a text, and without one the mask.
        """
        special = self.tokenizer.special
        for name in ("pad_token", "eos_token", "sep_token"):
            if special.get(name):
                return special[name]
        return self.mask.token

    def id_of(self, token: str | None) -> int | None:
        """Return the id of one of the tokenizer's added tokens; None where no added token has that text."""
        for item in self.tokenizer.content.get("added_tokens", ()):
            if item["content"] == token:
                number: int = item["id"]
                return number
        return None

    @property
    def padding(self) -> int | None:
        """Id of the padding, of the configuration or else of the tokenizer; None where neither id has an embedding."""
        of_tokenizer = self.id_of(self.tokenizer.special.get("pad_token"))
        # Not every id has a row in the embedding: the first Llamas have -1, other models an id beyond the last row.
        for number in (self.config.get("pad_token_id"), of_tokenizer):
            if isinstance(number, int) and 0 <= number < self.shape.vocab:
                return number
        return None

    @cached_property
    def shape(self) -> Shape:
        """The model's size, for plans and checkpoints.

        For an architecture whose layers differ from a Llama's, what is computed of this size is an approximation.

        Raises:
            UserError: the configuration lacks a width, layers or heads.
        """
        config, where = self.config, self.folder / "config.json"

        def number(*names: str, default: int = 0) -> int:
            """Return the first of these fields that is there, whose names differ between architectures.

            One of them must be there, unless there is a default for it (not 0).
            """
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

        # Numbers that need not be whole: base of the rotary positions, epsilon of the norms, standard
        # deviation.
        own_numbers: dict[str, float] = {}

        # Other architectures may give these fields another meaning, and plans do not need them.
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
                    own_numbers[name] = float(value)

        # Whole numbers. GPT-2 leaves out the inner width of its feed-forward layer where that is 4 times the
        # model's. A start that names no longest sequence counts as one of 2,048 tokens, the paper's longest.
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
            **own_numbers,
        )


def library_config(start: Start) -> Any:
    """Return a start's configuration as an object of transformers.

    It is made of the content that was read into `start.config`, whatever the start's folder holds by now.

    Raises:
        UserError: transformers has no class for it.
    """
    from transformers import AutoConfig

    fields = dict(start.config)
    # torch refuses an embedding whose padding is beyond its last row.
    if fields.get("pad_token_id") is not None:
        fields["pad_token_id"] = start.padding
    try:
        # In a folder of its own, since AutoConfig reads a folder and takes no dictionary.
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
    """Return the embedding modules of a transformers model that hold learned positions."""
    tables = []
    for name, module in model.named_modules():
        is_named_so = name.rpartition(".")[2] == _POSITIONS
        # Of these modules only an embedding, not a rotary one, has `num_embeddings`.
        if is_named_so and hasattr(module, "num_embeddings"):
            tables.append(module)
    return tables


def first_position(table: Any) -> int:
    """Return the row of a table of positions that a sequence's first token uses.

    It is 0, but in models such as RoBERTa, whose table has a row of padding, the row after that.
    """
    return 0 if table.padding_idx is None else int(table.padding_idx) + 1


def other_architecture(config: Mapping[str, Any]) -> str:
    """Return a sentence on the first field of a configuration that our own class cannot compute.

    Args:
        config: fields of a `config.json`; one that is left out has the value that our class computes.

    Returns:
        The sentence; empty if our class computes all fields.
    """
    for name in _ROPE:
        rope = config.get(name)
        if not isinstance(rope, dict):
            continue

        # Older configurations call the field `type`.
        rope_type = rope.get("rope_type", rope.get("type", "default"))
        if rope_type != "default":
            return (
                f"this encoder supports only the default rotary embedding, not {rope}"
            )

    for name, only in OUR_CLASS.items():
        value = config.get(name, only)
        if value != only:
            return f"config: {name} is {value!r}; this encoder supports only {only!r}"

    return ""


def is_checkpoint(text: str) -> bool:
    """Return whether a text is the folder of a stage's checkpoint, which is exported as a model before it is a start.

    Such a folder is called `step-00010000` and contains `state.json`.
    """
    path = Path(text).expanduser()
    return bool(_CHECKPOINT.fullmatch(path.name)) and (path / "state.json").is_file()


def start_to_plan(text: str) -> Start:
    """Return a start of which only the size and the class are needed, without reading its weights.

    Raises:
        UserError: as `start_of`.
    """
    if text not in _KNOWN:
        return start_of(text, is_planned=True)
    config = _KNOWN[text]
    # No file is there to read a tokenizer from, and a plan needs none: this one is empty.
    mask = MaskToken(token="", id=0, origin="new")
    tokenizer = TokenizerFiles(
        content={}, mask=mask, special={}, rows=config["vocab_size"]
    )
    return Start(text=text, folder=Path(), config=config, tokenizer=tokenizer)


def start_of(
    text: str, *, revision: str | None = None, is_planned: bool = False
) -> Start:
    """Return the start that a folder or hub id stands for, all of its small files read.

    Args:
        text: a folder with `config.json`, safetensors and `tokenizer.json`, or a hub id OWNER/NAME.
        revision: branch, tag or commit of a hub id.
        is_planned: whether the start is only planned with, for which neither its weights nor transformers are needed.

    Raises:
        UserError: the model cannot be a start, or one of its files is damaged.
    """
    folder = resolve(text, revision=revision)
    config = read_config(folder)

    # Refuse what the names of files and the configuration show to be no start.
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

    # Read the pooling, the weights' headers, the notices and the tokenizer, each of which may also be a
    # reason to refuse.
    embedding = kept_embedding(folder)

    # A plan needs only config.json, and may be made before weights are fetched.
    tensors = {} if is_planned else tensor_heads(folder)
    _refuse_quantised(folder, tensors)
    # Weights are unfinished if tensors are empty, or if they were saved with an adapter or inside a wrapper.
    refuse_unfinished(folder, tensors)
    notices = {}
    for name in _NOTICES:
        # A link could lead to any file of this machine: only files of the model itself are copied.
        if is_its_own(folder / name):
            notices[name] = read_bounded(folder / name)

    tokenizer = read_tokenizer(folder, is_planned=is_planned)
    # sentence-transformers can make texts lower case before the tokenizer reads them; nothing else does so.
    if embedding.lower and not _makes_lower_case(tokenizer):
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


def _makes_lower_case(tokenizer: TokenizerFiles) -> bool:
    """Return whether a tokenizer.json has a step that makes a text lower case."""
    normalizer = tokenizer.content.get("normalizer") or {}
    # A sequence of normalizers lists its steps; any other normalizer is the only step.
    steps = normalizer.get("normalizers", [normalizer])
    # Either a step of its own, or an option of BERT's.
    return any(
        step.get("type") == "Lowercase" or step.get("lowercase") for step in steps
    )


def _refuse_quantised(folder: Path, tensors: Mapping[str, TensorHead]) -> None:
    """Refuse weights that are not floating-point numbers."""
    # A configuration need not say that weights are quantised, and int8 weights would be trained as they are.
    for name, head in tensors.items():
        if "weight" in name and head.type not in _FLOATS:
            raise UserError(
                f"{folder} cannot be a start: {_QUANTISED} ({name}: {head.type})"
            )
