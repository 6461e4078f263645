import base64
import copy
import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import tiktoken
import tokenizers
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from tiktoken._educational import bpe_train
from transformers import AutoTokenizer

from clm_or_mlm.__main__ import main
from common.errors import UserError
from pretraining.data.corpus import Document, open_documents
from pretraining.data.tiktoken_ranks import (
    LLAMA3_MODEL,
    LLAMA3_SPLIT,
    bpe_model,
    overflows,
    read_ranks,
    tiktoken_twin,
)
from pretraining.data.tokenizer import (
    TextTokenizer,
    _assemble,
    encoded,
    from_tiktoken,
    llama3_special_tokens,
    load_tokenizer,
    train_tokenizer,
)
from pretraining.paper_settings import SPECIAL_TOKENS
from tests.messages import refused
from tests.pretraining.documents import make_documents, write_jsonl

HARD = [
    "",
    " ",
    "  \n\n\t x",
    "It's IT'S we'LL 1234567 3.14",
    "d\u00e9j\u00e0 vu \u65e5\u672c\u8a9e \U0001f389\U0001f389\u200d",
    "<|end_of_text|> is text <|mask|>",
    "a" * 300,
    "\x00\x01\r\n",
]


@pytest.fixture(scope="module")
def small() -> TextTokenizer:
    return train_tokenizer(make_documents(50), 400)


def test_trained_tokenizer_has_llamas_form(small: TextTokenizer) -> None:
    assert small.vocab_size == 400
    assert (small.bos_id, small.eos_id, small.mask_id) == (397, 398, 399)
    assert train_tokenizer(make_documents(50), 400).sha256 == small.sha256
    assert train_tokenizer(make_documents(50, seed=1), 400).sha256 != small.sha256


def test_every_text_survives(small: TextTokenizer) -> None:
    for text, ids in zip(HARD, small.encode_batch(HARD), strict=True):
        assert ids[-1] == small.eos_id
        assert ids.dtype == "int32"
        assert (ids[:-1] < 397).all()
        assert small.inner.decode(ids[:-1].tolist(), skip_special_tokens=False) == text


def test_saved_folder_loads_everywhere_with_the_same_ids(
    small: TextTokenizer, tmp_path: Path
) -> None:
    small.save(tmp_path)
    again = load_tokenizer(str(tmp_path))
    assert (
        again.sha256
        == small.sha256
        == load_tokenizer(str(tmp_path / "tokenizer.json")).sha256
    )
    hub = AutoTokenizer.from_pretrained(tmp_path)
    assert (hub.eos_token_id, hub.pad_token_id, hub.mask_token_id) == (398, 398, 399)
    assert hub.mask_token == "<|mask|>"
    text = "the old dog <|mask|> quietly"
    assert hub(text)["input_ids"].count(399) == 1
    plain = "the old dog sees a river"
    assert hub(plain)["input_ids"] == small.encode_batch([plain])[0][:-1].tolist()


