"""The answer: what the verdicts say about the paper's question, in sentences that name what was tested.

The statement that answers it has the id `ANSWER`: CLM for a share of the steps (`SPLIT` per cent), then MLM, beats MLM
alone in at least half of 12 comparisons. Two other splits of the steps were tried, and are judged by the same statement
(`analysis.claims.catalogue.ANSWERS`).

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

from analysis.claims.assessment import SPLIT, Assessment
from analysis.claims.catalogue import ANSWERS, FAMILIES, FINDINGS
from analysis.claims.judged import JudgedFinding, JudgedStatement, judge
from analysis.claims.pretraining_spread import (
    SHARED_LUCK,
    measured_spreads,
    with_pretraining_spread,
)
from analysis.claims.statements import Finding, shared_trunks, typical_contrast
from analysis.claims.titles import ANSWER
from analysis.claims.verdicts import HOLDS
from analysis.claims.wording import count_outcomes, format_effect
from analysis.evidence.contrasts import AnyContrast, Result
from analysis.statistics.inference import holm
from common.level import ALPHA, LEVEL_IN_WORDS
from pretraining.models import format_steps
from pretraining.paper_models import find_model

QUESTION = "Should we still pretrain encoders with masked language modeling?"
"""The paper's title."""


_ALIKE = 200
"""Millions of parameters from which a network is of the paper's sizes, the smallest of which has 210."""
_MOST_SPREAD = 30.0
"""The largest spread between pretrainings that is tried, in points."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a source answers."""

    headline: str
    """The answer to the question; it names split, models, budgets and tasks."""
    pretraining: str
    """What would be left of the answer if pretraining again moved the scores; empty where nothing is shown."""
    splits: tuple[str, ...]
    """A line for each share of CLM of which the source knows any comparison, by task and by dataset."""
    cautions: tuple[str, ...]
    """Sentences that limit the answer (`_cautions`)."""
    findings: str
    """How many of all findings hold, fail, hold in part or are open."""


def answer(assessment: Assessment) -> Answer:
    """Return the answer that an assessment gives."""
    # The statements as judged, twice and each time by id: with a part for each task, and with a part for each
    # dataset.
    judged = assessment.judged
    by_dataset = assessment.judged_by_dataset
    source = assessment.source
    tried = splits_tried(judged)  # by share of CLM its statement
    main = judged[ANSWER]

    # The small networks of a toy study, shown in the places of the paper's models.
    stand_ins = source.stand_ins is not None
    # The sentence on what would be left of the answer if every model were pretrained again. It stays empty
    # for stand-ins, for arms, and where no comparison is shown.
    pretraining = ""

    # An arm is a model that was pretrained several times. With arms, the test's seeds are pretrainings, so
    # that its result already allows for pretraining again.
    survives_pretraining = source.has_arms

    # The spreads that others measured are of networks of the paper's sizes, not of stand-ins. For stand-ins
    # without arms nothing says that the answer would stay, so that a positive answer is "Probably".
    if not stand_ins and not source.has_arms:
        again = _pretrained_again(main, assessment)
        if again is not None:
            pretraining, survives_pretraining = again

    headline = _headline(
        main, tried, stand_ins=stand_ins, survives_pretraining=survives_pretraining
    )
    splits = []
    for share, finding in tried.items():
        name = finding.id
        splits.append(_split_line(share, judged[name], by_dataset[name]))

    return Answer(
        headline=headline,
        pretraining=pretraining,
        splits=tuple(splits),
        cautions=tuple(_cautions(assessment)),
        # Only the paper's findings: `judged` also has the statements of ours that answer the question.
        findings=count_outcomes(judged[name] for name in FINDINGS),
    )


