"""Text as it is shown: no control characters, no secrets; counts of things."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Unicode categories of what a terminal obeys or cannot show: controls, directions, lone surrogates, unassigned."""

_SECRETS = (
    r"(?:(?:access|api|auth|bearer|hf|private|refresh)[_-]?)?"
    r"(?:token|password|passwd|passphrase|secret(?:[_-]?access[_-]?key)?|api[_-]?key|credential)"
)
"""Names of secrets: `password`, `hf_token`, `secret-access-key`."""
_VARIABLE = re.compile(
    r"(?P<name>\b(?:[A-Z][A-Z0-9]*_)*(?:KEY|KEY_ID|APIKEY|TOKEN|PAT|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)=)[^\s'\"]+"
)
"""A variable of the environment: WANDB_API_KEY=..."""
_OPTION = re.compile(rf"(?P<name>--(?:[a-z]+-)*{_SECRETS}[ =])[^\s'\"]+", re.IGNORECASE)
"""An option of a command: --hub-token ... or --password=..."""
_IN_TEXT = re.compile(
    rf"(?P<name>(?<![a-z0-9_-])(?:x-)?{_SECRETS}(?:[\"']\s*:\s*[\"']|:\s+)|\bwandb login )"
    r"(?!(?<=[^\w-]token: )(?-i:[a-z]{1,12}|\d[\d.,]*)[;,.]?(?:\s|$))[^\s'\",}]+",
    re.IGNORECASE,
)
"""In JSON, YAML or a sentence: "token": "..." or token: ..., unless a short word or a number follows, as in a sentence
on tokens of text; and a command that takes it."""
_BEARER = re.compile(
    r"(?P<name>\b(?:authorization:\s*\w+|bearer)\s+)[^\s'\",;]{8,}", re.IGNORECASE
)
"""A header of HTTP: Authorization: Basic ..., or Bearer ..."""
_USER_OF_URL = re.compile(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^/\s'\"@]+@", re.IGNORECASE
)
"""User and password in an address: https://USER:PASSWORD@host"""
_SECRET_FIELD = re.compile(
    rf"(?P<name>(?<![a-z0-9_-])(?:x-(?:amz|goog)-(?:security-)?|aws_session_)?(?:{_SECRETS}|accountkey|sharedaccesskey|signature|sig)=)[^&\s'\"]+",
    re.IGNORECASE,
)
"""A field of an address or of a connection's text: ?token=..., &X-Amz-Signature=..., AccountKey=..."""
_KNOWN_TOKEN = re.compile(
    r"\b(?:(?:hf_|gh[opsu]_|github_pat_|glpat-|sk-|xox[a-z]-|npm_|pypi-|AIza)[A-Za-z0-9_-]{12,}"
    r"|A[KS]IA[0-9A-Z]{16}\b|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*-----|$)"
)
"""A secret that is known by its form: hf_..., ghp_..., AKIA... (AWS), eyJ... (JSON Web Token), a private key in PEM."""
HIDDEN = "***"
"""What is shown in place of a secret."""


def visible(text: str) -> str:
    """Return the text with an escape such as `\\x1b` for each character that a terminal would obey or cannot show."""
    if text.isprintable():
        return text
    shown = []
    for character in text:
        is_hidden = unicodedata.category(character) in _HIDDEN
        if is_hidden and character not in "\n\t":
            character = character.encode("unicode_escape").decode("ascii")
        shown.append(character)
    return "".join(shown)


def counted(number: int, what: str) -> str:
    """Return how many things there are, with their name: `1 model`, `1,520 runs`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def first_of(names: Sequence[str], most: int = 5, between: str = ", ") -> str:
    """Return the first of some names, for a message, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{between.join(names[:most])}{more}"


def name_fault(name: str, most: int = 200) -> str | None:
    """Return why `name` cannot name a model, a file or a column; None when it can.

    A name is UTF-8 and printable, not empty, at most `most` bytes long, has no blank at an end, and does not begin like
    a formula.
    """
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return "is not UTF-8"

    if not name.strip():
        return "is empty"
    # File systems allow 255 bytes, endings included.
    if size > most:
        return f"has {size:,} bytes; a name may have at most {most}"
    if name != name.strip():
        return "has a blank at an end"
    if not name.isprintable():
        return "contains unprintable characters"

    # Names stand in CSV files, and a spreadsheet runs a cell that begins with one of these as a formula.
    if name[0] in "=+@-":
        return f"begins with {name[0]!r}, like a formula or an option"
    return None


def redacted(text: str) -> str:
    """Return the text with `***` in place of the passwords and tokens that the patterns above find."""
    text = _USER_OF_URL.sub(rf"\g<scheme>{HIDDEN}@", text)
    for named in (_SECRET_FIELD, _VARIABLE, _OPTION, _IN_TEXT, _BEARER):
        text = named.sub(rf"\g<name>{HIDDEN}", text)
    return _KNOWN_TOKEN.sub(HIDDEN, text)
