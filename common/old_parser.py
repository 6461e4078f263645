"""The argparse shell of commands that are not yet functions with types."""

from __future__ import annotations

import argparse
import re
from typing import NoReturn

from common.errors import nearest

__all__ = ["Parser"]


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
