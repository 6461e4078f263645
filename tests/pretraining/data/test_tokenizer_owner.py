"""Starts whose files disagree: names as transformers has them, ids as tokenizer.json, and what differs is said."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer

from pretraining.data.tokenizer import TextTokenizer, load_tokenizer, without_names
from pretraining.data.tokenizer_files import read_tokenizer
from pretraining.starts import start_of
from tests.messages import refused

_WORDS = ["the", "baker", "sold", "map", "of", "old", "town", "to", "judge", "##ed"]
_BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "<MASK>", "[unused1]")
_LETTERS = [chr(letter) for letter in range(33, 127)]
_PIECES = (*_WORDS, *_LETTERS, *(f"##{letter}" for letter in _LETTERS))


def save(
    folder: Path, inner: tokenizers.Tokenizer, kind: str, **files: Mapping[str, Any]
) -> Path:
    """Write a start without weights: config.json, tokenizer.json and other files, `__` in a name being its dot."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    inner.save(str(folder / "tokenizer.json"))
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def bert(special: Sequence[str] = _BERT, *, lowercase: bool = True) -> Any:
    """Return a WordPiece tokenizer as BERT has it, its special tokens first."""
    vocabulary = {word: number for number, word in enumerate((*special, *_PIECES))}
    inner = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.post_processor = processors.BertProcessing(
        ("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"])
    )
    inner.add_special_tokens(list(special))
    return inner


_NAMES = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
_BERT_CLASS = {"tokenizer_class": "BertTokenizer", **_NAMES}
_FAST_CLASS = {"tokenizer_class": "PreTrainedTokenizerFast", **_NAMES}


@pytest.mark.parametrize(
    "files",
    [
        {"tokenizer_config": _BERT_CLASS | {"mask_token": "<MASK>"}},
        {"tokenizer_config": _FAST_CLASS | {"mask_token": {"content": "<MASK>"}}},
        {"special_tokens_map": {**_NAMES, "mask_token": "<MASK>"}},
        {
            "tokenizer_config": _FAST_CLASS,
            "special_tokens_map": {"mask_token": "<MASK>"},
        },
        {"config": {"model_type": "bert", "mask_token_id": 4}},
        {"tokenizer_config": {"tokenizer_class": "NoSuch", "mask_token": "<MASK>"}},
    ],
)
def test_a_mask_is_the_models_own_in_any_file(
    files: dict[str, Any], tmp_path: Path
) -> None:
    folder = save(tmp_path, bert(), "bert", **files)
    read, shards = read_tokenizer(folder), load_tokenizer(str(folder))
    assert (read.mask.token, read.mask.id, read.mask.origin) == ("<MASK>", 4, "own")
    assert shards.mask_id == 4
    assert "mask_token" not in read.special


def test_a_mask_of_the_class_alone_is_taken(tmp_path: Path) -> None:
    """No file says it: BertTokenizer calls its mask so."""
    special = [*_BERT[:4], "[MASK]"]
    files = {"tokenizer_config": {"tokenizer_class": "BertTokenizer"}}
    read = read_tokenizer(save(tmp_path, bert(special), "bert", **files))
    assert (read.mask.id, read.mask.origin) == (4, "own")
    assert read.special["pad_token"] == "[PAD]"
    assert (read.begin, read.end) == ("[CLS]", "[SEP]")


@pytest.mark.parametrize(
    ("config", "padding", "mask"),
    [
        ({}, "<MASK>", ("<|mask|>", 5)),
        ({"pad_token_id": 4}, "[PAD]", ("<|mask|>", 5)),
        ({"pad_token_id": 5}, "<MASK>", ("<|mask|>", len(_BERT) + len(_PIECES))),
        ({"pad_token_id": 0}, "[PAD]", ("<MASK>", 4)),
    ],
)
def test_a_padding_is_never_the_mask(
    config: dict[str, Any], padding: str, mask: tuple[str, int], tmp_path: Path
) -> None:
    names = {**_FAST_CLASS, "mask_token": "<MASK>", "pad_token": padding}
    folder = save(
        tmp_path,
        bert(),
        "bert",
        tokenizer_config=names,
        config={"model_type": "bert", **config},
    )
    read = read_tokenizer(folder)
    assert (read.mask.token, read.mask.id) == mask
    assert load_tokenizer(str(folder)).mask_id == mask[1]


