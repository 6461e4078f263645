"""`clm-or-mlm` and `python -m clm_or_mlm`: every command, its function, and the list of them that help prints.

A command is named by one word (`plan`), or by two: a room, which is a top folder of this package, and then a verb that
would not say enough without it (`benchmarks run`, `container run`).
"""

import common.cli  # noqa: F401  (first: Ctrl-C while the rest is imported)

# isort: split
import gc
import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import NamedTuple

from cyclopts import App, Group

from clm_or_mlm import __version__
from common.cli import call, program, run
from common.errors import UserError

ABOUT = """\
Below are {1}; `{0} help COMMAND` explains one.
`{0} --install-completion` makes the shell complete them.

examples:
  {0} figure 3
  {0} claims F8
  {0} benchmarks run --help"""


class Verb(NamedTuple):
    """A command as the list shows it."""

    function: str
    """Its `module:function`, imported when it is called; the function's docstring is the command's help."""
    line: str
    """What the list says of it."""


GROUPS: Mapping[str, Mapping[str, Verb]] = {
    "Reproduce": {
        "figure": Verb("paper_figures.commands:draw", "Draw the paper's figures"),
        "table": Verb("analysis.commands.scores:table", "Print the paper's tables"),
        "claims": Verb("analysis.commands.findings:claims", "Judge the paper's findings F1 to F17"),
        "audit": Verb("analysis.commands.scores:audit", "Compare published cells with a source's runs"),
        "report": Verb("clm_or_mlm.commands:report", "Write all results as one HTML page"),
        "reproduce": Verb("clm_or_mlm.commands:reproduce", "Make every table, every figure and the audit"),
        "fetch-released": Verb("analysis.commands.store:fetch_released", "Download the authors' runs"),
    },
    "Pretrain": {
        "models": Verb("pretraining.commands:models", "List the study's models"),
        "plan": Verb("clm_or_mlm.plan_command:plan", "Print what models take, or what hours pay for"),
        "shards": Verb("pretraining.commands:shards", "Convert documents to training shards"),
        "train": Verb("pretraining.commands:train", "Pretrain a model, or one stage of its plan"),
        "adapt": Verb("pretraining.commands:adapt", "Make an encoder of an existing model"),
        "check": Verb("clm_or_mlm.check_command:check", "Check an encoder, shards, a store or a training"),
        "settings": Verb("pretraining.commands:settings", "Print the settings of `train` and what they mean"),
        "tokenizer": Verb("pretraining.commands:tokenizer", "Convert or train a tokenizer"),
        "pretraining export": Verb("pretraining.commands:export", "Export a checkpoint as a Hugging Face model"),
    },
    "Fine-tune": {
        "fetch": Verb("benchmarks.commands.datasets:fetch", "Download datasets"),
        "benchmarks run": Verb("benchmarks.commands.grid:run", "Fine-tune a model on the datasets"),
        "benchmarks status": Verb("benchmarks.commands.grid:status", "Show which runs a store has"),
        "datasets": Verb("benchmarks.commands.datasets:datasets", "List or verify datasets"),
        "import": Verb("benchmarks.commands.datasets:import_", "Convert a dataset's original files"),
        "synthetic": Verb("benchmarks.commands.datasets:synthetic", "Write small made-up datasets"),
    },
    "Analyse": {
        "scores": Verb("analysis.commands.scores:scores", "Print every mean with its interval"),
        "compare": Verb("analysis.commands.comparisons:compare", "Compare two models, or many with the best of them"),
        "ingest": Verb("analysis.commands.store:ingest", "Convert a run store to a runs table"),
        "sensitivity": Verb("analysis.commands.findings:sensitivity", "Print what would overturn each verdict"),
    },
    "Study, clusters and images": {
        "workflow": Verb("workflow.commands:study", "Run a study as jobs, here or on Slurm"),
        "workflow status": Verb("workflow.commands:status", "Show a study's progress"),
        "cancel": Verb("workflow.commands:cancel", "Stop a study and its jobs"),
        "doctor": Verb("workflow.commands:doctor", "Find what a machine or cluster lacks"),
        "build": Verb("container.commands:build", "Build an image"),
        "test": Verb("container.commands:test", "Run an image's own tests"),
        "container run": Verb("container.commands:run", "Run a command in an image"),
        "container verify": Verb("container.commands:verify", "Compare an image with its record and the locks"),
    },
}  # fmt: skip
"""Every command by its words: one word, or a room and a verb that would not say enough without it."""

