"""Llama-3-type tokenizers: read from a Hugging Face `tokenizer.json` or a tiktoken file, hashed, written, trained.

The paper's tokenizer is Llama 3's byte-level BPE, 128,000 ranks and 256 special tokens, whose first reserved
token, id 128002, became `<|mask|>`. A document is encoded without begin-of-text and closed by end-of-text, as on
the tiktoken path of the paper's trainer; which path the paper used is not known (docs/deviations.md). If the tokenizer
of another model puts tokens before a text, each document begins with these. Documents are encoded in order by any
number of threads.

`tiktoken` encodes in place of Hugging Face's `tokenizers` where it gives the same ids (`tiktoken_ranks`).
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import orjson
import tiktoken
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from common.errors import UserError, first_line
from common.files import sha256_bytes
from pretraining.data.tiktoken_ranks import (
    LLAMA3_MODEL,
    LLAMA3_SPLIT,
    bpe_model,
    overflows,
    read_ranks,
    tiktoken_twin,
)
from pretraining.data.tokenizer_files import (
    ADDED,
    COMPANIONS,
    TOKENIZER,
    TokenizerFiles,
    other_tokenizer,
    read_tokenizer,
    without_json,
    write_tokenizer,
)
from pretraining.data.tokenizer_owner import parse_tokenizer
from pretraining.paper_settings import SPECIAL_TOKENS

if TYPE_CHECKING:
    from pretraining.data.corpus import Document


BEGIN, END, MASK = SPECIAL_TOKENS.begin, SPECIAL_TOKENS.end, SPECIAL_TOKENS.mask
_RESERVED = "<|reserved_special_token_{}|>"
"""Name of a special token of Llama 3 that has no use, by its number."""

TOKENIZER_FILES = (TOKENIZER, "tokenizer.model", "tokenizer.model.zst")
"""Files from which a folder's tokenizer is read, the first one that is there."""

_LLAMA3_RANKS = "791fc9f2ac984cc4574102f905d8ee4f5e4991a1d28d5913af88ab4bd45ba795"
"""SHA-256 of Llama 3's ranks in their order, as Python writes them."""

_MARK = re.compile(r"[^\w\s]\w|\w[^\w\s]")
"""A sign beside a letter, as in the names of special tokens: `<s>`, `[SEP]`."""
DIGEST_BYTES = 16
"""Length of a document's BLAKE2b digest."""

Ids = npt.NDArray[np.int32]
"""Ids of a document's tokens, 1-D."""
Encoded = list[tuple[bytes, Ids]]
"""Digest of the text, and tokens, of each document of a group."""


