"""How an embedder makes a vector of a text, read from and written into its folder: pooling, prompts, longest text.

An embedder is a transformer with a pooling, which makes one vector of the transformer's vectors of a text's tokens.
The maker of a sentence-transformers folder has written down which pooling, and which prompts stand before texts. A
folder that does not say is read without prompts, by the mean of the tokens. The paper's own recipe is `PAPER_READING`.
This module imports no torch.

sentence-transformers and the servers that follow it read `modules.json`, which lists the parts of the embedder, and
`1_Pooling/config.json`. The pooling has two spellings there: the newer is one word, `"pooling_mode": "cls"`, the older
a switch for each pooling, `"pooling_mode_cls_token": true`. Some know only the older one, so that both are written.
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
"""Poolings that a folder of sentence-transformers can have here: names for `--pooling`, and that library's names."""
_COMPUTED_MODES = {mode: name for name, mode in MODES.items()}
"""Names for `--pooling`, by sentence-transformers' names."""
COMPUTED = (*MODES, "late")
"""All names for `--pooling`."""
_OLDER = re.compile(r"pooling_mode_(\w+?)(_tokens?)?")
"""A switch of the older spelling: `pooling_mode_cls_token`, `pooling_mode_mean_tokens`, `pooling_mode_lasttoken`."""
_SWITCHES = {
    "cls": "cls_token",
    "mean": "mean_tokens",
    "lasttoken": "lasttoken",
    "max": "max_tokens",
    "mean_sqrt_len": "mean_sqrt_len_tokens",
}
"""Names of these switches behind `pooling_mode_`, by the word of the newer spelling."""
MODULES = "modules.json"
"""File of a sentence-transformers folder that lists its parts."""
_POOLING = "1_Pooling"
"""Subfolder of the part that pools."""
LIMITS = "sentence_bert_config.json"
"""File of a transformer with its longest text, and whether texts are read in lower case."""
_PROMPTS = "config_sentence_transformers.json"
"""File of a sentence-transformers folder with its prompts."""
_REMEDY = "fetch the model again"


@dataclass(frozen=True, kw_only=True)
class Embedding:
    """How texts are read and become vectors."""

    pooling: str = "mean"
    """A key of `benchmarks.finetuning.heads.POOLINGS`; other words where the maker's pooling is not computed here, or
    where another part follows the pooling."""
    query: str = ""
    """What stands before a query."""
    document: str = ""
    """What stands before a document."""
    ends: bool = False
    """Whether the end-of-text token is put behind texts where the tokenizer puts nothing there: where the vector is the
    last token's, but the maker did not mean the model to be pooled so."""
    longest: int | None = None
    """Most tokens of a text, special ones included; None: the folder does not say."""
    lower: bool = False
    """Whether texts are read in lower case, whatever the tokenizer's own files do."""

    @property
    def kept(self) -> dict[str, str]:
        """The fields that stay when the model is trained on: the others follow from the texts and the tokenizer."""
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
        folder: the folder of the transformer: a sentence-transformers folder itself, or its first part.

    Raises:
        UserError: a file of the folder is damaged.
    """
    for root in (folder, folder.parent):
        modules = _modules_of(root / MODULES)
        if not modules:
            continue
        # A folder around this one may list another transformer.
        first_path, _ = modules[0]
        if (root / first_path).resolve() == folder.resolve():
            return _as_listed(root, modules, folder)
    return Embedding()


def kept_embedding(folder: Path) -> Embedding:
    """Return how the maker of a transformer's folder means it to be read, for an encoder that is made of the model.

    Raises:
        UserError: the pooling is one that `write_pooling` does not write, so the encoder's folder could not say it.
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
    """Write the files that make a transformer's folder a sentence-transformers folder with a pooling.

    Args:
        folder: the model's folder.
        width: the width of the model's hidden states.
        mode: a value of `MODES`.
        longest: number of tokens at which texts are cut; None: the tokenizer's limit.
    """
    modules = []
    # The transformer is in the folder itself, so its path is empty.
    for number, (path, kind) in enumerate([("", "Transformer"), (_POOLING, "Pooling")]):
        module = {
            "idx": number,
            "name": str(number),
            "path": path,
            "type": f"sentence_transformers.models.{kind}",
        }
        modules.append(module)

    _write(folder / MODULES, modules)
    # Newer versions of sentence-transformers call the width `embedding_dimension`, older ones know only the
    # first name.
    pooling: dict[str, object] = {
        "word_embedding_dimension": width,
        "embedding_dimension": width,
        "pooling_mode": mode,
    }

    # The older spelling: of all switches, only that of the mode is on.
    for name, switch in _SWITCHES.items():
        pooling[f"pooling_mode_{switch}"] = name == mode

    # The tokens of a prompt count in the vector as well.
    pooling["include_prompt"] = True
    _write(folder / _POOLING / "config.json", pooling)
    if longest is not None:
        # The folder's tokenizer lowers texts itself where it has to, so sentence-transformers must not.
        limits = {"max_seq_length": longest, "do_lower_case": False}
        _write(folder / LIMITS, limits)


