"""The answer: what the verdicts say about the paper's question, in sentences that name what was tested.

The page of findings, the report and the commands print these sentences. The README has its own words; a test compares
its counts with these.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.claims.assessment import SPLIT, Assessment
from analysis.claims.catalogue import ANSWERS, FAMILIES, FINDINGS
from analysis.claims.frame import (
    FindingRow,
    judge,
    known_of,
    main_of,
    mean_of,
    of_finding,
    rows,
)
from analysis.claims.pretraining_spread import (
    SHARED_LUCK,
    measured_spreads,
    with_pretraining_spread,
)
from analysis.claims.statements import shared_trunks, typical_contrast
from analysis.claims.titles import ANSWER
from analysis.claims.verdicts import HOLDS
from analysis.claims.wording import counted, format_effect
from analysis.evidence.contrasts import Result
from analysis.statistics.inference import ALPHA, holm
from pretraining.models import find_model, format_steps

QUESTION = "Should we still pretrain encoders with masked language modeling?"
"""The paper's title."""


_ALIKE = 200
"""Millions of parameters from which a network is of the paper's sizes, the smallest of which has 210."""
_MOST_SPREAD = 30.0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a source answers."""

    headline: str
    """On the question; it names split, models, budgets and tasks."""
    pretraining: str
    """What would be left of it if pretraining again moved the scores; empty where nothing is shown."""
    splits: tuple[str, ...]
    """A line for each share of CLM of which the source knows any comparison, by task and by dataset."""
    cautions: tuple[str, ...]
    """What is left when more or less of the paper is tested at once; tasks and datasets as samples; trunks."""
    findings: str
    """On all findings."""


def answer(assessment: Assessment) -> Answer:
    """Return the answer that an assessment gives."""
    frame, by_dataset = assessment.frame, assessment.frame_by_dataset
    found, stand_ins = (
        of_finding(frame, ANSWER),
        assessment.source.stand_ins is not None,
    )
    main = main_of(found)
    cautions: tuple[str, ...] = ()
    if main.known:
        means = {
            "tasks": _over_places(found, assessment),
            "datasets": _over_places(of_finding(by_dataset, ANSWER), assessment),
        }
        cautions = (*_among(frame), *_as_samples(means))
        if shared := shared_trunks(known_of(found)["comparison"]):
            cautions = (*cautions, f"{shared[0].upper()}{shared[1:]}.")
    again = None if stand_ins else _pretrained_again(found, assessment)
    return Answer(
        headline=_headline(
            found,
            stand_ins=stand_ins,
            survives_pretraining=again is not None and again[1],
        ),
        pretraining="" if again is None else again[0],
        splits=tuple(
            f"{share} % CLM against MLM alone: shown to be {_better_and_worse(main_of(split))}; the mean difference is "
            f"{format_effect(mean_of(split))} points. By dataset: "
            f"{_better_and_worse(main_of(of_finding(by_dataset, one.id)))}."
            for share, one in ANSWERS.items()
            if main_of(split := of_finding(frame, one.id)).known
        ),
        cautions=cautions,
        findings=counted(frame[frame["id"].isin(FINDINGS)]),
    )


def _headline(
    found: pd.DataFrame, *, stand_ins: bool, survives_pretraining: bool
) -> str:
    """Return the headline: whether CLM first beats MLM alone, and in how many comparisons.

    With `survives_pretraining` (adding the spread between pretrainings leaves the answer) it begins with "Yes",
    otherwise with "Probably".
    """
    main, mean = main_of(found), mean_of(found)
    where = "at equal budget" + " in these stand-ins for the paper's models" * stand_ins
    scope = "" if stand_ins else f"{ANSWERS[SPLIT].scope}; "
    level = f"({scope}95 % confidence for all at once and the {_number(len(ANSWERS))} splits tried)"
    pair = f"{SPLIT} % CLM followed by {100 - SPLIT} % MLM"
    if not main.known:
        return f"Open: this source does not say whether {pair} beats MLM alone: {main.missing}."
    comparisons = f"{main.parts} comparisons"
    if main.known < main.parts:
        comparisons = (
            f"the {main.known} comparisons (of {main.parts}) that this source allows"
        )
    mean_difference = ""
    if mean is not None and not mean.missing:
        mean_difference = (
            f" Over all {main.known}, the mean difference is {mean.effect:+.1f} points [{mean.low:+.1f}, "
            f"{mean.high:+.1f}], the median {known_of(found)['effect'].median():+.1f}."
        )
    lead = _lead(main, survives_pretraining=survives_pretraining)
    if not main.holds_in and not main.fails_in:
        return (
            f"{lead}: {where}, none of {comparisons} shows {pair} better or worse than MLM alone {level}."
            f"{mean_difference}"
        )
    higher, lower = (
        f"{count}" if count else "none" for count in (main.holds_in, main.fails_in)
    )
    return (
        f"{lead}: {where}, {pair} is shown to score higher than MLM alone in {higher} of {comparisons} and lower "
        f"in {lower} {level}.{_higher_where(found)}{mean_difference}"
    )


def shown_higher(found: pd.DataFrame) -> str:
    """Return which comparisons are counted as higher, by task and length: `TC at 12K, 22K and 42K; SC at 42K`."""
    steps: dict[str, list[str]] = {}
    for row in rows(found[found["counted"] == HOLDS.name]):
        if model := find_model(row.first):
            steps.setdefault(row.task, []).append(format_steps(model.steps).upper())
    return "; ".join(
        f"{task} at {' and '.join(filter(None, [', '.join(lengths[:-1]), lengths[-1]]))}"
        for task, lengths in steps.items()
    )


def _higher_where(found: pd.DataFrame) -> str:
    """Return which comparisons are shown to be higher, and their gain after the longest training."""
    main, higher = main_of(found), shown_higher(found)
    if not higher or main.holds_in == main.parts:
        return ""
    known = [
        (model.steps, row)
        for row in rows(known_of(found))
        if (model := find_model(row.first))
    ]
    longest = max(steps for steps, _ in known)
    last = [
        row for steps, row in known if steps == longest and row.counted == HOLDS.name
    ]
    gains = ", ".join(f"{row.effect:+.2f} on {row.task}" for row in last)
    return f" Higher: {higher}" + (
        f"; at {format_steps(longest).upper()} by {gains}." if gains else "."
    )


def _lead(main: FindingRow, *, survives_pretraining: bool) -> str:
    """Return the first words; "Open" where no comparison is shown."""
    if main.holds_in and main.fails_in:
        return "It depends"
    sure = "Yes" if survives_pretraining else "Probably"
    if main.holds_in:
        return (
            f"{sure}, but start with CLM"
            if main.outcome == HOLDS.name
            else "Sometimes, starting with CLM"
        )
    if _half_fail(main):
        return f"{sure}, and without CLM first"
    return "Sometimes, starting with MLM" if main.fails_in else "Open"


def _half_fail(main: FindingRow) -> bool:
    """Return whether CLM first is shown to be worse in half of the comparisons: as many as make it better."""
    return 2 * main.fails_in >= main.parts


def _pretrained_again(
    found: pd.DataFrame, assessment: Assessment
) -> tuple[str, bool] | None:
    """Return what the spread between pretrainings that others measured leaves, and whether the answer survives it."""
    main, mean = main_of(found), mean_of(found)
    if not main.holds_in and not main.fails_in:
        return None
    alike = [one for one in measured_spreads() if one.parameters >= _ALIKE]
    spreads = sorted(one.sd for one in alike)
    millions = _range(sorted({round(one.parameters) for one in alike}))
    count_column, direction = (
        ("holds_in", "higher") if main.holds_in else ("fails_in", "lower")
    )
    moved = pd.concat([_moved(assessment, sd) for sd in (spreads[0], spreads[-1])])
    left = moved[moved["role"] == "finding"]
    # The statement alone, not among the splits that were tried.
    alone = moved[(moved["role"] == "verdict") & (moved["depth"] == 0)]
    words = (
        "Each model was pretrained once: intervals reflect only fine-tuning seeds. If pretraining again moved "
        f"task scores as much as others measured in a network of {millions}M parameters (standard deviation "
        f"{_points(spreads[0])} to {_points(spreads[-1])} points), {_range(sorted(left[count_column]))} of "
        f"{main.parts} would be shown to score {direction} ({_range(sorted(alone[count_column]))} had no other split "
        "been tried)"
    )
    if limit := _mean_up_to(mean, assessment):
        side_of_0 = "above" if mean is not None and mean.effect > 0 else "below"
        words += f"; the mean would stay {side_of_0} 0 up to {limit:.2f} points if all tasks moved alike"
    survives = bool(
        ((left["outcome"] == main.outcome) & (left[count_column] > 0)).all()
    )
    if not main.holds_in:
        survives = all(map(_half_fail, rows(left)))
    return f"{words}.", survives


def _moved(assessment: Assessment, sd: float) -> pd.DataFrame:
    """Return the answer's rows if pretraining again moved task scores by `sd` points."""
    result_of = with_pretraining_spread(assessment.result_of, sd, SHARED_LUCK["models"])
    return of_finding(judge(ANSWERS.values(), result_of), ANSWER)