def _cautions(assessment: Assessment) -> list[str]:
    """Return sentences that limit the answer; none where the source has no comparison of the answer.

    They say how many parts are left when fewer or more statements are tested at once, what the mean is if tasks and
    datasets are samples, and which models share a trunk.
    """
    main = assessment.judged[ANSWER]
    if not main.known:
        return []

    # How many parts hold, by what is tested at the same time.
    cautions = _among(assessment.judged)
    # The mean if the tasks, or the datasets, are a random sample.
    over_tasks = _over_places(main, assessment)
    over_datasets = _over_places(assessment.judged_by_dataset[ANSWER], assessment)
    cautions += _as_samples({"tasks": over_tasks, "datasets": over_datasets})

    # `shared_trunks` gives a clause without a capital or a full stop; empty where no models share a trunk.
    shared = shared_trunks(result.comparison for result in main.known_comparisons)
    if shared:
        cautions.append(f"{shared[0].upper()}{shared[1:]}.")
    return cautions


def _split_line(share: int, by_task: JudgedFinding, by_dataset: JudgedFinding) -> str:
    """Return what a source says about one share of CLM, by task and by dataset."""
    difference = format_effect(by_task.mean)
    return (
        f"{share} % CLM against MLM alone: shown to be {_better_and_worse(by_task)}; the mean difference is "
        f"{difference} points. By dataset: {_better_and_worse(by_dataset)}."
    )


def _headline(
    main: JudgedFinding,
    tried: Mapping[int, Finding],
    *,
    stand_ins: bool,
    survives_pretraining: bool,
) -> str:
    """Return the headline: whether CLM first beats MLM alone, and in how many comparisons.

    Args:
        main: the judged statement that answers the question.
        tried: the shares of CLM that were tried; the confidence is for all comparisons of all of them.
        stand_ins: whether the models are those of a small study.
        survives_pretraining: whether the answer stays when a spread between pretrainings is added. Then a positive
            answer begins with "Yes", otherwise with "Probably".
    """
    # `main.known` and `main.parts` are numbers of comparisons: of those that the source has, and of all. The
    # `known` of their mean is yes or no.
    mean = main.mean
    # Words that depend on the source: where, of which models, over how many splits, in how many comparisons.
    where = "at equal budget"
    scope = f"{ANSWERS[SPLIT].scope}; "  # which of the study's models are compared
    if stand_ins:
        where = "at equal budget in these stand-ins for the paper's models"
        scope = ""  # the scope names the paper's sizes and steps

    splits = ""
    if len(tried) > 1:
        splits = f" and the {_number(len(tried))} splits tried"
    level = f"({scope}{LEVEL_IN_WORDS} confidence for all at once{splits})"
    pair = f"{SPLIT} % CLM followed by {100 - SPLIT} % MLM"
    if not main.known:
        return f"Open: this source does not say whether {pair} beats MLM alone: {main.missing}."
    comparisons = f"{main.parts} comparisons"

    # The source lacks scores for some comparisons.
    if main.known < main.parts:
        comparisons = (
            f"the {main.known} comparisons (of {main.parts}) that this source allows"
        )

    # A last sentence on all comparisons together; the mean is None where fewer than two are known.
    mean_difference = ""
    if mean is not None and mean.known:
        median = np.median([result.effect for result in main.known_comparisons])
        mean_difference = (
            f" Over all {main.known}, the mean difference is {mean.effect:+.1f} points [{mean.low:+.1f}, "
            f"{mean.high:+.1f}], the median {median:+.1f}."
        )

    # The headline itself: first words, counts, list of the comparisons, last sentence.
    lead = _lead(main, survives_pretraining=survives_pretraining)
    if not main.holds_in and not main.fails_in:
        return (
            f"{lead}: {where}, none of {comparisons} shows {pair} better or worse than MLM alone {level}."
            f"{mean_difference}"
        )

    # A number of 0, which one of the two may be, is written as a word.
    higher = main.holds_in or "none"
    lower = main.fails_in or "none"
    return (
        f"{lead}: {where}, {pair} is shown to score higher than MLM alone in {higher} of {comparisons} and lower "
        f"in {lower} {level}.{_higher_where(main)}{mean_difference}"
    )


