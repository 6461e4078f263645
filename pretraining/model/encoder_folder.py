"""A model's folder: written whole or not at all, with what encoders need besides weights, and checked again.

Encoders have the files of sentence-transformers (`common.embedding`) and a self-test.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils import logging as library

from common.embedding import MODES, Embedding, write_pooling, write_prompts
from common.errors import UserError, first_line
from common.files import atomic_folder, sha256_bytes, sha256_file, write_text
from common.manifest import (
    FILES,
    MANIFEST,
    SEAL,
    check_files,
    read_manifest,
    refuse_strangers,
    strangers,
    write_manifest,
)
from common.model_files import read_object, tensor_heads
from common.plain_text import first_of
from common.provenance import provenance, provenance_path
from common.reading import read_json
from pretraining.model.directions import padding_mask, probe_ids, sides
from pretraining.models import PREDICTION_SHIFT

PACKAGES = ("torch", "mosaicml", "mosaicml-streaming", "transformers")
"""Packages whose versions a model's provenance names."""
SELF_TEST = "self_test.json"
"""A text and its vector."""
EMBEDDING = "embedding"
"""Field of a manifest: pooling and prompts of the start; without it the mean, and none."""
_READ = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)
"""Files that transformers reads besides weights, not all of them strictly."""
_TEXT = "An encoder reads this sentence from both ends."
_CLOSE = 1e-3


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' warnings about weights that a class does not use, and its progress bars."""
    verbosity, has_bars = library.get_verbosity(), library.is_progress_bar_enabled()
    library.set_verbosity_error()
    library.disable_progress_bar()
    try:
        yield
    finally:
        library.set_verbosity(verbosity)
        if has_bars:
            library.enable_progress_bar()


def _hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a folder, by its path in it."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): sha256_file(path) for path in paths}


def write_config(folder: Path, fields: Mapping[str, Any]) -> None:
    """Write a model's `config.json`."""
    text = json.dumps(fields, indent=2, sort_keys=True)
    write_text(folder / "config.json", text + "\n")


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """What a model's folder holds that only its class can write."""

    save: Callable[[Path], None]
    """Writes configuration, weights and tokenizer into a folder."""
    card: Callable[[Mapping[str, Any]], str]
    """Gives the model card of the manifest's content."""
    width: int | None
    """Width of an encoder's hidden states, which is then tried in plain transformers; None for a causal model."""


def write_folder(
    out: Path,
    files: ModelFiles,
    about: Mapping[str, Any],
    *,
    texts: Mapping[str, str] | None = None,
    origin: Mapping[str, Any] | None = None,
) -> Path:
    """Write a model's folder and return it; one that holds the same model already is left as it is.

    Args:
        out: folder to make.
        files: the model's own.
        about: what the model was made from, as JSON, for the manifest and the card: no times, machines or paths, so
            that the same model has the same manifest.
        texts: further files by name; the manifest has their hashes under `records`.
        origin: written to `provenance.json`; command, code and versions when left out.

    Raises:
        UserError: `out` holds other things, the disk is full, or an encoder does not see both sides.
    """
    texts = texts or {}
    records = {name: sha256_bytes(text.encode()) for name, text in texts.items()}
    content: dict[str, Any] = json.loads(json.dumps({**about, "records": records}))
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        existing = None
        if out.is_dir():
            existing = check_model(out, "remove the folder or choose another")
        if existing is not None:
            # Without the files' hashes: the rest of the manifest says what the model was made from.
            made_from = {key: existing[key] for key in existing if key != FILES}
            if made_from == content:
                return out
        raise UserError(
            f"{out} exists and is not an export of this model: remove it or choose another folder"
        )
    try:
        with atomic_folder(out) as making:
            files.save(making)
            if shift := content.get(PREDICTION_SHIFT):
                fields = json.loads((making / "config.json").read_text("utf-8"))
                write_config(making, fields | {PREDICTION_SHIFT: shift})
            if files.width is not None:
                kept = Embedding(**content.get(EMBEDDING, {}))
                longest = content.get("science", {}).get("max_length")
                mode = MODES[kept.pooling]
                write_pooling(making, files.width, mode, longest=longest)
                if kept.query or kept.document:
                    write_prompts(making, kept)
                vector = self_test_vector(making, str(out))
                # Five digits: the manifest has the file's hash, and the number of threads may change the seventh.
                numbers = [float(f"{value:.5g}") for value in vector.tolist()]
                test = {"text": _TEXT, "pooling": "mean", "vector": numbers}
                write_text(making / SELF_TEST, json.dumps(test, indent=1) + "\n")
            # In this order: the manifest has the hashes of files that are loaded, provenance the hashes of all files.
            write_manifest(making / MANIFEST, content, _hashes(making))
            write_text(making / "README.md", files.card(content))
            for name, text in texts.items():
                write_text(making / name, text)
            origin = origin or provenance("full", PACKAGES)
            write_manifest(
                provenance_path(making, folder=True), origin, _hashes(making)
            )
    except SafetensorError as error:
        raise UserError(
            f"{out} could not be written: {error}; fix the cause and run the same command again"
        ) from None
    return out


def refuse_other_folder(out: Path) -> None:
    """Refuse to make a model's folder where something else than a model of this package is, before it is trained.

    Raises:
        UserError: the sentence names what is there.
    """
    if (out / MANIFEST).is_file():
        return
    remedy = "and the model goes there; move them elsewhere or choose another --out"
    refuse_strangers(out, {}, remedy)