def write_prompts(folder: Path, embedding: Embedding) -> None:
    """Write the prompts of queries and documents, and that vectors are compared by their cosine."""
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
    """Return the path and the class of each part that a modules.json lists; none where there is no file."""
    modules = []
    for entry in _content(path, list):
        if not isinstance(entry, dict):
            raise UserError(f"{path} is not a list of modules; {_REMEDY}")
        modules.append((str(entry.get("path")), str(entry.get("type"))))
    return modules


def _as_listed(
    root: Path, modules: Sequence[tuple[str, str]], folder: Path
) -> Embedding:
    """Return how a sentence-transformers folder reads texts: its transformer's limits, its pooling, its prompts.

    Args:
        root: the sentence-transformers folder.
        modules: path and class of each of its parts, such as `sentence_transformers.models.Pooling`.
        folder: the folder of its transformer.
    """
    about = _content(root / _PROMPTS)
    prompts = about.get("prompts") or {}
    # The prompt of texts for whose kind, query or document, the maker gave none.
    default_prompt = prompts.get(about.get("default_prompt_name"), "")
    query = _first(prompts, _QUERY, default_prompt)
    document = _first(prompts, _DOCUMENT, default_prompt)
    pooling = "mean"
    others = []
    for place, (path, kind) in enumerate(modules):
        package, _, name = kind.rpartition(".")
        is_known = package.startswith("sentence_transformers")
        if is_known and name == "Pooling":
            config = _content(root / path / "config.json")
            pooling = _pooling(config, has_prompts=bool(query or document))
            continue

        # The first part is the transformer. Behind it, Normalize may be left out: a cosine does not depend on a
        # vector's length. Any other part, such as Dense, changes the vector and is not computed here.
        expected = "Transformer" if place == 0 else "Normalize"
        if not is_known or name != expected:
            others.append(name)

    # Of `folder`, not of `root`: each transformer has its own limits.
    limits = _content(folder / LIMITS)
    return Embedding(
        pooling=", then ".join([pooling, *others]),
        query=query,
        document=document,
        longest=limits.get("max_seq_length"),
        lower=bool(limits.get("do_lower_case")),
    )


def _first(prompts: Mapping[str, str], names: tuple[str, ...], other: str) -> str:
    """Return the first of these prompts that the maker gave, else `other`."""
    # sentence-transformers writes empty prompts where the maker gave none, so empty counts as missing.
    return next((prompts[name] for name in names if prompts.get(name)), other)


def _pooling(config: Mapping[str, Any], *, has_prompts: bool) -> str:
    """Return the name of a pooling: ours, or the maker's name of one that is not computed here.

    Args:
        config: content of the config.json of the part that pools.
        has_prompts: whether a prompt stands before texts.
    """
    # The newer spelling is one word, or a list of several poolings whose vectors are joined.
    modes = config.get("pooling_mode")
    if not modes:
        modes = []
        for key, value in config.items():
            switch = _OLDER.fullmatch(key)
            # The word of the switch, without `_token` or `_tokens`, is that of the newer spelling.
            if switch is not None and value:
                modes.append(switch[1])

    # A folder that does not say is read by the mean.
    if not modes:
        modes = "mean"
    mode = modes if isinstance(modes, str) else " and ".join(modes)
    name = _COMPUTED_MODES.get(mode, mode)

    # The maker leaves the tokens of the prompt out of the vector. Such a pooling is not computed here, so it
    # gets a name that none of ours has.
    if has_prompts and config.get("include_prompt") is False:
        return f"{name} without the prompt"
    return name


def _content(path: Path, kind: type = dict) -> Any:
    """Return what a JSON file holds; an empty object of the kind where there is no file.

    Args:
        path: the file.
        kind: `dict` or `list`.

    Raises:
        UserError: the file holds something else.
    """
    from common.reading import read_json

    if not path.is_file():
        return kind()
    content = read_json(path, _REMEDY)
    if not isinstance(content, kind):
        raise UserError(f"{path} is not a JSON {kind.__name__}; {_REMEDY}")
    return content