DAILY = {
    "figure",
    "table",
    "claims",
    "audit",
    "report",
    "reproduce",
    "fetch-released",
    "models",
    "plan",
    "shards",
    "train",
    "adapt",
    "check",
    "fetch",
    "benchmarks run",
    "scores",
    "compare",
    "workflow",
    "doctor",
}
"""The commands that are listed also without `--all`."""

COMMANDS = {
    words: command for group in GROUPS.values() for words, command in group.items()
}
"""Every command by its words, without the groups."""

_SMALL = ("analysis", "paper_figures", "clm_or_mlm.commands")
"""How the functions of commands begin that need only the small environment, `analysis`."""


def main(argv: Sequence[str], prefix: str = "python -m clm_or_mlm") -> int:
    """Run the command that the words name and return its exit code.

    Args:
        argv: the words behind the program's name.
        prefix: how the program was started, for messages and help.

    Raises:
        UserError: there is no such command, or what the command raises.
    """
    words = list(argv)
    # `help sources` is a page of its own, not the help of a command: helps of options refer to it.
    if words == ["help", "sources"]:
        from analysis.options import SOURCES

        sys.stdout.write(f"{SOURCES}\n")
        return 0

    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if words in (["--version"], ["version"]):
        # Imported here, since the import takes longer than printing a help.
        from common.provenance import git_commit

        sys.stdout.write(f"clm-or-mlm {__version__} (commit {git_commit()})\n")
        return 0

    # What is left without the options of the list: the words of a command, if there are any.
    # `words` keeps the options, since a command that is called gets its --help from there.
    wanted = [word for word in words if word not in ("--help", "-h", "--all")]
    # Without a command, list all commands. The list is the help of a program that is made for it (`_list`).
    if not wanted:
        return call(_list(prefix, GROUPS, every="--all" in words), ["--help"])
    _refuse_other_names(words, prefix)

    # A room without a verb, unless it is itself a command (`workflow`): list the commands of the room.
    room = wanted[0]
    verbs = _verbs_of(room, COMMANDS)
    if len(wanted) == 1 and room not in COMMANDS and verbs:
        groups = {f"Commands of {room}": verbs}
        return call(_list(f"{prefix} {room}", groups, every=True), ["--help"])

    # Commands of two words are not found here: none of them is one of `_SMALL`.
    command = COMMANDS.get(words[0])
    if command is not None and command.function.startswith(_SMALL):
        # Imports and drawings stay in memory until the end: looking for garbage among them takes a tenth of the time.
        gc.set_threshold(1_000_000)

    try:
        return call(app_of(words, prefix), words)
    except ImportError as error:
        lacking = _lacks_package(words, error)
        if lacking is None:
            raise
        raise lacking from error


def app_of(words: Sequence[str] = (), prefix: str = "clm-or-mlm") -> App:
    """Return the program with all commands; each command's module is imported when the command is called.

    Args:
        words: the words that the program will be called with.
        prefix: how the program is started.
    """
    app = program(prefix)
    # cyclopts' option installs completion, so that no command has to print a script for it.
    app.register_install_completion_command(
        help="install this shell's completion of commands and options"
    )

    # The rooms that have verbs, each once; keys of a dict keep the order, in which help lists them.
    rooms = dict.fromkeys(name.partition(" ")[0] for name in COMMANDS if " " in name)
    for name, command in COMMANDS.items():
        # A command that is also the name of a room (`workflow`) is added below, as that room's `default`.
        if " " not in name and name not in rooms:
            # cyclopts imports a function that is given as `module:function` when it is called.
            app.command(command.function, name=name)

    for room in rooms:
        room_app = program(room)
        # A room may be a command itself (`workflow`). `default` takes a function, not `module:function`: the function
        # is imported here, only for a call of this room.
        if room in COMMANDS and words[:1] == [room]:
            module, _, function = COMMANDS[room].function.partition(":")
            room_app.default(getattr(importlib.import_module(module), function))

        for verb, command in _verbs_of(room, COMMANDS).items():
            # The help of the verb that is called is its docstring (None), not its line of the list.
            is_called = words[1:2] == [verb]
            room_app.command(
                command.function, name=verb, help=None if is_called else command.line
            )

        app.command(room_app, name=room)

    return app


def _verbs_of(room: str, commands: Mapping[str, Verb]) -> dict[str, Verb]:
    """Return the commands of `commands` that need a room's name before them, by their verbs.

    Those of `container` are `run` and `verify`.
    """
    prefix = f"{room} "
    names = [name for name in commands if name.startswith(prefix)]
    return {name.removeprefix(prefix): commands[name] for name in names}


