"""Verdicts as data: everything about each in plain types, as JSON and as CSV."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

import pandas as pd

from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import FAMILIES, MARGINS
from analysis.claims.judged import (
    JudgedFinding,
    JudgedPart,
    JudgedStatement,
    judge_alone,
)
from analysis.claims.pages.dataset_sentences import dataset_record
from analysis.claims.verdicts import OPEN, Branch
from analysis.claims.wording import seeds_that_decide, sentence
from analysis.evidence.contrasts import Result
from common.level import ALPHA

# The names of keys and columns, in their order. Most are attributes of a judged finding (`_PS`) or of the result of a
# comparison (`_CONTRAST`); `_NAMES_OF_RESULTS` has the attributes with other names.
_EFFECT = ("effect", "low", "high")
_PS = (
    "p_raw",
    "p_holm",
    "direction",
    "p_for",
    "p_for_holm",
    "p_against",
    "p_against_holm",
)
_CONTRAST = (
    "label",
    "claimed",
    "unit",
    *_EFFECT,
    "low90",
    "high90",
    "standard_error",
    "df",
    "p_for",
    "p_against",
    "p_zero",
    "seeds",
    "test",
    "instance_share",
    "inputs",
    "missing",
)
_NAMES_OF_RESULTS = {
    "low90": "inner_low",
    "high90": "inner_high",
    "standard_error": "error",
}


def as_record(judged: JudgedFinding) -> dict[str, object]:
    """Return everything about a finding in plain types, for JSON, with its keys in the order in which they are written.

    The effect, its ends and its unit are those of the most adverse comparison (`JudgedFinding.decisive`); keys that
    begin with `typical` are about the mean of the comparisons.
    """
    finding, decisive = judged.finding, judged.decisive
    record = _fields(finding, ("id", "short", "statement", "where", "family", "needs"))
    record["verdict"] = judged.verdict
    record["sentence"] = sentence(judged)
    record["remark"] = finding.remark
    record |= _fields(judged, ("parts", "known", "holds_in", "fails_in"))
    record["seeds_that_decide"] = None
    if judged.outcome == OPEN.name:
        record["seeds_that_decide"] = seeds_that_decide(decisive)
    record |= _typical(judged.mean)
    record |= _fields(decisive, (*_EFFECT, "unit"))
    record["contrast"] = decisive.label
    record["region"] = decisive.claimed
    record |= _fields(judged, _PS)

    # Where nothing was tested, every p is 1, which no test gave: JSON has null in its place.
    if not judged.known:
        record |= dict.fromkeys(name for name in _PS if name != "direction")
    record["family_size"] = judged.holm_over
    record["seeds"] = _seeds(judged.seeds)
    record["contrasts"] = [_contrast(result) for result in judged.comparisons]
    record["reported"] = [_reported(statement) for statement in judged.reported]
    return _rounded(record)


def _fields(of: object, names: Iterable[str]) -> dict[str, object]:
    """Return some attributes by their names."""
    return {name: getattr(of, name) for name in names}


def _typical(mean: Result | None) -> dict[str, object]:
    """Return the keys of a finding's record that describe the mean of its comparisons; all None without a mean."""
    if mean is None:
        return dict.fromkeys(("typical", *(f"typical_{name}" for name in _EFFECT)))
    record: dict[str, object] = {"typical": _contrast(mean)}
    for name in _EFFECT:
        record[f"typical_{name}"] = getattr(mean, name)
    return record


def _reported(judged: JudgedStatement) -> dict[str, object]:
    """Return a statement that is judged next to a finding, with its comparisons."""
    numbers = _fields(judged, ("label", "verdict", "p_for", "p_against"))
    contrasts = [_contrast(one) for one in judged.branch.results]
    return _rounded(numbers) | {"contrasts": contrasts}


def _contrast(result: Result) -> dict[str, object]:
    """Return a comparison in plain types; the p's are None where the source lacks its scores."""
    record = {
        name: getattr(result, _NAMES_OF_RESULTS.get(name, name)) for name in _CONTRAST
    }
    if not result.known:
        record |= {"p_for": None, "p_against": None}
    return _rounded(record)


def _seeds(seeds: Iterable[int]) -> str:
    """Return numbers of seeds as one cell, such as `5` or `3-5`."""
    return "-".join(map(str, seeds))


def _rounded(record: Mapping[str, object]) -> dict[str, object]:
    """Return numbers that JSON can hold: rounded to ten significant digits, None for those that are not finite."""
    rounded: dict[str, object] = {}
    for name, value in record.items():
        rounded[name] = value
        if isinstance(value, float):
            rounded[name] = float(f"{value:.10g}") if math.isfinite(value) else None
    return rounded


def verdicts_data(assessment: Assessment, shown: Sequence[str]) -> dict[str, object]:
    """Return everything about the findings shown (by their ids), and how they were judged, in plain types."""
    data: dict[str, object] = {"source": assessment.source.label}
    note = assessment.source.kind.words
    if note:
        data["note"] = note
    data |= asdict(assessment.settings)
    data["tests"] = list(assessment.tests)
    data["alpha"] = ALPHA
    data["margins"] = MARGINS
    data["families"] = FAMILIES
    findings = []
    for finding in shown:
        record = as_record(assessment.judged[finding])
        record["datasets"] = dataset_record(assessment, finding)
        findings.append(record)

    data["findings"] = findings
    return data


