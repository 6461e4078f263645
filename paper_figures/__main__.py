"""`python -m paper_figures`: hands over to `clm_or_mlm.commands.paper_figures.draw`.

It is imported only when the shell is ready to answer Ctrl-C in one line, since it takes a second or more.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from common.cli import run


def main(argv: Sequence[str]) -> int | None:
    """Run the command line (`clm_or_mlm.commands.paper_figures.draw.main`)."""
    from clm_or_mlm.commands.paper_figures.draw import main as command

    return command(argv)


if __name__ == "__main__":
    run(main, sys.argv[1:])
