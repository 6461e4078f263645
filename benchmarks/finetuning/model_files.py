"""Where a model's files are: a folder here, one that sentence-transformers made, or a hub's."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from huggingface_hub import snapshot_download

from common.errors import UserError, nearest
from common.files import sha256_file

__all__ = ["first_line", "resolve", "weights_hash"]

_MODULES = "modules.json"
"""What sentence-transformers lists the parts of a model in."""


def resolve(model: str, *, revision: str | None = None, code: bool = False) -> Path:
    """Return the folder of a model, fetching a hub id's configuration, tokenizer and safetensors if need be.

    Raises:
        UserError: there is no such folder, it is no model, or the hub cannot give it.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        return _transformer_of(path)
    if path.exists() or model.startswith((".", "/", "~")) or model.count("/") != 1:
        siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        raise UserError(
            f"there is no model folder {model}{nearest(path.name, siblings)} (a hub id reads OWNER/NAME)"
        )
    wanted = ["*.json", "*.safetensors", "*.txt", "*.model", *(["*.py"] if code else [])]
    try:
        fetched = Path(snapshot_download(model, revision=revision, allow_patterns=wanted))
    except Exception as error:
        raise UserError(
            f"{model} is no folder here and the hub does not give it ({first_line(error)}); fetch it on a machine "
            "with network first"
        ) from None
    return _transformer_of(fetched)


def _transformer_of(folder: Path) -> Path:
    """Return the folder itself, or the part of a sentence-transformers folder that holds the transformer.

    Raises:
        UserError: it holds no model.
    """
    if (folder / "config.json").is_file():
        return folder
    if (folder / _MODULES).is_file():
        try:
            modules = json.loads((folder / _MODULES).read_text(encoding="utf-8"))
            parts = [folder / str(module["path"]) for module in modules]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{folder / _MODULES} is no list of modules ({first_line(error)})") from None
        for part in parts:
            inside = part.resolve().is_relative_to(folder.resolve())
            if inside and (part / "config.json").is_file() and _is_model(part / "config.json"):
                return part
    raise UserError(f"{folder} holds no config.json of a model; name a Hugging Face model folder")


def _is_model(config: Path) -> bool:
    """Return whether it is a transformer's; a pooling module has a config.json too, without a model type."""
    return "model_type" in json.loads(config.read_text(encoding="utf-8"))


def weights_hash(folder: Path) -> str:
    """Return the SHA-256 over the names and hashes of the folder's weight files and its config."""
    files = sorted([*folder.glob("*.safetensors"), folder / "config.json"])
    return hashlib.sha256(
        "".join(f"{file.name} {sha256_file(file)}\n" for file in files).encode()
    ).hexdigest()


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its kind where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
