"""What the pages name is there: links, files, modules, make targets, commands and their options, tests."""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import COMMANDS, app_of
from common.provenance import ROOT
from tests.test_imports import ALLOWED, FILES
from tests.test_project import TRACKED

PAGES = [
    "README.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))),
]
TEXTS = {
    page: (ROOT / page).read_text(encoding="utf-8")
    for page in (*PAGES, "CONTRIBUTING.md")
}
TOPS = {name.split("/")[0] for name in TRACKED if "/" in name}
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
EXAMPLES = {
    "benchmarks/datasets/readers/reviews.py",
    "paper_figures/figures/ratios.py",
    "paper_figures.figures.sizes",
    "watch.py",
}
"""What pages have the reader write."""
ENDINGS = {"json", "py", "safetensors", "sif", "toml"}
"""How names of files end, which are no modules."""
ENDS = ("|", "||", "&", "&&", ";", ">", ">>")
"""What ends a command in a line of the shell."""


def wrong(found: Callable[[str], Iterator[str]]) -> list[str]:
    """Every fault of every page, with the page's name."""
    return [f"{page}: {fault}" for page, text in TEXTS.items() for fault in found(text)]


def quoted(text: str) -> set[str]:
    """What stands in backticks in a page's prose, and the first word of it."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    whole = {text for text in re.findall(r"`([^`\n]+)`", prose) if text.strip()}
    return (whole | {text.split()[0] for text in whole}) - EXAMPLES


def test_files_and_folders_exist() -> None:
    def absent(text: str) -> Iterator[str]:
        for name in quoted(text):
            if " " in name or "<" in name:
                continue
            if (
                "/" in name
                and name.split("/")[0] in TOPS
                and not any(ROOT.glob(name.rstrip("/")))
            ):
                yield name
            if (
                "/" not in name
                and name.endswith(".py")
                and name not in {Path(file).name for file in TRACKED}
            ):
                yield name

    assert wrong(absent) == []


def test_modules_and_what_is_in_them_exist() -> None:
    def absent(text: str) -> Iterator[str]:
        return (name for name in quoted(text) if is_absent(name))

    assert wrong(absent) == []


def test_what_docstrings_name_exists() -> None:
    """As a page names it, or from the docstring's own room: `store.ingest` in `analysis`."""
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in FILES
        for text in docstrings(path)
        for name in re.findall(r"`([\w.]+)`", text)
        if is_absent(name)
        or is_absent(f"{path.relative_to(ROOT).parts[0]}.{name}", below=2)
    }
    assert found == set()


def docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)


def is_absent(name: str, *, below: int = 1) -> bool:
    """Return whether a dotted name leads into a folder of a room, `below` parts deep, but to nothing in it."""
    parts = name.split(".")
    if (
        len(parts) <= below
        or not all(part.isidentifier() for part in parts)
        or parts[-1] in ENDINGS
    ):
        return False
    if parts[0] not in ALLOWED or not is_module(parts[:below]):
        return False
    depth = max(count for count in range(1, len(parts) + 1) if is_module(parts[:count]))
    return depth < len(parts) and parts[depth] not in names_in(tuple(parts[:depth]))


def test_links_lead_somewhere_and_the_readme_reaches_each_page() -> None:
    for page, text in TEXTS.items():
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose):
            assert (
                target.startswith(("http://", "https://"))
                or ((ROOT / page).parent / target).exists()
            ), (
                page,
                target,
            )
    linked = re.findall(r"\]\(([^)]+)\)", TEXTS["README.md"])
    assert [page for page in PAGES[1:] if page not in linked] == []


def test_the_pages_are_few_and_short() -> None:
    """Words have a letter or a digit; bars of tables and bullets are none."""
    words = {
        page: sum(bool(re.search(r"\w", word)) for word in text.split())
        for page, text in TEXTS.items()
    }
    assert len(PAGES) <= 19
    assert words["README.md"] <= 900
    assert sum(words.values()) <= 17_000


def test_make_targets_exist() -> None:
    def absent(text: str) -> Iterator[str]:
        targets = set(
            re.findall(r"(?:`|^    )make ([a-z0-9-]+)", text, flags=re.MULTILINE)
        )
        return (
            name
            for name in targets
            if not re.search(rf"^{name}:", MAKEFILE, flags=re.MULTILINE)
        )

    assert wrong(absent) == []