def tiktoken_file(path: Path, ranks: dict[bytes, int]) -> Path:
    lines = [
        f"{base64.b64encode(token).decode()} {rank}" for token, rank in ranks.items()
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_tiktoken_file_gives_tiktokens_ids(tmp_path: Path) -> None:
    """Ranks learned by tiktoken's own reference trainer; a token that no merge leads to is among them."""
    ranks = bpe_train(" ".join(make_documents(20)), 350, LLAMA3_SPLIT, visualise=None)
    ranks[b" zzqx"] = 350
    path = tiktoken_file(tmp_path / "tokenizer.model", ranks)
    reference = tiktoken.Encoding(
        "x", pat_str=LLAMA3_SPLIT, mergeable_ranks=ranks, special_tokens={}
    )
    with refused(path, "351 ranks are not Llama 3's", "--as-llama3"):
        load_tokenizer(str(tmp_path))
    ours = load_tokenizer(str(tmp_path), as_llama3=True)
    texts = [*HARD, *make_documents(30, seed=4), "a zzqx zzqxy"]
    for text, ids in zip(texts, ours.encode_batch(texts), strict=True):
        assert ids[:-1].tolist() == reference.encode_ordinary(text)
    assert ours.eos_id == 352
    assert from_tiktoken(path, as_llama3=True).sha256 == ours.sha256


@pytest.mark.real_data
def test_llama3_ids_equal_tiktoken_and_tokenizers_on_real_text(
    tmp_path: Path,
) -> None:
    if not os.environ.get("REAL_DATA"):
        pytest.skip("REAL_DATA is not set")
    data = Path(os.environ["REAL_DATA"])
    file = data / "tokenizer/llama3-tiktoken/tokenizer.model.zst"
    special = {
        text: 128_000 + place for place, text in enumerate(llama3_special_tokens())
    }
    reference = tiktoken.Encoding(
        "llama3",
        pat_str=LLAMA3_SPLIT,
        mergeable_ranks=read_ranks(file),
        special_tokens=special,
    )
    ours = load_tokenizer(str(data / "tokenizer/llama3-tiktoken"))
    assert (ours.vocab_size, ours.bos_id, ours.eos_id, ours.mask_id) == (
        128_256,
        128_000,
        128_001,
        128_002,
    )
    source = open_documents(
        [str(data / "pretrain/openstax-anatomy-physiology-2e.jsonl.zst")]
    )
    texts = [*HARD, *(document.text for document in source.documents())]
    chapters = open_documents(
        [str(data / "pretrain/eltec-eng.chapters.jsonl.zst")]
    ).documents()
    texts += [document.text for document in islice(chapters, 150)]
    assert ours.engine == "tiktoken"
    for text, ids in zip(texts, ours.encode_batch(texts), strict=True):
        assert (
            ids[:-1].tolist() == reference.encode_ordinary(text) == slowly(ours, text)
        )
    ours.save(tmp_path)
    # What is known by its hash is what the comparison of all merges finds.
    model = ours.inner.to_str().partition('"model":')[2]
    assert hashlib.sha256(model.encode()).hexdigest() == LLAMA3_MODEL
    compared, known = (
        tiktoken_twin(json.loads(ours.inner.to_str())),
        load_tokenizer(str(tmp_path)).twin,
    )
    assert compared is not None and known is not None
    assert (
        compared._mergeable_ranks
        == known._mergeable_ranks
        == reference._mergeable_ranks
    )
    hub = AutoTokenizer.from_pretrained(tmp_path)
    assert hub(texts[-1])["input_ids"] == reference.encode_ordinary(texts[-1])
    assert hub.convert_tokens_to_ids("<|mask|>") == 128_002


@pytest.mark.real_data
def test_a_tokenizer_json_without_a_mask(tmp_path: Path) -> None:
    if not os.environ.get("REAL_DATA"):
        pytest.skip("REAL_DATA is not set")
    data = Path(os.environ["REAL_DATA"]) / "tokenizer/olmo"
    path = tmp_path / "tokenizer.json"
    path.write_bytes(
        zstandard.decompress(
            (data / "allenai_gpt-neox-olmo-dolma-v1_5.json.zst").read_bytes()
        )
    )
    before = json.loads(path.read_text())
    made = load_tokenizer(str(path))
    assert (
        made.mask_id
        == max(
            max(before["model"]["vocab"].values()),
            *(t["id"] for t in before["added_tokens"]),
        )
        + 1
    )


def test_llama3_json_gets_its_mask_from_a_reserved_token(
    small: TextTokenizer, tmp_path: Path
) -> None:
    content = json.loads(small.inner.to_str())
    content["added_tokens"][2]["content"] = "<|reserved_special_token_0|>"
    begin = {"id": "<|begin_of_text|>", "ids": [397], "tokens": ["<|begin_of_text|>"]}
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": begin["id"], "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [
            {"Sequence": {"id": "A", "type_id": 0}},
            {"Sequence": {"id": "B", "type_id": 0}},
        ],
        "special_tokens": {begin["id"]: begin},
    }
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    made = load_tokenizer(str(path))
    assert made.mask_id == 399
    assert made.sha256 == small.sha256
    assert tokenizers.Tokenizer.from_file(str(path)).encode("a").ids[0] == 397
    assert 397 not in made.encode_batch(["a"])[0]


