"""Llama-3-type tokenizers: read from a Hugging Face `tokenizer.json` or a tiktoken file, hashed, written, trained.

The paper's tokenizer is Llama 3's byte-level BPE, 128,000 ranks and 256 special tokens, whose first reserved
token, id 128002, became `<|mask|>`. A document is encoded without begin-of-text and closed by end-of-text, as on
the tiktoken path of the paper's trainer; which of the two the paper used is not known (docs/deviations.md). Before it
comes what the tokenizer of another model puts before a text. Documents are encoded in order by any number of threads.

Byte-level BPE comes in two forms: ranks, as tiktoken reads them, and merges, as Hugging Face's tokenizers do. The two
libraries give the same ids, tiktoken several times as fast. `tiktoken_twin` decides from a tokenizer's content, not
from where it came from, whether tiktoken may take its place.
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

TOKENIZER_FILES = (TOKENIZER, "tokenizer.model", "tokenizer.model.zst")
"""Files that make a folder a tokenizer's, the first one found counts."""

_MARK = re.compile(r"[^\w\s]\w|\w[^\w\s]")
"""A sign beside a letter, as names of special tokens have it."""
DIGEST_BYTES = 16
"""Length of a document's BLAKE2b digest."""

Ids = npt.NDArray[np.int32]
Encoded = list[tuple[bytes, Ids]]


@dataclass(frozen=True, kw_only=True)
class TextTokenizer:
    """A fast tokenizer with the three ids that pretraining needs."""

    inner: tokenizers.Tokenizer
    """The tokenizer of the `tokenizers` package; adds no special tokens by itself."""
    bos_id: int | None
    """Begin of text; None when the vocabulary has none. Pretraining does not use it."""
    eos_id: int
    """End of text, put after every document; also the padding."""
    mask_id: int
    """What a masked token is replaced by."""
    first: tuple[int, ...] = ()
    """What begins every document."""
    special: frozenset[str] = field(default=frozenset(), repr=False)
    """The names of its special tokens, as far as other files than tokenizer.json say them."""

    @cached_property
    def vocab_size(self) -> int:
        """Rows an embedding needs: the largest id plus one."""
        return int(max(self.inner.get_vocab(with_added_tokens=True).values())) + 1

    @cached_property
    def sha256(self) -> str:
        """Hash of everything that the ids depend on, independent of the file's layout."""
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
        """The id that stands for text that no token has; None where the tokenizer has no such token."""
        model = self._content["model"]
        # Unigram models give the unknown token's number, others its text.
        by_text = self.inner.token_to_id(model.get("unk_token") or "")
        number = model.get("unk_id", by_text)
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
        """Return each text's ids, int32, with its begin and its end; the text of special tokens is plain text."""
        twin = self.twin
        if twin is None:
            return self._encode_slowly(texts)
        encoded_texts = []
        for text in texts:
            if overflows(text):
                encoded_texts += self._encode_slowly([text])
            else:
                ids = twin.encode_to_numpy(text, disallowed_special=())
                encoded_texts.append(self._closed(ids))
        return encoded_texts

    @cached_property
    def _reader(self) -> tokenizers.Tokenizer:
        """The tokenizer without the names of special tokens, where its vocabulary has them as words."""
        added = self._content["added_tokens"]
        names = {token["content"] for token in added if token["special"]}
        # A special token may be a plain word or sign (a padding), which texts may use: only marked names count.
        names = {name for name in names | self.special if _MARK.search(name)}
        names &= self.inner.get_vocab(with_added_tokens=False).keys()
        if not names:
            return self.inner
        return parse_tokenizer(without_names(self._json, names), "the tokenizer")

    def _encode_slowly(self, texts: Sequence[str]) -> list[Ids]:
        encodings = self._reader.encode_batch_fast(
            list(texts), add_special_tokens=False
        )
        return [self._closed(encoding.ids) for encoding in encodings]

    def _closed(self, ids: npt.NDArray[np.uint32] | list[int]) -> Ids:
        begin = len(self.first)
        closed = np.empty(begin + len(ids) + 1, np.int32)
        closed[:begin] = self.first
        closed[begin:-1] = ids
        closed[-1] = self.eos_id
        return closed

    @cached_property
    def _json(self) -> str:
        return str(self.inner.to_str())

    @cached_property
    def _content(self) -> dict[str, Any]:
        content: dict[str, Any] = orjson.loads(self._json)
        return content

    def save(self, folder: Path, *, max_length: int = 2048) -> None:
        """Write a folder that `transformers.AutoTokenizer` loads, each file atomically."""
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
    """Return the tokenizer at `source`.

    Args:
        source: a folder with `tokenizer.json` or `tokenizer.model`, such a file (tiktoken files may end in
            .zst), or a Hugging Face id with an optional `@revision`.
        begin: what begins a text, in place of what its files say.
        end: what ends one.
        as_llama3: read any tiktoken file with Llama 3's split and special tokens.

    Raises:
        UserError: nothing is there, or it is not a tokenizer that this project can use.
    """
    folder = Path(source)
    path = next(
        (folder / name for name in TOKENIZER_FILES if (folder / name).is_file()), folder
    )
    if path.name == "vocab.json":
        raise without_json(folder.parent)
    if path.is_file() and path.suffix == ".json":
        files = read_tokenizer(folder)
        return text_tokenizer(files, str(path), begin=begin, end=end)
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
        # Named by its hub id, Llama 3's tokenizer is used as in the paper, without a begin; a start is a folder.
        return replace(tokenizer, first=()) if files.begin == BEGIN else tokenizer
    raise UserError(
        f"{source}: no tokenizer here; give a folder with tokenizer.json, a tokenizer.json, "
        f"a tiktoken file or a Hugging Face id such as owner/name"
    )