def _mean_up_to(mean: FindingRow | None, assessment: Assessment) -> float:
    """Return the largest spread, in steps of 0.01 points, with which the interval of the mean leaves 0 out; else 0."""
    if mean is None or mean.comparison is None or mean.missing:
        return 0.0
    asked = mean.comparison

    def differs(sd: float) -> bool:
        found = with_pretraining_spread(
            assessment.result_of, sd, SHARED_LUCK["trunks and tasks"]
        )(asked)
        return found.low > 0 or found.high < 0

    steps = range(1, round(100 * _MOST_SPREAD) + 1)
    return bisect_left(steps, True, key=lambda step: not differs(step / 100)) / 100


def _points(sd: float) -> str:
    return f"{sd + 1e-9:.2f}"  # 0.235 in binary is a little less


def _range(counts: list[int]) -> str:
    low, high = counts[0], counts[-1]
    return (str(low) if low else "none") if low == high else f"{low} to {high}"


def _number(count: int) -> str:
    return ("no", "one", "two", "three")[count] if count < 4 else str(count)


def _better_and_worse(main: FindingRow) -> str:
    """Return in how many comparisons CLM first is shown better, and worse: bounds, as others may be open."""
    better = f"in at least {main.holds_in}" if main.holds_in else "in none"
    worse = f"worse in at least {main.fails_in}" if main.fails_in else "worse in none"
    return f"better {better} of {main.known} comparisons and {worse}"


