"""The formats of verdicts, each one object: how it prints verdicts, their reasoning, and the multiverse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from analysis.claims.assessment import Assessment
from analysis.claims.multiverse import Multiverse
from analysis.claims.pages.by_dataset import datasets_csv, datasets_json, datasets_text
from analysis.claims.pages.explain import explanations, findings_page, verdicts_text
from analysis.claims.pages.multiverse import multiverse_csv, multiverse_json, multiverse_text
from analysis.claims.pages.records import contrasts_csv, verdicts_csv, verdicts_json
from analysis.claims.verdicts import Verdict
from common.registry import Registry
from common.text_tables import markdown_table

__all__ = ["FORMATS", "VerdictFormat"]

Printer = Callable[[Assessment, Sequence[Verdict]], str]


@dataclass(frozen=True)
class VerdictFormat:
    """A format; each text ends in a line break."""

    name: str
    ending: str
    """The ending of its files, without a dot."""
    verdicts: Printer
    """Prints verdicts."""
    explained: Printer
    """Prints verdicts with the reasoning behind them."""
    datasets: Printer
    """Prints a forest of every claim's contrasts by dataset."""
    multiverse: Callable[[Multiverse, Sequence[str]], str]
    """Prints the verdicts of all analyses on the claims wanted."""


FORMATS: Registry[VerdictFormat] = Registry(
    "format",
    (
        VerdictFormat("text", "txt", verdicts_text, explanations, datasets_text, multiverse_text),
        VerdictFormat(
            "markdown",
            "md",
            findings_page,
            findings_page,
            partial(datasets_text, table=markdown_table),
            partial(multiverse_text, table=markdown_table),
        ),
        VerdictFormat("json", "json", verdicts_json, verdicts_json, datasets_json, multiverse_json),
        VerdictFormat("csv", "csv", verdicts_csv, contrasts_csv, datasets_csv, multiverse_csv),
    ),
)
"""How verdicts are printed."""