def _list(prefix: str, groups: Mapping[str, Mapping[str, Verb]], *, every: bool) -> App:
    """Return a program whose help is the list of commands.

    Args:
        prefix: how the program is started.
        groups: the commands by their words, below the title of each group.
        every: list all commands, not only those in `DAILY`.
    """
    shown = f"the {len(DAILY)} most used of {len(COMMANDS)} commands (`{prefix} --all` lists all)"
    if every:
        shown = f"all {len(COMMANDS)} commands"

    # The list of one room's commands has no text above it.
    about = ABOUT.format(prefix, shown) if groups is GROUPS else None
    app = program(prefix, about)

    # This program is a help already: its option --help would only add a line.
    app["--help"].show = False
    # With these keys, the help lists groups and commands in the order in which they stand here.
    for order, (title, commands) in enumerate(groups.items()):
        group = Group(title, sort_key=order)
        for number, (words, command) in enumerate(commands.items()):
            if every or words in DAILY:
                app.command(
                    command.function,
                    name=words,
                    help=command.line,
                    group=group,
                    sort_key=number,
                )

    return app


def _refuse_other_names(words: Sequence[str], prefix: str) -> None:
    """Raise a `UserError` for a verb without the room that it needs, or for a command with a room that it does not.

    Words that are not a command, but say which one is meant, such as `F8` or `table10`, are refused as well.
    """
    first = words[0]
    # `run` without a room could be each of `benchmarks run` and `container run`. A verb that only one room
    # has, such as `export`, needs its room as well.
    full_names = [name for name in COMMANDS if name.endswith(f" {first}")]
    if full_names:
        ways = " or ".join(f"`{prefix} {name}`" for name in full_names)
        raise UserError(f"the command {first} needs the name of its part: use {ways}")

    wanted = _meant_by(first)
    if wanted:
        raise UserError(f"unknown command {first!r}; use `{prefix} {wanted}`")
    # The folders that commands' functions are in: all rooms, also those that no command needs before it.
    folders = {command.function.partition(".")[0] for command in COMMANDS.values()}

    # `analysis scores`: the second word is a command by itself, before which no room is named. A room that is
    # a command itself (`workflow`) takes the second word as its argument.
    is_only_room = first in folders and first not in COMMANDS
    if is_only_room and words[1:] and words[1] in COMMANDS:
        typed = " ".join(words[:2])
        raise UserError(f"unknown command {typed!r}; use `{prefix} {words[1]}`")


def _meant_by(word: str) -> str:
    """Return the command that was meant by a finding, figure, table or model typed as a command; else an empty text.

    `F8` means `claims F8`; `table10` means `table 10`.
    """
    # The first word of a command means that command.
    if word in {words.partition(" ")[0] for words in COMMANDS}:
        return ""
    # Imported here: commands start without them.
    from analysis.claims.titles import ANSWER, TITLES
    from pretraining.paper_models import find_model

    name = word.lower()
    # `TITLES` has the paper's findings; the answer to the paper's question is judged as one of them.
    for finding in (ANSWER, *TITLES):
        if finding.lower() == name:
            return f"claims {finding}"

    # Such as table10, or figure03.
    numbered = re.fullmatch(r"(figure|table)\s*0*(\d+)", name)
    if numbered is not None:
        return f"{numbered[1]} {numbered[2]}"
    # A model of the paper, or one whose name follows the paper's scheme.
    return f"plan {name}" if find_model(name) else ""


def _lacks_package(words: Sequence[str], error: ImportError) -> UserError | None:
    """Return an error that names the package a command lacks and the environment with it; None for other errors.

    Args:
        words: the command and its arguments.
        error: what was raised when the command was imported or run.
    """
    # The library that imports a command's module raises its own ImportError, whose cause is the error of the module.
    missing = error.__cause__ or error
    # The name is that of a module, such as torch.nn; some errors have none.
    package = (getattr(missing, "name", None) or "").partition(".")[0]
    is_missing = isinstance(missing, ModuleNotFoundError) and package

    # A package that is installed, but lacks a part of itself, lacks it in every environment.
    if not is_missing or find_spec(package):
        return None

    # Some commands have one word, others two.
    command = COMMANDS.get(words[0]) or COMMANDS.get(" ".join(words[:2]))
    environment, extra = "full", "'.[full]'"
    if command is None or command.function.startswith(_SMALL):
        environment, extra = "analysis", "."
    return UserError(
        f"this command needs {package}, which is not installed in {sys.prefix}; in the repository run `make "
        f"{environment}-env` and `source .venv/{environment}/bin/activate`, elsewhere `pip install {extra}` "
        "(docs/install.md)"
    )


def console() -> None:
    """Run the installed program `clm-or-mlm`."""
    run(lambda argv: main(argv, "clm-or-mlm"))


if __name__ == "__main__":
    run(main)
