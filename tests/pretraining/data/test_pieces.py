import functools
from collections.abc import Sequence

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, models
from tokenizers import normalizers as n
from tokenizers import pre_tokenizers as p

from pretraining.data import pieces
from pretraining.data.pieces import pieces_of
from pretraining.data.tokenizer import LLAMA3_SPLIT

LETTERS = "abBstxy\u00e9\u0439\u56fd\u3042\u0130\ufdfa\u1100\u1161\u11a8\uac00\u314f\u03a3\u0915"
OTHERS = " \n\r\t\u3000\xa0\x1c\u2581\u0301\u0308\u200d.,'\"-_!\uff0c\u3002\u300112\u0663\U0001f389<|>`"
TOKENS = ["<|mask|>", "<|mask", "a b", "  ", " \n\n", "y\n", "\u56fd\uff0c", "a, b", "x's", '"a b"', "b c ."]


@functools.cache
def model() -> models.BPE:
    """Return a model of single characters, the last of a word having a token of its own, so that ids show each cut."""
    forms = [
        form(LETTERS + OTHERS) for form in (str, str.lower, n.NFKC().normalize_str, n.NFKD().normalize_str)
    ]
    letters = sorted({*"".join(forms), *p.ByteLevel.alphabet()})
    tokens = ["?", *letters, *(f"{one}</w>" for one in letters)]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return models.BPE(vocab=vocabulary, merges=[], unk_token="?", end_of_word_suffix="</w>")


def tokenizer(
    cuts: p.PreTokenizer | None, normalizer: n.Normalizer | None = None, added: Sequence[AddedToken] = ()
) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(model())
    inner.pre_tokenizer, inner.normalizer = cuts, normalizer  # type: ignore[assignment]
    inner.add_special_tokens(["<|mask|>", "<|mask"])
    inner.add_tokens(list(added))
    inner.encode_special_tokens = True
    return inner


def split(pattern: str, behavior: str = "isolated", *, invert: bool = False) -> p.PreTokenizer:
    return p.Split(tokenizers.Regex(pattern), behavior, invert=invert)


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
CLIP = r"'s|'t|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
LETTERS_AS_BYTES, GPT2_BYTES = (p.ByteLevel(add_prefix_space=False, use_regex=yes) for yes in (False, True))
RUN = tokenizers.Regex(" {2,}")
QUOTES = [n.Replace("``", '"'), n.Replace("''", '"')]


def in_turn(*cuts: p.PreTokenizer) -> p.PreTokenizer:
    return p.Sequence(list(cuts))


def norms(*normalizers: n.Normalizer) -> n.Normalizer:
    return n.Sequence(list(normalizers))


