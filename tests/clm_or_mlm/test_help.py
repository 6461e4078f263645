"""Help is made of declarations: it needs nothing that a command computes with."""

from tests.commands import python

HEAVY = {"numpy", "pandas", "pyarrow", "scipy", "torch", "transformers"}

EVERY_HELP = f"""
import contextlib, io, sys
from clm_or_mlm.__main__ import COMMANDS, main
leaves = [*COMMANDS]
rooms = [words.partition(" ")[0] for words in leaves]
helps = [[*words.split(), "--help"] for words in dict.fromkeys([*rooms, *leaves])]
for words in [["--help"], ["--all"], ["help", "sources"], *helps]:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        assert main(words) == 0
    loaded = {HEAVY!r} & sys.modules.keys()
    print(" ".join(words), len(shown.getvalue().splitlines()), " ".join(sorted(loaded)), sep=chr(9))
"""


def test_no_help_loads_what_a_command_computes_with() -> None:
    # One process shows them all, so the first that loads something is the one to look at.
    rows = [
        line.split("\t")
        for line in python("-c", EVERY_HELP, code=0).stdout.splitlines()
    ]
    assert len(rows) > 35
    assert all(int(count) > 3 for _, count, _ in rows)
    assert [(words, loaded) for words, _, loaded in rows if loaded] == []
