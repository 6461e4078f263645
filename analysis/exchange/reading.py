"""Files of other makers as runs tables: which format a file has is seen from its content."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from analysis.exchange import lm_eval, model_index, mteb
from analysis.exchange.results import Result, runs_table
from common.errors import UserError
from common.reading import read_bounded, read_json

__all__ = ["is_exchanged", "read"]

_SUFFIXES = (".json", ".md", ".yaml", ".yml")
_PATTERNS = (
    "README.md", "*/README.md", "*/.eval_results/*.y*ml", "results_*.json", "*/results_*.json", mteb.META,
    "*/" + mteb.META, "*/*/" + mteb.META,
)  # fmt: skip
"""Where the files of a folder are; of MTEB's those next to the model's."""
_OF_JSON = (("mteb", mteb.read), ("lm-eval", lm_eval.read))
_OF_CARDS = (("huggingface", model_index.read),)
"""Readers, which return None for what is of another format."""
_REMEDY = "fetch or export it again"


def is_exchanged(path: Path) -> bool:
    """Return whether a path is a file of an exchange format, by its ending, or a folder that holds some."""
    return path.suffix.lower() in _SUFFIXES if path.is_file() else next(_files(path), None) is not None


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted({path for pattern in _PATTERNS for path in folder.glob(pattern)}):
        if path.name == mteb.META:
            yield from (file for file in sorted(path.parent.glob("*.json")) if file != path)
        elif path.name == "README.md":
            if (text := read_bounded(path)).startswith(b"---") and b"model-index" in text:
                yield path
        elif path.parent.name != ".eval_results" or not path.parent.with_name("README.md").exists():
            yield path  # a card next to them has the same scores, and all runs


def read(path: Path) -> pa.Table:
    """Return the scores in a file, or in all files of a folder, as an unchecked runs table.

    Raises:
        UserError: none is there that is known, or a file is damaged.
    """
    results: list[Result] = []
    for file in [path] if path.is_file() else _files(path):
        is_json = file.suffix.lower() == ".json"
        content = read_json(file, _REMEDY) if is_json else read_bounded(file)
        for name, reader in _OF_JSON if is_json else _OF_CARDS:
            try:
                found = reader(file, content)
            except (LookupError, TypeError, AttributeError, OverflowError) as error:
                raise UserError(
                    f"{file} cannot be read as {name} results ({error!r:.60}); {_REMEDY}"
                ) from None
            results += [replace(one, origin=name) for one in found or ()]
    if not results:
        raise UserError(
            f"{path} has no score on a known dataset in a supported format (a model card with a model-index, or "
            "results of lm-evaluation-harness or MTEB)"
        )
    return runs_table(results, path)
