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
"""Fields of a run's record that must be equal in all runs of a model: its weights and tokenizer."""

_SHOWN = 3
"""How many differences a sentence names, and how many models and datasets of each."""


def other_weights(runs: Sequence[Run]) -> dict[str, str]:
    """Return the runs made from other weights or another tokenizer than most of their model's, each with a sentence.

    Keys are the runs' paths. Unless more than half of a model's runs agree, nobody knows which weights its name means,
    and all are named.
    """
    # By model and path of the run, the values of `_OF_MODEL`.
    by_model: dict[str, dict[str, tuple[str, ...]]] = {}
    for run, record in zip(runs, _records_of(runs), strict=True):
        # A run without a record, or whose record names no weights, cannot contradict others.
        if any(name in record for name in _OF_MODEL):
            values = tuple(str(record.get(name)) for name in _OF_MODEL)
            by_model.setdefault(run.model, {})[run.path] = values

    sentences: dict[str, str] = {}
    for model, values_by_path in by_model.items():
        frequencies = Counter(values_by_path.values()).most_common()
        if len(frequencies) == 1:
            continue  # all agree
        usual, count = frequencies[0]
        has_majority = 2 * count > len(values_by_path)
        for path, values in values_by_path.items():
            if has_majority and values == usual:
                continue
            # Which other weights the sentence compares the run's with: the usual ones or, without usual ones,
            # those of the first run that has others.
            if has_majority:
                compared = usual
                whose, left_out = f"most runs of {model}", "the run is"
            else:
                # There is one: some values differ. The search ends at the first, as a store has thousands of runs.
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
    """Return the name of the first field of `_OF_MODEL` that differs, and its value in each of the two."""
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
    """Return what two runs have in common if they are the same fine-tuning of the same weights, by any model's name."""
    return run.made, run.dataset, run.lr, run.seed


def differences(runs: Sequence[Run]) -> str:
    """Return a sentence on what differs between runs that are compared; empty for nothing.

    It names settings and data that differ, and models that are the same model under two names. Runs are in the order of
    their models.
    """
    by_fine_tuning: dict[tuple[str, str, float, int], list[Run]] = {}
    for run in runs:
        if run.made:
            by_fine_tuning.setdefault(_fine_tuning(run), []).append(run)

    # By pair of models: whether their scores are equal wherever both have the same fine-tuning of the same weights.
    have_equal_scores: dict[tuple[str, str], bool] = {}
    for same in by_fine_tuning.values():
        for one, other in combinations(same, 2):
            # Runs come in the order of their models, so that a pair of models has one key.
            models = (one.model, other.model)
            before = have_equal_scores.get(models, True)
            # Marks are checksums of a run's scores by instance.
            have_equal_scores[models] = before and one.marks == other.marks

    sentences = []
    for (first, second), are_equal in have_equal_scores.items():
        # Two outcomes of the same fine-tuning can still be compared.
        if are_equal:
            sentences.append(
                f"{first} and {second} are the same weights, fine-tuned alike, so a comparison of them says nothing; "
                "the folder of one can be removed"
            )

    settings = _settings_that_differ(runs)
    if settings:
        sentences.append(settings)
    return "; ".join(sentences)


def _settings_that_differ(runs: Sequence[Run]) -> str:
    """Return a sentence on the settings or data in which runs that are compared differ; empty for nothing.

    Only runs on the same dataset are compared. What must be equal in them, each field says for itself
    (`benchmarks.run_fields.Decides`).
    """
    # First, what the runs have. By field and dataset: each value of the field there, with the models that
    # have it, in the order of their runs (a dict whose values are None is a set that keeps the order).
    values: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    run_records = _records_of(runs)
    # All fields of any record but those of the model itself: in its weights and tokenizer, models may differ.
    names = sorted(set().union(*run_records) - {*_OF_MODEL})
    for run, record in zip(runs, run_records, strict=True):
        if not record:  # what a run without a record was made from is unknown
            continue
        for name in names:
            value = _short(record.get(name, "not recorded"))
            models_of = values.setdefault((name, run.dataset), {})
            models_of.setdefault(value, {})[run.model] = None

    within_a_model = fields_that_decide("within a model")
    # Second, where they differ. By field and the words on its values, the datasets: a difference that is the
    # same on several is named once.
    datasets_of: dict[tuple[str, str], list[str]] = {}
    for (name, dataset), models_of in values.items():
        if len(models_of) < 2:  # one value in all runs
            continue
        models = set().union(*models_of.values())

        # A model with two values is counted once for each. The counts then add up to more than the models.
        counted_by_value = sum(len(of_value) for of_value in models_of.values())
        a_model_has_two = counted_by_value > len(models)

        # Of such a field two models may have different values, but no model may have two.
        if name in within_a_model and not a_model_has_two:
            continue
        parts = []
        for value, of_value in sorted(models_of.items()):
            parts.append(f"{value} for {first_of(list(of_value), _SHOWN)}")
        datasets_of.setdefault((name, " and ".join(parts)), []).append(dataset)

    if not datasets_of:
        return ""
    # Third, the sentences.
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