def _among(frame: pd.DataFrame) -> list[str]:
    """Return how many of the answer's parts hold when fewer or more statements are tested at the same time."""
    known = frame.loc[(frame["role"] == "finding") & (frame["known"] > 0), "id"]
    # F8 is about the same comparisons.
    parts = frame[
        (frame["counted"] != "") & frame["id"].isin(known) & (frame["id"] != "F8")
    ]
    answer_parts, others = parts[parts["id"] == ANSWER], parts[parts["id"] != ANSWER]
    # What is tested together with the parts of the answer.
    tested = {
        "at this split alone": others[:0],
        f"of the {_number(len(ANSWERS))} splits": others[others["family"] == ANSWER],
        f"of the findings on {FAMILIES['two-stage']}": others[
            others["family"] == "two-stage"
        ],
        "of all findings": others[others["family"] != ANSWER],
    }
    shown = {
        words: sum(
            p <= ALPHA
            for p in holm([*answer_parts["p_for"], *more["p_for"]])[: len(answer_parts)]
        )
        for words, more in tested.items()
    }
    if not shown["at this split alone"]:
        return []
    said = [
        f"{shown[words]} for the {len(answer_parts) + len(more)} {words}"
        for words, more in tested.items()
    ]
    return [
        f"Comparisons shown at {SPLIT} %, by what the correction covers: {'; '.join(said)}."
    ]


class SampleMean(NamedTuple):
    """The mean effect over tasks or datasets like those at hand, with its 95 % interval."""

    mean: float
    low: float
    high: float


def random_effects(results: Sequence[Result]) -> SampleMean | None:
    """Return the random-effects meta-analysis of effects with known errors; None for fewer than two of them.

    The variance between effects is Paule and Mandel's, the interval Hartung and Knapp's (Student's t, one df fewer than
    effects).
    """
    if len(results) < 2 or not all(result.error > 0 for result in results):
        return None
    from scipy import special  # not for those who read the findings alone
    from statsmodels.stats.meta_analysis import combine_effects

    effects, errors = np.array([(result.effect, result.error) for result in results]).T
    combined = combine_effects(effects, errors**2)
    # Not below the error of the errors alone, where the effects happen to agree.
    error = combined.sd_eff_w_re * math.sqrt(max(1.0, combined.scale_hksj_re))
    half = float(special.stdtrit(combined.df, 0.975)) * error
    mean = float(combined.mean_effect_re)
    return SampleMean(mean, float(mean - half), float(mean + half))


def _over_places(found: pd.DataFrame, assessment: Assessment) -> SampleMean | None:
    """Return the mean of a finding, with the tasks or datasets that it is about as a sample of such."""
    places = known_of(found).groupby(["task", "dataset"], sort=False)["comparison"]
    means = [
        mean for _, asked in places if (mean := typical_contrast(asked)) is not None
    ]
    return random_effects([assessment.result_of(mean) for mean in means])


def _as_samples(means: Mapping[str, SampleMean | None]) -> list[str]:
    """Return a sentence: the mean if the tasks, or the datasets, are a sample of such; nothing where none is known."""
    said = [
        f"{one.mean:+.1f} [{one.low:+.1f}, {one.high:+.1f}] if the {kind} are"
        for kind, one in means.items()
        if one is not None
    ]
    said[:1] = [f"{one} treated as a random sample" for one in said[:1]]
    return [f"The mean at {SPLIT} % is {', and '.join(said)}."] if said else []
