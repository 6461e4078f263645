"""A model's folder: written whole or not at all, with what encoders need besides weights, and checked when it is read.

An encoder's folder also has the files of sentence-transformers, which say how its hidden states become a text's vector
(`common.embedding`), and a self-test: a text with the vector that it had when the model was written. `manifest.json`
holds the hashes of the model's files and is sealed, that is, it holds its own hash (`common.manifest`).
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
"""File with a text and the vector that the model gives it."""
EMBEDDING = "embedding"
"""Field of a manifest: pooling and prompts of the model that training started from. Without it, pooling is the mean,
and there are no prompts."""
_READ = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)
"""Files that transformers reads besides weights. It overlooks faults in some, so they are read here first."""
_TEXT = "An encoder reads this sentence from both ends."
_CLOSE = 1e-3
"""Largest difference of the self-test's vector from the stored one, relative to the largest number in that."""


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
    """The part of writing a model's folder that depends on the model's class."""

    save: Callable[[Path], None]
    """Writes configuration, weights and tokenizer into a folder."""
    card: Callable[[Mapping[str, Any]], str]
    """Returns the text of the model card, from the manifest's content."""
    width: int | None
    """Width of an encoder's hidden states. None for a causal model, which gets no files of sentence-transformers and no
    self-test."""


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
        files: writes the files of the model's class.
        about: what the model was made from, as JSON, for the manifest and the card: no times, machines or paths, so
            that the same model has the same manifest.
        texts: further text files by name; the manifest has their hashes under `records`.
        origin: content of `provenance.json`; command, code and versions when left out.

    Raises:
        UserError: `out` holds other things, the disk is full, or an encoder does not see both sides.
    """
    texts = texts or {}
    records = {name: sha256_bytes(text.encode()) for name, text in texts.items()}
    # As it will be read back from the file: tuples become lists, and keys text.
    content: dict[str, Any] = json.loads(json.dumps({**about, "records": records}))

    # Something is there already, other than an empty folder.
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        existing = None
        if out.is_dir():
            existing = check_model(out, "remove the folder or choose another")
        if existing is not None:
            # All but the files' hashes says what the model was made from.
            made_from = {key: existing[key] for key in existing if key != FILES}
            if made_from == content:
                return out

        raise UserError(
            f"{out} exists and is not an export of this model: remove it or choose another folder"
        )

    try:
        # `making` is a temporary folder, which gets its final name when the block ends well.
        with atomic_folder(out) as making:
            files.save(making)
            # A field that transformers' classes do not have: how many tokens before itself a token is predicted.
            shift = content.get(PREDICTION_SHIFT)
            if shift:
                fields = json.loads((making / "config.json").read_text("utf-8"))
                write_config(making, fields | {PREDICTION_SHIFT: shift})

            if files.width is not None:
                # Pooling and prompts. Without the field: the mean, and no prompts (the defaults).
                embedding = Embedding(**content.get(EMBEDDING, {}))
                # The number of tokens that training read at a time, where the manifest has the training's
                # settings.
                longest = content.get("science", {}).get("max_length")
                # sentence-transformers' name for the pooling.
                mode = MODES[embedding.pooling]
                write_pooling(making, files.width, mode, longest=longest)
                if embedding.query or embedding.document:
                    write_prompts(making, embedding)
                vector = self_test_vector(making, str(out))

                # Five digits: the number of threads may change the seventh, and with it the file's hash.
                numbers = [float(f"{value:.5g}") for value in vector.tolist()]
                # The test is of hidden states: it takes their mean, whatever the pooling that the folder
                # names.
                test = {"text": _TEXT, "pooling": "mean", "vector": numbers}
                write_text(making / SELF_TEST, json.dumps(test, indent=1) + "\n")

            # The order matters. The manifest gets the hashes of the files so far, from which the model is loaded; the
            # provenance, which comes last, those of all files.
            write_manifest(making / MANIFEST, content, _hashes(making))
            write_text(making / "README.md", files.card(content))
            for name, text in texts.items():
                write_text(making / name, text)

            # `full` is the environment of packages (`requirements/full.txt`) in which models are trained and
            # written.
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
    """Refuse, before a model is trained, a folder for it that holds anything else than a model of this package.

    Raises:
        UserError: the sentence names what is there.
    """
    # A folder with a manifest is checked by `check_model`.
    if (out / MANIFEST).is_file():
        return
    remedy = "and the model goes there; move them elsewhere or choose another --out"
    # {}: without a manifest no file there is known to be this package's.
    refuse_strangers(out, {}, remedy)


def check_model(
    folder: Path, remedy: str = "fetch or export the model again"
) -> dict[str, Any] | None:
    """Compare a model folder's files with the hashes in its manifest, if this package wrote one.

    A file that does not change is hashed only once in a process.

    Args:
        folder: the model's folder.
        remedy: what the user can do about a damaged file, for the message.

    Returns:
        The manifest's content; None if the folder has no manifest of this package.

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
    # Read again as one of this package's: a damaged one is refused.
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
    """Return the mean hidden state of the self-test's text, (width,), computed by transformers without this package.

    Args:
        folder: the model's folder.
        name: what the model is called in messages.
        remedy: what the user can do about a model that does not see both sides, for the message.
        state: the model's weights, if the folder does not hold them.

    Raises:
        UserError: the model cannot be loaded, or an output does not depend on tokens on both of its sides.
    """
    # The model as plain transformers loads it, and what it makes of the text.
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        with quiet():
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
            kind: Any = AutoModel
            # `AutoModel` does not take weights from memory, but the class that it would choose does.
            if state is not None:
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

    # Without this check the message on directions below would come, and mislead: NaN does not count as a
    # change of an output.
    if not hidden.isfinite().all():
        raise UserError(
            f"{name} has outputs that are no numbers; fetch or train the model again"
        )

    # Whether it looks both ways.
    def outputs(ids: Tensor, length: int) -> Tensor:
        """Return the hidden states of ids (1, L) whose first `length` are real."""
        states: Tensor = model(
            input_ids=ids, attention_mask=padding_mask(ids, length)
        ).last_hidden_state
        return states

    # `sides` changes the last of a few tokens, and the padding after them, and compares the outputs.
    if not sides(outputs, probe_ids(model.get_input_embeddings())).both_ways:
        raise UserError(
            f"{name} does not see both sides: in plain transformers, the first token's output does not change with the "
            f"last token, or padding changes it{remedy and f'; {remedy}'}"
        )

    return hidden[0].mean(0)


