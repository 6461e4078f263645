"""The answer: what the verdicts say about the paper's question, in sentences that name what was tested.

The README, the page of findings and the report print these sentences and no others, so that
they cannot say different things.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import median

from analysis.claims.assessment import SPLIT, Assessment
from analysis.claims.by_dataset import RandomEffects, random_effects
from analysis.claims.catalogue import ANSWERS, FAMILIES
from analysis.claims.pretraining_spread import SHARED_LUCK, measured_spreads, with_pretraining_spread
from analysis.claims.statements import shared_trunks, typical_contrast
from analysis.claims.verdicts import HOLDS, OPEN, OUTCOMES, Verdict, judge
from analysis.claims.wording import format_typical
from analysis.evidence.contrasts import Result

__all__ = ["QUESTION", "Answer", "answer", "verdicts_counted"]

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
    main: Verdict
    """The verdict on the answer's own statement."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of it, in order."""
        return tuple(
            filter(None, (self.headline, self.pretraining, *self.splits, *self.cautions, self.findings))
        )


def answer(assessment: Assessment) -> Answer:
    """Return the answer that an assessment gives."""
    main, stand_ins = assessment.answers[SPLIT], assessment.source.stand_ins is not None
    by_dataset = {share: assessment.datasets[one.id].verdict for share, one in ANSWERS.items()}
    cautions: tuple[str, ...] = ()
    if main.known:
        means = {
            kind: _over_places(verdict, assessment)
            for kind, verdict in (("tasks", main), ("datasets", by_dataset[SPLIT]))
        }
        cautions = (*_among(main, assessment.verdicts), *_as_samples(means), *_trunks(main))
    again = None if stand_ins else _pretrained_again(main, assessment)
    return Answer(
        headline=_on_the_question(main, stand_ins=stand_ins, survives=again is not None and again[1]),
        pretraining="" if again is None else again[0],
        splits=tuple(
            f"{share} % CLM against MLM alone: shown to be {_better_and_worse(verdict)}; the mean difference is "
            f"{format_typical(verdict)} points. By dataset: {_better_and_worse(by_dataset[share])}."
            for share, verdict in assessment.answers.items() if verdict.known
        ),
        cautions=cautions,
        findings=verdicts_counted(assessment.verdicts),
        main=main,
    )  # fmt: skip


def _on_the_question(main: Verdict, *, stand_ins: bool, survives: bool) -> str:
    where = "at equal budget" + " in these stand-ins for the paper's models" * stand_ins
    scope = "" if stand_ins else f"{main.finding.scope}; "
    level = f"({scope}95 % confidence for all at once and the {_number(len(ANSWERS))} splits tried)"
    tree = main.tree
    pair = f"{SPLIT} % CLM followed by {100 - SPLIT} % MLM"
    if not main.known:
        missing = next(result.missing for result in tree.results)
        return f"Open: this source does not say whether {pair} beats MLM alone: {missing}."
    of = f"{len(tree.units)} comparisons"
    if tree.known_units < len(tree.units):
        of = f"the {tree.known_units} comparisons (of {len(tree.units)}) that this source allows"
    over = ""
    if (typical := main.typical) is not None and typical.known:
        middle = median(one.effect for one in tree.results if one.known)
        over = (
            f" Over all {tree.known_units}, the mean difference is {typical.effect:+.1f} points [{typical.low:+.1f}, "
            f"{typical.high:+.1f}], the median {middle:+.1f}."
        )
    lead = _lead(main, survives=survives)
    if not main.hold and not main.fail:
        return f"{lead}: {where}, none of {of} shows {pair} better or worse than MLM alone {level}.{over}"
    higher, lower = (f"{count}" if count else "none" for count in (main.hold, main.fail))
    return (
        f"{lead}: {where}, {pair} is shown to score higher than MLM alone in {higher} of {of} and lower in {lower} "
        f"{level}.{over}"
    )


def _lead(main: Verdict, *, survives: bool) -> str:
    """Return the first words; no answer is given without a comparison that is shown."""
    if main.hold and main.fail:
        return "It depends"
    sure = "Yes" if survives else "Probably"
    if main.hold:
        return f"{sure}, but start with CLM" if main.outcome is HOLDS else "Sometimes, starting with CLM"
    return f"{sure}, and without CLM first" if main.fail else "Open"


def _pretrained_again(main: Verdict, assessment: Assessment) -> tuple[str, bool] | None:
    """Return what the spread between pretrainings that others measured leaves, and whether the answer survives it."""
    if not main.hold and not main.fail:
        return None
    alike = [one for one in measured_spreads() if one.parameters >= _ALIKE]
    spreads = sorted(one.sd for one in alike)
    millions = _range(sorted({round(one.parameters) for one in alike}))
    moved = [_moved(assessment, sd)[SPLIT] for sd in (spreads[0], spreads[-1])]
    side = "hold" if main.hold else "fail"
    left = sorted({getattr(one, side) for one in moved})
    alone = sorted({getattr(one.tree, side) for one in moved})
    what = "higher" if main.hold else "lower"
    words = (
        "Each model was pretrained once: intervals reflect only fine-tuning seeds. If pretraining again moved "
        f"task scores as much as others measured in a network of {millions}M parameters (standard deviation "
        f"{_points(spreads[0])} to {_points(spreads[-1])} points), {_range(left)} of {len(main.tree.units)} would be "
        f"shown to score {what} ({_range(alone)} had no other split been tried)"
    )
    if limit := _mean_up_to(main, assessment):
        side_of_0 = "above" if main.typical is not None and main.typical.effect > 0 else "below"
        words += f"; the mean would stay {side_of_0} 0 up to {limit:.2f} points if all tasks moved alike"
    survives = all(one.outcome is main.outcome and getattr(one, side) for one in moved)
    return f"{words}.", survives