def test_the_reserved_token_with_the_masks_id_becomes_the_mask(
    small: TextTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json.loads(small.inner.to_str())
    first = content["added_tokens"][2]
    first["content"] = "<|reserved_special_token_0|>"
    content["added_tokens"].append(
        {**first, "id": 400, "content": "<|reserved_special_token_1|>"}
    )
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    monkeypatch.setattr(
        "pretraining.data.tokenizer_files.SPECIAL_TOKENS",
        replace(SPECIAL_TOKENS, mask_id=400),
    )
    assert load_tokenizer(str(path)).mask_id == 400


def test_mistakes_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="no tokenizer here"):
        load_tokenizer(str(tmp_path))
    broken = tmp_path / "tokenizer.json"
    broken.write_text("{}")
    with pytest.raises(UserError, match=r"not a tokenizer\.json"):
        load_tokenizer(str(broken))
    broken.unlink()
    ranks = tmp_path / "tokenizer.model"
    ranks.write_text("")
    with pytest.raises(UserError, match=r"tokenizer\.model is empty"):
        load_tokenizer(str(ranks))
    ranks.write_text("IQ== 0\nIg== x\n")
    with pytest.raises(UserError, match="line 2 is not a base64 token"):
        load_tokenizer(str(tmp_path))
    ranks.write_text("IQ== 0\nIg== 1\n")
    with pytest.raises(UserError, match="one of 256 bytes is missing"):
        load_tokenizer(str(tmp_path))
    with pytest.raises(UserError, match="at least 259"):
        train_tokenizer(["a"], 258)
    with pytest.raises(UserError, match="give more text"):
        train_tokenizer(["a"], 4000)

    def offline(*_: object, **__: object) -> str:
        raise OSError("offline")

    monkeypatch.setattr("huggingface_hub.snapshot_download", offline)
    with pytest.raises(UserError, match="the hub did not return its"):
        load_tokenizer("owner/name@main")


def test_the_hub_is_asked_for_the_revision(
    small: TextTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.save(tmp_path)
    asked = []

    def download(repo: str, revision: str | None, allow_patterns: list[str]) -> str:
        asked.append((repo, revision))
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert load_tokenizer("owner/name@v2").sha256 == small.sha256
    (tmp_path / "tokenizer.json").unlink()
    with refused("owner/name has no tokenizer.json"):
        load_tokenizer("owner/name")
    assert asked == [("owner/name", "v2"), ("owner/name", None)]


_WORDS = ("<strong>", "<s>", "</s>", "baker")
_OWN = {"bos_token": "<bos>", "eos_token": {"content": "<eos>", "special": True}}
_NUMBERS = {"bos_token_id": 0, "eos_token_id": [1, 7]}


def _write_words(
    folder: Path, special: Sequence[str], files: Mapping[str, object]
) -> None:
    """Write a tokenizer of special tokens, numbered first, and of words, with what stands next to it."""
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(unk_token="baker"))
    inner.add_special_tokens(list(special))
    inner.add_tokens(list(_WORDS))
    inner.save(str(folder / "tokenizer.json"))
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("special", "files", "ends"),
    [
        (
            ("<bos>", "<eos>", "<mask>"),
            {"tokenizer_config.json": _OWN},
            ("<bos>", "<eos>"),
        ),
        (
            ("<bos>", "<eos>", "<mask>"),
            {"special_tokens_map.json": _OWN},
            ("<bos>", "<eos>"),
        ),
        (
            ("<bos>", "<eos>", "<mask>"),
            {"generation_config.json": _NUMBERS},
            ("<bos>", "<eos>"),
        ),
        (("<bos>", "<eos>", "<mask>"), {"config.json": _NUMBERS}, ("<bos>", "<eos>")),
        (("<bos>", "<eos>", "<mask>"), {}, ("<bos>", "<eos>")),
        (
            ("<mask>", "<\uff5cend\u2581of\u2581sentence\uff5c>"),
            {"config.json": _NUMBERS},
            ("<mask>", "<\uff5cend\u2581of\u2581sentence\uff5c>"),
        ),
        (
            ("<|endoftext|>", "[CLS]", "[SEP]", "[MASK]"),
            {
                "tokenizer_config.json": {"cls_token": "[CLS]", "sep_token": "[SEP]"},
                "config.json": {"eos_token_id": 0},
            },
            ("[CLS]", "[SEP]"),
        ),
        (
            ("<|im_end|>",),
            {"tokenizer_config.json": {"eos_token": "<|im_end|>"}},
            (None, "<|im_end|>"),
        ),
    ],
)
def test_begin_and_end_are_the_models_own(
    special: tuple[str, ...],
    files: Mapping[str, object],
    ends: tuple[str | None, str],
    tmp_path: Path,
) -> None:
    _write_words(tmp_path, special, files)
    made = load_tokenizer(str(tmp_path))
    assert (made.bos_id, made.eos_id) == tuple(
        name and made.inner.token_to_id(name) for name in ends
    )
    made.save(tmp_path / "saved")
    again = load_tokenizer(str(tmp_path / "saved"))
    assert (again.bos_id, again.eos_id, again.sha256) == (
        made.bos_id,
        made.eos_id,
        made.sha256,
    )


