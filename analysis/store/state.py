"""What an earlier ingest read, so that only cells whose files changed are read again.

The state lies beside the runs table (`runs.parquet.ingest.json`). Deleting it costs one full ingest, nothing else.
"""

from __future__ import annotations

from pathlib import Path

import orjson

from analysis.store.cell import CellResult, stamps
from analysis.store.instances import cell_path
from analysis.store.scan import Cell
from benchmarks.protocol import PAPER
from common.files import write_bytes

__all__ = ["State", "state_path"]

_FORMAT = 2
"""Raised whenever the reading of files changes, so that older states are not believed."""


def state_path(out: Path) -> Path:
    """Return where the state of the runs table `out` lies."""
    return out.with_name(f"{out.name}.ingest.json")


class State:
    """Results of cells by name, for one store, one protocol and one instances folder."""

    def __init__(self, path: Path, results: Path, instances: Path | None, protocol: str = PAPER) -> None:
        """Load the state in `path`, if it is one of this store."""
        self.path = path
        self.instances = instances
        self.protocol = protocol
        self._head = {
            "format": _FORMAT,
            "results": str(results.resolve()),
            "protocol": protocol,
            "instances": str(instances.resolve()) if instances else None,
        }
        self._cells: dict[str, CellResult] = {}
        self._changed = False
        try:
            found = orjson.loads(path.read_bytes())
            head = found["head"]
            if any(head.get(name) != self._head[name] for name in ("format", "results", "protocol")):
                return
            same_instances = head["instances"] == self._head["instances"]
            for entry in found["cells"]:
                result = _result(entry, with_instances=same_instances)
                self._cells[result.name] = result
            if instances is None:  # keep what is known about the folder of an earlier ingest
                self._head["instances"] = head["instances"]
                self._cells = {entry["name"]: _result(entry, with_instances=True) for entry in found["cells"]}
        except (OSError, ValueError, KeyError, TypeError):
            self._cells = {}  # absent, cut off or foreign: read everything

    def known(self, cell: Cell) -> CellResult | None:
        """Return the cell's result if its files, and the instances that were made of them, have not changed."""
        result = self._cells.get(cell.name)
        if result is None or not result.settled or result.stamps != stamps(cell, self.protocol):
            return None
        if self.instances is not None and result.rows:
            try:
                stat = cell_path(self.instances, cell.model, cell.dataset).stat()
            except OSError:
                return None
            if result.instances != (stat.st_size, stat.st_mtime_ns):
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
            write_bytes(self.path, orjson.dumps({"head": self._head, "cells": cells}))
            self._changed = False


def _result(entry: dict[str, object], *, with_instances: bool) -> CellResult:
    def tuples(value: object) -> tuple[tuple[object, ...], ...]:
        assert isinstance(value, list)
        return tuple(tuple(item) for item in value)

    instances = entry["instances"]
    return CellResult(
        name=str(entry["name"]),
        stamps=tuples(entry["stamps"]),  # type: ignore[arg-type]
        settled=bool(entry["settled"]),
        rows=tuples(entry["rows"]),  # type: ignore[arg-type]
        problems=tuples(entry["problems"]),  # type: ignore[arg-type]
        instances=tuple(instances) if with_instances and isinstance(instances, list) else None,
    )