def shown_higher(judged: JudgedFinding) -> str:
    """Return in which comparisons CLM first is shown to score higher: `TC at 12K, 22K and 42K; SC at 42K`.

    The numbers are steps of training.
    """
    lengths_of: dict[str, list[str]] = {}  # by task
    for result in _higher(judged):
        steps = _steps(result)
        # A comparison of unknown length cannot be listed by length; `holds_in` still counts it.
        if steps:
            lengths = lengths_of.setdefault(result.task, [])
            lengths.append(format_steps(steps).upper())
    by_task = [f"{task} at {_joined(lengths)}" for task, lengths in lengths_of.items()]
    return "; ".join(by_task)


def _joined(words: Sequence[str]) -> str:
    """Return one word or more as a list in a sentence: `12K, 22K and 42K`."""
    *others, last = words
    if not others:
        return last
    return f"{', '.join(others)} and {last}"


def _higher(judged: JudgedFinding) -> list[Result]:
    """Return the comparisons in which CLM first is shown to score higher."""
    # A mark is what a comparison counts as after Holm's adjustment over the parts: `holds`, `fails` or `open`.
    return [
        result
        for result in judged.comparisons
        if judged.marks[result.label] == HOLDS.name
    ]


def _steps(result: Result) -> int:
    """Return the steps of training of the model that is claimed to be ahead; 0 where they are not known.

    They are not known of several models at once, or of a name that does not say them.
    """
    claimed_ahead, _ = result.comparison.sides
    # One name stays as it is. Several in one text are the name of no model, so that none is found.
    model = find_model(", ".join(claimed_ahead))
    return model.steps if model else 0


def _higher_where(judged: JudgedFinding) -> str:
    """Return a sentence that lists the comparisons that are shown to be higher, with the gains at the longest training.

    The sentence is empty where no comparison is shown to be higher, or where all are: the headline says both
    without a list. Of the gains it gives only those at the longest training.
    """
    higher = shown_higher(judged)
    if not higher or judged.holds_in == judged.parts:
        return ""

    # `_steps` gives 0 for an unknown length. Some comparison has a known length, since `higher` lists it, so
    # that the maximum is a known length as well.
    longest = max(map(_steps, judged.known_comparisons))
    final = [result for result in _higher(judged) if _steps(result) == longest]
    gains = ", ".join(f"{result.effect:+.2f} on {result.task}" for result in final)

    # Higher only after shorter trainings: there are no gains at the longest.
    if not gains:
        return f" Higher: {higher}."
    return f" Higher: {higher}; at {format_steps(longest).upper()} by {gains}."


def _lead(main: JudgedFinding, *, survives_pretraining: bool) -> str:
    """Return the first words of the headline, which answer whether to pretrain with MLM still.

    They are "Open" where no comparison shows CLM first better or worse than MLM alone, and "Sometimes" where
    some show one of the two, but not half of them.

    Args:
        main: the judged statement that answers the question.
        survives_pretraining: whether the answer, in whichever direction, stays when a spread between
            pretrainings is added.
    """
    if main.holds_in and main.fails_in:
        return "It depends"
    sure = "Yes" if survives_pretraining else "Probably"
    if main.holds_in:
        # The statement holds where half of the comparisons or more are better with CLM first.
        if main.outcome == HOLDS.name:
            return f"{sure}, but start with CLM"
        return "Sometimes, starting with CLM"

    if _half_fail(main):
        return f"{sure}, and without CLM first"
    if main.fails_in:
        return "Sometimes, starting with MLM"
    return "Open"


def _half_fail(main: JudgedFinding) -> bool:
    """Return whether CLM first is shown to be worse in half of the comparisons or more.

    The statement that it is better also takes half of them.
    """
    # One comparison is not enough: in simulated sources where nothing but the luck of pretrainings moved scores, at
    # least one was below zero in 28 to 29 %, half of the comparisons in at most 6 %.
    return 2 * main.fails_in >= main.parts