@pytest.mark.parametrize(
    ("special", "files"),
    [
        (("<bos>", "<mask>"), {}),
        (("<|endoftext|>", "[SEP]", "[MASK]"), {}),
        (("[CLS]", "<|endoftext|>", "<mask>"), {}),
        (("<mask>", "<eos>"), {"config.json": {"eos_token_id": 5}}),
        (("<mask>", "<eos>"), {"tokenizer_config.json": {"eos_token": "</end>"}}),
    ],
)
def test_an_end_that_nothing_names_is_asked_for(
    special: tuple[str, ...], files: Mapping[str, object], tmp_path: Path
) -> None:
    _write_words(tmp_path, special, files)
    with refused(tmp_path, "does not say", "--end-of-text"):
        load_tokenizer(str(tmp_path))
    with refused("no token '<none>'"):
        load_tokenizer(str(tmp_path), end="<none>")
    made = load_tokenizer(str(tmp_path), begin=special[0], end=special[1])
    assert (made.bos_id, made.eos_id) == (0, 1)


_LEVEL = {"add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_BERT = {"type": "BertProcessing", "sep": ["<eos>", 1], "cls": ["<bos>", 0]}
_TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [
        {"SpecialToken": {"id": "<bos>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "<eos>", "type_id": 0}},
    ],
    "pair": [
        {"Sequence": {"id": "A", "type_id": 0}},
        {"Sequence": {"id": "B", "type_id": 0}},
    ],
    "special_tokens": {
        name: {"id": name, "ids": [number], "tokens": [name]}
        for number, name in enumerate(("<bos>", "<eos>"))
    },
}


@pytest.mark.parametrize(
    ("processor", "kind", "first"),
    [
        (_TEMPLATE, "llama", [0]),
        (_TEMPLATE | {"single": _TEMPLATE["single"][1:]}, "llama", []),
        (_BERT, "bert", [0]),
        (
            {
                **_BERT,
                "type": "RobertaProcessing",
                "trim_offsets": True,
                "add_prefix_space": True,
            },
            "roberta",
            [0],
        ),
        (
            {
                "type": "Sequence",
                "processors": [{**_LEVEL, "type": "ByteLevel"}, _TEMPLATE],
            },
            "llama",
            [0],
        ),
        (None, "bert", []),
        (_TEMPLATE, "eurobert", []),
        (_TEMPLATE, None, []),
    ],
)
def test_a_document_begins_as_texts_do_for_the_model(
    processor: dict[str, Any] | None, kind: str | None, first: list[int], tmp_path: Path
) -> None:
    """Our own models', and a tokenizer without a model, begin documents with their first word."""
    config = {"config.json": {"model_type": kind}} if kind else {}
    _write_words(
        tmp_path, ("<bos>", "<eos>", "<mask>"), {"tokenizer_config.json": _OWN} | config
    )
    path = tmp_path / "tokenizer.json"
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"post_processor": processor})
    )
    made = load_tokenizer(str(tmp_path))
    assert list(made.first) == first
    assert made.encode_batch(["baker", ""])[0].tolist() == [
        *first,
        made.inner.token_to_id("baker"),
        1,
    ]
    assert load_tokenizer(str(path)).first == ()


