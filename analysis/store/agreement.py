"""Whether the runs of a store belong together: one model has one set of weights, and compared models one protocol.

`benchmarks run` keeps to both within a store; who merges stores of two machines may not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import orjson

from analysis.store.cell import Run
from benchmarks.run_fields import fields_that_decide
from common.plain_text import first_of

_OF_MODEL = fields_that_decide("of the model")

_SHOWN = 3
"""Differences, and models and datasets of one, that a sentence names."""


def other_weights(runs: Sequence[Run]) -> dict[str, str]:
    """Return the runs made from other weights or another tokenizer than most of their model's, each with a sentence.

    Unless more than half of a model's runs agree, nobody knows which weights its name means, and all are named.
    """
    # By model and run's path, the values of the fields that say which weights it is.
    by_model: dict[str, dict[str, tuple[str, ...]]] = {}
    for run, made in zip(runs, _records_of(runs), strict=True):
        if any(name in made for name in _OF_MODEL):
            by_model.setdefault(run.model, {})[run.path] = tuple(
                str(made.get(name)) for name in _OF_MODEL
            )
    sentences: dict[str, str] = {}
    for model, values_by_path in by_model.items():
        (most_common, count), *others = Counter(values_by_path.values()).most_common()
        if not others:
            continue  # all agree
        majority = most_common if 2 * count > len(values_by_path) else None
        for path, values in values_by_path.items():
            if values == majority:
                continue
            compared = majority or next(
                other for other in values_by_path.values() if other != values
            )
            # The first field that differs.
            name, mine, theirs = next(
                field
                for field in zip(_OF_MODEL, values, compared, strict=True)
                if field[1] != field[2]
            )
            whose = f"most runs of {model}" if majority else f"as many runs of {model}"
            sentences[path] = (
                f"was made from a model with the {name} {_short(mine)}, but {whose} with {_short(theirs)}, so the name "
                f"means two models; {'the run is' if majority else 'all are'} left out until one of the two has "
                "another name"
            )
    return sentences


def is_made_alike(one: Run, other: Run) -> bool:
    """Return whether two runs are the same fine-tuning of the same weights under two models' names."""
    return (
        one.model != other.model
        and bool(one.made)
        and _fine_tuning(one) == _fine_tuning(other)
    )


def _fine_tuning(run: Run) -> tuple[str, str, float, int]:
    """Return what is equal of runs that are the same fine-tuning of the same weights."""
    return run.made, run.dataset, run.lr, run.seed


def differences(runs: Sequence[Run]) -> str:
    """Return what differs between runs that stand side by side, settings or data, and which models are one.

    A sentence; empty for nothing.
    """
    by_fine_tuning: dict[tuple[str, str, float, int], list[Run]] = {}
    for run in runs:
        if run.made:
            by_fine_tuning.setdefault(_fine_tuning(run), []).append(run)
    pairs = [pair for same in by_fine_tuning.values() for pair in combinations(same, 2)]
    # The same fine-tuning with another outcome leaves something to compare.
    with_other_scores = {
        (one.model, other.model) for one, other in pairs if one.marks != other.marks
    }
    same_models = [
        f"{one} and {other} are the same weights, fine-tuned alike, so a comparison of them says nothing; the folder "
        "of one can be removed"
        for one, other in dict.fromkeys(
            (one.model, other.model) for one, other in pairs
        )
        if (one, other) not in with_other_scores
    ]
    return "; ".join(filter(None, [*same_models, _settings_that_differ(runs)]))


def _settings_that_differ(runs: Sequence[Run]) -> str:
    """Return a sentence on the settings or data in which runs differ that stand side by side; empty for nothing."""
    # By field and dataset: each value that it has, with the models that have it, in the order of their runs.
    values: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    run_records = _records_of(runs)
    names = sorted({name for made in run_records for name in made} - {*_OF_MODEL})
    for run, made in zip(runs, run_records, strict=True):
        # What a run without a record was made from is unknown
        for name in names if made else ():
            models_of = values.setdefault((name, run.dataset), {})
            models_of.setdefault(_short(made.get(name, "not recorded")), {})[
                run.model
            ] = None
    # The same difference on several datasets is one.
    datasets_of: dict[tuple[str, str], list[str]] = {}
    for (name, dataset), models_of in values.items():
        # What decides within a model alone may differ between models, but no model may have two values.
        a_model_has_two = sum(map(len, models_of.values())) > len(
            set().union(*models_of.values())
        )
        if len(models_of) > 1 and (
            a_model_has_two or name not in fields_that_decide("within a model")
        ):
            words = " and ".join(
                f"{value} for {first_of(list(models), _SHOWN)}"
                for value, models in sorted(models_of.items())
            )
            datasets_of.setdefault((name, words), []).append(dataset)
    if not datasets_of:
        return ""
    choices = fields_that_decide("by choice")
    parts = [
        f"{name} is {words} (on {first_of(datasets, _SHOWN)}){', as the models chose' * (name in choices)}"
        for (name, words), datasets in datasets_of.items()
    ]
    more = f"; and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return (
        "models were not fine-tuned and evaluated alike, which contributes to their differences: "
        f"{'; '.join(parts[:_SHOWN])}{more}"
    )


def _records_of(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return what each run was made from, by field (`Run.made`); empty where it has no record."""
    parsed = {
        text: orjson.loads(text) if text else {} for text in {run.made for run in runs}
    }
    return [parsed[run.made] for run in runs]


def _short(value: object) -> str:
    """Return a value as text, a long one such as a hash by its first 12 characters."""
    text = str(value)
    return f"{text[:12]}..." if len(text) > 40 else text