@dataclass(frozen=True, kw_only=True)
class TextTokenizer:
    """A fast tokenizer with the three ids that pretraining needs."""

    inner: tokenizers.Tokenizer
    """The tokenizer of the `tokenizers` package; it adds no special tokens by itself."""
    bos_id: int | None
    """Id of begin-of-text; None when the vocabulary has none. Pretraining does not use it."""
    eos_id: int
    """Id of end-of-text, which follows every document, and is also the padding."""
    mask_id: int
    """Id of the token that replaces a masked one."""
    first: tuple[int, ...] = ()
    """Ids that every document begins with."""
    special: frozenset[str] = field(default=frozenset(), repr=False)
    """Texts of the special tokens that other files than tokenizer.json name."""

    @cached_property
    def vocab_size(self) -> int:
        """Number of rows that an embedding needs: the largest id plus one."""
        return int(max(self.inner.get_vocab(with_added_tokens=True).values())) + 1

    @cached_property
    def sha256(self) -> str:
        """Hash of all that the ids of a text depend on, whatever the layout of the tokenizer's file.

        The ids that begin and end a document are not in it: manifests list them beside it.
        """
        # A copy, of which single fields are changed.
        content = dict(self._content)
        # Documents are neither cut nor padded, whatever the file says, so these fields do not count.
        content.pop("padding", None)
        content.pop("truncation", None)
        tokens = []
        for token in content["added_tokens"]:
            # An export's mask takes a blank before it; in documents the mask is plain text, so that does not count.
            if token["content"] == MASK:
                token = token | {"lstrip": False}
            tokens.append(token)

        content["added_tokens"] = tokens
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def unknown_id(self) -> int | None:
        """Id of the token that stands for text which the vocabulary lacks; None where there is no such token."""
        model = self._content["model"]
        # A Unigram model has the unknown token's number as `unk_id`, other models have its text as `unk_token`.
        # Without either, the empty text is looked up, which is no token: None.
        id_of_text = self.inner.token_to_id(model.get("unk_token") or "")
        number = model.get("unk_id", id_of_text)
        return None if number is None else int(number)

    @cached_property
    def twin(self) -> tiktoken.Encoding | None:
        """tiktoken's encoder of the same ids, which is several times as fast; None when there is none."""
        # The model is the file's last field, and quotation marks inside texts are escaped, so this cut is safe.
        model = sha256_bytes(self._json.partition('"model":')[2].encode())
        return tiktoken_twin(self._content, of_ranks=model == LLAMA3_MODEL)

    @property
    def engine(self) -> str:
        """The package that encodes: `tiktoken` where it gives the same ids, else `tokenizers`."""
        return "tokenizers" if self.twin is None else "tiktoken"

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of each text, int32, with those that begin and end a document.

        The name of a special token in a text, such as `<|mask|>`, is read as plain text, not as the token.
        """
        twin = self.twin
        if twin is None:
            return self._encode_slowly(texts)
        encoded_texts = []
        for text in texts:
            # Some texts crash tiktoken.
            if overflows(text):
                encoded_texts += self._encode_slowly([text])
            else:
                # By default tiktoken refuses a text with the name of a special token. With no disallowed
                # names it reads them as plain text.
                ids = twin.encode_to_numpy(text, disallowed_special=())
                encoded_texts.append(self._as_document(ids))

        return encoded_texts

    @cached_property
    def _reader(self) -> tokenizers.Tokenizer:
        """The tokenizer that reads texts: `inner`, or a copy without the names of special tokens.

        A vocabulary may have the name of a special token, such as `[SEP]`, as a word of its own. The name in a text
        would then become the special token.
        """
        added = self._content["added_tokens"]
        names = {token["content"] for token in added if token["special"]}
        # A special token may be a plain word or sign (a padding), which texts use. Only names such as `[SEP]` count.
        names = {name for name in names | self.special if _MARK.search(name)}
        names &= self.inner.get_vocab(with_added_tokens=False).keys()
        if not names:
            return self.inner
        return parse_tokenizer(without_names(self._json, names), "the tokenizer")

    def _encode_slowly(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of each text as `encode_batch` does, always by the `tokenizers` package."""
        encodings = self._reader.encode_batch_fast(
            list(texts), add_special_tokens=False
        )
        return [self._as_document(encoding.ids) for encoding in encodings]

    def _as_document(self, ids: npt.NDArray[np.uint32] | list[int]) -> Ids:
        """Return the ids of a text between those that begin and end a document."""
        begin = len(self.first)
        document = np.empty(begin + len(ids) + 1, np.int32)
        document[:begin] = self.first
        document[begin:-1] = ids
        document[-1] = self.eos_id
        return document

    @cached_property
    def _json(self) -> str:
        """The tokenizer as the text of a tokenizer.json, in the layout of the `tokenizers` package."""
        return str(self.inner.to_str())

    @cached_property
    def _content(self) -> dict[str, Any]:
        """The content of that tokenizer.json."""
        content: dict[str, Any] = orjson.loads(self._json)
        return content

    def save(self, folder: Path, *, max_length: int = 2048) -> None:
        """Write a folder that `transformers.AutoTokenizer` loads, each file atomically.

        Args:
            folder: where the files are written.
            max_length: longest text in tokens, which the folder records.
        """
        ids = {
            "eos_token": self.eos_id,
            "pad_token": self.eos_id,
            "mask_token": self.mask_id,
        }
        if self.bos_id is not None:
            ids["bos_token"] = self.bos_id
        names = {}
        for name, number in ids.items():
            names[name] = str(self.inner.id_to_token(number))
        write_tokenizer(folder, self._json, names, max_length=max_length)


