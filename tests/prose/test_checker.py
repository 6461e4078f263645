"""Pages, docstrings, messages, help and comments hold no misspelling and no word of the house list."""

from __future__ import annotations

import pytest

from tests.prose.checker import files, hits, misspelt, prose, unwanted, words


def test_no_word_of_the_house_list_is_used() -> None:
    assert unwanted() == []


def test_nothing_is_misspelt() -> None:
    assert misspelt() == []


def test_pages_messages_templates_and_build_files_are_read() -> None:
    assert {
        "README.md", "Makefile", "docs/findings.md", "common/errors.py", "workflow/Snakefile",
        "analysis/claims/templates/findings.md.jinja", "container/full.def", "pyproject.toml",
    } <= set(files())  # fmt: skip


@pytest.mark.parametrize(
    "text", ["It goes on.", "the file beside it", "test_it_goes_on_here", "Lies in X", "mended"]
)
def test_a_word_of_the_list_is_seen(text: str) -> None:
    assert len(hits(text)) == 1


@pytest.mark.parametrize("text", ["believes", "relied", "cargoes one", "a mendable thing", "untold"])
def test_a_word_that_only_holds_one_is_not(text: str) -> None:
    assert hits(text) == []


def test_of_python_strings_and_comments_are_read_and_names_are_not() -> None:
    source = '"""It goes on."""\nbeside = 1  # anew\nraise ValueError(f"{1} was told")\n'
    assert [(number, word) for number, line in prose("x.py", source) for word, _ in hits(line)] == [
        (1, "goes on"), (2, "anew"), (3, "told"),
    ]  # fmt: skip


def test_every_entry_says_what_to_write_instead() -> None:
    assert all(instead.strip() for *_, instead in words())
