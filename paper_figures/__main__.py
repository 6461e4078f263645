"""`python -m paper_figures`: hands over to `paper_figures.command`.

It is imported only when the shell is ready to answer Ctrl-C in one line, since it takes a second or more.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from common.cli import run


def main(argv: Sequence[str]) -> int | None:
    """Run the command line (`paper_figures.command.main`)."""
    from paper_figures.command import main as command

    return command(argv)


if __name__ == "__main__":
    run(main, sys.argv[1:])