def _pretrained_again(
    main: JudgedFinding, assessment: Assessment
) -> tuple[str, bool] | None:
    """Return what the spread between pretrainings that others measured would leave of the answer.

    Returns:
        A sentence, and whether the answer survives that spread. None where no comparison is shown, so that there is
        nothing to survive.
    """
    if not main.holds_in and not main.fails_in:
        return None
    # The spreads that others measured, of networks of the paper's sizes. The only such network is T5. Its
    # spreads are too large in that they contain the spread of fine-tuning, and too small in that they are of averages
    # of eight or nine datasets, not three.
    alike = [spread for spread in measured_spreads() if spread.parameters >= _ALIKE]
    spreads = sorted(spread.sd for spread in alike)
    smallest, largest = spreads[0], spreads[-1]
    # The sizes of these networks, as a text for the sentence.
    sizes = sorted({round(spread.parameters) for spread in alike})
    millions = _range(sizes)

    # Where comparisons are shown in both directions, the answer is about the higher ones.
    direction = "higher" if main.holds_in else "lower"

    def shown(judged: JudgedStatement) -> int:
        """Return how many comparisons are shown to score in the direction of the answer."""
        return judged.holds_in if main.holds_in else judged.fails_in

    # The answer with the smallest and with the largest of the measured spreads.
    moved = [_moved(assessment, sd) for sd in (smallest, largest)]
    # The larger spread leaves fewer: sorted, since the sentence says `1 to 2`.
    still_shown = sorted(map(shown, moved))

    # The same without a correction for the shares of CLM that were tried: `alone` is the answer judged as if
    # it had not been chosen among them.
    shown_alone = sorted(shown(finding.alone) for finding in moved)
    # The sentence: what was measured, how many comparisons it leaves, up to which spread the mean stays.
    once = "Each model was pretrained once"
    # A replicated source has several pretrainings of some model, each under its own name.
    if assessment.source.is_replicated:
        once = "Of each model one pretraining is compared"
    deviations = f"standard deviation {_points(smallest)} to {_points(largest)} points"
    words = (
        f"{once}: intervals reflect only fine-tuning seeds. If pretraining again moved task scores as much as others "
        f"measured in a network of {millions}M parameters ({deviations}), {_range(still_shown)} of {main.known} would "
        f"be shown to score {direction} ({_range(shown_alone)} had no other split been tried)"
    )
    limit = _mean_up_to(main.mean, assessment)
    if main.mean is not None and limit:
        side_of_0 = "above" if main.mean.effect > 0 else "below"
        words += f"; the mean would stay {side_of_0} 0 up to {limit:.2f} points if all tasks moved alike"

    # The answer survives if its first words would stay with either spread: they rest on the outcome of the
    # statement or, where CLM first is worse, on half of the comparisons (`_lead`). The first of the sorted
    # counts is the smaller one.
    if main.holds_in:
        same_outcome = all(finding.outcome == main.outcome for finding in moved)
        survives = still_shown[0] > 0 and same_outcome
    else:
        survives = all(map(_half_fail, moved))

    return f"{words}.", survives


def _moved(assessment: Assessment, sd: float) -> JudgedFinding:
    """Return the judged answer if pretraining again moved task scores by a standard deviation of `sd` points.

    All answers are judged, since the p's of the one at `SPLIT` are corrected for the other shares of CLM.
    """
    # Every model and task varies independently: a model inherits none of its trunk's luck, so that each
    # comparison has the spread of both of its models.
    independent = SHARED_LUCK["models"]
    result_of = with_pretraining_spread(assessment.result_of, sd, independent)
    return judge(ANSWERS.values(), result_of)[ANSWER]