_CSV_FINDING = [
    "id",
    "verdict",
    "holds_in",
    "fails_in",
    "parts",
    "typical_effect",
    "typical_low",
    "typical_high",
    *_EFFECT,
    "unit",
    "contrast",
    "region",
    *_PS,
    "family",
    "seeds",
    "short",
    "statement",
    "where",
    "sentence",
]
_CSV_CONTRAST = [
    "id",
    "part",
    "label",
    "claimed",
    "unit",
    *_EFFECT,
    "low90",
    "high90",
    "standard_error",
    "df",
    "p_for",
    "p_against",
    "p_zero",
    "test",
    "instance_share",
    "missing",
    "seeds",
]


def verdicts_frame(assessment: Assessment, shown: Sequence[str]) -> pd.DataFrame:
    """Return one row a finding."""
    findings = [as_record(assessment.judged[finding]) for finding in shown]
    return _with_settings(assessment, pd.DataFrame(findings, columns=_CSV_FINDING))


def contrasts_frame(assessment: Assessment, shown: Sequence[str]) -> pd.DataFrame:
    """Return one row a contrast; the column `part` says whether it is in the `verdict` or `reported` beside it."""
    rows: list[dict[str, object]] = []
    for name in shown:
        judged = assessment.judged[name]
        results = [("verdict", result) for result in judged.comparisons]
        for statement in judged.reported:
            results += [("reported", result) for result in statement.branch.results]
        for part, result in results:
            seeds = _seeds(result.seeds)  # one cell of text, in place of the numbers
            rows.append(_contrast(result) | {"id": name, "part": part, "seeds": seeds})
    return _with_settings(assessment, pd.DataFrame(rows, columns=_CSV_CONTRAST))


def _with_settings(assessment: Assessment, frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(
        source=assessment.source.label,
        selection=assessment.settings.selection,
        interval=assessment.settings.interval,
    )


# Columns of `parts_frame`: those of a comparison, of every statement, and of statements with adjusted p's.
_OF_RESULT = ("claimed", "task", *_EFFECT, "unit")
_TESTED = ("p_for", "p_against", "outcome")
_ADJUSTED = ("p_for_holm", "p_against_holm")
_NO_TEXTS: dict[str, object] = dict.fromkeys(
    ("claimed", "task", "dataset", "first", "second", "unit", "counted"), ""
)
"""Columns of text, which are empty where a row has nothing; missing numbers are nan."""
_COLUMNS = (
    "role",
    "label",
    "claimed",
    "task",
    "dataset",
    "first",
    "second",
    "effect",
    "low",
    "high",
    "unit",
    "p_for",
    "p_for_holm",
    "p_against",
    "p_against_holm",
    "outcome",
    "counted",
)


def parts_frame(judged: JudgedFinding) -> pd.DataFrame:
    """Return a finding as a frame: a row for itself, for each statement and comparison in it, and for their mean.

    The column `role` says what a row is: the `finding`, a part of its `verdict`, `reported` beside it, or the `mean`.
    """
    finding = _fields(judged, (*_TESTED, *_ADJUSTED))
    finding |= {"role": "finding", "label": judged.finding.statement}
    rows = [finding]

    # Only the finding's own parts carry adjusted p's; a reported statement and the mean are each judged
    # alone. So is the statement of the finding: its outcome after adjustment over the family is already in
    # the finding's own row.
    rows += _rows_of(judged.alone, "verdict", judged.counted)
    for statement in judged.reported:
        rows += _rows_of(statement, "reported")
    if judged.mean is not None:
        # The mean is a bare result: judged as a statement, it has a row like the others.
        mean = judge_alone(judged.mean.comparison, judged.result_of)
        rows += _rows_of(mean, "mean")

    return pd.DataFrame([_NO_TEXTS | row for row in rows], columns=_COLUMNS)


def _rows_of(
    statement: JudgedStatement, role: str, counted: Iterable[JudgedPart] = ()
) -> Iterator[dict[str, object]]:
    """Yield a row for a statement and for each statement below it, depth first.

    Args:
        statement: the statement with its tree of parts.
        role: content of the column `role`.
        counted: the parts of the statement that have adjusted p's; other rows have none.
    """
    # The parts are branches of the statement's own tree. They are found by identity, since two of them may be equal.
    part_of = {id(part.branch): part for part in counted}

    def rows_from(branch: Branch) -> Iterator[dict[str, object]]:
        """Yield the row of a branch, then those of its parts."""
        row = _fields(branch, _TESTED)
        row |= {"role": role, "label": branch.node.label}
        # A single comparison: the models that are claimed to be ahead, then those behind, and its places, which
        # are pairs (task, dataset).
        if branch.result is not None:
            comparison = branch.result.comparison
            first, second = comparison.sides
            datasets = dict.fromkeys(dataset for _, dataset in comparison.places)
            row |= _fields(branch.result, _OF_RESULT)
            row |= {"first": ", ".join(first), "second": ", ".join(second)}
            row["dataset"] = ", ".join(datasets)

        part = part_of.get(id(branch))
        if part is not None:
            row |= _fields(part, (*_ADJUSTED, "counted"))

        # A branch holds, fails or is open; only the judged statement knows that it holds in some of its parts.
        if branch is statement.branch:
            row["outcome"] = statement.outcome
        yield row
        for below in branch.parts:
            yield from rows_from(below)

    return rows_from(statement.branch)
