"""The commands of `python -m analysis`."""

from clm_or_mlm.rooms import Room

__all__ = ["ROOM"]

_COMMANDS = {
    "ingest": "read a run store into a runs table",
    "fetch-released": "bring the authors' result files into the cache",
    "scores": "mean and interval of every model and dataset",
    "table": "one of the paper's Tables 1 to 17, or all",
    "audit": "every published cell against its runs, and the paper's own arithmetic",
    "provenance": "whether a table's runs were made with the same things",
    "claims": "which findings of the paper survive a test",
    "coverage": "true coverage of each nominal 95 % interval, by simulation",
    "power": "how many seeds a difference needs, by dataset",
    "report": "one self-contained page of everything",
    "reproduce": "all that a source allows: scores, tables, audit, claims, figures",
}


def _path(command: str) -> str:
    module = command.replace("-", "_")
    return f"{__name__}.{module}:{module}"


ROOM = Room(
    name="analysis",
    description="From runs, or from the paper's printed cells, to tables, claims, the audit and the report.",
    commands={command: (_path(command), line) for command, line in _COMMANDS.items()},
    examples="""\
examples:
  python -m analysis table 10
  python -m analysis claims --id F8 --explain
  python -m analysis audit --source released
  python -m analysis reproduce --source results/ --out build""",
)
