"""`python -m analysis`: from a run store to tables, claims and the audit; each command lives in its own module."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from common.cli import run
from common.errors import UserError, nearest
from common.old_parser import Parser

COMMANDS = {
    "ingest": ("clm_or_mlm.commands.analysis.ingest", "read a run store into a runs table"),
    "fetch-released": (
        "clm_or_mlm.commands.analysis.fetch_released",
        "bring the authors' result files into the cache",
    ),
    "scores": ("clm_or_mlm.commands.analysis.scores", "mean and interval of every model and dataset"),
    "table": ("clm_or_mlm.commands.analysis.table", "one of the paper's Tables 1 to 17, or all"),
    "audit": (
        "analysis.tables.audit_report",
        "every published cell against its runs, and the paper's own arithmetic",
    ),
    "provenance": (
        "clm_or_mlm.commands.analysis.provenance",
        "whether a table's runs were made with the same things",
    ),
    "claims": ("clm_or_mlm.commands.analysis.claims", "which findings of the paper survive a test"),
    "coverage": (
        "clm_or_mlm.commands.analysis.coverage",
        "true coverage of each nominal 95 % interval, by simulation",
    ),
    "power": ("analysis.precision.power", "how many seeds a difference needs, by dataset"),
    "report": ("clm_or_mlm.commands.analysis.report", "one self-contained page of everything"),
    "reproduce": (
        "clm_or_mlm.commands.analysis.reproduce",
        "all that a source allows: scores, tables, audit, claims, figures",
    ),
}
"""Each command: its module and a line of help. The module offers `add_parser(subparsers)`, which adds the
command and sets the default `function`, args -> exit status; only the wanted command's module is imported."""


_DESCRIPTION = "From runs, or from the paper's printed cells, to tables, claims, the audit and the report."
_EPILOG = """\
each command has --help; examples:
  python -m analysis table 10
  python -m analysis claims --id F8 --explain
  python -m analysis audit --source released
  python -m analysis reproduce --source results/ --out build
"""


def main(argv: Sequence[str]) -> int | None:
    if argv and argv[0] in ("report", "reproduce"):
        from clm_or_mlm.rooms import main_of

        return main_of("analysis")(argv)
    parser = Parser(prog="python -m analysis", description=_DESCRIPTION, epilog=_EPILOG)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    wanted = argv[0] if argv else ""
    if wanted and not wanted.startswith("-") and wanted not in COMMANDS:
        raise UserError(
            f"unknown command {wanted!r}{nearest(wanted, COMMANDS)}; the commands are {', '.join(COMMANDS)}"
        )
    for name, (module, line) in COMMANDS.items():
        if name == wanted:
            importlib.import_module(module).add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=line.replace("%", "%%"))
    args = parser.parse_args(argv)
    return args.function(args)  # type: ignore[no-any-return]


if __name__ == "__main__":
    run(main, sys.argv[1:])
