"""One-sentence errors, the nearest of what was meant, exit codes, lazy commands."""

import errno
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest
from cyclopts import App, Parameter

from common.cli import MANY, call, program, run, shared_options
from common.errors import UserError
from common.provenance import ROOT
from tests.commands import python
from tests.messages import check


@shared_options("where")
@dataclass(frozen=True, kw_only=True)
class Place:
    """Where."""

    folder: Path = Path()
    """the folder"""
    count: int = 1
    """how many"""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise UserError(f"--count must be at least 1, not {self.count}")


DONE: list[tuple[object, ...]] = []


def show(
    name: Annotated[str, Parameter()],
    /,
    *,
    split: Literal["train", "test"] = "train",
    models: Annotated[tuple[str, ...], MANY] = (),
    strict: bool = False,
    place: Place = Place(),
) -> int:
    """Show something.

    The source breaks this
    paragraph.

    examples:
      x show a   --split  test

    Args:
        name: what to show
        split: which split
        models: names of models
    """
    DONE.append((name, split, models, strict, place))
    return 3


def app() -> App:
    made = program("x", "An example.\n\nx show a")
    made.command(f"{__name__}:show")
    return made


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    DONE.clear()
    monkeypatch.setitem(sys.modules, __name__, sys.modules[show.__module__])


def ended(main: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stop:
        run(main, [])  # type: ignore[arg-type]
    return int(stop.value.code or 0), capsys.readouterr().err


def raising(error: BaseException) -> object:
    def main(argv: Sequence[str]) -> int:
        raise error

    return main


def test_a_user_error_is_one_sentence_and_status_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, err = ended(raising(UserError("a.csv: no header; write one")), capsys)
    assert (code, err) == (2, "error: a.csv: no header; write one\n")


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EACCES, "choose another place"),
        (errno.ENOENT, "check the path"),
    ],
)
def test_what_the_system_refuses_names_the_file_and_a_remedy(
    number: int, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, said = ended(raising(OSError(number, "refused", "a.txt")), capsys)
    assert status == 2
    check(said.removesuffix("\n"), "error: a.txt: ", os.strerror(number), remedy)


def test_a_library_that_does_not_load_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "/usr/lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /x/_multiarray.so)"
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/conda/lib")
    deep, outer = (
        ImportError(f"\n\nPlease read this\n{why}\nand this"),
        ImportError("numpy cannot be imported"),
    )
    outer.__cause__ = ImportError("see below")
    outer.__cause__.__cause__ = deep
    for error in (deep, outer):
        code, said = ended(raising(error), capsys)
        assert (
            code == 2
            and said.count("\n") == 1
            and why in said
            and "LD_LIBRARY_PATH is /opt/conda/lib" in said
        )
    with pytest.raises(ImportError):
        ended(raising(ImportError("cannot import name 'x'")), capsys)


def test_a_mistake_of_ours_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        run(raising(ZeroDivisionError()), [])  # type: ignore[arg-type]


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-"])
def test_a_closed_output_is_no_traceback(closed: str) -> None:
    code = "import sys; from common.cli import run; run(lambda _: print('x') or sys.stderr.write('y') and 0)"
    words = ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, code]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and "Traceback" not in done.stderr + done.stdout


def test_interrupt_is_130(capsys: pytest.CaptureFixture[str]) -> None:
    code, err = ended(raising(KeyboardInterrupt()), capsys)
    assert code == 130
    assert "the same command again to continue" in err


def test_command_gets_typed_values_and_returns_its_exit_code() -> None:
    words = [
        "show",
        "a",
        "--split",
        "test",
        "--models",
        "m",
        "n",
        "--models",
        "o",
        "--strict",
    ]
    assert call(app(), [*words, "--count", "100", "--folder", "d"]) == 3
    assert [
        ("a", "test", ("m", "n", "o"), True, Place(folder=Path("d"), count=100))
    ] == DONE


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["shwo"], "Unknown command 'shwo'; did you mean 'show'? (see x --help)"),
        (
            ["show", "a", "--splt", "train"],
            "Unknown option: --splt. Did you mean --split? (see x show --help)",
        ),
        (
            ["show", "a", "--split", "tset"],
            'Invalid value "tset" for --split. Choose from: "train", "test". Did you mean "test"? (see x show --help)',
        ),
        (
            ["show", "a", "--count", "2.6"],
            "--count takes a whole number such as 2, not '2.6' (see x show --help)",
        ),
        (["show", "a", "--count", "0"], "--count must be at least 1, not 0"),
        (["show"], "show needs NAME (see x show --help)"),
    ],
)
def test_words_not_understood_are_refused_in_a_sentence(
    words: list[str], sentence: str
) -> None:
    with pytest.raises(UserError) as refused:
        call(app(), words)
    assert str(refused.value) == sentence
    assert DONE == []


def test_help_has_shared_options_and_examples_as_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    call(app(), ["show", "--help"])
    text = capsys.readouterr().out
    assert (
        "\nThe source breaks this paragraph.\n\nexamples:\n  x show a   --split  test"
        in text
    )
    for word in (
        "--split",
        "--models",
        "--strict",
        "--folder",
        "--count",
        "how many",
        "where",
    ):
        assert word in text
    assert "--no-strict" not in text


def outcome(code: str, **environment: str) -> tuple[int, str, str]:
    script = f"from common.cli import run\nfrom common.errors import UserError\n{textwrap.dedent(code)}\nrun(main, [])"
    done = python("-c", script, **environment)
    return done.returncode, done.stdout, done.stderr


def test_output_that_is_not_utf8_is_escaped() -> None:
    said = outcome(
        "def main(words):\n    print('81.2 \\u00b1 0.3')", PYTHONIOENCODING="ascii"
    )
    assert said == (0, "81.2 \\xb1 0.3\n", "")


def test_messages_hold_no_terminal_commands_and_no_secrets() -> None:
    code = """
    import logging
    def main(words):
        logging.getLogger("x").warning("%s", "a\\x1b[2J https://me:HUSH@host/x")
        raise UserError("b\\x07 token=HUSH \\udcff")
    """
    said = "WARNING: a\\x1b[2J https://***@host/x\nerror: b\\x07 token=*** \\udcff\n"
    assert outcome(code) == (2, "", said)


def test_an_error_while_modules_are_imported_keeps_its_traceback() -> None:
    assert (
        "ValueError: x"
        in python("-c", "import common.cli\nraise ValueError('x')", code=1).stderr
    )