def _moved(assessment: Assessment, sd: float) -> dict[int, Verdict]:
    """Return the answers if pretraining again moved task scores by `sd` points."""
    result_of = with_pretraining_spread(assessment.result_of, sd, SHARED_LUCK["models"])
    return dict(zip(ANSWERS, judge({one.id: one for one in ANSWERS.values()}, result_of), strict=True))


def _mean_up_to(main: Verdict, assessment: Assessment) -> float:
    """Return the largest spread, in steps of 0.01 points, with which the interval of the mean leaves 0 out; else 0."""
    if main.typical is None or not main.typical.known:
        return 0.0
    mean = main.typical.comparison

    def differs(sd: float) -> bool:
        found = with_pretraining_spread(assessment.result_of, sd, SHARED_LUCK["trunks and tasks"])(mean)
        return found.low > 0 or found.high < 0

    low, high = 0, round(100 * _MOST_SPREAD)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if differs(middle / 100) else (low, middle - 1)
    return low / 100


def _points(sd: float) -> str:
    return f"{sd + 1e-9:.2f}"  # 0.235 in binary is a little less


def _range(counts: list[int]) -> str:
    low, high = counts[0], counts[-1]
    return (str(low) if low else "none") if low == high else f"{low} to {high}"


def _number(count: int) -> str:
    return ("no", "one", "two", "three")[count] if count < 4 else str(count)


def _better_and_worse(verdict: Verdict) -> str:
    better = f"in at least {verdict.hold}" if verdict.hold else "in none"
    worse = f"worse in at least {verdict.fail}" if verdict.fail else "worse in none"
    return f"better {better} of {verdict.tree.known_units} comparisons and {worse}"


def _among(main: Verdict, verdicts: Iterable[Verdict]) -> list[str]:
    """Return how many of the answer's parts hold when fewer or more statements are tested at the same time."""
    # F8 is about the same comparisons.
    others = [verdict for verdict in verdicts if verdict.known and verdict.finding.id != "F8"]
    family = [one for one in others if one.finding.family == "two-stage"]
    if not main.tree.hold:
        return []

    tested = {
        "at this split alone": (),
        f"of the {_number(len(ANSWERS))} splits": main.rivals,
        f"of the findings on {FAMILIES['two-stage']}": tuple(one.tree for one in family),
        "of all findings": tuple(one.tree for one in others),
    }
    said = [
        f"{replace(main, rivals=trees).hold} for the {sum(len(tree.units) for tree in (main.tree, *trees))} {words}"
        for words, trees in tested.items()
    ]
    return [f"Comparisons shown at {SPLIT} %, by what the correction covers: {'; '.join(said)}."]


def _over_places(verdict: Verdict, assessment: Assessment) -> RandomEffects:
    """Return the mean of a finding, with the tasks or datasets that it is about as a sample of such."""
    places: dict[object, list[Result]] = {}
    for result in verdict.known:
        places.setdefault(result.comparison.places, []).append(result)
    means = [mean for found in places.values() if (mean := typical_contrast(found)) is not None]
    return random_effects([assessment.result_of(mean) for mean in means])


def _as_samples(means: dict[str, RandomEffects]) -> list[str]:
    said = [
        f"{one.mean:+.1f} [{one.low:+.1f}, {one.high:+.1f}] if the {kind} are"
        for kind, one in means.items()
        if math.isfinite(one.mean)
    ]
    said[:1] = [f"{one} treated as a random sample" for one in said[:1]]
    return [f"The mean at {SPLIT} % is {', and '.join(said)}."] if said else []


def _trunks(main: Verdict) -> list[str]:
    """Return which of the models compared share a pretraining."""
    shared = shared_trunks(main.known)
    return [f"{shared[0].upper()}{shared[1:]}."] if shared else []


def verdicts_counted(verdicts: Iterable[Verdict]) -> str:
    """Return how many findings hold, fail, hold in some of their parts and are open, in a sentence."""
    given = list(verdicts)
    counts = Counter(verdict.outcome.name for verdict in given)
    parts = [f"{n} {one.counted[n != 1]}" for one in OUTCOMES.values() if (n := counts[one.name])]
    unknown = sum(
        verdict.outcome is OPEN and not all(r.known for r in verdict.tree.results) for verdict in given
    )
    if unknown:
        parts[-1] += f" ({unknown} for lack of scores in this source)"
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"Of {len(given)} findings, {listed}."
