"""Llama-3-type tokenizers: read from a Hugging Face `tokenizer.json` or a tiktoken file, hashed, written, trained.

The paper's tokenizer is Llama 3's byte-level BPE, 128,000 ranks and 256 special tokens, whose first reserved
token, id 128002, became `<|mask|>`. A document is encoded without begin-of-text and closed by end-of-text, as on
the tiktoken path of the paper's trainer; which path the paper used is not known (docs/deviations.md). If the tokenizer
of another model puts tokens before a text, each document begins with these. Documents are encoded in order by any
number of threads.

Byte-level BPE comes in two forms. tiktoken reads ranks: byte strings, each with a number, which is its token's id. Two
neighbouring tokens of a text may be merged if both together are a byte string with a rank, and the pair with the lowest
rank is merged first. Hugging Face's `tokenizers` reads a list of merges, which are pairs of tokens, in their order. The
two libraries give the same ids, tiktoken several times as fast. `tiktoken_twin` decides from the content of a
tokenizer, not from where it came from, whether tiktoken may take its place.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
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
from common.packed import unzstd
from common.reading import MOST_BYTES, read_bounded
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
        """Hash of all that the ids of a document depend on, whatever the layout of the tokenizer's file."""
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
    folder = Path(source)
    # The file itself, if `source` is not a folder.
    path = folder
    for name in TOKENIZER_FILES:
        if (folder / name).is_file():
            path = folder / name
            break
    # The vocabulary of a slow tokenizer, which is of use only with other files.
    if path.name == "vocab.json":
        raise without_json(folder.parent)
    if path.is_file() and path.suffix == ".json":
        files = read_tokenizer(folder)
        return text_tokenizer(files, str(path), begin=begin, end=end)
    # Any other file is taken for one of tiktoken.
    if path.is_file():
        return from_tiktoken(
            path, begin=begin or BEGIN, end=end or END, as_llama3=as_llama3
        )
    if other_tokenizer(folder):
        raise without_json(folder)
    is_hub_id = source.count("/") == 1 and not source.startswith((".", "/"))
    if is_hub_id and not path.exists():
        files = read_tokenizer(_from_hub(source))
        tokenizer = text_tokenizer(files, source, begin=begin, end=end)
        # Llama 3's tokenizer, when named by its hub id, is used as in the paper: nothing is put before a text. When it
        # is that of a model to start from, it is named by the model's folder, and read above.
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


LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The regular expression that cuts text into the pieces which BPE merges within (Llama 3's)."""

# The same alternatives as in the split, grouped: tiktoken's regex library gives a group without look-ahead to a faster
# engine.
_SPLIT_IN_GROUPS = (
    r"(?:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)|\s+(?!\S)|\s+"
)

# The split as a tokenizer.json has it.
_CUT = [
    {
        "type": "Split",
        "pattern": {"Regex": LLAMA3_SPLIT},
        "behavior": "Isolated",
        "invert": False,
    },
    {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
]
_SPACES = 250_000
"""Length of the stretches that are searched for long runs of spaces (`overflows`)."""

_LLAMA3_RANKS = "791fc9f2ac984cc4574102f905d8ee4f5e4991a1d28d5913af88ab4bd45ba795"
"""SHA-256 of Llama 3's ranks in their order, as Python writes them."""


def read_ranks(path: Path) -> dict[bytes, int]:
    """Return the ranks of a tiktoken file by their byte strings.

    Each line of the file has a byte string in base64, a blank, and the rank.

    Raises:
        UserError: the file cannot be decompressed, or is not one of tiktoken.
    """
    data = read_bounded(path)
    # Vocabularies of other tokenizers that are called .json or .txt, or a model of SentencePiece, whose first byte is a
    # line feed.
    if data.startswith(b"\n") or path.suffix in (".json", ".txt"):
        raise without_json(path.parent)
    if path.suffix == ".zst":
        try:
            data = unzstd(io.BytesIO(data)).read(MOST_BYTES)
        except OSError as error:
            raise UserError(
                f"{path} cannot be decompressed: {error}; fetch it again"
            ) from None
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), 1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error):
            raise UserError(
                f"{path} is not a tiktoken file: line {number} is not a base64 token and its rank"
            ) from None
    if not ranks:
        raise UserError(f"{path} is empty; give a tokenizer.json or a tiktoken file")
    if not _are_ranks(ranks):
        raise UserError(
            f"{path} is not a tiktoken file: its ranks are not 0 to {len(ranks) - 1}, or one of 256 bytes is missing"
        )
    return ranks


def bpe_model(ranks: Mapping[bytes, int]) -> models.BPE:
    """Return the BPE model of the `tokenizers` package whose ids are tiktoken's for these ranks."""
    letters = dict(enumerate(_byte_letters()))
    vocabulary = {}
    for token, rank in ranks.items():
        # Latin-1 has one character for each byte, which becomes the byte's printable letter.
        vocabulary[token.decode("latin-1").translate(letters)] = rank
    # `ignore_merges`, like tiktoken, takes a piece that is a token as it is, even if merges would not lead to it.
    return models.BPE(vocab=vocabulary, merges=_merges(vocabulary), ignore_merges=True)


LLAMA3_MODEL = "e04a4858019da455612d3e9af50e8e8a0d984609e4d1a22146f1508e11b1fefc"
"""SHA-256 of Llama 3's model as the `tokenizers` package writes it. A test finds that its merges are those of ranks."""


