"""`python -m analysis reproduce`: all that a source allows, ending with what was made and what could not be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from analysis.claims.assessment import assess, default_interval
from analysis.claims.formats import render_claims
from analysis.sources import Source
from analysis.statistics.scores import Settings
from analysis.tables.audit import audit
from analysis.tables.audit_report import FORMATS as AUDIT_FORMATS
from analysis.tables.build import build_table, table_numbers
from analysis.tables.render import FORMATS
from analysis.tables.score_list import scores_csv
from clm_or_mlm.options import Selection, SourceOptions
from common.errors import UserError
from common.files import write_text
from common.progress import progress
from common.provenance import ROOT, provenance

__all__ = ["Outcome", "make_all", "reproduce"]

FIGURES_BESIDE = ("claims", "multiverse", "coverage")
"""What is drawn beside the paper's own figures."""
NOT_DRAWN = "not drawn: "
"""How `paper_figures` begins the sentence about a figure that the source does not allow."""
INTERRUPTED = 130
"""Exit status after Ctrl-C (`common.cli.run`)."""

PACKAGES = ("numpy", "scipy", "pandas", "pyarrow", "statsmodels", "matplotlib")


@dataclass(kw_only=True)
class Outcome:
    """What a reproduction made, and what it could not make."""

    made: list[str] = field(default_factory=list)
    """Paths below the output folder."""
    missing: list[tuple[str, str]] = field(default_factory=list)
    """What could not be made, and why."""

    def text(self, out: Path) -> str:
        """Return the closing list."""
        lines = [f"made, under {out}:", *(f"  {path}" for path in self.made)]
        if self.missing:
            lines += ["could not be made:", *(f"  {what}: {why}" for what, why in self.missing)]
        return "\n".join(lines) + "\n"


def make_all(source: Source, out: Path, *, selection: str = "seed", arguments: Sequence[str] = ()) -> Outcome:
    """Write scores, tables, audit, claims and figures of a source under `out`.

    Args:
        source: where the scores come from.
        out: folder for everything.
        selection: learning-rate rule.
        arguments: command-line arguments that make `paper_figures` use the same source.
    """
    outcome = Outcome()
    steps: list[tuple[str, Callable[[], list[Path]]]] = [
        ("scores", lambda: _scores(source, out, selection)),
        ("tables", lambda: _tables(source, out, selection)),
        ("audit", lambda: _audit(source, out, selection)),
        ("claims", lambda: _claims(source, out, selection)),
    ]
    for what, step in progress(steps, "reproduce", unit="step"):
        try:
            outcome.made += [path.relative_to(out).as_posix() for path in step()]
        except UserError as error:
            outcome.missing.append((what, str(error)))
    _figures(out, arguments, outcome)
    record = {"source": source.label, "made": outcome.made, "missing": outcome.missing}
    write_text(out / "reproduce.json", json.dumps(record | provenance("analysis", PACKAGES), indent=1) + "\n")
    outcome.made.append("reproduce.json")
    return outcome


def _scores(source: Source, out: Path, selection: str) -> list[Path]:
    path = out / "scores.csv"
    write_text(path, scores_csv(source.scores(Settings(selection=selection))))
    return [path]


def _tables(source: Source, out: Path, selection: str) -> list[Path]:
    settings = Settings(selection=selection, interval="bootstrap")
    scores = None if source.is_published else source.scores(settings)
    paths = []
    for number in table_numbers():
        table = build_table(number, scores, source=source)
        for form in FORMATS.values():
            paths.append(out / "tables" / f"table{number:02d}.{form.ending}")
            write_text(paths[-1], form.show(table))
    return paths


def _audit(source: Source, out: Path, selection: str) -> list[Path]:
    found = audit(source, selection=selection)
    paths = []
    for form in AUDIT_FORMATS.values():
        paths.append(out / f"audit.{form.ending}")
        write_text(paths[-1], form.show(found))
    return paths


def _claims(source: Source, out: Path, selection: str) -> list[Path]:
    found = assess(source, Settings(selection=selection, interval=default_interval(source)))
    paths = []
    for form, ending in (("markdown", "md"), ("json", "json"), ("csv", "csv")):
        paths.append(out / f"claims.{ending}")
        write_text(paths[-1], render_claims(found, found.verdicts, form))
    return paths


def _figures(out: Path, arguments: Sequence[str], outcome: Outcome) -> None:
    """Draw every figure in a process of its own: the figures import the analysis, never the other way round."""
    folder = out.resolve()
    command = [sys.executable, "-m", "paper_figures", "all", *FIGURES_BESIDE, *arguments,
               "--out", str(folder / "figures")]  # fmt: skip
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    answer = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, encoding="utf-8", check=False
    )
    if answer.returncode == -signal.SIGINT or answer.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    for line in answer.stdout.splitlines():
        if line.startswith(NOT_DRAWN):
            outcome.missing.append(("a figure", line.removeprefix(NOT_DRAWN)))
        else:
            outcome.made.append(Path(line).relative_to(folder).as_posix())
    if not answer.stdout:
        outcome.missing.append(("the figures", "drawing stopped with the error above"))


def reproduce(
    *,
    source: SourceOptions = SourceOptions(),
    selection: Selection = "seed",
    logs: Annotated[Path | None, Parameter(metavar="DIR")] = None,
    out: Path = Path("build"),
) -> int:
    """Make every table and figure that the source allows, and the audit.

    It ends with a list of what was made and what could not be, with reasons.

    Args:
        selection: learning-rate rule
        logs: training logs, for Figure 12
        out: folder
    """
    opened = source.open(need_instances=True)
    arguments = [*opened.options, "--selection", selection]
    if source.instances:
        arguments += ["--instances", str(source.instances)]
    for name in source.add_model:
        arguments += ["--add-model", name]
    if logs:
        arguments += ["--logs", str(logs)]
    outcome = make_all(opened, out, selection=selection, arguments=arguments)
    sys.stdout.write(outcome.text(out))
    return 0
