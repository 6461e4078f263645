"""What runs are made from, and the comparison that comes before any of them is reused.

A run carries the hashes of the model's weights and tokenizer and of its data, its settings, and the versions of the
protocol and of the code that decides scores. Paths, names, machines and commits are no part of it: they change without
changing a score.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.datasets.local_dataset import read_manifest
from benchmarks.finetuning.device import PRECISIONS, choose_kind
from benchmarks.finetuning.heads import HEADS, POOLINGS
from benchmarks.finetuning.model_files import resolve, tokenizer_hash, weights_hash
from benchmarks.protocol import DATASETS, PROTOCOL_VERSION
from benchmarks.runs import RESULTS_VERSION, RunKey, found_keys, record_of
from benchmarks.sweep.request import Request
from benchmarks.sweep.run_state import folder_of, is_done
from common.description import difference
from common.errors import UserError
from common.plain_text import redacted, visible

__all__ = ["check_finished", "identities"]

log = logging.getLogger(__name__)

_OF_MODEL = ("weights", "tokenizer")
"""What all runs of a model share, whatever the dataset."""


def identities(request: Request) -> dict[str, dict[str, Any]]:
    """Return, for each dataset of a request, the description of what its runs are made from, as `run.json` has it.

    Raises:
        UserError: the model or a dataset is not there, or a name is unknown; where the store has runs of the model,
            the sentence says what those were made from.
    """
    try:
        folder = resolve(request.model, revision=request.revision, code=request.trust_remote_code)
    except UserError as error:
        before = next(_finished(request.store, request.name), None)
        if before is None:
            raise
        raise UserError(f"{error}; {_was_made_from(request.store, before)}") from None
    kind = choose_kind(request.device)
    shared = {
        "tuning": dataclasses.asdict(request.fine_tuning),
        "pooling": POOLINGS[request.pooling].name,
        "head": HEADS[request.head].name,
        "precision": PRECISIONS[kind.precision if request.precision == "auto" else request.precision].name,
        "weights": weights_hash(folder, code=request.trust_remote_code),
        "tokenizer": tokenizer_hash(folder),
        "protocol_version": PROTOCOL_VERSION,
        "results_version": RESULTS_VERSION,
    }
    contents = {name: read_manifest(request.data, name).content for name in request.sources}
    return {
        name: {
            **shared,
            "epochs": DATASETS[DATASETS[name].trained_on].epochs,
            "prompt": DATASETS[name].prompt,
            "metric": DATASETS[name].headline,
            "training_data": contents[DATASETS[name].trained_on],
            "evaluation_data": contents[name],
        }
        for name in request.datasets
    }


def check_finished(request: Request, wanted: Mapping[str, Mapping[str, Any]]) -> None:
    """Compare every finished run of a request's cells with what is asked for, also when nothing is left to do.

    Args:
        request: what is asked for.
        wanted: `identities(request)`.

    Raises:
        UserError: a run was made from something else, or does not say what from and `request.adopt` is off.
    """
    unsaid: list[RunKey] = []
    anywhere = next(iter(wanted.values()))
    for key in _finished(request.store, request.name):
        before, now = record_of(folder_of(request.store, key)).get("description"), wanted.get(key.dataset)
        if before is None:
            unsaid += [key] if now else []
            continue
        if now is None:
            before, now = ({name: of[name] for name in _OF_MODEL} for of in (before, anywhere))
        if (found := difference(before, now)) is not None:
            _refuse(request, key, *found)
    if not unsaid:
        return
    first = request.store / "results" / unsaid[0].folder
    if not request.adopt:
        raise UserError(
            f"{first} and {len(unsaid) - 1} more finished runs do not say what they were made from, so that nobody "
            f"knows whether {request.model} would give the same: use another --name or --out, or count them as done "
            "with --adopt"
        )
    log.warning(
        "%s and %d more finished runs do not say what they were made from; they are counted as done (--adopt)",
        first, len(unsaid) - 1,
    )  # fmt: skip


def _finished(store: Path, model: str) -> Iterator[RunKey]:
    """Yield the finished runs of a model, by dataset and folder."""
    for name in DATASETS:
        yield from (key for key in found_keys(store, model, name) if is_done(store, key))


def _refuse(request: Request, key: RunKey, name: str, old: Any, new: Any) -> None:
    folder = request.store / "results" / key.folder
    if name in _OF_MODEL:
        raise UserError(
            f"{_was_made_from(request.store, key)} with the {name} {_short(old)}, this command has "
            f"{redacted(request.model)} with {_short(new)}; runs of one model must not differ: use another --name or "
            "--out"
        )
    raise UserError(
        f"{folder} was made with {name} {_short(old)}, this command has {_short(new)}; runs of one cell must not "
        "differ: use another --name or --out"
    )


def _was_made_from(store: Path, key: RunKey) -> str:
    folder = folder_of(store, key)
    source = record_of(folder).get("model_source")
    return f"{folder} was made from {visible(str(source))[:300] if source else 'a model'}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return f"{text[1:13]}..." if isinstance(value, str) and len(value) == 64 else text
