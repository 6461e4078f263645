"""Where a model's files are, and the hashes of what decides its scores; paths and names decide nothing. No torch.

A model's folder is one of Hugging Face: config.json, safetensors, tokenizer. A sentence-transformers folder lists its
parts in modules.json; the first part is such a model's folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from common.embedding import MODULES
from common.errors import UserError, first_line, path_hint
from common.files import sha256_bytes, sha256_file, state_of
from common.reading import (
    inside,
    open_plain,
    read_bounded,
    read_json,
    refuse_pointer,
)

_TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
)
"""What a tokenizer is made of, whatever its class."""
_CARDS = ("README.md", "LICENSE", "LICENSE.txt", "LICENSE.md")
"""Files that say a licence, the surest first: a model card says it in a field, the others in free text."""
_MOST = {
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 2_000),
    **dict.fromkeys(("hidden_size", "n_embd", "dim", "d_model", "emb_dim"), 2**17),
    **dict.fromkeys(("intermediate_size", "n_inner", "hidden_dim", "ffn_dim"), 2**20),
    **dict.fromkeys(
        (
            "num_attention_heads",
            "n_head",
            "n_heads",
            "num_heads",
            "num_key_value_heads",
            "num_local_experts",
        ),
        2**12,
    ),
    "vocab_size": 2**24,
}
"""The largest numbers that are accepted in a stranger's config.json, by key: larger ones than any model of today has
would ask for too much memory and time."""
_WRAPPERS = {
    "_orig_mod": "torch.compile",
    "_fsdp_wrapped_module": "FSDP",
    "_checkpoint_wrapped_module": "activation checkpointing",
    "module": "DataParallel, DDP or DeepSpeed",
}
"""Parts of a tensor's name that a wrapper, in which the model was trained, puts there, and whose they are. `module` is
one only at the beginning of a name: elsewhere, it may be the model's own."""
_ADAPTERS = ("lora_A", "lora_B", "base_layer")
"""Parts of a tensor's name in weights that were saved with an adapter in them."""
_CONFIG = "config.json"
_REMEDY = "give a Hugging Face model folder"
_AGAIN = "fetch the model again"


