"""The shell of every `python -m <room>`: logging, one-sentence errors, progress with an ETA."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NoReturn, TypeVar

from common.errors import UserError, nearest

__all__ = ["Parser", "progress", "run"]

T = TypeVar("T")


class Parser(argparse.ArgumentParser):
    """An argument parser that takes no abbreviations and answers an unknown option with the nearest one."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """Exit with 2 after one sentence that names the nearest option to an unknown one."""
        if message.startswith("unrecognized arguments: "):
            word = message.split(": ", 1)[1].split()[0].split("=")[0]
            message += nearest(word, self._options())
        elif choice := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            message += nearest(choice[1], re.findall(r"'(.*?)'", choice[2]))
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")

    def _options(self) -> set[str]:
        """Return the options of this parser and of its commands, which hand unknown ones up to it."""
        known = set(self._option_string_actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for parser in action.choices.values():
                    known |= set(parser._option_string_actions)
        return known


def run(main: Callable[[Sequence[str]], int | None], argv: Sequence[str] | None = None) -> NoReturn:
    """Call `main(argv)` and exit: its return value (None is 0), 2 after a `UserError`, 130 after Ctrl-C.

    A full disk and a missing permission are told in one sentence too. CLM_OR_MLM_TRACEBACK=1 in the
    environment shows the traceback of any of them.
    """
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s", stream=sys.stderr)
    try:
        code = main(sys.argv[1:] if argv is None else argv) or 0
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; what was finished is kept, the same command goes on from there\n")
        code = 130
    except (UserError, OSError) as error:
        if os.environ.get("CLM_OR_MLM_TRACEBACK") or not _is_users(error):
            raise
        sys.stderr.write(f"error: {_sentence(error)}\n")
        code = 2
    sys.exit(code)


def progress(items: Iterable[T], what: str, total: int | None = None, unit: str = "it") -> Iterator[T]:
    """Yield `items` under a progress bar with an ETA on stderr; silent when stderr is no terminal.

    The bar appears only for work that lasts longer than two seconds.
    """
    from tqdm import tqdm  # here, so that a command can answer Ctrl-C early

    yield from tqdm(items, desc=what, total=total, unit=unit, delay=2.0, disable=None, leave=False)


_USERS_ERRNO = {
    errno.ENOSPC,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EDQUOT,
}


def _is_users(error: BaseException) -> bool:
    return isinstance(error, UserError) or (isinstance(error, OSError) and error.errno in _USERS_ERRNO)


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        where = f"{error.filename}: " if error.filename else ""
        hint = "; free some space and run the same command again" if error.errno == errno.ENOSPC else ""
        return f"{where}{os.strerror(error.errno)}{hint}"
    return str(error)
