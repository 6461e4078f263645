"""A model's score on a dataset: what every format holds, and what it becomes as rows of a runs table."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.protocol import DATASETS, Dataset
from common.errors import UserError, first_line
from common.settings import read_settings

__all__ = [
    "EXTENSION", "NOMINAL_RATE", "RUN", "Extension", "Result", "RunTuple", "dataset_named", "number", "read_extension",
    "runs_table",
]  # fmt: skip

logger = logging.getLogger(__name__)

EXTENSION = "clm_or_mlm"
"""The field that holds what a format has no words for."""
NOMINAL_RATE = 0.5
"""The learning rate of an imported score, of which none is known: in a runs table each run has one."""

RUN = ("lr", "seed", "validation_score", "test_score", "n_validation", "n_test")
"""Columns of a runs table that the extension holds of a run; a count of 0 is not known, since cards drop nulls."""
RunTuple = tuple[float, int, float, float, int, int]


@dataclass(frozen=True, kw_only=True)
class Extension:
    """What a format has no words for."""

    protocol: str
    task: str
    interval: dict[str, Any] = field(default_factory=dict)
    """`kind`, `low`, `high` in [0, 1] and `seeds`; empty where there is none."""
    runs: tuple[RunTuple, ...] = ()
    """All runs behind the score; none behind a printed cell."""
    definition: dict[str, Any] = field(default_factory=dict)
    """The dataset, if it is one of the user's own (`definitions_record`)."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """A model's score on a dataset."""

    model: str
    dataset: str
    """Our name."""
    score: float
    """Mean over seeds at the chosen learning rates, in [0, 1]."""
    known: Dataset | None = None
    """The dataset, of a score to write."""
    extension: Extension | None = None
    """None in files of other makers."""
    origin: str = ""
    """Of a score that was read, the format."""
    instances: int | None = None
    """Test instances, where known."""

    @property
    def metric(self) -> str:
        """Name of the metric as Hugging Face and MTEB have it."""
        assert self.known is not None
        return {"entity_f1": "f1"}.get(self.known.headline, self.known.headline)

    @property
    def record(self) -> dict[str, Any]:
        """The extension as JSON."""
        return {name: value for name, value in vars(self.extension).items() if value}


_OTHER_NAMES = {
    "mnli": "mnli_m",
    "squadv2": "squad_v2",
    "conll2003": "conll2003_en",
    "naturalquestions": "nq",
}
"""Names in other collections, without signs, that differ from ours and from our titles."""


def dataset_named(*names: object, own: Mapping[str, Any] | None = None) -> str | None:
    """Return our name of the dataset that a file calls by one of these, ignoring case and signs; None: unknown."""
    known = {_plain(word): one.name for one in DATASETS.values() for word in (one.title, one.name)}
    known = _OTHER_NAMES | known | {_plain(name): name for name in own or ()}
    return next((known[_plain(name)] for name in names if _plain(name) in known), None)


def number(value: object, where: str) -> float:
    """Return a score of a file, or raise a `UserError` for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"{where} is {value!r:.40}, not a number")
    return float(value)


def read_extension(content: object, where: str) -> Extension | None:
    """Return an extension that this package wrote; None where there is none. `UserError`: it is damaged."""
    if content is None:
        return None
    if not isinstance(content, dict):
        raise UserError(f"{where}: {EXTENSION} must be a table of names and values; export it again")
    return read_settings(Extension, {"interval": {}, "definition": {}} | content, f"{where}: {EXTENSION}")


def runs_table(found: Sequence[Result], path: Path) -> pa.Table:
    """Return the results of a file as an unchecked runs table, with its record for `analysis.store.runs_table`.

    A result with an extension becomes all its runs. Any other becomes one run of seed 0 at `NOMINAL_RATE`, with the
    score for both splits, and its model is called NAME@FORMAT.

    Raises:
        UserError: scores of two protocols, or a score outside [0, 1].
    """
    rows: list[dict[str, Any]] = []
    definitions: dict[str, Any] = {}
    protocols = {one.extension.protocol for one in found if one.extension}
    if len(protocols) > 1:
        raise UserError(f"{path} has scores from both protocols; keep one protocol per folder")
    foreign = []
    for one in found:
        extension, model = one.extension, one.model
        runs: Iterable[RunTuple] = extension.runs if extension else ()
        if extension:
            definitions |= extension.definition
        if not runs:
            if not 0 <= one.score <= 1:
                raise UserError(
                    f"{path}: the score of {model} on {one.dataset} is {one.score:g}, outside [0, 1]"
                )
            model = f"{model.replace('/', '__')}@{one.origin}"
            foreign.append(model)
            runs = [(NOMINAL_RATE, 0, one.score, one.score, 0, one.instances or 0)]
        task = extension.task if extension else DATASETS[one.dataset].task
        rows += [
            {"model": model, "task": task, "dataset": one.dataset} | dict(zip(RUN, run, strict=True))
            for run in runs
        ]
    if names := list(dict.fromkeys(foreign)):
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        logger.warning(
            "%s: scores have no learning rate or seed (%s); each counts as one run with seed 0 and a nominal "
            "learning rate of %g, so there is no interval over seeds", path, shown, NOMINAL_RATE,
        )  # fmt: skip
    record = {
        "added_models": sorted({row["model"] for row in rows}), "datasets": definitions,
        "protocol": next(iter(protocols), None),
    }  # fmt: skip
    columns = ("model", "task", "dataset", *RUN)
    cells = {
        name: [row[name] or None if name.startswith("n_") else row[name] for row in rows] for name in columns
    }
    try:
        table = pa.table(cells)
    except (pa.ArrowException, OverflowError) as error:
        raise UserError(f"{path} cannot be converted to a runs table ({first_line(error)})") from None
    return table.replace_schema_metadata({EXTENSION: json.dumps(record)})


def _plain(name: object) -> str:
    return "".join(letter for letter in str(name).lower() if letter.isalnum())