def load_tokenizer(
    source: str,
    *,
    begin: str | None = None,
    end: str | None = None,
    as_llama3: bool = False,
) -> TextTokenizer:
    """Return the tokenizer of a folder, a file or a hub id.

    Args:
        source: a folder with `tokenizer.json` or `tokenizer.model`, such a file (tiktoken files may end in
            .zst), or a Hugging Face id with an optional `@revision`.
        begin: token that begins a text, in place of what the tokenizer's files say.
        end: token that ends a text, in place of what the tokenizer's files say.
        as_llama3: read any tiktoken file with Llama 3's split and special tokens.

    Raises:
        UserError: no tokenizer is there, or not one that this package can use.
    """
    # What the user gave: a folder or a file of this machine, or else a hub id.
    given = Path(source)
    # The tokenizer's file: one in the folder, or the given file itself.
    path = given
    for name in TOKENIZER_FILES:
        if (given / name).is_file():
            path = given / name
            break

    # The vocabulary of a slow tokenizer, which is of use only with other files.
    if path.name == "vocab.json":
        raise without_json(given.parent)
    if path.is_file() and path.suffix == ".json":
        # Of a folder, the files beside its tokenizer.json are read as well; of a single file, only this file.
        files = read_tokenizer(given)
        return text_tokenizer(files, str(path), begin=begin, end=end)

    # Any other file is taken for one of tiktoken.
    if path.is_file():
        return from_tiktoken(
            path, begin=begin or BEGIN, end=end or END, as_llama3=as_llama3
        )

    # A folder whose tokenizer is in files that are not read here.
    if other_tokenizer(given):
        raise without_json(given)
    is_hub_id = source.count("/") == 1 and not source.startswith((".", "/"))
    if is_hub_id and not path.exists():
        files = read_tokenizer(_from_hub(source))
        tokenizer = text_tokenizer(files, source, begin=begin, end=end)
        # Llama 3's tokenizer, known by its begin-of-text, is used as in the paper when it is named by its hub
        # id: nothing is put before a text. The tokenizer of a model to start from is named by the model's
        # folder, and read above.
        return replace(tokenizer, first=()) if files.begin == BEGIN else tokenizer

    raise UserError(
        f"{source}: no tokenizer here; give a folder with tokenizer.json, a tokenizer.json, "
        f"a tiktoken file or a Hugging Face id such as owner/name"
    )


def llama3_special_tokens() -> list[str]:
    """Return Llama 3's 256 special tokens in the order of their ids, the mask in place of the first reserved one."""
    # By their place among the special tokens. At all other places are reserved tokens, which are numbered from 0.
    named = {
        0: BEGIN,
        1: END,
        6: "<|start_header_id|>",
        7: "<|end_header_id|>",
        9: "<|eot_id|>",
    }
    tokens: list[str] = []
    for place in range(256):
        # A reserved token's number is that of the reserved tokens before it.
        named_before = sum(number < place for number in named)
        reserved = _RESERVED.format(place - named_before)
        tokens.append(named.get(place, reserved))

    # Begin-of-text is the first special token.
    tokens[SPECIAL_TOKENS.mask_id - SPECIAL_TOKENS.begin_id] = MASK
    return tokens


def from_tiktoken(
    path: Path, *, begin: str = BEGIN, end: str = END, as_llama3: bool = False
) -> TextTokenizer:
    """Return the tokenizer of a tiktoken file with Llama 3's split and special tokens; ids are tiktoken's.

    Args:
        path: the file.
        begin: token that begins a text.
        end: token that ends a text.
        as_llama3: read the ranks of another model in this way, too.

    Raises:
        UserError: the file is not one of tiktoken, or has the ranks of another model without `as_llama3`.
    """
    ranks = read_ranks(path)
    if not as_llama3 and sha256_bytes(repr(ranks).encode()) != _LLAMA3_RANKS:
        raise UserError(
            f"{path}: its {len(ranks):,} ranks are not Llama 3's, and a tiktoken file does not say how to split texts "
            "nor its special tokens; give the model's tokenizer.json, or --as-llama3 to read it as Llama 3's"
        )
    return _assemble(bpe_model(ranks), llama3_special_tokens(), begin=begin, end=end)


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> TextTokenizer:
    """Return a byte-level BPE tokenizer of `vocab_size` ids in Llama 3's form, trained on the texts.

    Raises:
        UserError: there are fewer ids than the 256 bytes and three special tokens, or too little text for so many ids.
    """
    special = [BEGIN, END, MASK]
    if vocab_size < 256 + len(special):
        raise UserError(
            f"a byte-level vocabulary needs at least {256 + len(special)} ids, not {vocab_size}"
        )

    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = _pre_tokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(special),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    inner.train_from_iterator(texts, trainer)
    size = inner.get_vocab_size() + len(special)
    if size != vocab_size:
        raise UserError(
            f"the text gives a vocabulary of {size} ids, fewer than {vocab_size}; "
            f"give more text or a smaller --vocab"
        )

    # A tokenizer of the trained model again, now with the special tokens, whose ids follow those of the
    # model, and with a decoder.
    return _assemble(inner.model, special)