def llama3_special_tokens() -> list[str]:
    """Return Llama 3's 256 special tokens in the order of their ids, the first reserved one being the mask."""
    # Places without a name are reserved tokens, counted from 0.
    named = {
        0: BEGIN,
        1: END,
        6: "<|start_header_id|>",
        7: "<|end_header_id|>",
        9: "<|eot_id|>",
    }
    tokens: list[str] = []
    for place in range(256):
        named_before = sum(number < place for number in named)
        reserved = _RESERVED.format(place - named_before)
        tokens.append(named.get(place, reserved))
    tokens[SPECIAL_TOKENS.mask_id - SPECIAL_TOKENS.begin_id] = MASK
    return tokens


def from_tiktoken(
    path: Path, *, begin: str = BEGIN, end: str = END, as_llama3: bool = False
) -> TextTokenizer:
    """Return the tokenizer of a tiktoken file with Llama 3's split and special tokens; ids are tiktoken's.

    Raises:
        UserError: it is another file, or of another model, and `as_llama3` does not say that it shall be read so.
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
        UserError: fewer ids than the 256 bytes and three special tokens, or too little text for so many.
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
    """Return the tokenizer of a BPE model with Llama 3's split; ids of special tokens follow the model's, in order."""
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer = _pre_tokenizer()
    inner.decoder = decoders.ByteLevel()
    added = []
    for text in special:
        added.append(tokenizers.AddedToken(text, special=True, normalized=False))
    inner.add_special_tokens(added)
    inner.encode_special_tokens = True
    return _with_ids(inner, "the tokenizer", begin=begin, end=end, mask=MASK)


def _pre_tokenizer() -> pre_tokenizers.PreTokenizer:
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
    """Return the tokenizer that files describe.

    Args:
        files: as `read_tokenizer` gives them.
        where: path or hub id of the `tokenizer.json`, for messages.
        begin: what begins a text, in place of what the files say.
        end: what ends one.

    Raises:
        UserError: the library cannot read it, or it has no end of text.
    """
    # This package adds begin and end of text itself, so the tokenizer's template must not.
    content = {**files.content, "post_processor": None}
    inner = parse_tokenizer(content, where)
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
    """Return the tokenizer with the ids of its special tokens, all of which it must have; in texts they are text."""
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
    """Return the folder with a hub id's tokenizer.json and its companions, fetched if need be."""
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
    """Yield each group with the digests and tokens of its texts, in the source's order.

    Threads do, for both packages and the hash let go of Python's lock.
    """
    if workers == 0:
        for group in groups:
            yield group, _encode(encoder, [document.text for document in group])
        return
    # Threads, not processes: on two cores, 58 million tokens of novels took 4.7 seconds against 6.3.
    _ = encoder.engine  # made once, before threads ask for it
    with ThreadPoolExecutor(workers, thread_name_prefix="tokens") as pool:
        waiting: deque[tuple[list[Document], Future[Encoded]]] = deque()
        for group in groups:
            texts = [document.text for document in group]
            waiting.append((group, pool.submit(_encode, encoder, texts)))
            # At most three groups a thread: encoded groups wait in memory for the groups before them.
            if len(waiting) > 3 * workers:
                first, future = waiting.popleft()
                yield first, future.result()
        for group, future in waiting:
            yield group, future.result()


def _encode(encoder: TextTokenizer, texts: list[str]) -> Encoded:
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


_LLAMA3_RANKS = "791fc9f2ac984cc4574102f905d8ee4f5e4991a1d28d5913af88ab4bd45ba795"
"""SHA-256 of Llama 3's ranks in their order, as Python writes them."""


def read_ranks(path: Path) -> dict[bytes, int]:
    """Return the byte strings and ranks of a tiktoken file: one base64 string and one number a line."""
    data = read_bounded(path)
    # A file of SentencePiece begins with a line feed.
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
    # ignore_merges: like tiktoken, take a piece that is a token as it is, even if merges would not lead to it.
    return models.BPE(vocab=vocabulary, merges=_merges(vocabulary), ignore_merges=True)