CUT: dict[str, tokenizers.Tokenizer] = {
    "ByteLevel": tokenizer(GPT2_BYTES),
    "ByteLevel, a space first": tokenizer(p.ByteLevel(add_prefix_space=True)),
    "Llama 3": tokenizer(in_turn(split(LLAMA3_SPLIT), LETTERS_AS_BYTES)),
    "GPT-2's as a Split": tokenizer(in_turn(split(GPT2, "removed", invert=True), LETTERS_AS_BYTES)),
    "o200k": tokenizer(in_turn(split(O200K), LETTERS_AS_BYTES)),
    "DeepSeek": tokenizer(
        in_turn(
            split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f]+"), split(DEEPSEEK), LETTERS_AS_BYTES
        )
    ),
    "CLIP": tokenizer(
        in_turn(split(CLIP, "removed", invert=True), LETTERS_AS_BYTES),
        norms(n.NFC(), n.Replace(tokenizers.Regex(r"\s+"), " "), n.Lowercase()),
    ),
    "StarCoder": tokenizer(in_turn(p.Digits(individual_digits=True), GPT2_BYTES)),
    "Falcon": tokenizer(
        in_turn(p.Punctuation("contiguous"), GPT2_BYTES, p.Digits(), split("[0-9][0-9][0-9]"))
    ),
    "Whitespace": tokenizer(p.Whitespace()),
    "WhitespaceSplit": tokenizer(p.WhitespaceSplit()),
    "Bert": tokenizer(p.BertPreTokenizer(), n.BertNormalizer()),
    "Bert, cased": tokenizer(p.BertPreTokenizer(), n.BertNormalizer(strip_accents=False, lowercase=False)),
    "Punctuation": tokenizer(p.Punctuation(), norms(n.NFD(), n.StripAccents())),
    "Punctuation, merged": tokenizer(in_turn(p.Punctuation("merged_with_previous"), p.WhitespaceSplit())),
    "a delimiter": tokenizer(p.CharDelimiterSplit(" "), n.NFKC()),
    "a string": tokenizer(p.Split(" ", "isolated"), n.NFKD()),
    "lines": tokenizer(split(r"[^\n]+")),
    "words": tokenizer(in_turn(split(r"\s+", "removed"), p.UnicodeScripts(), p.FixedLength(2))),
    "Metaspace": tokenizer(p.Metaspace(prepend_scheme="always"), n.NFKC()),
    "Metaspace, first": tokenizer(in_turn(p.WhitespaceSplit(), p.Metaspace(prepend_scheme="first"))),
    "Metaspace, never": tokenizer(p.Metaspace(prepend_scheme="never"), n.Replace(" ", "\u2581")),
    "T5": tokenizer(p.Metaspace(), norms(n.Nmt(), n.NFKC(), n.Strip(left=False), n.Replace(RUN, "\u2581"))),
    "ALBERT": tokenizer(p.Metaspace(), norms(*QUOTES, n.NFKD(), n.StripAccents(), n.Lowercase())),
    "runs of spaces": tokenizer(
        GPT2_BYTES, n.NFC(), [AddedToken("  ", normalized=True), AddedToken("|||x|||")]
    ),
    "no spaces": tokenizer(p.Whitespace(), n.Replace(" ", "")),
    "added words": tokenizer(
        p.WhitespaceSplit(),
        n.Lowercase(),
        [AddedToken(word, lstrip=True) for word in ("X's", "b, x", "Y\nB")],
    ),
}
WHOLE: dict[str, tokenizers.Tokenizer] = {
    "none": tokenizer(None),
    "Llama 2": tokenizer(None, n.Sequence([n.Prepend("\u2581"), n.Replace(" ", "\u2581")])),
    "Gemma": tokenizer(p.Split(" ", "merged_with_previous"), n.Replace(" ", "\u2581")),
    "Prepend": tokenizer(p.WhitespaceSplit(), n.Prepend("x")),
    "Strip": tokenizer(p.ByteLevel(), n.Strip()),
    "ByteLevel": tokenizer(LETTERS_AS_BYTES),
    "Metaspace": tokenizer(p.Metaspace(split=False)),
    "FixedLength": tokenizer(in_turn(p.FixedLength(3), p.Whitespace())),
    "UnicodeScripts": tokenizer(in_turn(p.UnicodeScripts(), p.Whitespace())),
    "Digits": tokenizer(p.Digits()),
    "quotes": tokenizer(split('"[^"]*"|\\w+')),
    "pairs": tokenizer(split(r"\w+\W\w+|.")),
    "looks back": tokenizer(split(r"(?<=b )\w|\w+|\s+")),
    "looks on": tokenizer(split(r"\w(?=.*')|\w+|\s+")),
    "bounds": tokenizer(split(r"\b.")),
    "no letters": tokenizer(p.ByteLevel(), n.Replace(tokenizers.Regex(r"\w"), "")),
    "a word to the right": tokenizer(p.Whitespace(), None, [AddedToken("ab", rstrip=True)]),
    "a whole word": tokenizer(p.Whitespace(), None, [AddedToken(" b", single_word=True)]),
}


def ids(inner: tokenizers.Tokenizer, texts: Sequence[str]) -> list[int]:
    return [i for text in texts for i in inner.encode(text, add_special_tokens=False).ids]


WORDS = st.sampled_from([*TOKENS, *LETTERS, *OTHERS, " ", "\n", ",", "a", "b"])


@pytest.mark.parametrize("kind", [*CUT, *(f"whole: {name}" for name in WHOLE)])
def test_pieces_give_the_tokens_of_the_whole(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = CUT[kind] if kind in CUT else WHOLE[kind.removeprefix("whole: ")]
    monkeypatch.setattr(pieces, "PIECE", 2)
    cut = pieces_of(inner)

    @settings(max_examples=25, deadline=None)
    @given(st.lists(WORDS, max_size=60).map("".join))
    def check(text: str) -> None:
        parts = list(cut(text))
        assert "".join(parts) == text
        assert ids(inner, parts) == ids(inner, [text])

    check()
    text = "a b\nx y, a, b\u56fd\uff0ca\nb " * 9
    assert (len(list(cut(text))) > 1) == (kind in CUT)