def _assemble(
    model: models.Model, special: Sequence[str], *, begin: str = BEGIN, end: str = END
) -> TextTokenizer:
    """Return the tokenizer of a BPE model with Llama 3's split.

    Args:
        model: the model.
        special: special tokens, which get the ids after those of the model, in order.
        begin: the special token that begins a text.
        end: the special token that ends a text.
    """
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer = _pre_tokenizer()
    inner.decoder = decoders.ByteLevel()
    added = []
    for text in special:
        added.append(tokenizers.AddedToken(text, special=True, normalized=False))
    inner.add_special_tokens(added)
    # The name of a special token in a text is plain text.
    inner.encode_special_tokens = True
    return _with_ids(inner, "the tokenizer", begin=begin, end=end, mask=MASK)


def _pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    """Return Llama 3's split of texts into pieces, and of pieces into bytes."""
    split = pre_tokenizers.Split(
        tokenizers.Regex(LLAMA3_SPLIT), behavior="isolated", invert=False
    )
    level = pre_tokenizers.ByteLevel(
        add_prefix_space=False, trim_offsets=False, use_regex=False
    )
    return pre_tokenizers.Sequence([split, level])


def text_tokenizer(
    files: TokenizerFiles,
    where: str,
    *,
    begin: str | None = None,
    end: str | None = None,
) -> TextTokenizer:
    """Return the tokenizer that a tokenizer's files describe.

    Args:
        files: content of the files, as `read_tokenizer` gives it.
        where: path or hub id of the `tokenizer.json`, for messages.
        begin: token that begins a text, in place of what the files say.
        end: token that ends a text, in place of what the files say.

    Raises:
        UserError: the library cannot read the files, or they do not say which token ends a text.
    """
    # This package adds begin and end of text itself, so the tokenizer's template must not.
    content = {**files.content, "post_processor": None}
    inner = parse_tokenizer(content, where)
    # The library gives an added token that the vocabulary lacks the next free id, whatever id the file has.
    for token in content["added_tokens"]:
        number = inner.token_to_id(token["content"])
        if number != token["id"]:
            raise UserError(
                f"{where}: {token['content']!r} has id {token['id']}, but is read as {number}: ids before it are "
                "missing, or it has two; give each id one token, among added_tokens if need be"
            )

    tokenizer = _with_ids(
        inner,
        where,
        begin=begin or files.begin,
        end=end or files.end,
        mask=files.mask.token,
    )
    special = frozenset((*files.special.values(), files.mask.token))
    return replace(tokenizer, first=files.first, special=special)


def _with_ids(
    inner: tokenizers.Tokenizer,
    where: str,
    *,
    begin: str | None,
    end: str | None,
    mask: str,
) -> TextTokenizer:
    """Return the tokenizer with the ids of its special tokens.

    Args:
        inner: the tokenizer of the `tokenizers` package.
        where: path or hub id of the tokenizer, for messages.
        begin: the token that begins a text; None where the tokenizer has none.
        end: the token that ends a text; None where the tokenizer's files do not say.
        mask: the mask.

    Raises:
        UserError: `end` is None, or the vocabulary lacks one of the tokens.
    """
    if end is None:
        # The first two companions are the files that name special tokens; the others only have their ids.
        raise UserError(
            f"{where} does not say which token ends a text; name it with --end-of-text, and what begins one with "
            f"--begin-of-text, or give the model's folder with {' and '.join(COMPANIONS[:2])}"
        )

    def id_of(name: str) -> int:
        number = inner.token_to_id(name)
        if number is None:
            raise UserError(
                f"{where} has no token {name!r}; give one of its vocabulary"
            )
        return int(number)

    bos_id = id_of(begin) if begin else None
    return TextTokenizer(
        inner=inner, bos_id=bos_id, eos_id=id_of(end), mask_id=id_of(mask)
    )


