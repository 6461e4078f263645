"""Text that is safe where it is shown: no control characters, no secrets, nothing that a terminal cannot print."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterable

__all__ = ["FALLBACK", "name_fault", "redacted", "redacted_words", "visible"]

_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Unicode categories of what a terminal obeys or cannot show: controls, directions, lone surrogates, unassigned."""

_SECRETS = (
    r"(?:(?:access|api|auth|bearer|hf|private|refresh)[_-]?)?"
    r"(?:token|password|passwd|secret|api[_-]?key|credential)"
)
_SECRET_OPTION = re.compile(rf"--?{_SECRETS}", re.IGNORECASE)
_USER_OF_URL = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^/\s'\"@]+@", re.IGNORECASE)
_SECRET_FIELD = re.compile(
    rf"(?P<name>(?<![a-z0-9_-])(?:x-(?:amz|goog)-(?:security-)?)?(?:{_SECRETS}|signature|sig)=)[^&\s'\"]+",
    re.IGNORECASE,
)
_KNOWN_TOKEN = re.compile(r"\b(hf_|gh[opsu]_|github_pat_|glpat-|sk-)[A-Za-z0-9_-]{12,}")
_HIDDEN_WORD = "***"

FALLBACK = "clm_or_mlm.plain"
"""Name of the error handler for output that is not UTF-8: the nearest plain letters, else a `\\u2026` escape."""
_PLAIN = {
    "\u00b1": "+-", "\u00d7": "x", "\u2013": "-", "\u2014": "-", "\u2212": "-", "\u2018": "'", "\u2019": "'",
    "\u201c": '"', "\u201d": '"', "\u2026": "...", "\u2192": "->", "\u2264": "<=", "\u2265": ">=", "\u2260": "!=",
    "\u2248": "~", "\u00b7": ".", "\u2022": "*", "\u0394": "delta ", "\u03b1": "alpha", "\u2713": "yes",
    "\u2717": "no", "\u2190": "<-", "\u00b2": "2", "\u00b3": "3", "\u00a0": " ", "\u202f": " ", "\u2500": "-",
    "\u2502": "|",
}  # fmt: skip


def visible(text: str) -> str:
    """Return the text with each character that a terminal would obey or cannot show as an escape, `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if unicodedata.category(character) in _HIDDEN and character not in "\n\t"
        else character
        for character in text
    )


def name_fault(name: str, most: int = 200) -> str | None:
    """Return why `name` cannot name a model, a file or a column; None when it can.

    A name is UTF-8 and printable, not empty, at most `most` bytes long, and does not begin like a formula.
    """
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return "is not UTF-8"
    if not name.strip():
        return "is empty"
    if size > most:
        return f"has {size:,} bytes, and a name has at most {most}"
    if not name.isprintable():
        return "holds characters that cannot be printed"
    if name[0] in "=+@-":
        return f"begins with {name[0]!r}, as a formula or an option does"
    return None


def redacted(text: str) -> str:
    """Return the text without the passwords and tokens in it: of URLs, of `token=...`, and those of known form."""
    text = _USER_OF_URL.sub(rf"\g<scheme>{_HIDDEN_WORD}@", text)
    text = _SECRET_FIELD.sub(rf"\g<name>{_HIDDEN_WORD}", text)
    return _KNOWN_TOKEN.sub(_HIDDEN_WORD, text)


def redacted_words(words: Iterable[str]) -> list[str]:
    """Return the words of a command line without secrets; so also the word after `--token`."""
    found: list[str] = []
    hide = False
    for word in words:
        option, equals, _ = word.partition("=")
        secret = _SECRET_OPTION.fullmatch(option) is not None
        if hide and not word.startswith("--"):
            found.append(_HIDDEN_WORD)
        else:
            found.append(f"{option}={_HIDDEN_WORD}" if secret and equals else redacted(word))
        hide = secret and not equals
    return found


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    parts = []
    for character in error.object[error.start : error.end]:
        letters = _PLAIN.get(character) or unicodedata.normalize("NFKD", character)
        letters = "".join(letter for letter in letters if letter.isascii())
        parts.append(letters or character.encode("unicode_escape").decode("ascii"))
    return "".join(parts), error.end


codecs.register_error(FALLBACK, _plain)