def check_model(
    folder: Path, remedy: str = "fetch or export the model again"
) -> dict[str, Any] | None:
    """Compare the files of a model folder with its manifest, where that is one of this package.

    Each file is hashed once in this process as long as it does not change. Folders that others made have no such
    manifest.

    Returns:
        The manifest; None where there is none of ours.

    Raises:
        UserError: the manifest is damaged or lists no files, or a file is missing or damaged.
    """
    path = folder / MANIFEST
    try:
        content = read_json(path, remedy)
    except FileNotFoundError:
        return None
    # Another tool's manifest has none of our keys.
    if not isinstance(content, dict) or not {SEAL, FILES} & set(content):
        return None
    manifest = read_manifest(path, remedy)
    if not manifest.get(FILES):
        raise UserError(f"{path} lists no files; {remedy}")
    check_files(folder, manifest[FILES], remedy)
    return manifest


@torch.no_grad()
def self_test_vector(
    folder: Path,
    name: str,
    remedy: str = "",
    *,
    state: Mapping[str, Tensor] | None = None,
) -> Tensor:
    """Return the mean hidden state of the self-test's text, of a folder's model as plain transformers loads it.

    Args:
        folder: the model's.
        name: what it is called in messages.
        remedy: for a model that does not see both sides.
        state: the model's weights, where the folder has none.

    Raises:
        UserError: it cannot be loaded, or does not see both sides, which the remedy is for.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        with quiet():
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
            kind: Any = AutoModel
            if state is not None:  # which `AutoModel` does not take
                kind = AutoModel._model_mapping[type(config)]
            model = kind.from_pretrained(
                folder if state is None else None,
                config=config,
                state_dict=state,
                dtype=torch.float32,
                trust_remote_code=False,
            ).eval()
        read = tokenizer([_TEXT], return_tensors="pt")
        hidden: Tensor = model(
            input_ids=read["input_ids"], attention_mask=read["attention_mask"]
        ).last_hidden_state
    except Exception as error:  # transformers raises kinds of its own
        cause = first_line(error).rstrip(":")
        raise UserError(
            f"{name} cannot be loaded with transformers: {cause}; is it a whole model?"
        ) from None

    # Outputs that are not finite would look as if the first token did not see the last.
    if not hidden.isfinite().all():
        raise UserError(
            f"{name} has outputs that are no numbers; fetch or train the model again"
        )

    def outputs(ids: Tensor, length: int) -> Tensor:
        states: Tensor = model(
            input_ids=ids, attention_mask=padding_mask(ids, length)
        ).last_hidden_state
        return states

    if not sides(outputs, probe_ids(model.get_input_embeddings())).both_ways:
        raise UserError(
            f"{name} does not see both sides: in plain transformers, the first token's output does not change with the "
            f"last token, or padding changes it{remedy and f'; {remedy}'}"
        )
    return hidden[0].mean(0)


def checked_files(folder: Path, manifest: Mapping[str, Any], remedy: str) -> list[str]:
    """Return what holds of the files of an exported model, a sentence each, once `check_model` compared the weights.

    Args:
        folder: the model's.
        manifest: the folder's manifest.
        remedy: what the user can do about a damaged file, for the message.

    Raises:
        UserError: a record or the provenance is missing or damaged.
    """
    check_files(folder, manifest.get("records", {}), remedy)
    sentences = [f"{len(manifest[FILES])} files match the manifest"]
    path = provenance_path(folder, folder=True)
    try:
        files = read_manifest(path, remedy).get(FILES, {})
    except FileNotFoundError:
        raise UserError(f"{path} is missing; {remedy}") from None
    # A user may change the card, and add or remove other files: such changes are named, not refused.
    lost = [name for name in files if not (folder / name).exists()]
    if others := strangers(folder, {**files, path.name: ""}):
        sentences.append(f"changed or added since: {first_of(others)}")
    if lost:
        sentences.append(f"removed since: {first_of(lost)}")
    return sentences


def checked_encoder(
    folder: Path, remedy: str = "export or fetch the model again"
) -> list[str]:
    """Return what holds of an encoder's folder, a sentence each: hashes, direction, self-test.

    Args:
        folder: a folder of this package, or any other that transformers loads.
        remedy: what the user can do about a damaged file, for the message.

    Raises:
        UserError: what does not hold.
    """
    held = []
    manifest = check_model(folder, remedy)
    if manifest is not None:
        held += checked_files(folder, manifest, remedy)
    for name in _READ:
        if (folder / name).is_file():
            read_object(folder / name)
    tensor_heads(folder)
    vector = self_test_vector(
        folder, str(folder), "`clm-or-mlm adapt` makes an encoder of a decoder"
    )
    held.append(
        "the first token sees the last, padded or not, and padding changes nothing"
    )
    if (folder / SELF_TEST).is_file():
        stored = read_json(folder / SELF_TEST, "export the model again")
        held.append(_compare_self_test(stored, vector, str(folder)))
    return held


def _compare_self_test(stored: Any, vector: Tensor, name: str) -> str:
    """Return a sentence that a vector equals the one in a self-test's file; refuse another vector, or another text."""
    fields = stored if isinstance(stored, dict) else {}
    numbers = fields.get("vector")
    if not isinstance(numbers, list):
        numbers = []
    are_numbers = all(isinstance(number, float) for number in numbers)
    is_whole = are_numbers and len(numbers) == len(vector)
    if fields.get("text") != _TEXT or not is_whole:
        raise UserError(
            f"{name}: {SELF_TEST} belongs to another model or version; export the model again"
        )
    wanted = torch.tensor(numbers)
    gap = float((wanted - vector).abs().max() / wanted.abs().max())
    if not gap < _CLOSE:
        raise UserError(
            f"{name}: the text of {SELF_TEST} has another vector than the stored one (by {gap:.1g} of the largest); "
            "use the transformers version of provenance.json"
        )
    return f"the text of {SELF_TEST} has its stored vector (difference {gap:.1g})"