def _mean_up_to(mean: Result | None, assessment: Assessment) -> float:
    """Return the largest spread between pretrainings, in points, with which the mean's interval still excludes 0.

    It is a multiple of 0.01 points, and 0 where there is no mean or where 0.01 points are already too many.
    """
    if mean is None or not mean.known:
        return 0.0
    comparison = mean.comparison

    # The mean is over many models and tasks. If these varied independently, luck would average out; this is
    # the other end, at which models of one trunk move together, and so do all tasks.
    sharing = SHARED_LUCK["trunks and tasks"]

    def includes_zero(hundredths: int) -> bool:
        sd = hundredths / 100
        result_of = with_pretraining_spread(assessment.result_of, sd, sharing)
        moved = result_of(comparison)
        return not (moved.low > 0 or moved.high < 0)

    # The interval widens with the spread, so that the search finds how many of the spreads 0.01, 0.02 and so on leave
    # it on one side of 0. The largest of these spreads has that number of hundredths.
    hundredths = range(1, round(100 * _MOST_SPREAD) + 1)
    n_excluding_zero = bisect_left(hundredths, True, key=includes_zero)
    return n_excluding_zero / 100


def _points(sd: float) -> str:
    # 0.235 is stored as a little less, and would be written as 0.23.
    return f"{sd + 1e-9:.2f}"


def _range(counts: list[int]) -> str:
    """Return ascending counts by their ends: `1 to 2`, one number where all are equal, `none` for 0."""
    low, high = counts[0], counts[-1]
    if low != high:
        return f"{low} to {high}"
    return str(low) if low else "none"


def _number(count: int) -> str:
    return ("no", "one", "two", "three")[count] if count < 4 else str(count)


def _better_and_worse(main: JudgedFinding) -> str:
    """Return the least number of comparisons in which CLM first is better, and in which worse; others may be open."""
    better = f"in at least {main.holds_in}" if main.holds_in else "in none"
    worse = f"worse in at least {main.fails_in}" if main.fails_in else "worse in none"
    return f"better {better} of {main.known} comparisons and {worse}"


def splits_tried(judged: Mapping[str, JudgedFinding]) -> dict[int, Finding]:
    """Return the answering statement of each share of CLM (in per cent) of which the source has any comparison.

    Counts of comparisons are corrected for all of these shares.
    """
    tried = {}
    for share, finding in ANSWERS.items():
        if judged[finding.id].known:
            tried[share] = finding
    return tried


def _among(judged: Mapping[str, JudgedFinding]) -> list[str]:
    """Return a sentence that says how many of the answer's parts hold, by what is tested at the same time.

    The more p's Holm's adjustment is over, the fewer parts hold. It is computed over the parts of the answer alone,
    then with those of the other splits, of the family of findings about CLM then MLM, and of all findings.

    Returns:
        A list with the sentence; empty where no part holds even alone.
    """
    # The p's of all parts before any adjustment: of the answer, and by family of everything else. In the
    # family of the answer that is the other splits of the steps.
    answer_ps: list[float] = []
    ps_by_family: dict[str, list[float]] = {family: [] for family in FAMILIES}
    for statement in judged.values():
        family = statement.finding.family
        ps = [part.branch.p_for for part in statement.counted]
        if statement.id == ANSWER:
            answer_ps = ps
        elif statement.id != "F8":  # F8 rests on the same comparisons as the answer
            ps_by_family[family] += ps

    # The other splits are not findings, and are left out where all findings are tested together.
    ps_of_findings: list[float] = []
    for family, ps in ps_by_family.items():
        if family != ANSWER:
            ps_of_findings += ps

    # By words for what is tested together with the parts of the answer, the p's of these other parts. The
    # first has none: the parts of the answer alone.
    others_by_scope: dict[str, list[float]] = {"at this split alone": []}
    # Empty where the source has no comparison at another split.
    if ps_by_family[ANSWER]:
        splits = _number(len(splits_tried(judged)))
        others_by_scope[f"of the {splits} splits"] = ps_by_family[ANSWER]

    two_stage = f"of the findings on {FAMILIES['two-stage']}"
    others_by_scope[two_stage] = ps_by_family["two-stage"]
    others_by_scope["of all findings"] = ps_of_findings
    counts = []
    for words, others in others_by_scope.items():
        adjusted = holm([*answer_ps, *others])
        # Only the parts of the answer, which come first, are counted.
        shown = sum(p <= ALPHA for p in adjusted[: len(answer_ps)])

        # Where no part of the answer is shown when these are tested alone, none is shown among more tests:
        # there is nothing to list.
        if not others and not shown:
            return []
        counts.append(f"{shown} for the {len(adjusted)} {words}")

    listed = "; ".join(counts)
    return [f"Comparisons shown at {SPLIT} %, by what the correction covers: {listed}."]


