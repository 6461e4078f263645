"""Words that a reader trips over, and misspellings, in pages, docstrings, messages, help and comments.

    python -m tests.prose.checker           # every hit: file, line, the word, what to write instead

The words are in words.toml; misspellings are codespell's, with the exceptions of pyproject.toml.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from common.provenance import ROOT

ENDINGS = {"", ".md", ".py", ".jinja", ".j2", ".html", ".toml", ".yaml", ".yml", ".sh", ".def", ".js", ".cff"}
NOT_OURS = ("tests/data/", "tests/golden/", "tests/prose/", "analysis/examples/", "LICENSE")


@cache
def words() -> tuple[tuple[str, re.Pattern[str], str], ...]:
    """Return for each entry of words.toml its longest word, which is quickly looked for, its pattern and the remedy."""
    entries = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
    return tuple(
        (max(re.sub(r"\(.*?\)", "", entry).split(), key=len), _pattern(entry), instead)
        for entry, instead in entries.items()
    )


def _pattern(entry: str) -> re.Pattern[str]:
    endings = re.sub(r"(?<=\w)\(([^)]*)\)", r"(?:\1)?", entry)
    return re.compile(rf"(?<![A-Za-z]){endings.replace(' ', '[ _]')}(?![A-Za-z])", re.IGNORECASE)


def hits(text: str) -> list[tuple[str, str]]:
    """Return each unwanted word of a text with what to write instead."""
    small = text.lower()
    return [
        (match[0], instead)
        for word, pattern, instead in words() if word in small
        for match in pattern.finditer(text)
    ]  # fmt: skip


def files() -> list[str]:
    """Return the files of the repository with prose of ours."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=True,
    ).stdout.split("\0")[:-1]  # fmt: skip
    return [
        name
        for name in listed
        if Path(name).suffix in ENDINGS and not name.startswith(NOT_OURS) and (ROOT / name).is_file()
    ]


def prose(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that hold prose: of Python its strings and comments, else all."""
    if not name.endswith(".py"):
        yield from enumerate(text.splitlines(), start=1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if tokenize.tok_name[token.type] in ("STRING", "COMMENT", "FSTRING_MIDDLE"):
            yield from enumerate(token.string.splitlines(), start=token.start[0])


def unwanted() -> list[str]:
    """Return every hit of the house list, as `file:line: word: what to write`."""
    found = []
    for name in files():
        text = (ROOT / name).read_text(encoding="utf-8")
        # Most files hold none anywhere, and need not be taken apart.
        for number, line in prose(name, text) if hits(text) else ():
            found += [f"{name}:{number}: {word!r}: write {instead}" for word, instead in hits(line)]
    return found


def misspelt() -> list[str]:
    """Return what codespell finds outside the tests, which misspell on purpose."""
    names = [name for name in files() if not name.startswith("tests/")]
    words = [sys.executable, "-m", "codespell_lib", "--toml", "pyproject.toml", *names]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()


if __name__ == "__main__":
    found = [*unwanted(), *misspelt()]
    print("\n".join(found) or "no unwanted word, no misspelling")
    sys.exit(bool(found))