def _from_hub(source: str) -> Path:
    """Return the folder, in the hub's cache, with a model's tokenizer.json and the files that belong to it.

    What the cache does not have is downloaded.

    Args:
        source: the hub id `OWNER/NAME`, or `OWNER/NAME@REVISION`.

    Raises:
        UserError: the id is invalid, the hub does not answer, or the model has no tokenizer.json.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
    )

    repo, _, revision = source.partition("@")
    # The hub's client would log every retry; the final error says it once.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    try:
        folder = snapshot_download(
            repo,
            revision=revision or None,
            allow_patterns=[TOKENIZER, *COMPANIONS, ADDED],
        )
    except HFValidationError:
        raise UserError(
            f"{source}: there is no such folder or file, and a hub id has the form OWNER/NAME"
        ) from None
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise UserError(
            f"{source}: no such folder, and the hub did not return its tokenizer.json: {first_line(error)}"
        ) from None

    if not Path(folder, TOKENIZER).is_file():
        raise UserError(f"{source} has no tokenizer.json; give a model that has one")
    return Path(folder)


def encoded(
    groups: Iterator[list[Document]], encoder: TextTokenizer, workers: int
) -> Iterator[tuple[list[Document], Encoded]]:
    """Yield each group of documents with the digests and tokens of its texts, in the order of the groups.

    Args:
        groups: the groups.
        encoder: the tokenizer.
        workers: number of threads; 0 for no other than this one.
    """
    if workers == 0:
        for group in groups:
            yield group, _encode(encoder, [document.text for document in group])
        return

    # Threads run at the same time, since both packages and the hash release Python's lock. They are faster than
    # processes: on two cores, 58 million tokens of novels took 4.7 seconds against 6.3.
    _ = encoder.engine  # a cached property, computed here once and not by each thread
    with ThreadPoolExecutor(workers, thread_name_prefix="tokens") as pool:
        waiting: deque[tuple[list[Document], Future[Encoded]]] = deque()
        for group in groups:
            texts = [document.text for document in group]
            waiting.append((group, pool.submit(_encode, encoder, texts)))
            # At most three groups a thread: encoded groups wait in memory for the groups before them.
            if len(waiting) > 3 * workers:
                oldest_group, future = waiting.popleft()
                yield oldest_group, future.result()

        for group, future in waiting:
            yield group, future.result()


def _encode(encoder: TextTokenizer, texts: list[str]) -> Encoded:
    """Return the digest and the tokens of each text."""
    digests = []
    for text in texts:
        digest = hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES)
        digests.append(digest.digest())
    return list(zip(digests, encoder.encode_batch(texts), strict=True))


def without_names(text: str, names: Set[str]) -> dict[str, Any]:
    """Return a tokenizer.json that reads the names of special tokens as any text, and all other text as before.

    The vocabulary has these names as words. They are renamed, so that no text has them: U+FDD0, a character
    that Unicode keeps for programs, is put before and after each. A name is renamed wherever the
    tokenizer.json has it, so that an added token and its word in the vocabulary keep one id.

    Args:
        text: a `tokenizer.json` as the `tokenizers` package writes it.
        names: names of special tokens, which the vocabulary has as words.
    """
    for name in names:
        # The name with its quotation marks, as JSON has it, so that longer texts with the name in them stay.
        # The text is that of the whole file: vocabulary, merges and added tokens.
        quoted = orjson.dumps(name).decode()
        text = text.replace(quoted, f'"\ufdd0{quoted[1:-1]}\ufdd0"')
    content: dict[str, Any] = orjson.loads(text)
    merges = content["model"].get("merges", [])
    # Drop merges that lead to words that were renamed: the vocabulary no longer has the word that they would
    # make. The list is changed in place, since it is the one in `content`.
    merges[:] = [pair for pair in merges if "".join(pair) not in names]
    return content
