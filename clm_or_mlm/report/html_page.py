"""The report's content as one HTML page: no script is needed to read it, none is fetched to use it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence

import jinja2

from analysis.claims.answer import QUESTION
from analysis.claims.assessment import SPLIT
from analysis.claims.pages.explain import comparison_lines, mean_words
from analysis.claims.titles import ANSWER
from analysis.claims.verdicts import FAILS, HOLDS, IN_PART, OPEN
from analysis.claims.wording import format_effect, p_texts, sentence
from analysis.evidence.contrasts import Result
from analysis.evidence.intervals import INTERVALS
from analysis.evidence.settings import Settings
from analysis.palette import OBJECTIVE, SIGN, VERDICT
from analysis.published_cells import N_SEEDS
from analysis.tables.audit import STATUSES
from analysis.tables.paper_arithmetic import Reference
from analysis.tables.render import recomputed_text
from clm_or_mlm.report.content import PageContent
from clm_or_mlm.report.small_forest import SmallForest
from common.provenance import OF_A_CALL
from common.tables import signed

_DOCUMENTS = {
    "scores": "Scores",
    "audit": "Audit",
    "claims": "Findings",
    "reproduce": "What was made",
    "provenance": "Hashes, and the code behind them",
}
"""What the page calls files that belong to no table or figure."""


def render_page(
    content: PageContent,
    provenance: dict[str, object],
    *,
    files: Sequence[str] = (),
    missing: Sequence[tuple[str, str]] = (),
    not_applicable: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the page; equal content, provenance and files give equal text.

    Args:
        content: everything on the page.
        provenance: what the page's last section says of the code and the versions.
        files: paths from the page's folder to the files beside it, to which it links.
        missing: what is not among these files though the source should have it, each with the reason.
        not_applicable: what is not among these files since it needs another kind of source, each with the reason.
    """
    runs = content.source.runs
    # Only `make reproduce` writes files beside the page; `make report` writes the page alone.
    goal = "reproduce" if files else "report"
    template = _environment().get_template("page.html")
    page = template.render(
        content=content,
        question=QUESTION,
        answer_id=ANSWER,
        # The percentage of CLM in the picture of CLM first, then MLM.
        share=SPLIT,
        # The comparisons at the top have a linear axis. Those of the findings have a bent one (the filter
        # `forest`).
        strip=SmallForest.of(content.strip, bent=False),
        colours={"objective": OBJECTIVE, "sign": SIGN, "verdict": VERDICT},
        statuses=STATUSES,
        references=Reference,
        summary=content.audit.summary(),
        # Of each kind of interval, its words and its coverage with as many seeds as the published cells have.
        coverage=[interval.caption(N_SEEDS) for interval in INTERVALS.values()],
        has_runs=runs is not None and len(runs) > 0,
        selection_words=content.settings.rule.words,
        provenance=_provenance(provenance),
        command=" ".join(["make", goal, *_make_words(content)]),
        files=_files_by_stem(files),
        missing=missing,
        not_applicable=not_applicable,
    )

    # No-break spaces keep a percentage and an interval on one line: those of `95 %`, of `1.6 [` and of `[1.3, 1.9]`.
    page = re.sub(r"(?<=\d) (?=%|\[[+\-\u2212]?\d)", "\u00a0", page)
    return re.sub(
        r"(\[[+\-\u2212]?[\d.]+), (?=[+\-\u2212]?[\d.]+\])", "\\1,\u00a0", page
    )


def _environment() -> jinja2.Environment:
    """Return jinja's environment for the page's template, with the filters that the template uses."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("clm_or_mlm.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        # With jinja's default, a name that the template misspells would leave an empty place on the page.
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "effect": _effect,
        "p_texts": p_texts,
        "recomputed": recomputed_text,
        "sentence": sentence,
        "tone": _tone,
        "signed": signed,
        "title_of_file": _title_of_file,
        "forest": SmallForest.of,
        "comparison_lines": comparison_lines,
        "mean_words": mean_words,
    }
    return environment


def _files_by_stem(files: Sequence[str]) -> dict[str, list[str]]:
    """Return the files of each table, figure or document, by their path without its ending.

    Under `tables/table10` are `tables/table10.csv` and `tables/table10.md`.
    """
    by_stem: dict[str, list[str]] = {}
    for path in files:
        folder, slash, name = path.rpartition("/")
        stem, _, _ = name.partition(".")
        by_stem.setdefault(f"{folder}{slash}{stem}", []).append(path)
    return by_stem


def _title_of_file(stem: str) -> str:
    """Return what the page calls a table, a figure or a document.

    Args:
        stem: its path without the ending: `tables/table02`, `figures/figure3`, or a key of `_DOCUMENTS`.
    """
    folder, _, name = stem.rpartition("/")
    if folder == "tables":
        return f"Table {int(name.removeprefix('table'))}"
    if folder:
        return name.replace("figure", "Figure ")
    return _DOCUMENTS[stem]


def _make_words(content: PageContent) -> list[str]:
    """Return the variables with which `make` gives this page again; those with usual values are left out."""
    # The first word is --source, the second its value.
    _, source, *options = content.source.options
    # Sources differ in their usual interval: only an interval that is not the usual one needs an option.
    usual = content.source.with_interval(Settings())
    options += content.settings.options(usual)
    words = []
    if not content.source.is_published:
        words.append(f"SOURCE={shlex.quote(source)}")
    if options:
        words.append(f"ARGS={shlex.quote(shlex.join(options))}")
    return words


def _tone(outcome: str) -> str:
    """Return the CSS class of what is coloured by an outcome."""
    return {
        HOLDS.name: "holds",
        FAILS.name: "fails",
        IN_PART.name: "part",
        OPEN.name: "open",
    }[outcome]


def _effect(result: Result) -> str:
    """Return an effect as the page has it, with true minus signs."""
    return format_effect(result).replace("-", "\u2212")


def _provenance(record: dict[str, object]) -> list[tuple[str, str]]:
    """Return a provenance as pairs of a name and a text, without the fields that differ from call to call."""
    pairs = []
    for name, value in record.items():
        # With these fields, the same content would not give the same bytes.
        if name in OF_A_CALL:
            continue
        if isinstance(value, dict):
            text = ", ".join(f"{key} {item}" for key, item in value.items())
        elif isinstance(value, str):
            text = value
        else:
            text = json.dumps(value, ensure_ascii=False)

        pairs.append((name.replace("_", " "), text))

    return pairs
