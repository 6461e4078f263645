"""Files, names, commands and options that the pages name are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from clm_or_mlm.rooms import ROOMS
from common.cli import command_name
from common.provenance import ROOT
from tests.test_imports import ALLOWED
from tests.test_project import TRACKED

PAGES = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]
TOPS = {name.split("/")[0] for name in TRACKED if "/" in name}
FOLDERS = {str(parent) for name in TRACKED for parent in Path(name).parents}

EXAMPLES = {
    "docs/add-a-dataset.md": {"benchmarks/datasets/readers/reviews.py"},
    "docs/extend.md": {"paper_figures/figures/sizes.py", "paper_figures.figures.sizes"},
}
"""What a page has the reader write."""

ENDS = ("|", "||", "&", "&&", ";", ">", ">>")
"""What ends a command in a line of the shell."""


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def quoted(page: str) -> set[str]:
    """What stands in backticks in a page's prose, and the first word of it."""
    prose = re.sub(r"^```.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    whole = {text for text in re.findall(r"`([^`\n]+)`", prose) if text.strip()}
    return (whole | {text.split()[0] for text in whole}) - EXAMPLES.get(page, set())


@pytest.mark.parametrize("page", PAGES)
def test_files_and_folders_exist(page: str) -> None:
    for name in sorted(quoted(page)):
        if " " in name or "<" in name:
            continue
        if "/" in name and name.split("/")[0] in TOPS:
            assert any(ROOT.glob(name.rstrip("/"))), name
        elif "/" not in name and name.endswith(".py"):
            assert any(Path(file).name == name for file in TRACKED), name


@pytest.mark.parametrize("page", PAGES)
def test_modules_and_what_is_in_them_exist(page: str) -> None:
    for name in sorted(quoted(page)):
        if re.fullmatch(r"(\w+)(\.\w+)+", name) and name.split(".")[0] in ALLOWED and not is_file(name):
            parts = name.split(".")
            depth = max(count for count in range(1, len(parts) + 1) if is_module(parts[:count]))
            assert depth >= len(parts) - 2, name
            assert depth == len(parts) or parts[depth] in names_in(tuple(parts[:depth])), name


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_their_options_exist(page: str) -> None:
    for words in commands_in(page):
        check(words)


def test_options_and_commands_that_are_not_there_would_be_noticed() -> None:
    for line in (
        "analysis scores --intervall t",
        "analysis score",
        "paper_figures 3 --sourc x",
        "nowhere run",
    ):
        with pytest.raises(AssertionError):
            check(line.split())
    check(["container", "run", "full", "benchmarks", "run", "--model", "DIR"])
    with pytest.raises(AssertionError):
        check(["container", "run", "full", "benchmarks", "run", "--modle", "DIR"])
    assert len(list(commands_in("docs/pretraining.md"))) > 8


def check(words: list[str]) -> None:
    """Assert that the words after `python -m` name a program, its command and its options."""
    name, *rest = words
    if "." not in name:
        assert name in ALLOWED, words
        check_room(name, rest)
    elif any(word.startswith("--") for word in rest):
        known = options_of_script(name)
        assert {word for word in rest if word.startswith("--")} <= known, words
    else:
        assert is_module(name.split(".")), words


def check_room(name: str, words: list[str]) -> None:
    app = ROOMS[name].program()
    depth = 0
    while ROOMS[name].commands and depth < len(words):
        one = words[depth].split("|")[0]  # `test|verify` stands for both
        if app.default_command is not None and one not in app:
            break
        assert all(each in app for each in words[depth].split("|")), (name, words)
        app, depth = app[one], depth + 1
    if (name, words[:1]) == ("container", ["run"]):
        words, inner = words[:2], words[2:]
        if inner:
            check(inner)
    options = {word.split("=")[0] for word in words if word.startswith("--")} - {"--help"}
    if options:
        known = {option for argument in app.assemble_argument_collection() for option in argument.names}
        assert options <= known, (name, words, options - known)


@cache
def options_of_script(name: str) -> set[str]:
    """The options of a script: strings that begin so, and the parameters of its functions."""
    tree = ast.parse(ROOT.joinpath(*name.split(".")).with_suffix(".py").read_text(encoding="utf-8"))
    strings = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    parameters = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return strings | {f"--{name.replace('_', '-')}" for name in parameters}


def commands_in(page: str) -> list[list[str]]:
    """The words after each `python -m`, or a script, of a page but pytest's; continued lines are joined."""
    text = re.sub(r"^error: .*$", "", text_of(page), flags=re.MULTILINE)  # what a command answers
    text = re.sub(r"\s*\\\n\s*", " ", text)
    found = []
    for line in re.findall(r"python -m ([^`\n]+)", re.sub(r"python (tests/\S+)\.py", _as_module, text)):
        command = re.split(r"\s#|\s\s+(?!--)", line)[0]  # what follows is a comment
        words = re.sub(r"[\[\]]", " ", command).split()
        cut = next((place for place, word in enumerate(words) if word in ENDS), len(words))
        if words[0] not in ("pytest", "pip"):
            found.append(words[:cut])
    return found + [owned(words) for words in installed_commands_in(page)]


def installed_commands_in(page: str) -> list[list[str]]:
    """The words after each `clm-or-mlm` of a page that are a command's."""
    lines = re.findall(r"(?:`|^    )clm-or-mlm ([a-z][^`\n]*)", text_of(page), flags=re.MULTILINE)
    commands = [re.split(r"\s#|\s\s+|\s>", line)[0].split() for line in lines]
    return [words for words in commands if words[0] != "completion"]


def owned(words: list[str]) -> list[str]:
    """The same words with the room's name first, as `python -m` takes them."""
    if words[0] in ROOMS:
        return words
    if words[0] == "figure":
        return ["paper_figures", *words[1:]]
    owners = [room.name for room in ROOMS.values() if words[0] in map(command_name, room.commands)]
    assert len(owners) == 1, words
    return [owners[0], *words]


def _as_module(script: re.Match[str]) -> str:
    return f"python -m {script[1].replace('/', '.')}"


def is_file(name: str) -> bool:
    """Return whether it is a file's name, such as `analysis.sif`, and no module."""
    return name.endswith((".py", ".sif"))


def is_module(parts: list[str]) -> bool:
    path = ROOT.joinpath(*parts)
    return path.with_suffix(".py").is_file() or path.is_dir()


@cache
def names_in(parts: tuple[str, ...]) -> set[str]:
    path = ROOT.joinpath(*parts)
    tree = ast.parse(
        (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")
    )
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {
        node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }
