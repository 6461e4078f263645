"""How an embedder makes a vector of a text, read from and written into its folder: pooling, prompts, longest text.

The maker of a sentence-transformers folder wrote it down; what does not say is read without prompts, by the mean of its
tokens. The paper's own recipe is `PAPER_READING`. Light: no torch.

sentence-transformers and the servers that follow it read `modules.json` and `1_Pooling/config.json`. Some know the
newer spelling of the pooling, some only the older one, so that both are written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.files import write_text

_QUERY, _DOCUMENT = ("query",), ("document", "passage", "corpus")
"""Names of prompts in the order in which sentence-transformers looks for them."""
MODES = {"mean": "mean", "first": "cls", "last": "lasttoken"}
"""Poolings that a folder of sentence-transformers can have here: names for `--pooling`, and its own."""
_COMPUTED_MODES = {mode: name for name, mode in MODES.items()}
COMPUTED = (*MODES, "late")
"""Names for `--pooling`."""
_OLDER = re.compile(r"pooling_mode_(\w+?)(_tokens?)?")
"""An older spelling, a switch for each."""
_SWITCHES = {
    "cls": "cls_token",
    "mean": "mean_tokens",
    "lasttoken": "lasttoken",
    "max": "max_tokens",
    "mean_sqrt_len": "mean_sqrt_len_tokens",
}
"""Names of these switches behind `pooling_mode_`, by the newer spelling."""
MODULES = "modules.json"
"""File of a sentence-transformers folder that lists its parts."""
_POOLING = "1_Pooling"
LIMITS = "sentence_bert_config.json"
"""File of a transformer with its longest text, and whether texts are read in lower case."""
_PROMPTS = "config_sentence_transformers.json"
_REMEDY = "fetch the model again"


@dataclass(frozen=True, kw_only=True)
class Embedding:
    """How texts are read and become vectors."""

    pooling: str = "mean"
    """A key of `benchmarks.finetuning.heads.POOLINGS`; other words where the maker's is not computed here, or where
    more than a pooling makes a vector of the states."""
    query: str = ""
    """What stands before a query."""
    document: str = ""
    """What stands before a document."""
    ends: bool = False
    """Whether texts end in the end of text where the tokenizer has nothing behind them: where the vector is the last
    token's, and the maker did not mean it so."""
    longest: int | None = None
    """Most tokens of a text, special ones included; None: it does not say."""
    lower: bool = False
    """Whether texts are read in lower case, whatever the tokenizer's own files do."""

    @property
    def kept(self) -> dict[str, str]:
        """What stays of it when the model is trained on: it belongs to no text, and to no tokenizer."""
        return {
            "pooling": self.pooling,
            "query": self.query,
            "document": self.document,
        }

    def query_text(self, query: str) -> str:
        """Return a query with its prompt."""
        return f"{self.query}{query}"

    def document_text(self, text: str, title: str | None = None) -> str:
        """Return a document with its prompt; a title goes before the text."""
        return f"{self.document}{title}. {text}" if title else f"{self.document}{text}"


PAPER_READING = Embedding(query="Query: ", document="Document: ")
"""Prompts and pooling of the paper's recipe."""


def made_embedding(folder: Path) -> Embedding:
    """Return how the maker of a transformer's folder means it to be read.

    Args:
        folder: that of the transformer: a sentence-transformers folder itself, or its first part.

    Raises:
        UserError: one of its files is damaged.
    """
    for root in (folder, folder.parent):
        modules = _modules_of(root / MODULES)
        if modules and (root / modules[0][0]).resolve() == folder.resolve():
            return _as_listed(root, modules, folder)
    return Embedding()


def kept_embedding(folder: Path) -> Embedding:
    """Return how the maker of a transformer's folder means it, where a folder that is made of it can be meant so.

    Raises:
        UserError: `write_pooling` does not write its pooling.
    """
    made = made_embedding(folder)
    if made.pooling not in MODES:
        raise UserError(
            f"{folder} is pooled by {made.pooling}, which the encoder's folder cannot keep; give a copy without "
            f"{MODULES}: it is pooled by the mean"
        )
    return made