@pytest.mark.parametrize("named", ["[PAD]", "[unused1]", None])
def test_a_padding_is_the_one_of_the_tokenizer(
    named: str | None, tmp_path: Path
) -> None:
    """tokenizer.json pads with [PAD], and tokenizer_config.json may name another."""
    inner = bert()
    inner.enable_padding(pad_id=0, pad_token="[PAD]")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "sep_token": "[SEP]"}
    config |= {} if named is None else {"pad_token": named}
    folder = save(tmp_path, inner, "bert", tokenizer_config=config)
    theirs = AutoTokenizer.from_pretrained(folder).pad_token
    assert read_tokenizer(folder).special["pad_token"] == theirs
    assert theirs == (named or "[PAD]")
    assert load_tokenizer(str(folder)).encode_batch(["the", "the old"])[0].size == 3


@pytest.mark.parametrize("lower", [True, False])
def test_a_case_that_two_files_tell_differently_is_said(
    lower: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = _BERT_CLASS | {"do_lower_case": lower}
    folder = save(tmp_path, bert(lowercase=not lower), "bert", tokenizer_config=config)
    made = load_tokenizer(str(folder))
    assert "tokenizer.json and tokenizer_config.json (BertTokenizer) differ" in (
        caplog.text
    )
    assert caplog.text.count("differ") == 1
    assert max(len(record.getMessage()) for record in caplog.records) < 500
    plain = bert(lowercase=not lower).encode("The Baker", add_special_tokens=False)
    assert made.encode_batch(["The Baker"])[0].tolist() == [2, *plain.ids, 3]
    caplog.clear()
    same = save(tmp_path, bert(lowercase=lower), "bert", tokenizer_config=config)
    load_tokenizer(str(same))
    assert not caplog.text


def byte_level(special: Sequence[str], *, prefix: bool = False) -> Any:
    """Return a byte-level BPE tokenizer without merges, its special tokens last."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    inner = tokenizers.Tokenizer(models.BPE(vocabulary, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    inner.add_special_tokens(list(special))
    return inner


def test_a_prefix_that_two_files_tell_differently_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    special = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    config = {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True}
    folder = save(tmp_path, byte_level(special), "roberta", tokenizer_config=config)
    made = load_tokenizer(str(folder))
    assert "tokenizer_config.json (RobertaTokenizer) differ" in caplog.text
    assert made.first == (256,)  # the class puts it there, and the file nothing
    assert made.eos_id == 258


@pytest.mark.parametrize("kind", ["LlamaTokenizer", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize("template", [None, "<s> $A", "$A </s>", "<s> $A </s>"])
@pytest.mark.parametrize("add", [True, False])
def test_what_stands_around_a_text_is_the_tokenizers(
    kind: str, template: str | None, add: bool, tmp_path: Path
) -> None:
    """Fields of tokenizer_config.json that say otherwise count as much as they do for transformers."""
    names = ("bos_token", "pad_token", "eos_token", "unk_token", "mask_token")
    config = {"tokenizer_class": kind} | dict(zip(names, _NAMED, strict=True))
    config |= {"add_bos_token": add, "add_eos_token": not add}
    inner = _inner("BPE")
    inner.add_special_tokens(list(_NAMED))
    if template is not None:
        inner.post_processor = processors.TemplateProcessing(
            single=template, special_tokens=[("<s>", 0), ("</s>", 2)]
        )
    folder = save(tmp_path, inner, "llama", tokenizer_config=config)
    theirs = AutoTokenizer.from_pretrained(folder)("the").input_ids
    ours = load_tokenizer(str(folder)).encode_batch(["the"])[0].tolist()
    assert (ours[0] == 0) == (theirs[0] == 0)
    assert ours[-1] == 2
    assert 2 not in ours[:-1]
    content = read_tokenizer(folder).content
    exported = tokenizers.Tokenizer.from_str(json.dumps(content)).encode("the").ids
    for ids, place, number in ((exported, 0, 0), (exported, -1, 2)):
        assert (ids[place] == number) == (theirs[place] == number)


def test_a_template_and_an_end_that_differ_are_both_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inner = byte_level(("<|im_end|>", "<|endoftext|>", "<mask>"))
    inner.post_processor = processors.TemplateProcessing(
        single="$A <|endoftext|>", special_tokens=[("<|endoftext|>", 257)]
    )
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}
    folder = save(tmp_path, inner, "qwen3", tokenizer_config=config)
    made = load_tokenizer(str(folder))
    assert made.encode_batch(["a"])[0].tolist()[1:] == [257]
    assert "<|endoftext|>, and its end of text is called <|im_end|>" in caplog.text
    assert load_tokenizer(str(folder), end="<|im_end|>").eos_id == 256


_LISTED = {
    "content": "zyx",
    "lstrip": False,
    "rstrip": False,
    "single_word": False,
    "normalized": True,
    "special": False,
}


@pytest.mark.parametrize(
    "files",
    [
        {"tokenizer_config": {"added_tokens_decoder": {"259": _LISTED}}},
        {"added_tokens": {"zyx": 259}},
        {
            "tokenizer_config": {"added_tokens_decoder": {"259": _LISTED}},
            "added_tokens": {"zyx": 259, "<mask>": 258},
        },
    ],
)
def test_added_words_beside_the_file_are_words(
    files: dict[str, Any], tmp_path: Path
) -> None:
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<eos>"}
    files = {**files, "tokenizer_config": config | files.get("tokenizer_config", {})}
    inner = byte_level(("<bos>", "<eos>", "<mask>"))
    folder = save(tmp_path, inner, "llama", **files)
    theirs = AutoTokenizer.from_pretrained(folder)
    made = load_tokenizer(str(folder))
    assert made.vocab_size == read_tokenizer(folder).rows == 260
    ids = made.encode_batch(["a zyx b"])[0].tolist()[:-1]
    assert ids == theirs("a zyx b", add_special_tokens=False).input_ids
    assert 259 in ids
    made.save(tmp_path / "saved")
    again = load_tokenizer(str(tmp_path / "saved"))
    assert again.encode_batch(["a zyx b"])[0].tolist()[:-1] == ids


@pytest.mark.parametrize("place", ["added", "vocabulary"])
def test_ids_that_shift_where_words_were_deleted_are_refused(
    place: str, tmp_path: Path
) -> None:
    """The library, and with it AutoTokenizer, counts on from the words that are left."""
    files = {"tokenizer_config": {"eos_token": "</s>"}}
    inner = byte_level(("<s>", "</s>", "<mask>", "<extra>"))
    path = save(tmp_path, inner, "llama", **files) / "tokenizer.json"
    content = json.loads(path.read_text())
    if place == "added":
        content["added_tokens"].pop(2)
    else:
        content["model"]["vocab"].pop("z")
    path.write_text(json.dumps(content))
    name = "<extra>" if place == "added" else "<s>"
    with refused(path, f"'{name}' has id", "but is read as", "added_tokens"):
        load_tokenizer(str(tmp_path))


def test_one_word_with_two_ids_is_refused(tmp_path: Path) -> None:
    inner = byte_level(("<s>", "</s>", "<mask>"))
    files = {"tokenizer_config": {"eos_token": "</s>"}}
    path = save(tmp_path, inner, "llama", **files) / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["vocab"]["<s>"] = content["model"]["vocab"].pop("z")
    path.write_text(json.dumps(content))
    with refused(path, "'<s>' has id 256, but is read as"):
        load_tokenizer(str(tmp_path))


def test_class_that_transformers_lacks_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = save(tmp_path, bert(), "no_such_model", tokenizer_config=_NAMES)
    (folder / "tokenizer.py").write_text("raise SystemExit('code was run')")
    config = {**_NAMES, "auto_map": {"AutoTokenizer": [None, "tokenizer.Own"]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    read = read_tokenizer(folder)
    assert (read.begin, read.end, read.first) == ("[CLS]", "[SEP]", (2,))
    assert "transformers does not load its tokenizer" in caplog.text


@pytest.mark.parametrize(
    "name",
    [
        "tokenizer.model",
        "sentencepiece.bpe.model",
        "spiece.model",
        "vocab.txt",
        "vocab.json",
        "tiktoken.model",
        "qwen.tiktoken",
    ],
)
def test_another_tokenizer_is_one_sentence_in_both_commands(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / name).write_bytes(b"\n\x0e\n\x05<unk>\x15")
    said = f"{tmp_path} has no tokenizer.json, only {name}; load its tokenizer with"
    with refused(said, "save_pretrained"):
        start_of(str(tmp_path))
    for source in (tmp_path, tmp_path / name):
        with refused(said, "save_pretrained"):
            load_tokenizer(str(source))


_NAMED = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


def _inner(kind: str) -> tokenizers.Tokenizer:
    """Return a tokenizer whose special tokens are words of its vocabulary."""
    words = ["\u2581the", "\u2581baker", "\u2581", "the", *_LETTERS]
    if kind == "Unigram":
        pieces = [(name, 0.0) for name in _NAMED]
        pieces += [(word, -2.0 - 0.01 * i) for i, word in enumerate(words)]
        inner = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=3))
        inner.pre_tokenizer = pre_tokenizers.Metaspace()
    elif kind == "WordLevel":
        vocabulary = {word: i for i, word in enumerate((*_NAMED, *words))}
        inner = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
        inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    else:
        parts = ["<s", "<ma", "<mas", "<mask"]
        vocabulary = {word: i for i, word in enumerate((*_NAMED, *words, *parts))}
        merges = [("<", "s"), ("<s", ">"), ("t", "h"), ("th", "e"), ("<mask", ">")]
        vocabulary["th"] = len(vocabulary)
        inner = tokenizers.Tokenizer(
            models.BPE(vocabulary, merges, unk_token="<unk>", ignore_merges=True)
        )
        inner.pre_tokenizer = pre_tokenizers.Metaspace()
    return inner


KINDS = ("Unigram", "WordLevel", "BPE")


def named(kind: str, folder: Path, *, are_added: bool = True) -> TextTokenizer:
    inner = _inner(kind)
    if are_added:
        inner.add_special_tokens(list(_NAMED))
    names = dict(
        zip(
            ("bos_token", "pad_token", "eos_token", "unk_token", "mask_token"),
            _NAMED,
            strict=True,
        )
    )
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **names}
    save(folder, inner, "roberta", tokenizer_config=config)
    return load_tokenizer(str(folder))


@pytest.mark.parametrize("are_added", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_names_of_special_tokens_in_a_text_are_text(
    kind: str, are_added: bool, tmp_path: Path
) -> None:
    made = named(kind, tmp_path, are_added=are_added)
    text = "<s> the baker </s> <mask> <pad> the<mask>the"
    ids = made.encode_batch([text])[0].tolist()
    assert ids[-1] == made.eos_id == 2
    assert not {0, 1, 2, 4} & {*ids[:-1]}
    if kind != "WordLevel":
        assert 3 not in ids
    assert made.mask_id == 4
    assert made.sha256 == load_tokenizer(str(tmp_path)).sha256


_TEXT = st.text("the <>smakpd/\u2581ber\u00e9", max_size=40)


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.one_of(_TEXT, st.text(max_size=20)))
@settings(max_examples=150, deadline=None)
def test_all_other_text_keeps_its_ids(kind: str, text: str) -> None:
    inner = _inner(kind)
    inner.add_special_tokens(list(_NAMED))
    content = without_names(inner.to_str(), {*_NAMED})
    reader = tokenizers.Tokenizer.from_str(json.dumps(content))
    inner.encode_special_tokens = reader.encode_special_tokens = True
    found = reader.encode(text, add_special_tokens=False).ids
    if any(name in text for name in _NAMED):
        assert not {0, 1, 2, 4} & {*found}
    else:
        assert found == inner.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("padding", ["!", "the"])
def test_a_word_that_pads_stays_a_word(padding: str, tmp_path: Path) -> None:
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": padding}
    files = {"tokenizer_config": {**config, "eos_token": "</s>"}}
    made = load_tokenizer(str(save(tmp_path, _inner("Unigram"), "llama", **files)))
    number = made.inner.token_to_id(padding)
    assert number in made.encode_batch([f"</s>{padding}"])[0].tolist()