LLAMA3_MODEL = "e04a4858019da455612d3e9af50e8e8a0d984609e4d1a22146f1508e11b1fefc"
"""SHA-256 of Llama 3's model as the `tokenizers` package writes it: the merges of its ranks, as a test finds."""


def tiktoken_twin(
    content: Mapping[str, Any], *, of_ranks: bool = False
) -> tiktoken.Encoding | None:
    """Return tiktoken's encoder of the same ids, or None when the tokenizer is not exactly of that kind.

    Of that kind is what `bpe_model` makes of ranks under Llama 3's split: Llama 3's own `tokenizer.json` is, a
    vocabulary with one merge a token, as the `tokenizers` package trains it, is not.

    Args:
        content: a `tokenizer.json` as the `tokenizers` package writes it.
        of_ranks: whether its model is known to be one of ranks, which takes a second to find.
    """
    # The split must be Llama 3's; `trim_offsets` may differ, since it does not change any piece.
    cut = []
    for part in (content["pre_tokenizer"] or {}).get("pretokenizers", ()):
        fields = {key: value for key, value in part.items() if key != "trim_offsets"}
        cut.append(fields)
    if content["normalizer"] is not None or cut != _CUT:
        return None

    # The vocabulary must be byte strings with ranks, and all added words special tokens.
    byte_of = {letter: byte for byte, letter in enumerate(_byte_letters())}
    ranks = {}
    try:
        for token, rank in content["model"]["vocab"].items():
            ranks[bytes([byte_of[letter] for letter in token])] = rank
    except (AttributeError, KeyError):
        return None
    added = content["added_tokens"]
    special = {item["content"]: item["id"] for item in added if item["special"]}
    if len(special) < len(added) or not _are_ranks(ranks):
        return None
    if of_ranks:
        return _twin(ranks, special)
    # The model's settings are compared with an empty model's: building the whole would take three times as long.
    empty = tokenizers.Tokenizer(models.BPE(ignore_merges=True))
    model_of_ranks = json.loads(empty.to_str())["model"]
    vocabulary = content["model"]["vocab"]
    model_of_ranks["vocab"] = vocabulary
    model_of_ranks["merges"] = [list(pair) for pair in _merges(vocabulary)]
    if content["model"] != model_of_ranks:
        return None
    return _twin(ranks, special)


def _twin(ranks: Mapping[bytes, int], special: Mapping[str, int]) -> tiktoken.Encoding:
    # At least one special token: with none, tiktoken would search for an empty one at every character.
    return tiktoken.Encoding(
        "twin",
        pat_str=_SPLIT_IN_GROUPS,
        mergeable_ranks=dict(ranks),
        special_tokens=dict(special),
    )


def _are_ranks(ranks: Mapping[bytes, int]) -> bool:
    if sorted(ranks.values()) != list(range(len(ranks))):
        return False
    return all(bytes([number]) in ranks for number in range(256))


def without_names(text: str, names: Set[str]) -> dict[str, Any]:
    """Return a tokenizer.json that reads the names of special tokens as any text, and all other text as before.

    Vocabularies of whole pieces have them as words. These get names that no text has: of a character that Unicode
    keeps for programs.

    Args:
        text: a `tokenizer.json` as the `tokenizers` package writes it.
        names: of special tokens.
    """
    for name in names:
        quoted = orjson.dumps(name).decode()
        text = text.replace(quoted, f'"\ufdd0{quoted[1:-1]}\ufdd0"')
    content: dict[str, Any] = orjson.loads(text)
    merges = content["model"].get("merges", [])
    # Drop merges that lead to words that were removed.
    merges[:] = [pair for pair in merges if "".join(pair) not in names]
    return content


def overflows(text: str) -> bool:
    """Return whether a text may hold half a million spaces on end, on which tiktoken overflows the stack."""
    # Blocks have half that length, so a run of that many spaces fills at least one block.
    firsts = range(0, len(text), _SPACES)
    return any(text[first : first + _SPACES].isspace() for first in firsts)


def _merges(vocabulary: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return every pair of tokens that tiktoken may merge, in its order: by the rank of what comes of it.

    Of the pairs that give one token, those of the lowest ranks come first.
    """
    merges = []
    for token in sorted(vocabulary, key=vocabulary.__getitem__):
        pairs = []
        for cut in range(1, len(token)):
            first, second = token[:cut], token[cut:]
            if first in vocabulary and second in vocabulary:
                pairs.append((vocabulary[first], first, second))
        merges += [(first, second) for _, first, second in sorted(pairs)]
    return merges


def _byte_letters() -> list[str]:
    """Return the printable letter that byte-level BPE writes for each byte (GPT-2's table)."""
    # These bytes are printed as themselves: visible ASCII and Latin-1, except the soft hyphen.
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    letters = []
    others = 0x100
    for byte in range(256):
        if byte in plain:
            letters.append(chr(byte))
        else:
            letters.append(chr(others))
            others += 1
    return letters
