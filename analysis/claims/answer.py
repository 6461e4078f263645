"""The answer: what the verdicts say about the paper's question, in sentences that name what was tested.

The README, the page of findings, the letter and the report print these sentences and no others, so that
they cannot say different things.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from analysis.claims.assessment import Assessment
from analysis.claims.by_dataset import RandomEffects, random_effects
from analysis.claims.catalogue import FAMILIES
from analysis.claims.catalogue.two_stage import BY_SPLIT
from analysis.claims.statements import shared_trunks, typical_contrast
from analysis.claims.verdicts import GRADES, Verdict, judge, units_that_hold_among
from analysis.claims.wording import format_typical
from analysis.evidence.contrasts import Result

__all__ = ["HEADLINES", "MAIN", "QUESTION", "SPLIT", "Answer", "answer"]

QUESTION = "Should we still pretrain encoders with masked language modeling?"
"""The paper's title."""
MAIN, SPLIT = "F8", 25
"""The finding that is the paper's answer (CLM then MLM beats MLM alone at equal budget), and its percentage of CLM."""
HEADLINES = (MAIN, "F1", "F6", "F7", "F11", "F12")
"""The findings of the paper's abstract: biphasic training; MLM against CLM; data efficiency; stability; continuing a
CLM model; with less compute."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a source answers."""

    headline: str
    """On the question; it names split, models, budgets and tasks."""
    splits: tuple[str, ...]
    """A line for each share of CLM of which the source knows any comparison, by task and by dataset."""
    cautions: tuple[str, ...]
    """What is left when more of the paper is tested at once; tasks and datasets as samples; what was replicated."""
    findings: str
    """On all findings."""
    headlines: tuple[Verdict, ...]
    """The verdicts on `HEADLINES`, in their order."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of it, in order."""
        return self.headline, *self.splits, *self.cautions, self.findings


def answer(assessment: Assessment) -> Answer:
    """Return the answer that an assessment gives."""
    by_id = {verdict.finding.id: verdict for verdict in assessment.verdicts}
    main = by_id[MAIN]
    findings = {f"{share} % CLM": finding for share, finding in BY_SPLIT.items()}
    by_task = dict(zip(findings, judge(findings, assessment.result_of), strict=True))
    by_dataset = {name: reading.verdict for name, reading in assessment.by_dataset(findings).items()}
    cautions: tuple[str, ...] = ()
    if main.known:
        others = [verdict for name, verdict in by_task.items() if name != f"{SPLIT} % CLM"]
        samples = {"tasks": main, "datasets": by_dataset[f"{SPLIT} % CLM"]}
        means = {kind: _over_places(verdict, assessment) for kind, verdict in samples.items()}
        cautions = (*_among(main, others, assessment.verdicts), *_as_samples(means), _replicated(main))
    return Answer(
        headline=_on_the_question(main, stand_ins=assessment.source.stand_ins is not None),
        splits=tuple(
            f"{name} against MLM alone: shown to be {_better_and_worse(verdict)}; the mean difference is "
            f"{format_typical(verdict)} points. By dataset: {_better_and_worse(by_dataset[name])}."
            for name, verdict in by_task.items() if verdict.known
        ),
        cautions=cautions,
        findings=_on_all(assessment.verdicts),
        headlines=tuple(by_id[name] for name in HEADLINES),
    )  # fmt: skip


def _on_the_question(main: Verdict, *, stand_ins: bool) -> str:
    where = "at equal budget" + " in these stand-ins for the paper's models" * stand_ins
    scope = "" if stand_ins else f"{main.finding.scope}; "
    level = f"({scope}simultaneous 95 % confidence)"
    tree = main.tree
    pair = f"{SPLIT} % CLM followed by {100 - SPLIT} % MLM"
    if not main.known:
        missing = next(result.missing for result in tree.results)
        return f"This source does not say whether {pair} beats MLM alone: {missing}."
    of = f"{len(tree.units)} comparisons"
    if tree.known_units < len(tree.units):
        of = f"the {tree.known_units} comparisons (of {len(tree.units)}) that this source allows"
    typical = main.typical
    mean = ""
    if typical is not None and typical.known:
        mean = (
            f"the mean difference is {typical.effect:+.1f} points [{typical.low:+.1f}, {typical.high:+.1f}]"
        )
    if not tree.hold and not tree.fail:
        return (
            f"{_lead(main)}: {where}, none of {of} shows {pair} better or worse than MLM alone {level}."
            f"{mean and f' Over all {tree.known_units}, {mean}.'}"
        )
    middle = median(one.effect for one in tree.results if one.known)
    beaten = "none" if tree.fail == 0 else f"at least {tree.fail}"
    return (
        f"{_lead(main)}: {where}, {pair} beats MLM alone in at least {tree.hold} of {of} and is shown to be worse in "
        f"{beaten} {level}.{mean and f' Over all {tree.known_units}, {mean}, the median {middle:+.1f}.'}"
    )


def _lead(verdict: Verdict) -> str:
    tree = verdict.tree
    if verdict.grade.sided:
        return "Yes, always starting with CLM" if verdict.grade.sided > 0 else "Yes, and without CLM first"
    if tree.hold and tree.fail:
        return "It depends"
    if tree.hold:
        return (
            "Yes, but start with CLM" if 2 * tree.hold >= len(tree.units) else "Sometimes, starting with CLM"
        )
    return "Undecided"


def _better_and_worse(verdict: Verdict) -> str:
    tree = verdict.tree
    better = f"in at least {tree.hold}" if tree.hold else "in none"
    worse = f"worse in at least {tree.fail}" if tree.fail else "worse in none"
    return f"better {better} of {tree.known_units} comparisons and {worse}"


def _among(main: Verdict, splits: list[Verdict], verdicts: Iterable[Verdict]) -> list[str]:
    """Return how many of the main finding's parts are left when those of others are tested at the same time."""
    others = [verdict for verdict in verdicts if verdict is not main and verdict.known]
    family = [verdict for verdict in others if verdict.finding.family == main.finding.family]
    tested = {
        "the other splits": splits,
        f"the findings on {FAMILIES[main.finding.family]}": family,
        "all findings": others,
    }
    if not main.tree.hold:
        return []
    first, *left = (
        (units_that_hold_among(main, more), words, sum(len(one.tree.units) for one in (main, *more)))
        for words, more in tested.items()
    )
    *middle, last = (f"{shown} if it covers {words} ({total})" for shown, words, total in left)
    return [
        f"Of the {main.tree.hold} comparisons that {SPLIT} % CLM is shown to win, {first[0]} remain if the correction "
        f"also covers {first[1]} ({first[2]} comparisons in all), {', '.join(middle)}, and {last}."
    ]


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


def _replicated(main: Verdict) -> str:
    seeds, shared = f" ({main.seeds} seeds)" if main.seeds else "", shared_trunks(main.known)
    return (
        f"Fine-tuning was replicated{seeds}, but pretraining was not. Each model was pretrained once"
        f"{shared and f', and {shared}'}. These results do not show how much a second pretraining would change the "
        "numbers."
    )


def _on_all(verdicts: Iterable[Verdict]) -> str:
    given = Counter(verdict.verdict for verdict in verdicts)
    parts = [f"{n} {grade.counted[n != 1]}" for name, grade in GRADES.items() if (n := given[name])]
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"Of {given.total()} findings, {listed}."
