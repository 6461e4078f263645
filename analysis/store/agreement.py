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
    # By model and path of the run, the values of the fields that say which weights it was made from.
    by_model: dict[str, dict[str, tuple[str, ...]]] = {}
    for run, made in zip(runs, _records_of(runs), strict=True):
        if any(name in made for name in _OF_MODEL):
            values = tuple(str(made.get(name)) for name in _OF_MODEL)
            by_model.setdefault(run.model, {})[run.path] = values
    sentences: dict[str, str] = {}
    for model, values_by_path in by_model.items():
        (most_common, count), *others = Counter(values_by_path.values()).most_common()
        if not others:
            continue  # all agree
        majority = most_common if 2 * count > len(values_by_path) else None
        for path, values in values_by_path.items():
            if values == majority:
                continue
            if majority:
                compared = majority
                whose, left_out = f"most runs of {model}", "the run is"
            else:
                compared = next(v for v in values_by_path.values() if v != values)
                whose, left_out = f"as many runs of {model}", "all are"
            name, mine, theirs = _first_difference(values, compared)
            sentences[path] = (
                f"was made from a model with the {name} {_short(mine)}, but {whose} with {_short(theirs)}, so the name "
                f"means two models; {left_out} left out until one of the two has another name"
            )
    return sentences


def _first_difference(
    values: Sequence[str], others: Sequence[str]
) -> tuple[str, str, str]:
    """Return the first field of a model that differs, and both its values."""
    for name, mine, theirs in zip(_OF_MODEL, values, others, strict=True):
        if mine != theirs:
            return name, mine, theirs
    raise AssertionError("two records that differ")


def is_made_alike(one: Run, other: Run) -> bool:
    """Return whether two runs are the same fine-tuning of the same weights under two models' names."""
    # Without a record it is not known what a run was made from.
    if one.model == other.model or not one.made:
        return False
    return _fine_tuning(one) == _fine_tuning(other)


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
    has_one_outcome: dict[tuple[str, str], bool] = {}
    for same in by_fine_tuning.values():
        for one, other in combinations(same, 2):
            models = (one.model, other.model)
            before = has_one_outcome.get(models, True)
            has_one_outcome[models] = before and one.marks == other.marks
    sentences = []
    for (first, second), is_same in has_one_outcome.items():
        # Two outcomes of the same fine-tuning can still be compared.
        if is_same:
            sentences.append(
                f"{first} and {second} are the same weights, fine-tuned alike, so a comparison of them says nothing; "
                "the folder of one can be removed"
            )
    settings = _settings_that_differ(runs)
    if settings:
        sentences.append(settings)
    return "; ".join(sentences)


def _settings_that_differ(runs: Sequence[Run]) -> str:
    """Return a sentence on the settings or data in which runs differ that stand side by side; empty for nothing."""
    # By field and dataset: each value that it has, with the models that have it, in the order of their runs.
    values: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    run_records = _records_of(runs)
    names = sorted(set().union(*run_records) - {*_OF_MODEL})
    for run, made in zip(runs, run_records, strict=True):
        if not made:  # what a run without a record was made from is unknown
            continue
        for name in names:
            value = _short(made.get(name, "not recorded"))
            models_of = values.setdefault((name, run.dataset), {})
            models_of.setdefault(value, {})[run.model] = None
    within_a_model = fields_that_decide("within a model")
    # A difference that is the same on several datasets is named once, with all of them.
    datasets_of: dict[tuple[str, str], list[str]] = {}
    for (name, dataset), models_of in values.items():
        if len(models_of) < 2:
            continue
        models = set().union(*models_of.values())
        a_model_has_two = sum(map(len, models_of.values())) > len(models)
        # Of such a field two models may have different values, but no model may have two.
        if name in within_a_model and not a_model_has_two:
            continue
        parts = []
        for value, of_value in sorted(models_of.items()):
            parts.append(f"{value} for {first_of(list(of_value), _SHOWN)}")
        datasets_of.setdefault((name, " and ".join(parts)), []).append(dataset)
    if not datasets_of:
        return ""
    choices = fields_that_decide("by choice")
    sentences = []
    for (name, words), datasets in datasets_of.items():
        chosen = ", as the models chose" if name in choices else ""
        sentences.append(f"{name} is {words} (on {first_of(datasets, _SHOWN)}){chosen}")
    more = ""
    if len(sentences) > _SHOWN:
        more = f"; and {len(sentences) - _SHOWN} more"
    return (
        "models were not fine-tuned and evaluated alike, which contributes to their differences: "
        f"{'; '.join(sentences[:_SHOWN])}{more}"
    )


def _records_of(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return what each run was made from, by field (`Run.made`); empty where it has no record."""
    parsed: dict[str, dict[str, Any]] = {"": {}}
    for run in runs:
        # Most runs of a model have the same record: each is parsed once.
        if run.made not in parsed:
            parsed[run.made] = orjson.loads(run.made)
    return [parsed[run.made] for run in runs]


def _short(value: object) -> str:
    """Return a value as text, a long one such as a hash by its first 12 characters."""
    text = str(value)
    return f"{text[:12]}..." if len(text) > 40 else text
