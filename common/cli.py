"""Command lines: commands as typed functions (the `cyclopts` library), one-sentence errors, Ctrl-C.

A program imports this module first. So it answers what may go wrong before anything else is imported: an old Python,
a missing environment, and Ctrl-C during the imports.
"""

# ruff: noqa: E402

from __future__ import annotations

import contextlib
import errno
import gc
import io
import logging
import os
import re
import sys
import tempfile
import traceback
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

SENTENCE = "interrupted; run the same command again to continue"
"""What a command says after Ctrl-C."""
INTERRUPTED = 130
"""Its exit code."""

if sys.version_info < (3, 11) or find_spec("cyclopts") is None:
    sys.stderr.write(
        "error: Python {}.{} is running outside this package's environment; activate the environment first "
        "(source .venv/analysis/bin/activate) or create it (make analysis-env), see docs/install.md\n".format(
            *sys.version_info
        )
    )
    sys.exit(2)

_usual_hook = sys.excepthook


def _hook(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Answer an exception that nothing has caught: Ctrl-C while modules are imported, before `run` can answer it."""
    if not issubclass(kind, KeyboardInterrupt):
        _usual_hook(kind, error, trace)
        return
    os.write(2, f"{SENTENCE}\n".encode())
    # Not sys.exit or a return: Python itself would end as if the signal had killed it.
    os._exit(INTERRUPTED)


sys.excepthook = _hook

# isort: split
# Imported after the check of the version: an old Python lacks some of these names.
from typing import Annotated, Any, Literal, NoReturn

import attrs
from cyclopts import (
    App,
    ArgumentCollection,
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    Parameter,
    UnknownCommandError,
    UnusedCliTokensError,
)

from common.errors import UserError, nearest
from common.files import nearest_existing
from common.plain_text import redacted, visible

if TYPE_CHECKING:
    from cyclopts.help import DefaultFormatter, HelpPanel
    from rich.console import Console, ConsoleOptions

MANY = Parameter(consume_multiple=(1, None), show_default=False)
"""An option that takes several values: `--model A B` and `--model A --model B` are the same."""

_MISTAKES = (
    errno.EBADF,
    errno.EFAULT,
    errno.EINVAL,
    errno.ENOTTY,
    errno.ESPIPE,
    errno.ECHILD,
)
"""Numbers of system errors that are a mistake of this program, not of its user, unless the error names a file."""
_OTHER_WORDS = {"findings": "claims", "resume": "train"}
"""Commands by the words that pages use for what a command shows or does."""
_SUFFIXES = {"k": 1e3, "m": 1e6, "b": 1e9, "bn": 1e9, "t": 1e12}
"""What people write behind numbers of tokens and parameters."""
_PATH = re.compile("PATH|DIR|FILE|FOLDER|SOURCE|START")
"""How the help calls a word that is a path, or may be one."""
_LIBRARY = re.compile(r"\S+\.so[.0-9]*: .*")
"""How the loader says that a shared library is missing, broken or too old: `libstdc++.so.6: version ... not found`."""
_HINTS = {
    errno.ENOSPC: "; free some space and run the same command again",
    errno.EACCES: "; change its permissions or choose another place",
    errno.ENOENT: "; check the path",
}
"""What a user can do about what the system refuses."""


def shared_options(title: str) -> Parameter:
    """Return what makes a frozen dataclass a group of options that several commands share, under a title of the help.

    Decorate the class with it, and give a command a parameter of that class; each field is an option, the docstring
    under it the option's help.
    """
    return Parameter(name="*", group=title)


def offered(names: Iterable[object]) -> Any:
    """Return the type of an argument that may be any text, of which the shell's completion offers `names`."""
    return Annotated[
        Literal[tuple(map(str, names))] | str, Parameter(show_choices=False)
    ]


def program(name: str, description: str | None = None) -> App:
    """Return a program without commands.

    Args:
        name: how the program is started, such as `clm-or-mlm`.
        description: text above the list of its commands, shown as it is; None: the docstring of its default command.
    """
    app = App(
        name=name,
        help=description,
        help_format="plaintext",
        help_formatter=_Help(),
        version_flags=[],
        # Without names in `negative`, a flag gets no counterpart such as --no-flag. If an option is repeated,
        # its last value counts.
        default_parameter=Parameter(negative=(), allow_repeating=True),
        config=(_check_whole_numbers, _check_paths),
        # The library shall neither print an error nor exit nor answer Ctrl-C: its errors become a `UserError`
        # (`_in_a_sentence`), and `run` answers that and Ctrl-C for all commands alike.
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )
    app["--help"].help = "show this help and exit"
    return app


def call(app: App, argv: Sequence[str]) -> int:
    """Run a program's command and return the exit code that it returns, 0 for none.

    Raises:
        UserError: the words cannot be understood, or what the command raises.
    """
    with _in_a_sentence(app):
        return app(list(argv)) or 0


def check_words(
    command: Callable[..., object], words: Sequence[str], name: str
) -> None:
    """Raise a `UserError` where a command would not understand its words; it is not called."""
    app = program(name)
    app.default(command)
    with _in_a_sentence(app):
        app.parse_args(list(words), exit_on_error=False, print_error=False)


@contextlib.contextmanager
def _in_a_sentence(app: App) -> Iterator[None]:
    """Turn the library's errors about words that it does not understand into a `UserError`."""
    try:
        yield
    except CycloptsError as error:
        # One of our converters has raised a sentence on what is wrong.
        if isinstance(error.__cause__, UserError):
            raise error.__cause__ from None
        command = " ".join([app.name[0], *(error.command_chain or ())])
        raise UserError(f"{_sentence_on(error)} (see {command} --help)") from None


def _sentence_on(error: CycloptsError) -> str:
    """Return what is wrong with the words of a command, without a full stop."""
    if isinstance(error, UnknownCommandError):
        # Worded here: the library would import all commands to list them. By its type, each field of the
        # error that is read here may be None.
        word = (error.unused_tokens or [""])[0]
        meant = _OTHER_WORDS.get(word, word)
        commands = list(error.app or ())  # a program yields the names of its commands
        return f"Unknown command {word!r}{nearest(meant, commands)}"

    if isinstance(error, UnusedCliTokensError):
        return f"Unexpected argument {(error.unused_tokens or [''])[0]!r}"
    if isinstance(error, CoercionError):
        is_number = error.target_type in (int, float)
        if error.token and is_number:
            return _not_a_number(error)

    sentence = " ".join(str(error).split()).rstrip(".")
    # Without a keyword (the option as it was typed), the argument was not given at all; otherwise only its
    # value is missing.
    if isinstance(error, MissingArgumentError) and not error.keyword:
        sentence = re.sub(
            r'^Command "(.+)" parameter (.+) requires an argument',
            r"\1 needs \2",
            sentence,
        )

    return sentence


def _not_a_number(error: CoercionError) -> str:
    """Return what is wrong where an option takes a number: `--tokens takes a number such as 1e9, not '1Bn'`."""
    assert error.token is not None and error.argument is not None
    word = error.token.value
    kind = "a whole number" if error.target_type is int else "a number"
    example = ""

    # A number with what people write behind it: 1Bn, 2.4 M, 500 tokens. A word that is not in `_SUFFIXES`,
    # such as tokens, is only a unit: the number stays as it is.
    match = re.fullmatch(r"([-+]?\d+(?:\.\d+)?)\s*([a-z]*)", word, re.IGNORECASE)
    if match is not None:
        number = float(match[1]) * _SUFFIXES.get(match[2].lower(), 1)
        if error.target_type is int:
            number = int(number)
        # People type 1e9; Python prints 1e+09.
        example = f" such as {number:g}".replace("e+0", "e")

    metavar = error.argument.parameter.metavar
    unit = f" ({metavar})" if metavar else ""
    return f"{error.argument.name} takes {kind}{unit}{example}, not {word!r}"


def run(
    main: Callable[[Sequence[str]], int | None], argv: Sequence[str] | None = None
) -> NoReturn:
    """Call `main(argv)` and exit: its return value (None is 0), 2 after a `UserError`, 130 after Ctrl-C.

    What the system refuses (a full disk, a missing permission, a name that is too long) is also reported in one
    sentence, with the user's file. CLM_OR_MLM_TRACEBACK=1 in the environment shows the traceback of any such error.
    """
    # What is printed and logged. Python sets a stream to None if the shell or a daemon has closed it.
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that the terminal's encoding lacks is written as an escape, not refused.
            stream.reconfigure(errors="backslashreplace")

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("%(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])

    # The command, and the exit code for each way in which it can end. Any other exception keeps its
    # traceback.
    try:
        code = main(sys.argv[1:] if argv is None else argv) or 0
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough. What is still to be written goes nowhere: Python's own flush
        # at exit would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt:
        sys.stderr.write(f"{SENTENCE}\n")
        code = INTERRUPTED
    except (UserError, OSError) as error:
        if os.environ.get("CLM_OR_MLM_TRACEBACK"):
            raise
        sys.stderr.write(f"error: {visible(redacted(_users_sentence(error)))}\n")
        code = 2
    except ImportError as error:
        # numpy, pandas and the command library wrap the loader's error, so it is looked for in the whole traceback.
        loader_error = _LIBRARY.search("".join(traceback.format_exception(error)))
        if loader_error is None or os.environ.get("CLM_OR_MLM_TRACEBACK"):
            raise
        sys.stderr.write(
            f"error: a library cannot be loaded ({visible(loader_error[0])}); {_library_remedy()}\n"
        )
        code = 2

    # Python's collection of garbage at exit looks through all objects: a tenth of the time of a table or a figure.
    # Frozen objects are left out of it. torch's workers and shared memory may need it.
    if "torch" not in sys.modules:
        gc.freeze()
    sys.exit(code)


class _OneLine(logging.Formatter):
    """Messages without secrets and without characters that a terminal obeys."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the library's name)
        return visible(redacted(super().formatMessage(record)))


class _Help:
    """The library's help, with the source lines of a text joined to paragraphs.

    The help of an option or a command is always one paragraph. In the description above them, lines that are
    indented or empty stay as they are.
    """

    def __call__(
        self, console: Console, options: ConsoleOptions, panel: HelpPanel
    ) -> None:
        # A panel has an entry for each option, argument or command of a group.
        for number, entry in enumerate(panel.entries):
            # The library keeps an option's help as a text of `rich`, which is changed in its place.
            text = getattr(entry.description, "primary_renderable", None)
            if text is not None:
                text.plain = " ".join(text.plain.split())
            # A flag that is not given is off: the help need not say so.
            if entry.default == "False":
                panel.entries[number] = attrs.evolve(entry, default=None)
        _default_help()(console, options, panel)

    def render_usage(
        self, console: Console, options: ConsoleOptions, usage: object
    ) -> None:
        _default_help().render_usage(console, options, usage)

    def render_description(
        self, console: Console, options: ConsoleOptions, description: object
    ) -> None:
        text = getattr(description, "primary_renderable", None)
        if text is not None:
            # A line break between two lines of which neither is indented or empty becomes a space.
            text.plain = re.sub(r"(?m)^(\S.*)\n(?=\S)", r"\1 ", text.plain)
        _default_help().render_description(console, options, description)


def _default_help() -> DefaultFormatter:
    # Imported here: it imports `rich`, which only the help needs.
    from cyclopts.help import DefaultFormatter

    return DefaultFormatter()


def _check_whole_numbers(
    app: App, commands: tuple[str, ...], arguments: ArgumentCollection
) -> None:
    """Refuse 2.6 for a whole number, which the library would round.

    A hook of `App(config=...)`: the library calls it before it converts the words of a command to the types of the
    command's arguments.
    """
    del app, commands
    for argument in arguments:
        # The argument's type and, of a union or a tuple, the types in it.
        kinds = {argument.hint, *typing.get_args(argument.hint)}
        takes_other_words = float in kinds or str in kinds
        if int not in kinds or takes_other_words:
            continue
        for token in argument.tokens:
            if not token.value.lstrip("+-").isdecimal():
                raise CoercionError(token=token, target_type=int, argument=argument)


def _check_paths(
    app: App, commands: tuple[str, ...], arguments: ArgumentCollection
) -> None:
    """Refuse, before anything is computed, an --out that cannot be written or is a file that is read, and empty paths.

    A hook of `App(config=...)`, as `_check_whole_numbers`.
    """
    del app, commands
    # The words that were given to each argument that takes paths, or may take one.
    paths: dict[str, list[str]] = {}
    for argument in arguments:
        kinds = (argument.hint, *typing.get_args(argument.hint))
        if Path in kinds or _PATH.search(str(argument.parameter.metavar)):
            paths[argument.name] = [token.value for token in argument.tokens]

    for name, values in paths.items():
        # An empty path is the current folder, into which a command would then write shards.
        if "" in values:
            raise UserError(
                f"{name} is empty; give a path (is a variable of the shell not set?)"
            )

    for argument in arguments:
        if argument.name != "--out" or not argument.tokens:
            continue
        # How the help calls the value of an --out says which of the two it is: FILE, or else DIR.
        wanted = "file" if argument.parameter.metavar == "FILE" else "folder"

        # Of a repeated --out the last counts. It is named as it was typed, so that the user recognises it.
        out = argument.tokens[-1].value
        fault = _out_fault(Path(out), wanted)
        if fault is not None:
            raise UserError(f"--out {out} {fault}; choose another {wanted}")
        if Path(out).is_file():
            # Every path but --out itself is compared with it.
            paths.pop("--out", None)
            _refuse_read_file(out, paths)


def _refuse_read_file(out: str, paths: Mapping[str, list[str]]) -> None:
    """Refuse an --out that is one of the files that the command reads, also where a link or another path leads to it.

    Args:
        out: a file that is there.
        paths: the paths that the command reads, by option.
    """
    for name, values in paths.items():
        for path in map(Path, values):
            if path.exists() and path.samefile(out):
                raise UserError(
                    f"--out {out} is the file that {name} reads; choose another file"
                )


def _out_fault(path: Path, wanted: str) -> str | None:
    """Return why an --out cannot be such a file or folder; None where it is there already, or can be made.

    Args:
        path: the --out.
        wanted: `file` or `folder`.
    """
    if path.exists():
        kind = "folder" if path.is_dir() else "file"
        return None if kind == wanted else f"is a {kind}, but a {wanted} is needed"

    # Links are followed to the end, so what is still a link leads back to itself.
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        return "is a loop of links"
    folder = nearest_existing(target.parent)
    try:
        # Permissions alone do not tell whether a file can be made: a file system may be read-only.
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return f"cannot be made in {folder} ({error.strerror})"


def _library_remedy() -> str:
    """Return what to do where a system's library is not the one that a package was built for."""
    paths = os.environ.get("LD_LIBRARY_PATH")
    if paths:
        return f"LD_LIBRARY_PATH is {visible(paths)}: unset it (conda deactivate), then run the command again"
    return "make the environment again (docs/install.md)"


def _users_sentence(error: UserError | OSError) -> str:
    """Return a sentence on an error that the user can correct; raise an error of the program again."""
    if isinstance(error, UserError):
        return str(error)
    # An OSError without a number does not come from the system, but from a library.
    if error.errno is None or (error.filename is None and error.errno in _MISTAKES):
        raise error
    where = ""
    # For a failed call on an open file, `filename` is the file's number.
    if isinstance(error.filename, str | bytes | os.PathLike):
        where = f"{os.fsdecode(error.filename)}: "
    return f"{where}{os.strerror(error.errno)}{_HINTS.get(error.errno, '')}"