def test_what_ends_or_pads_a_text_does_not_become_the_mask(tmp_path: Path) -> None:
    special = (
        "<|reserved_special_token_0|>",
        "<|reserved_special_token_1|>",
        "<|reserved_special_token_2|>",
    )
    config = {"eos_token": special[0], "pad_token": special[1]}
    _write_words(tmp_path, special, {"tokenizer_config.json": config})
    made = load_tokenizer(str(tmp_path))
    assert (made.eos_id, made.mask_id) == (0, 2)


def test_what_makes_the_library_panic_is_refused(tmp_path: Path) -> None:
    """A merge of tokens shorter than the prefix of words: Rust panics, and what Python sees is no Exception."""
    train_tokenizer(["a cat sat"] * 30, 262).save(tmp_path)
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["continuing_subword_prefix"] = "abc"
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"tokenizer\.json: not a tokenizer\.json"):
        load_tokenizer(str(tmp_path))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not UTF-8"):
        load_tokenizer(str(tmp_path))


TEXTS = make_documents(40)


def groups(size: int) -> Iterator[list[Document]]:
    for first in range(0, len(TEXTS), size):
        yield [
            Document(text=text, characters=len(text), file=0, row=0, read_bytes=0)
            for text in TEXTS[first : first + size]
        ]


@pytest.mark.parametrize("workers", [0, 2])
def test_groups_come_in_order_with_digests_and_tokens(workers: int) -> None:
    encoder = train_tokenizer(TEXTS, 300)
    pairs = list(encoded(groups(3), encoder, workers))
    assert [document.text for group, _ in pairs for document in group] == TEXTS
    results = [result for _, encodings in pairs for result in encodings]
    assert [digest for digest, _ in results] == [
        hashlib.blake2b(text.encode(), digest_size=16).digest() for text in TEXTS
    ]
    expected = encoder.encode_batch(TEXTS)
    assert all(
        (tokens == ids).all()
        for (_, tokens), ids in zip(results, expected, strict=True)
    )


RANKS = 360
"""Of the tokenizer below."""


@functools.cache
def llama3() -> TextTokenizer:
    """Return a tokenizer of Llama 3's form."""
    texts = " ".join(make_documents(20)) + " aaaa aaaaa \n\n \t 1234 it's IT'S"
    return _assemble(
        bpe_model(bpe_train(texts, RANKS, LLAMA3_SPLIT, visualise=None)),
        llama3_special_tokens(),
    )


FROZEN = {
    "own": (
        "b4033daffec67bab",
        "8d1bb785ea4d9e33",
        "4d48aa8585d68281",
    ),
    "llama3": (
        "72519529f5552595",
        "166fc8b144d03fac",
        "56e4a313b6c6b2c0",
    ),
}
"""Beginnings of three SHA-256: the tokenizer's own, that of its files, and that of the ids of `TEXTS`."""


@pytest.mark.parametrize("kind", FROZEN)
def test_own_tokenizers_keep_their_bytes(kind: str, tmp_path: Path) -> None:
    made = llama3() if kind == "llama3" else train_tokenizer(TEXTS, 300)
    made.save(tmp_path)
    read = load_tokenizer(str(tmp_path))
    files = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))
    ids = b"".join(found.tobytes() for found in read.encode_batch(TEXTS))
    hashes = (hashlib.sha256(content).hexdigest()[:16] for content in (files, ids))
    assert (read.sha256[:16], *hashes) == FROZEN[kind]


ALPHABET = "abeghin 'sStT\n\r\t12\u00e9\u65e5\u0130\u017f\u200d\U0001f389<|>"


def slowly(tokenizer: TextTokenizer, text: str) -> list[int]:
    return [int(i) for i in tokenizer.inner.encode(text, add_special_tokens=False).ids]


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(), st.text(ALPHABET, max_size=60), st.text("a ", max_size=40)))
def test_ids_are_the_same_on_any_text(text: str) -> None:
    assert llama3().engine == "tiktoken"
    (found,) = llama3().encode_batch([text])
    assert found.dtype == "int32"
    assert found.tolist() == [*slowly(llama3(), text), llama3().eos_id]