def resolve(model: str, *, revision: str | None = None, code: bool = False) -> Path:
    """Return the folder of a model, fetching a hub id's configuration, tokenizer and safetensors if need be.

    Args:
        model: a folder, or a hub id: OWNER/NAME.
        revision: branch, tag or commit of a hub id; None: the hub's main branch.
        code: whether to fetch the Python files of a hub id as well.

    Raises:
        UserError: there is no such folder, or one with a revision; it is no model; or the hub cannot give it.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        if revision:
            raise UserError(
                f"{model} is a local folder, which has no revision {revision}; leave that out"
            )
        return _transformer_of(path)

    if path.exists():
        raise UserError(f"{model} is a file; give the folder that it is in")
    looks_like_path = model.startswith((".", "/", "~")) or model.endswith("/")
    if looks_like_path or model.count("/") != 1:
        raise UserError(
            f"there is no model folder {model} (a hub id has the form OWNER/NAME){path_hint(path, _CONFIG)}"
        )

    # Imported here: neither a help nor a local folder needs it.
    from huggingface_hub import snapshot_download

    wanted = ["*.json", "*.safetensors", "*.txt", "*.model", *_CARDS]
    if code:
        wanted.append("*.py")
    try:
        fetched = Path(
            snapshot_download(model, revision=revision, allow_patterns=wanted)
        )
    except Exception as error:
        raise UserError(
            f"{model} is not a local folder, and could not be fetched from the hub ({first_line(error)}); fetch it on "
            "a machine with network access first"
        ) from None

    return _transformer_of(fetched)


def _transformer_of(folder: Path) -> Path:
    """Return the folder itself, or the first part of a sentence-transformers folder, which is the transformer.

    Raises:
        UserError: the folder holds no model; the sentence names models in its subfolders.
    """
    folder = revision_folder(folder)
    if (folder / _CONFIG).is_file():
        return folder
    if (folder / MODULES).is_file():
        try:
            parts = read_json(folder / MODULES, _REMEDY)
            first = inside(folder, parts[0]["path"])
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise UserError(
                f"{folder / MODULES} is not a list of modules ({first_line(error)})"
            ) from None

        if (first / _CONFIG).is_file():
            return first

    hint = ""
    # Name the models of the nearest level of subfolders that has any; deeper than four is not searched.
    for depth in range(1, 5):
        below = sorted(folder.glob("*/" * depth + _CONFIG))
        if below:
            names = ", ".join(str(path.parent) for path in below[:6])
            hint = f"; it holds {names}"
            break

    raise UserError(f"{folder} has no model config.json; {_REMEDY}{hint}")


def revision_folder(folder: Path) -> Path:
    """Return the revision that the hub's cache of one repository holds; any other folder itself.

    Such a cache has a folder for each revision, `snapshots/COMMIT`; `refs/main` holds the commit of the main branch.

    Raises:
        UserError: the cache holds several revisions, none of which is that of its main branch.
    """
    snapshots, branch = folder / "snapshots", folder / "refs" / "main"
    if (folder / _CONFIG).is_file() or not snapshots.is_dir():
        return folder
    revisions = sorted(path for path in snapshots.iterdir() if path.is_dir())
    if branch.is_file():
        commit = read_bounded(branch).decode("utf-8", "replace").strip()
        of_branch = [path for path in revisions if path.name == commit]
        # The main branch's own revision may not have been fetched.
        if of_branch:
            revisions = of_branch

    if len(revisions) > 1:
        names = ", ".join(str(path) for path in revisions[:3])
        raise UserError(f"{folder} holds {len(revisions)} revisions; give one: {names}")

    return revisions[0] if revisions else folder


def read_config(folder: Path) -> dict[str, Any]:
    """Return the content of a model's config.json.

    Raises:
        FileNotFoundError: there is no such file.
        UserError: it is not a JSON object, or cannot be read.
    """
    return read_object(folder / _CONFIG)


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object that a file of a model holds.

    Raises:
        FileNotFoundError: there is no such file.
        UserError: it holds something else, cannot be read, or has a number that is larger than any model's.
    """
    content = read_json(path, _AGAIN)
    if not isinstance(content, dict):
        raise UserError(f"{path} is not a JSON object; {_AGAIN}")

    # A model with 200,000 layers, by a damaged config.json, would be built for minutes.
    for name in _MOST.keys() & content.keys():
        number = content[name]
        # `not <=` also refuses nan, which `>` would accept.
        if isinstance(number, int | float) and not abs(number) <= _MOST[name]:
            raise UserError(
                f"{path}: {name} is {str(number)[:20]}, more than any model's; {_AGAIN}"
            )

    return content


def is_its_own(path: Path) -> bool:
    """Return whether a file is there and, if it is a link, stays in the model's folder or the hub's cache around it."""
    folder = path.parent.resolve()
    places = [folder]
    # The hub's cache has the files in `blobs`, and links to them in `snapshots`.
    for above in folder.parents:
        if above.name == "snapshots":
            places.append(above.parent / "blobs")
    target = path.resolve()
    return path.is_file() and any(target.is_relative_to(place) for place in places)


def licence_of(folder: Path) -> str:
    """Return a model's licence from its card's front matter, else its LICENSE's first line; empty if unknown."""
    places = [folder]
    # The card of a sentence-transformers folder is above its first part.
    if (folder.parent / MODULES).is_file():
        places.append(folder.parent)
    card, *_ = _CARDS
    candidates = [place / name for place in places for name in _CARDS]
    for path in candidates:
        # A link may lead to any file on the disk, whose text must not reach a card.
        if not is_its_own(path):
            continue
        lines = read_bounded(path).decode("utf-8", "replace").splitlines()
        # In free text, the first line that is not empty stands for the licence.
        if path.name != card:
            filled = [line.strip() for line in lines if line.strip()]
            return filled[0][:120] if filled else ""

        # The front matter is at the head of a card: `license: apache-2.0`.
        fields = {}
        for line in lines[:80]:
            match = re.fullmatch(r"(license|license_name): *(\S.*)", line)
            if match is not None:
                fields[match[1]] = match[2].strip("\"' ")

        # A licence that the hub does not know is written as `license: other`, with `license_name` beside it.
        if fields:
            return fields.get("license_name") or fields["license"]

    return ""