def checked_files(folder: Path, manifest: Mapping[str, Any], remedy: str) -> list[str]:
    """Check an exported model's files that `check_model` does not, and return the findings, a sentence each.

    `check_model` has compared the files that are listed in the manifest. Left are those under `records`, such as the
    log, and the list of all files in the provenance.

    Args:
        folder: the model's folder.
        manifest: what `check_model` returned for it.
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

    # A user may change the card, and add or remove other files. Such changes are named, not refused. `strangers`
    # returns the files that are not as listed; "" means that the provenance itself may have any content.
    lost = [name for name in files if not (folder / name).exists()]
    others = strangers(folder, {**files, path.name: ""})
    if others:
        sentences.append(f"changed or added since: {first_of(others)}")
    if lost:
        sentences.append(f"removed since: {first_of(lost)}")
    return sentences


def checked_encoder(
    folder: Path, remedy: str = "export or fetch the model again"
) -> list[str]:
    """Check an encoder's folder and return the findings, a sentence each: hashes, direction of attention, self-test.

    Args:
        folder: a folder that this package wrote, or any other that transformers loads.
        remedy: what the user can do about a damaged file, for the message.

    Raises:
        UserError: a check failed.
    """
    findings = []
    manifest = check_model(folder, remedy)
    if manifest is not None:
        findings += checked_files(folder, manifest, remedy)

    # `read_object` and `tensor_heads` are called for their errors only: the first refuses damaged JSON, the
    # second damaged safetensors.
    for name in _READ:
        if (folder / name).is_file():
            read_object(folder / name)

    tensor_heads(folder)
    vector = self_test_vector(
        folder, str(folder), "`clm-or-mlm adapt` makes an encoder of a decoder"
    )

    # `self_test_vector` has tried that.
    findings.append(
        "the first token sees the last, padded or not, and padding changes nothing"
    )
    if (folder / SELF_TEST).is_file():
        stored = read_json(folder / SELF_TEST, "export the model again")
        findings.append(_compare_self_test(stored, vector, str(folder)))

    return findings


def _compare_self_test(stored: Any, vector: Tensor, name: str) -> str:
    """Compare a vector with the one in a self-test's file, and return the finding as a sentence.

    Args:
        stored: content of the file, in which anything may be wrong.
        vector: what the model gives the self-test's text now.
        name: what the model is called in messages.

    Raises:
        UserError: the file has another text or no such vector, or the vectors differ.
    """
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
    # `not <` also refuses NaN.
    if not gap < _CLOSE:
        raise UserError(
            f"{name}: the text of {SELF_TEST} has another vector than the stored one (by {gap:.1g} of the largest); "
            "use the transformers version of provenance.json"
        )

    return f"the text of {SELF_TEST} has its stored vector (difference {gap:.1g})"