def test_readme_has_every_room_and_the_tree_every_folder() -> None:
    rooms = re.findall(
        r"^\| \[`(\w+)/`\]\(\1\) \|", TEXTS["README.md"], flags=re.MULTILINE
    )
    assert set(rooms) == set(ALLOWED)
    (tree,) = re.findall(
        r"^```\n(pretraining/.*?)^```",
        TEXTS["docs/extend.md"],
        flags=re.DOTALL | re.MULTILINE,
    )
    named, above = set(), [ROOT]
    for line in tree.splitlines():
        indent, name = re.fullmatch(r"((?: {4})*)(\S+)  +\S.*", line).groups()  # type: ignore[union-attr]
        above[len(indent) // 4 + 1 :] = [above[len(indent) // 4] / name]
        assert above[-1].exists() and above[-1].is_dir() == name.endswith("/"), line
        named.add(above[-1])
    folders = {
        path.parent for room in ALLOWED for path in (ROOT / room).glob("*/__init__.py")
    }
    assert folders <= named, folders - named


def test_commands_and_their_options_exist() -> None:
    found = [words for page in TEXTS for words in commands_in(page)]
    for words in found:
        check(words)
    assert len(found) > 100


@pytest.mark.parametrize(
    "line",
    [
        "scores --intervall t",
        "score",
        "figure 3 --sourc x",
        "analysis scores",
        "run",
        "container run full benchmarks run --modle DIR",
    ],
)
def test_what_is_not_there_would_be_noticed(line: str) -> None:
    with pytest.raises(AssertionError):
        check(line.split())


def check(words: list[str]) -> None:
    """Assert that the words name a command of `clm-or-mlm`, or a script of `python -m`, and options of it."""
    options = {word.split("=")[0] for word in words if word.startswith("--")}
    if "." in words[0]:
        assert is_module(words[0].split(".")), words
        assert options <= (options_of_script(words[0]) if options else set()), words
        return
    names = [each for each in (" ".join(words[:2]), words[0]) if each in COMMANDS]
    rooms = {name.split()[0] for name in COMMANDS if " " in name}
    if not names:  # the list of all commands, or a room's
        assert (words[0] in rooms or words[0].startswith("--")) and words[1:] in (
            [],
            ["--help"],
        ), words
        return
    if names[0] == "container run":
        if words[3:]:
            check([word for word in words[3:] if word != "--"])
        return
    app = app_of(words)
    for word in names[0].split():
        app = app[word]
    known = {
        option
        for argument in app.assemble_argument_collection()
        for option in argument.names
    }
    assert options <= known | {"--help"}, (words, options - known)


@cache
def options_of_script(name: str) -> set[str]:
    """The options of a script: strings that begin so, and the parameters of its functions."""
    tree = ast.parse(
        ROOT.joinpath(*name.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    )
    strings = {
        one.value
        for one in ast.walk(tree)
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    }
    return strings | {
        f"--{one.arg.replace('_', '-')}"
        for one in ast.walk(tree)
        if isinstance(one, ast.arg)
    }


def commands_in(page: str) -> list[list[str]]:
    """The words after each `clm-or-mlm` of a page, and after each `python -m` but pytest's."""
    # What a command answers
    text = re.sub(r"^error: .*$", "", TEXTS[page], flags=re.MULTILINE)
    text = re.sub(r"\s*\\\n\s*", " ", text)
    found = []
    for line in re.findall(r"python -m ([^`\n]+)", text):
        command = re.split(r"\s#|\s\s+(?!--)", line)[0]  # what follows is a comment
        words = re.sub(r"[\[\]]", " ", command).split()
        cut = next(
            (place for place, word in enumerate(words) if word in ENDS), len(words)
        )
        if words[0] not in ("pytest", "pip"):
            found.append(words[:cut])
    installed = re.findall(
        r"(?:`|^    |^\$ |bin/)clm-or-mlm ([a-z-][^`\n]*)", text, flags=re.MULTILINE
    )
    return found + [re.split(r"\s#|\s\s+|\s>", line)[0].split() for line in installed]


def is_module(parts: list[str]) -> bool:
    path = ROOT.joinpath(*parts)
    return path.with_suffix(".py").is_file() or path.is_dir()


@cache
def names_in(parts: tuple[str, ...]) -> set[str]:
    path = ROOT.joinpath(*parts)
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    named = {
        node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }
    return named | {node.id for node in nodes if isinstance(node, ast.Name)}


def test_each_deviation_says_what_we_do_and_names_real_tests() -> None:
    tests = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(
            r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in TEXTS["docs/deviations.md"].splitlines()
        if line.startswith("|")
        and not re.match(r"\|[-|]+$", line)
        and not line.endswith("| shown by |")
    ]
    for row in rows:
        assert len(row) == 3 and all(row), row
        named = set(re.findall(r"`(test_\w+)`", row[2]))
        assert named and named <= tests, (row, named - tests)
    # The disagreements and unknowns of the protocol; there is no U8.
    numbers = {
        *(f"D{n}" for n in range(1, 15)),
        *(f"U{n}" for n in range(1, 14) if n != 8),
    }
    assert numbers <= {
        name for row in rows for name in re.findall(r"[DU]\d+", row[0].split("** ")[0])
    }


def test_readmes_first_screen_is_short_and_complete() -> None:
    screen = TEXTS["README.md"].split("\n## Rooms")[0]
    words = re.sub(r"\]\([^)]*\)|[|#`-]+", " ", screen).split()
    assert len(words) <= 370
    answer, rest = screen.split("![")
    doubt, readers = rest.split("| I want to |")
    assert "**Probably" in answer and "**How sure?**" in doubt
    assert not re.search(r"\b(SC|TC|QA|IR|CPT|simultaneous|at least)\b", screen)
    rows = re.findall(r"^\| .+ \| \[.+\]\(docs/.+\) \|$", readers, flags=re.MULTILINE)
    assert len(rows) == 5
    commands = [
        line.split("#")[0].split()
        for line in re.findall(r"^    (.+)$", readers, flags=re.MULTILINE)
    ]
    assert [words[:2] for words in commands] == [
        ["git", "clone"],
        ["cd", "clm-or-mlm"],
        ["make", "reproduce-figure3"],
        ["make", "test"],
    ]