class TensorHead(NamedTuple):
    """What the head of a safetensors file says of a tensor."""

    type: str
    """Such as `BF16`."""
    shape: tuple[int, ...]
    """Its sizes."""
    path: Path
    """The file that it is in."""


def tensor_heads(folder: Path) -> dict[str, TensorHead]:
    """Return what the heads of a folder's safetensors say of each tensor, by its name.

    Raises:
        UserError: a file is damaged, or a Git LFS pointer.
    """
    from safetensors import SafetensorError, safe_open

    heads: dict[str, TensorHead] = {}
    for path in sorted(folder.glob("*.safetensors")):
        # `open_plain` refuses a pipe of that name, at which a plain open would wait.
        with os.fdopen(open_plain(path), "rb") as raw:
            refuse_pointer(path, raw.read(64))
        # `safe_open` reads only the head; a tensor is read when its values are asked for.
        try:
            with safe_open(path, framework="numpy") as file:
                for name in file.keys():  # noqa: SIM118  # not a mapping
                    tensor = file.get_slice(name)
                    shape = tuple(tensor.get_shape())
                    heads[name] = TensorHead(tensor.get_dtype(), shape, path)
        except SafetensorError as error:
            raise UserError(
                f"{path} is no safetensors file, or not whole ({error}); {_AGAIN}"
            ) from None

    return heads


def refuse_unfinished(folder: Path, tensors: Mapping[str, TensorHead]) -> None:
    """Refuse weights that are empty, or that were saved within what they were trained in.

    Args:
        folder: the model's, for messages.
        tensors: its `tensor_heads`.

    Raises:
        UserError: which, and what to do.
    """
    empty = [name for name, head in tensors.items() if 0 in head.shape]
    # One empty tensor may belong to the class, as in MobileBERT.
    if len(empty) > 1:
        raise UserError(
            f"{folder} cannot be loaded: {len(empty)} of its {len(tensors)} tensors are empty ({empty[0]}), as "
            "DeepSpeed's ZeRO-3 saves what it has not gathered; gather the weights (zero_to_fp32.py, or "
            "stage3_gather_16bit_weights_on_model_save) and save again"
        )

    for name in tensors:
        parts = name.split(".")
        if any(part in _ADAPTERS for part in parts):
            raise UserError(
                f"{folder} cannot be loaded: an adapter is still in its weights ({name}); merge it (peft's "
                "merge_and_unload) and save the model again"
            )

        wrapper = next((part for part in parts if part in _WRAPPERS), "")
        # Inside a name, `module` is a part of the model itself.
        is_models_own = wrapper == "module" and parts[0] != "module"
        if wrapper and not is_models_own:
            raise UserError(
                f"{folder} cannot be loaded: {_WRAPPERS[wrapper]} put `{wrapper}.` into the names of its tensors "
                f"({name}); save the model that is within (accelerate's unwrap_model), or take `{wrapper}.` out of "
                "the names"
            )


def weights_hash(folder: Path, *, code: bool = False) -> str:
    """Return the SHA-256 over the names and hashes of the folder's weight files and its config.

    Args:
        folder: a Hugging Face folder.
        code: whether the Python files in the folder count as well, as they must where they are run.
    """
    return _hash(_weight_files(folder, code=code))


def weights_states(folder: Path) -> dict[Path, tuple[int, ...]]:
    """Return the `state_of` each file that `weights_hash` reads, by path; while it stays, so does the hash."""
    files = _weight_files(folder, code=False)
    return {path: state_of(path.stat()) for path in files}


def _weight_files(folder: Path, *, code: bool) -> list[Path]:
    patterns = ["*.safetensors", "*.safetensors.index.json"]
    if code:
        patterns.append("*.py")
    files = [folder / _CONFIG]
    for pattern in patterns:
        files += folder.glob(pattern)
    return files


def tokenizer_hash(folder: Path) -> str:
    """Return the SHA-256 over the names and hashes of the files that make the folder's tokenizer."""
    paths = [folder / name for name in _TOKENIZER]
    return _hash(path for path in paths if path.is_file())


def _hash(files: Iterable[Path]) -> str:
    text = "".join(f"{file.name} {sha256_file(file)}\n" for file in sorted(files))
    return sha256_bytes(text.encode())
