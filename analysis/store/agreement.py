"""Whether the runs of a store belong together: one model has one set of weights, and compared models one protocol.

`benchmarks run` keeps to both within a store; who merges stores of two machines may not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import orjson

__all__ = ["differences", "made_from", "other_weights"]

_OF_MODEL = ("weights", "tokenizer")
"""What all runs of a model share."""
_OF_COMPARISON = ("tuning", "pooling", "head", "training_data", "evaluation_data")
"""What all runs on a dataset share, whatever the model."""
_SHOWN = 3
"""Differences, and models and datasets of one, that a sentence names."""


class StoredRun(Protocol):
    """What is asked of a run (`analysis.store.cell.Run`)."""

    @property
    def model(self) -> str:
        """Its model's name."""

    @property
    def dataset(self) -> str:
        """Its dataset's name."""

    @property
    def path(self) -> str:
        """Its folder, below `results`."""

    @property
    def made(self) -> str:
        """What `made_from` returned for it."""


def made_from(record: Mapping[str, Any]) -> str:
    """Return what a run's record says of both as one text; empty for a run without a record."""
    description = record.get("description")
    if not isinstance(description, dict):
        return ""
    found: dict[str, Any] = {}
    for name in (*_OF_MODEL, *_OF_COMPARISON):
        value = description.get(name)
        parts = (
            {f"{name}.{part}": one for part, one in value.items()}
            if isinstance(value, dict)
            else {name: value}
        )
        found |= {part: one for part, one in parts.items() if one is not None}
    return orjson.dumps(found, option=orjson.OPT_SORT_KEYS).decode()


def other_weights(runs: Sequence[StoredRun]) -> dict[str, str]:
    """Return the runs made from other weights or another tokenizer than most of their model's, each with a sentence.

    Where no half of a model's runs agrees, nobody knows which weights its name means, and all are named.
    """
    by_model: dict[str, dict[str, tuple[str, ...]]] = {}
    for run, made in zip(runs, _read(runs), strict=True):
        if any(name in made for name in _OF_MODEL):
            by_model.setdefault(run.model, {})[run.path] = tuple(str(made.get(name)) for name in _OF_MODEL)
    found: dict[str, str] = {}
    for model, own in by_model.items():
        (usual, count), *others = Counter(own.values()).most_common()
        if not others:
            continue
        usual = usual if 2 * count > len(own) else ()
        for path, one in own.items():
            if one == usual:
                continue
            against = usual or next(other for other in own.values() if other != one)
            name, this, that = next(
                (name, mine, theirs)
                for name, mine, theirs in zip(_OF_MODEL, one, against, strict=True) if mine != theirs
            )  # fmt: skip
            whose = f"most runs of {model}" if usual else f"as many runs of {model}"
            found[path] = (
                f"was made from a model with the {name} {_short(this)}, but {whose} with {_short(that)}, so the name "
                f"means two models; {'the run is' if usual else 'all are'} left out until one of the two has another "
                "name"
            )
    return found


def differences(runs: Sequence[StoredRun]) -> str:
    """Return a sentence on what differs between runs that stand side by side, settings or data; empty for nothing."""
    values: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    for run, made in zip(runs, _read(runs), strict=True):
        for name, value in made.items():
            if name not in _OF_MODEL:
                of = values.setdefault((name, run.dataset), {})
                of.setdefault(_short(value), {})[run.model] = None
    # The same difference on several datasets is one.
    datasets: dict[tuple[str, str], list[str]] = {}
    for (name, dataset), of in values.items():
        if len(of) > 1:
            words = " and ".join(
                f"{value} for {_listed(list(models))}" for value, models in sorted(of.items())
            )
            datasets.setdefault((name, words), []).append(dataset)
    if not datasets:
        return ""
    said = [f"{name} is {words} (on {_listed(where)})" for (name, words), where in datasets.items()]
    more = f"; and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
    return (
        "models were not fine-tuned and evaluated alike, which contributes to their differences: "
        f"{'; '.join(said[:_SHOWN])}{more}"
    )


def _read(runs: Sequence[StoredRun]) -> list[dict[str, Any]]:
    known = {text: orjson.loads(text) if text else {} for text in {run.made for run in runs}}
    return [known[run.made] for run in runs]


def _short(value: object) -> str:
    text = str(value)
    return f"{text[:12]}..." if len(text) > 40 else text


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