def test_a_run_of_spaces_that_tiktoken_cannot_take() -> None:
    """The longest run that is left to tiktoken, one that certainly is not, and one that it could not take."""
    longest = "x" + " " * 499_998 + "x"
    assert not overflows(longest)
    assert llama3().encode_batch([longest])[0][:-1].tolist() == slowly(
        llama3(), longest
    )
    assert all(
        overflows("x" * start + " " * 500_000 + "x")
        for start in (0, 1, 249_999, 250_001)
    )
    assert llama3().encode_batch([" " * 1_000_000])[0][:-1].tolist() == slowly(
        llama3(), " " * 1_000_000
    )


def test_the_twin_follows_from_the_content_alone(tmp_path: Path) -> None:
    llama3().save(tmp_path)
    assert load_tokenizer(str(tmp_path)).engine == "tiktoken"
    assert train_tokenizer(make_documents(50), 400).engine == "tokenizers"


def swap_merges(content: dict[str, Any]) -> None:
    merges = content["model"]["merges"]
    merges[0], merges[1] = merges[1], merges[0]


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "normalizer": lambda c: c.update(normalizer={"type": "NFC"}),
    "another split": lambda c: c["pre_tokenizer"]["pretokenizers"][0]["pattern"].update(
        Regex=r"\s+|\S+"
    ),
    "one part of the split": lambda c: c["pre_tokenizer"]["pretokenizers"].pop(),
    "no split": lambda c: c.update(pre_tokenizer=None),
    "space before the text": lambda c: c["pre_tokenizer"]["pretokenizers"][1].update(
        add_prefix_space=True
    ),
    "tokens found in text": lambda c: c["added_tokens"][3].update(special=False),
    "merges only": lambda c: c["model"].update(ignore_merges=False),
    "dropout": lambda c: c["model"].update(dropout=0.1),
    "bytes as tokens": lambda c: c["model"].update(byte_fallback=True),
    "a prefix": lambda c: c["model"].update(continuing_subword_prefix="##"),
    "another order": swap_merges,
    "a merge less": lambda c: c["model"]["merges"].pop(),
    "a gap": lambda c: c["model"]["vocab"].pop(next(iter(c["model"]["vocab"]))),
    "letters": lambda c: c["model"]["vocab"].update({"\u65e5": RANKS}),
    "another kind": lambda c: c["model"].update(type="Unigram"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_anything_else_has_no_twin(name: str) -> None:
    content = json.loads(llama3().inner.to_str())
    assert tiktoken_twin(content) is not None
    changed = copy.deepcopy(content)
    CHANGES[name](changed)
    assert changed != content
    assert tiktoken_twin(changed) is None


@pytest.mark.slow
def test_every_character_there_is_is_cut_alike() -> None:
    """The two packages have regular expressions of their own, each with its own tables of Unicode."""
    letters = [chr(i) for i in range(sys.maxunicode + 1) if not 0xD800 <= i < 0xE000]
    texts = [f"a{c}b1{c}2 {c} {c}'{c} a'{c}\n{c}\n{c}{c}x!{c}\r{c}" for c in letters]
    for first in range(0, len(texts), 5_000):
        part = texts[first : first + 5_000]
        slow = llama3().inner.encode_batch_fast(part, add_special_tokens=False)
        for text, found, expected in zip(
            part, llama3().encode_batch(part), slow, strict=True
        ):
            assert found[:-1].tolist() == expected.ids, text


def test_the_command_trains_and_converts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", make_documents(40))
    main(
        [
            "tokenizer",
            "--train",
            str(file),
            "--vocab",
            "300",
            "--out",
            str(tmp_path / "t"),
        ]
    )
    assert "300 ids" in capsys.readouterr().out
    main(["tokenizer", "--convert", str(tmp_path / "t"), "--out", str(tmp_path / "u")])
    assert (tmp_path / "t/tokenizer.json").read_bytes() == (
        tmp_path / "u/tokenizer.json"
    ).read_bytes()