def write_pooling(
    folder: Path, width: int, mode: str, *, longest: int | None = None
) -> None:
    """Write the parts of a sentence-transformers model: the transformer, and how its tokens become one vector.

    Args:
        folder: the model's.
        width: of its hidden states.
        mode: a value of `MODES`.
        longest: where it cuts texts, in tokens; None: the tokenizer's limit.
    """
    modules = []
    for number, (path, kind) in enumerate([("", "Transformer"), (_POOLING, "Pooling")]):
        module = {
            "idx": number,
            "name": str(number),
            "path": path,
            "type": f"sentence_transformers.models.{kind}",
        }
        modules.append(module)
    _write(folder / MODULES, modules)
    pooling: dict[str, object] = {
        "word_embedding_dimension": width,
        "embedding_dimension": width,
        "pooling_mode": mode,
    }
    for name, switch in _SWITCHES.items():
        pooling[f"pooling_mode_{switch}"] = name == mode
    pooling["include_prompt"] = True
    _write(folder / _POOLING / "config.json", pooling)
    if longest is not None:
        # The folder's tokenizer lowers texts itself where it has to, so sentence-transformers must not.
        limits = {"max_seq_length": longest, "do_lower_case": False}
        _write(folder / LIMITS, limits)


def write_prompts(folder: Path, embedding: Embedding) -> None:
    """Write what stands before queries and documents, and that vectors are compared by their cosine."""
    prompts = {"query": embedding.query, "document": embedding.document}
    content = {
        "prompts": prompts,
        "default_prompt_name": None,
        "similarity_fn_name": "cosine",
    }
    _write(folder / _PROMPTS, content)


def _write(path: Path, content: object) -> None:
    write_text(path, json.dumps(content, indent=2) + "\n")


def _modules_of(path: Path) -> list[tuple[str, str]]:
    """Return the path and the class of each module that a file lists; none where there is no file."""
    modules = []
    for entry in _content(path, list):
        if not isinstance(entry, dict):
            raise UserError(f"{path} is not a list of modules; {_REMEDY}")
        modules.append((str(entry.get("path")), str(entry.get("type"))))
    return modules


def _as_listed(
    root: Path, modules: Sequence[tuple[str, str]], folder: Path
) -> Embedding:
    """Return how a folder of sentence-transformers reads texts: its transformer's limits, its pooling, its prompts."""
    about = _content(root / _PROMPTS)
    prompts = about.get("prompts") or {}
    other = prompts.get(about.get("default_prompt_name"), "")
    query = _first(prompts, _QUERY, other)
    document = _first(prompts, _DOCUMENT, other)
    pooling = "mean"
    others = []
    for place, (path, kind) in enumerate(modules):
        package, _, name = kind.rpartition(".")
        is_known = package.startswith("sentence_transformers")
        if is_known and name == "Pooling":
            config = _content(root / path / "config.json")
            pooling = _pooling(config, has_prompts=bool(query or document))
        # Normalize may be left out: a cosine does not depend on a vector's length.
        elif not is_known or name != ("Normalize" if place else "Transformer"):
            others.append(name)
    limits = _content(folder / LIMITS)
    return Embedding(
        pooling=", then ".join([pooling, *others]),
        query=query,
        document=document,
        longest=limits.get("max_seq_length"),
        lower=bool(limits.get("do_lower_case")),
    )


def _first(prompts: Mapping[str, str], names: tuple[str, ...], other: str) -> str:
    # sentence-transformers writes empty prompts where the maker gave none, so empty counts as missing.
    return next((prompts[name] for name in names if prompts.get(name)), other)


def _pooling(config: Mapping[str, Any], *, has_prompts: bool) -> str:
    """Return the name of a pooling: ours, or the maker's name of one that is not computed here."""
    switched_on = (_OLDER.fullmatch(key) for key, value in config.items() if value)
    modes = (
        config.get("pooling_mode") or [key[1] for key in switched_on if key] or "mean"
    )
    mode = modes if isinstance(modes, str) else " and ".join(modes)
    name = _COMPUTED_MODES.get(mode, mode)
    if has_prompts and config.get("include_prompt") is False:
        return f"{name} without the prompt"
    return name


def _content(path: Path, kind: type = dict) -> Any:
    """Return what a JSON file holds; an empty object of the kind where there is none.

    Raises:
        UserError: it holds something else.
    """
    from common.reading import read_json

    if not path.is_file():
        return kind()
    content = read_json(path, _REMEDY)
    if not isinstance(content, kind):
        raise UserError(f"{path} is not a JSON {kind.__name__}; {_REMEDY}")
    return content
