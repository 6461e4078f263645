"""What an encoder's folder needs besides weights: pooling files, a self-test; and the check that repeats both.

sentence-transformers and the servers that follow it read `modules.json` and `1_Pooling/config.json`. Some know the
newer spelling of the pooling, some only the older one, so that both are there.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging as library

from common.errors import UserError, first_line
from common.files import sha256_file, write_text
from common.reading import read_json
from pretraining.model.adapted import both_ways
from pretraining.model.model_folder import check_model

__all__ = ["SELF_TEST", "checked_encoder", "folder_hashes", "pooling_files", "quiet", "self_test"]

SELF_TEST = "self_test.json"
"""A text and its vector."""
_TEXT = "An encoder reads this sentence from both ends."
_CLOSE = 1e-3


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Leave out what transformers says of weights that a class does not use, and its bars."""
    before = library.get_verbosity()
    library.set_verbosity_error()
    library.disable_progress_bar()
    try:
        yield
    finally:
        library.set_verbosity(before)
        library.enable_progress_bar()


def pooling_files(folder: Path, width: int) -> None:
    """Write the parts of a sentence-transformers model: the transformer and a mean over its tokens."""
    parts = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    pooling = {
        "word_embedding_dimension": width,
        "embedding_dimension": width,
        "pooling_mode": "mean",
        "pooling_mode_cls_token": False,
        "pooling_mode_mean_tokens": True,
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
        "include_prompt": True,
    }
    write_text(folder / "modules.json", json.dumps(parts, indent=2) + "\n")
    write_text(folder / "1_Pooling" / "config.json", json.dumps(pooling, indent=2) + "\n")


def folder_hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a folder, by its path in it."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): sha256_file(path) for path in paths}


@torch.no_grad()
def _states(folder: Path, name: str) -> tuple[Any, Tensor]:
    """Return a folder's model, as plain transformers loads it, and the mean hidden state of the text."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        with quiet():
            model = AutoModel.from_pretrained(folder, dtype=torch.float32, trust_remote_code=False).eval()
        read = tokenizer([_TEXT], return_tensors="pt")
        hidden: Tensor = model(
            input_ids=read["input_ids"], attention_mask=read["attention_mask"]
        ).last_hidden_state
    except Exception as error:  # transformers raises kinds of its own
        raise UserError(f"{name} cannot be loaded with transformers: {first_line(error)}") from None
    return model, hidden[0].mean(0)


def self_test(folder: Path) -> dict[str, Any]:
    """Return a text with its vector: the mean of its tokens' hidden states in float32."""
    _, vector = _states(folder, str(folder))
    return {"text": _TEXT, "pooling": "mean", "vector": [float(f"{value:.7g}") for value in vector.tolist()]}


def checked_encoder(folder: Path, *, name: str = "") -> list[str]:
    """Return what holds of an encoder's folder, a sentence each: hashes, direction, self-test.

    Args:
        folder: a folder of this package, or any other that transformers loads.
        name: what messages call it.

    Raises:
        UserError: what does not hold.
    """
    name = name or str(folder)
    held = []
    if (manifest := check_model(folder, f"{name} must be exported or fetched again")) is not None:
        held.append(f"{len(manifest['files'])} files match the manifest")
    model, vector = _states(folder, name)
    rows = model.get_input_embeddings().weight.shape[0]
    ids = torch.randint(rows // 2, rows, (1, 11), generator=torch.Generator().manual_seed(0))

    @torch.no_grad()
    def outputs(tokens: Tensor, mask: Tensor | None) -> Tensor:
        states: Tensor = model(input_ids=tokens, attention_mask=mask).last_hidden_state
        return states

    if not both_ways(outputs, ids):
        raise UserError(
            f"{name} does not see both sides: in plain transformers, the first token's output does not change with the "
            "last token, or padding changes it"
        )
    held.append("the first token sees the last, padded or not, and padding changes nothing")
    if (folder / SELF_TEST).is_file():
        held.append(_compared(read_json(folder / SELF_TEST, "export the model again"), vector, name))
    return held


def _compared(stored: Mapping[str, Any], vector: Tensor, name: str) -> str:
    wanted = torch.tensor(stored["vector"])
    if stored.get("text") != _TEXT or wanted.shape != vector.shape:
        raise UserError(f"{name}: {SELF_TEST} belongs to another model or version; export the model again")
    gap = float((wanted - vector).abs().max() / wanted.abs().max())
    if not gap < _CLOSE:
        raise UserError(
            f"{name}: the text of {SELF_TEST} has another vector than the stored one (by {gap:.1g} of the largest); "
            "use the transformers version of provenance.json"
        )
    return f"the text of {SELF_TEST} has its stored vector (difference {gap:.1g})"
