"""What an earlier ingest read, so that only cells whose files changed are read again.

The state is in a file next to the runs table (`runs.parquet.ingest.json`), under a seal: one that was edited, cut or
damaged is not believed. Deleting it costs one full ingest, nothing else.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from analysis.store.cell import CellResult, Run
from analysis.store.instances import cell_path
from analysis.store.problems import Problem
from analysis.store.scan import Cell, RunFiles, Stamp
from benchmarks.protocol import PAPER
from common.files import sha256_bytes, write_bytes
from common.reading import read_bounded

__all__ = ["State", "state_path"]

logger = logging.getLogger(__name__)

_MOST = 1 << 30
"""Bytes of the largest state that is read; that of the whole release has 6 MB."""
_FORMAT = 5
"""Raised whenever the reading of files changes, so that older states are not believed."""


def state_path(out: Path) -> Path:
    """Return the path of the state of the runs table `out`."""
    return out.with_name(f"{out.name}.ingest.json")


class State:
    """Results of cells by name, for one store, one protocol and one instances folder."""

    def __init__(self, path: Path, results: Path, instances: Path | None, protocol: str = PAPER) -> None:
        """Load the state in `path`, if it is one of this store."""
        self.path = path
        self.instances = instances
        self._head = {
            "format": _FORMAT,
            "results": str(results.resolve()),
            "protocol": protocol,
            "instances": str(instances.resolve()) if instances else None,
        }
        self._cells: dict[str, CellResult] = {}
        self._changed = False
        try:
            seal, _, rest = read_bounded(path, _MOST).partition(b"\n")
            if seal != sha256_bytes(rest).encode():
                raise ValueError("its seal does not fit")
            content = orjson.loads(rest)
            head = content["head"]
            if head | {"instances": None} != self._head | {"instances": None}:
                return
            if instances is None:  # keep what is known about the folder of an earlier ingest
                self._head["instances"] = head["instances"]
            results_of_cells = [_result(entry) for entry in content["cells"]]
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError, AttributeError):
            logger.info("%s: cut off, changed or of another version; the store is read afresh", path)
            return
        if head["instances"] != self._head["instances"]:
            results_of_cells = [replace(result, instances=None) for result in results_of_cells]
        self._cells = {result.name: result for result in results_of_cells}

    def known(self, cell: Cell) -> CellResult | None:
        """Return the cell's result if its files, and the instances that were made of them, have not changed."""
        result = self._cells.get(cell.name)
        if result is None or not result.settled or result.files != cell.runs:
            return None
        if self.instances is not None and result.runs:
            try:
                stat = cell_path(self.instances, cell.model, cell.dataset).stat()
            except OSError:
                return None
            if result.instances is None or not result.instances.is_of(stat):
                return None
        return result

    def add(self, result: CellResult) -> None:
        """Remember a cell that was read."""
        self._cells[result.name] = result
        self._changed = True

    def save(self, names: set[str] | None = None) -> None:
        """Write the state, if it changed; `names` are the cells that still exist."""
        if names is not None and not names >= self._cells.keys():
            self._cells = {name: result for name, result in self._cells.items() if name in names}
            self._changed = True
        if self._changed:
            cells = [self._cells[name] for name in sorted(self._cells)]
            content = orjson.dumps({"head": self._head, "cells": cells})
            write_bytes(self.path, sha256_bytes(content).encode() + b"\n" + content)
            self._changed = False


def _result(entry: dict[str, Any]) -> CellResult:
    return CellResult(
        name=entry["name"],
        files=tuple(
            RunFiles(**files | {"results": Stamp(**files["results"])} | {"record": _stamp(files["record"])})
            for files in entry["files"]
        ),
        settled=entry["settled"],
        runs=tuple(Run(**run) for run in entry["runs"]),
        problems=tuple(Problem(**problem) for problem in entry["problems"]),
        instances=_stamp(entry["instances"]),
    )


def _stamp(entry: dict[str, int] | None) -> Stamp | None:
    return None if entry is None else Stamp(**entry)
