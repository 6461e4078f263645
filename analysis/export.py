"""A source's scores as files of a format: the registry of formats."""

from __future__ import annotations

import io
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.evidence.evidence import Settings
from analysis.exchange import croissant, lm_eval, model_index, mteb
from analysis.exchange.results import RUN, Extension, Result, RunTuple
from analysis.records import records
from analysis.sources import Source
from analysis.store.runs_table import COLUMNS
from benchmarks.own_datasets.definitions import definitions_record
from benchmarks.protocol import AVERAGE
from common.errors import UserError
from common.registry import Registry
from common.tables import csv_text

__all__ = ["FORMATS", "Format", "zipped"]


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format that scores are exported to."""

    name: str
    title: str
    """Name in prose."""
    write: Callable[[Source, Settings], dict[str, str]]
    """The files of a source by path; `UserError` where it has nothing for the format."""


def _results(source: Source, settings: Settings) -> Mapping[str, list[Result]]:
    """Return the scores of every model, with all runs behind them."""
    if source.stand_ins is not None:
        raise UserError(
            f"{source.label}: these runs of a small study stand in for the paper's models and would be exported under "
            "the names of those models; give --source a copy of the runs without stand_ins.json"
        )
    runs: dict[tuple[str, str], list[RunTuple]] = defaultdict(list)
    if source.runs is not None:
        counted = source.runs.fillna({"n_validation": 0, "n_test": 0})
        for model, dataset, *run in records(counted, "model", "dataset", *RUN):
            lr, seed, validation, test, n_validation, n_test = run
            runs[model, dataset].append((lr, seed, validation, test, n_validation, n_test))
    found = defaultdict(list)
    columns = ("model", "task", "dataset", "mean", "low", "high", "n_seeds", "interval")
    for model, task, dataset, mean, low, high, seeds, kind in records(source.scores(settings), *columns):
        if dataset == AVERAGE:
            continue
        known, of_cell = source.datasets[dataset], runs[model, dataset]
        interval: dict[str, Any] = {"kind": kind, "seeds": seeds}
        if not pd.isna(low):
            interval |= {"low": low / 100, "high": high / 100}
        extension = Extension(
            protocol=source.protocol, task=task, interval=interval, runs=tuple(of_cell),
            definition=definitions_record([known]),
        )  # fmt: skip
        found[model].append(Result(
            model=model, dataset=dataset, score=mean / 100, known=known, extension=extension,
            instances=of_cell[0][-1] if of_cell else None,
        ))  # fmt: skip
    return found


def _by_model(
    write: Callable[[str, Sequence[Result]], Iterator[tuple[str, str]]],
) -> Callable[[Source, Settings], dict[str, str]]:
    return lambda source, settings: {
        f"{model}/{name}": text
        for model, results in _results(source, settings).items()
        for name, text in write(model, results)
    }


def _croissant(source: Source, _: Settings) -> dict[str, str]:
    runs = source.need_runs("Croissant, which describes a table of runs,")
    table = csv_text(runs.loc[:, list(COLUMNS)])
    return {
        "runs.csv": table,
        "croissant.json": croissant.describe("runs.csv", table.encode(), source.protocol),
    }


FORMATS: Registry[Format] = Registry(
    "format",
    (
        Format(name="model-index", title="Hugging Face model cards", write=_by_model(model_index.write)),
        Format(name="lm-eval", title="lm-evaluation-harness", write=_by_model(lm_eval.write)),
        Format(name="mteb", title="MTEB", write=_by_model(mteb.write)),
        Format(name="croissant", title="Croissant", write=_croissant),
    ),
)
"""The formats that users can choose."""


def zipped(files: Mapping[str, str]) -> bytes:
    """Return files as one ZIP; equal files give equal bytes."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return sink.getvalue()