class SampleMean(NamedTuple):
    """The mean effect over tasks or datasets like those at hand, with its 95 % interval."""

    mean: float
    low: float
    high: float


def random_effects(results: Sequence[Result]) -> SampleMean | None:
    """Return the mean that a random-effects meta-analysis gives; None for fewer than two effects.

    It is also None where an error is 0 or not known.

    The effects are taken as a random sample of those in a population, whose mean is estimated. The variance between
    effects is Paule and Mandel's, the interval Hartung and Knapp's (Student's t with one degree of freedom fewer than
    effects).
    """
    # An unknown error is nan, which is not above 0. An error of 0 would give its effect an infinite weight.
    if len(results) < 2 or not all(result.error > 0 for result in results):
        return None
    # Imported here: the findings alone do not need it.
    from scipy import special
    from statsmodels.stats.meta_analysis import combine_effects

    effects = np.array([result.effect for result in results])
    errors = np.array([result.error for result in results])
    # `combine_effects` takes variances. Where it is given no method, the variance between effects is Paule and
    # Mandel's.
    combined = combine_effects(effects, errors**2)

    # Hartung and Knapp multiply the variance by how far the effects scatter, relative to what is expected. Where they
    # happen to agree, this factor is below 1; the error must not fall below what the effects' own errors give.
    scale = max(1.0, combined.scale_hksj_re)
    # `sd_eff_w_re` is the mean's standard error before this factor.
    error = combined.sd_eff_w_re * math.sqrt(scale)
    # `combined.df` is one fewer than the effects.
    quantile = float(special.stdtrit(combined.df, 1 - ALPHA / 2))
    half = quantile * error
    mean = float(combined.mean_effect_re)
    return SampleMean(mean, float(mean - half), float(mean + half))


def _over_places(judged: JudgedFinding, assessment: Assessment) -> SampleMean | None:
    """Return the mean effect of a finding, with its tasks or datasets taken as a random sample.

    The comparisons on one task or dataset (at several lengths of training) are averaged first, so that each
    task or dataset is one member of the sample.
    """
    # By place: the task, with the dataset or `average`, that a comparison is on.
    by_place: dict[tuple[tuple[str, str], ...], list[AnyContrast]] = {}
    for result in judged.known_comparisons:
        by_place.setdefault(result.comparison.places, []).append(result.comparison)
    # For each place the mean of its comparisons. It is a contrast, of which the source gives the effect.
    means = [typical_contrast(contrasts) for contrasts in by_place.values()]
    # None where there is no mean, as of ratios of spreads.
    results = [assessment.result_of(mean) for mean in means if mean is not None]
    return random_effects(results)


def _as_samples(means: Mapping[str, SampleMean | None]) -> list[str]:
    """Return a sentence with the mean if the tasks, or the datasets, are a random sample; an empty list without means.

    `means` has the two means, by `tasks` and `datasets`; None for one that is not known.
    """
    conditions = []
    for kind, mean in means.items():
        if mean is not None:
            interval = f"[{mean.low:+.1f}, {mean.high:+.1f}]"
            conditions.append(f"{mean.mean:+.1f} {interval} if the {kind} are")
    if not conditions:
        return []
    # Only the first condition says how tasks or datasets are treated; a second one, after "and", leaves it
    # out.
    conditions[0] += " treated as a random sample"
    return [f"The mean at {SPLIT} % is {', and '.join(conditions)}."]