def tiktoken_twin(
    content: Mapping[str, Any], *, of_ranks: bool = False
) -> tiktoken.Encoding | None:
    """Return tiktoken's encoder that gives the same ids as a tokenizer; None when there is no such encoder.

    There is one if the tokenizer has Llama 3's split, and its merges are those that `bpe_model` makes of ranks. This is
    true for Llama 3's own `tokenizer.json`. It is not for a vocabulary with only one merge for each token, as the
    `tokenizers` package trains it.

    Args:
        content: a `tokenizer.json` as the `tokenizers` package writes it.
        of_ranks: whether its merges are known to be those of ranks; to compare them takes a second.
    """
    # The split must be Llama 3's; `trim_offsets` may differ, since it does not change any piece.
    split = []
    for part in (content["pre_tokenizer"] or {}).get("pretokenizers", ()):
        fields = {key: value for key, value in part.items() if key != "trim_offsets"}
        split.append(fields)
    if content["normalizer"] is not None or split != _CUT:
        return None

    # The vocabulary must be byte strings with ranks, and all added tokens must be special.
    byte_of = {letter: byte for byte, letter in enumerate(_byte_letters())}
    ranks = {}
    try:
        for token, rank in content["model"]["vocab"].items():
            ranks[bytes([byte_of[letter] for letter in token])] = rank
    except (AttributeError, KeyError):
        # A list of words (Unigram), or a letter that stands for no byte.
        return None
    added = content["added_tokens"]
    special = {item["content"]: item["id"] for item in added if item["special"]}
    if len(special) < len(added) or not _are_ranks(ranks):
        return None
    if of_ranks:
        return _twin(ranks, special)
    # The model must be equal to `bpe_model(ranks)`. To build that would take three times as long, so its settings are
    # taken from an empty model, and vocabulary and merges are added.
    empty = tokenizers.Tokenizer(models.BPE(ignore_merges=True))
    model_of_ranks = json.loads(empty.to_str())["model"]
    vocabulary = content["model"]["vocab"]
    model_of_ranks["vocab"] = vocabulary
    model_of_ranks["merges"] = [list(pair) for pair in _merges(vocabulary)]
    if content["model"] != model_of_ranks:
        return None
    return _twin(ranks, special)


def _twin(ranks: Mapping[bytes, int], special: Mapping[str, int]) -> tiktoken.Encoding:
    """Return tiktoken's encoder of ranks under Llama 3's split, with special tokens by their text."""
    # There is always a special token: without one, tiktoken would search for an empty one at every character.
    return tiktoken.Encoding(
        "twin",
        pat_str=_SPLIT_IN_GROUPS,
        mergeable_ranks=dict(ranks),
        special_tokens=dict(special),
    )


def _are_ranks(ranks: Mapping[bytes, int]) -> bool:
    """Return whether the ranks are 0, 1, 2 and so on, and each single byte has one."""
    if sorted(ranks.values()) != list(range(len(ranks))):
        return False
    return all(bytes([number]) in ranks for number in range(256))


def without_names(text: str, names: Set[str]) -> dict[str, Any]:
    """Return a tokenizer.json that reads the names of special tokens as any text, and all other text as before.

    The vocabulary has these names as words. They are renamed, so that no text has them: U+FDD0, a character that
    Unicode keeps for programs, is put before and after each.

    Args:
        text: a `tokenizer.json` as the `tokenizers` package writes it.
        names: names of special tokens, which the vocabulary has as words.
    """
    for name in names:
        # The name with its quotation marks, as JSON has it, so that longer texts with the name in them stay.
        quoted = orjson.dumps(name).decode()
        text = text.replace(quoted, f'"\ufdd0{quoted[1:-1]}\ufdd0"')
    content: dict[str, Any] = orjson.loads(text)
    merges = content["model"].get("merges", [])
    # Drop merges that lead to words that were renamed.
    merges[:] = [pair for pair in merges if "".join(pair) not in names]
    return content


def overflows(text: str) -> bool:
    """Return whether tiktoken may overflow the stack on a text: on half a million blank characters in a row.

    Half as many in a row may be enough for True.
    """
    # The text is divided into stretches of half that length, at least one of which such a row fills.
    firsts = range(0, len(text), _SPACES)
    return any(text[first : first + _SPACES].isspace() for first in firsts)


def _merges(vocabulary: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return every pair of tokens that tiktoken may merge, the pair that it merges first at the beginning.

    Pairs are in the order of the merged token's rank. Pairs that make the same token are in the order of the rank of
    their first token.

    Args:
        vocabulary: ranks by token; a token has a letter for each of its bytes.
    """
    merges = []
    for token in sorted(vocabulary, key=vocabulary.__getitem__):
        # All ways to cut the token into two tokens.
        pairs = []
        for cut in range(1, len(token)):
            first, second = token[:cut], token[cut:]
            if first in vocabulary and second in vocabulary:
                pairs.append((vocabulary[first], first, second))
        merges += [(first, second) for _, first, second in sorted(pairs)]
    return merges


def _byte_letters() -> list[str]:
    """Return the printable letter that byte-level BPE writes for each byte (GPT-2's table)."""
    # These bytes are written as themselves: visible ASCII and Latin-1, except the soft hyphen.
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    letters = []
    # All others get the letters from U+0100 on, in order.
    next_letter = 0x100
    for byte in range(256):
        if byte in plain:
            letters.append(chr(byte))
        else:
            letters.append(chr(next_letter))
            next_letter += 1
    return letters
