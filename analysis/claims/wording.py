"""Judged findings in words: p's, effects, counts, and the sentences that say why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from analysis.claims.catalogue.terms import MARGINS
from analysis.claims.judged import JudgedFinding
from analysis.claims.statements import shared_trunks
from analysis.claims.verdicts import HOLDS, IN_PART, OPEN, OUTCOMES
from analysis.evidence.contrasts import Result
from analysis.evidence.intervals import INTERVALS, POOLED, coverage_words
from analysis.published_cells import N_SEEDS
from analysis.sources import Source
from common.level import ALPHA, LEVEL_IN_WORDS, in_percent


def format_p(p: float) -> str:
    """Return a p with two significant digits, `< 0.0001` below that, and `-` for none."""
    if math.isnan(p):
        return "-"
    if p < 0.0001:
        return "< 0.0001"
    return f"{p:.4f}" if p < 0.001 else f"{p:.3f}"


def p_texts(judged: JudgedFinding) -> tuple[str, str]:
    """Return p and Holm's p of the direction the evidence leans to; `-` when the source knows nothing."""
    if not judged.known:
        return "-", "-"
    return format_p(judged.p_raw), format_p(judged.p_holm)


def format_effect(result: Result | None) -> str:
    """Return `+2.09 [+1.67, +2.51]`, a ratio without signs, or `-` for none."""
    if result is None or not result.known:
        return "-"
    sign = "" if result.unit.startswith("ratio") else "+"
    return (
        f"{result.effect:{sign}.2f} [{result.low:{sign}.2f}, {result.high:{sign}.2f}]"
    )


def scope_in_words(source: Source, others: str = "fine-tuning seeds") -> str:
    """Return a sentence on which other scores results are about: other pretrainings, or only `others` of one.

    An arm is several pretrainings of one model under one name, each of which is a seed (`Source.has_arms`);
    commands make arms of them with --replicates. A replicated source has such pretrainings, but each under
    its own name.
    """
    if source.has_arms:
        return "Each model is several pretrainings, which are its seeds, so this is about other pretrainings, too."
    if source.is_replicated:
        return (
            f"This is about other {others} of one pretraining each; some models were pretrained several times, and "
            "--replicates tests over their pretrainings."
        )
    return f"Each model was pretrained once, so this is about other {others}, not other pretrainings."


def how_tested(
    source: Source, interval: str, tested: Iterable[Result]
) -> tuple[str, str, str]:
    """Return three sentences: on the test behind p's and intervals, on what they are about, and on multiplicity.

    Args:
        source: whose scores were tested.
        interval: the kind of interval that was asked for.
        tested: the comparisons; where seeds or cells are few, another kind of interval was used for them.
    """
    # The kinds of interval that were used, each with the fewest seeds that it was used for. A ratio of
    # spreads has an interval of its own, without a name.
    fewest_of: dict[str, int] = {}
    for result in tested:
        if result.interval and result.seeds:
            seeds = min(result.seeds)
            fewest_of[result.interval] = min(
                fewest_of.get(result.interval, seeds), seeds
            )

    # Where no comparison has such an interval, the sentence is about the one asked for, with the paper's
    # number of seeds.
    if not fewest_of:
        fewest_of = {interval: N_SEEDS}
    # An interval describes its test in two ways: `tests_of_cells` of printed cells, `tests` of runs. `over`
    # says which other scores the results are about.
    over = "fine-tuning seeds on the same test instances"
    if source.is_published:
        # The paper's tables do not say which seeds two models share.
        conditions = f"{N_SEEDS} seeds, models treated as independent"
        of_cells = INTERVALS[interval].tests_of_cells
        test = f"{of_cells} from each model's mean and printed interval ({conditions})"
    else:
        test = ", or ".join(INTERVALS[name].tests for name in fewest_of)
        # The pooled bootstrap takes the shape of errors from all models of a dataset. It needs five models or
        # more (docs/claims.md); below that, Welch's t takes its place.
        if POOLED.name in fewest_of:
            test += " (Welch's t with fewer than five models)"
        # A kind that needs the scores of single instances allows for another sample of these as well.
        if INTERVALS[interval].needs_instances:
            over = "fine-tuning seeds and test instances"

    clauses = [test]
    # Then the coverages, which were simulated for means, not for every contrast.
    for name, count in fewest_of.items():
        words = coverage_words(name, count)
        if words:
            clauses.append(f"the {name} interval of a single mean {words}")

    kinds = ", ".join(fewest_of)
    return (
        f"Tests and {LEVEL_IN_WORDS} intervals ({kinds}): {'; '.join(clauses)}.",
        scope_in_words(source, over),
        "Holm's adjustment covers the findings about one question, not all findings.",
    )


def count_outcomes(findings: Iterable[JudgedFinding]) -> str:
    """Return how many findings hold, fail, hold in some of their parts and are open, in a sentence.

    There are one or more findings.
    """
    judged = list(findings)
    counts = Counter(finding.outcome for finding in judged)
    parts: list[str] = []
    for outcome in OUTCOMES.values():
        count = counts[outcome.name]
        singular, plural = outcome.counted
        if count:
            parts.append(f"{count} {singular if count == 1 else plural}")

    lacking = 0  # open findings of which the source lacks a comparison
    for finding in judged:
        if finding.outcome == OPEN.name and finding.missing:
            lacking += 1

    # "Open" is the last of the outcomes, and so the last of the parts.
    if lacking:
        parts[-1] += f" ({lacking} for lack of scores in this source)"
    *others, listed = parts
    if others:
        listed = f"{', '.join(others)} and {listed}"
    return f"Of {len(judged)} findings, {listed}."


def verdict_in_words(judged: JudgedFinding) -> str:
    """Return the verdict in full: `all 3 parts hold, not after correction (0.078)`.

    The correction is Holm's adjustment over the findings of a family, and the number the whole finding's p after it.
    """
    if judged.outcome == IN_PART.name and judged.holds_in == judged.parts:
        parts_hold = f"all {judged.parts} parts hold"
        if judged.parts == 1:
            parts_hold = "the only part holds"
        return f"{parts_hold}, not after correction ({format_p(judged.p_for_holm)})"

    # `judged.verdict` says all there is, unless the whole is not decided although some of its parts fail.
    # Then the verdict is "open" or "holds in k of n", and the failing parts are added.
    is_decided = judged.outcome not in (IN_PART.name, OPEN.name)
    if is_decided or not judged.fails_in:
        return judged.verdict
    of_parts = f"{judged.parts} parts"
    if judged.known < judged.parts:
        of_parts = f"the {judged.known} parts that this source has, of {judged.parts},"
    verb = "fails" if judged.fails_in == 1 else "fail"
    failing = f"{judged.fails_in} of {of_parts} {verb}"
    # The whole fails if it is tested alone, but not after Holm's adjustment, whose p is in the brackets.
    if judged.p_against <= ALPHA:
        failing += f", not after correction ({format_p(judged.p_against_holm)})"
    verdict = OPEN.name
    if judged.outcome == IN_PART.name:
        # `of` is a piece of text: `12`, or `the 2 that this source has, of 12`.
        verdict = f"{HOLDS.name} in {judged.holds_in} of {judged.of}"
    return f"{verdict}: {failing}"


def readout(judged: JudgedFinding) -> str:
    """Return how many parts hold and fail: `holds in at least 6 of 12, none shown to fail (simultaneous 95 %)`.

    Where the numbers without Holm's adjustment over the parts are others, these are given as well.
    """
    # A branch has the p's of a part before Holm's adjustment.
    branches = [part.branch for part in judged.counted]
    # `compare` and the report list comparisons with their p's without correction, so that people may count these.
    uncorrected_hold = sum(branch.p_for <= ALPHA for branch in branches)
    uncorrected_fail = sum(branch.p_against <= ALPHA for branch in branches)
    remark = ""
    if (uncorrected_hold, uncorrected_fail) != (judged.holds_in, judged.fails_in):
        remark = (
            f"; without correction {uncorrected_hold} hold and {uncorrected_fail} fail"
        )

    # `of` is a piece of text: `12`, or `the 2 that this source has, of 12`.
    holds = f"none of {judged.of} shown to hold"
    if judged.holds_in:
        holds = f"holds in at least {judged.holds_in} of {judged.of}"
    fails = "none shown to fail"
    if judged.fails_in:
        fails = f"fails in at least {judged.fails_in}"
    return f"{holds}, {fails} (simultaneous {LEVEL_IN_WORDS}{remark})"


def levels_in_words() -> str:
    """Return the levels of all tests, and the margins."""
    *margins, last = (f"{margin:g} ({task})" for task, margin in MARGINS.items())
    level = in_percent(ALPHA)
    return (
        f"A claimed direction is tested at {level} two-sided ({in_percent(ALPHA / 2)} one-sided), a claimed range by "
        f'two one-sided tests at {level}, "competitive", "on par", "close" and "gap closed" by one. '
        f"Margins: {', '.join(margins)} or {last} points."
    )


def seeds_that_decide(result: Result) -> int | None:
    """Return the number of seeds that would decide a comparison with a power of 80 %, if its effect is as observed.

    It is decided for the finding where the effect is in the claimed region, else against it. The standard error is
    taken to shrink with the root of the number of seeds. The result is None where there is no standard error, where the
    effect is exactly at an end of the region, or where more seeds than `design.MOST_SEEDS` are needed.
    """
    claimed = result.comparison
    # To decide is to tell the effect from the nearest end of the claimed region.
    distances = []
    for end in (claimed.low, claimed.high):
        if math.isfinite(end):
            distances.append(abs(result.effect - end))

    # Without a finite end there is nothing to tell apart, and the result is None.
    distance = min(distances, default=0.0)
    if not (_has_error(result) and distance > 0):
        return None
    from analysis.precision.design import seeds_needed

    seeds = min(result.seeds)
    # A test within seeds has seeds - 1 degrees of freedom; Welch's test has more.
    is_paired = result.df <= seeds - 1

    # That an effect is inside a range, or above a margin, is shown by one-sided tests at `ALPHA`; these need as many
    # seeds as a two-sided test at twice that level, which is what `seeds_needed` plans.
    is_inside = not claimed.has_direction and claimed.holds(result.effect)
    alpha = 2 * ALPHA if is_inside else ALPHA
    return seeds_needed(distance, result.error, seeds, paired=is_paired, alpha=alpha)


def seeds_in_words(result: Result, comparison: str) -> str:
    """Return `About 18 seeds would decide <comparison>` or that none would; empty without a standard error.

    A percentile bootstrap and a spread have none: how their errors shrink with seeds is not known.
    """
    if not _has_error(result):
        return ""
    from analysis.precision.design import MOST_SEEDS

    seeds = seeds_that_decide(result)
    number = f"No number of seeds up to {MOST_SEEDS:,}"
    if seeds is not None:
        number = f"About {seeds:,} seeds"
    return f"{number} would decide {comparison}"


def _has_error(result: Result) -> bool:
    # A missing error is nan, which is not above 0.
    return result.known and bool(result.seeds) and result.error > 0


def sentence(judged: JudgedFinding) -> str:
    """Return a few sentences: the verdict, its counts, the mean and most adverse effect, and what would decide it."""
    words = verdict_in_words(judged)
    verdict = _capitalised(words)
    if not judged.known:
        return f"{verdict}: {judged.missing}."
    counts = readout(judged)
    parts = [f"{verdict}: {counts}."]

    # Where the verdict is only "holds in 6 of 12", the counts say the same ("holds in at least 6 of 12,
    # ..."), so that the verdict need not come first. `not_run` is a piece of text, such as " (8 not run)"; it
    # is empty where the source has all parts.
    if words == f"holds in {judged.holds_in} of {judged.known}{judged.not_run}":
        parts = [f"{_capitalised(counts)}."]

    # By labels, since a finding may name one comparison in several of its parts.
    if judged.missing:
        computed = _count_of_labels(judged.known_comparisons)
        planned = _count_of_labels(judged.comparisons)
        parts.append(
            f"{computed} of {planned} comparisons can be computed; {judged.missing}."
        )

    # Without this sentence, a p below 0.05 next to a verdict that is not "holds" or "fails" would look like a mistake.
    if judged.p_raw <= ALPHA < judged.p_holm:
        way = "fails" if judged.direction == "against" else "holds"
        p, adjusted = p_texts(judged)
        parts.append(
            f"The whole statement {way} on its own (p {p}) but not after Holm's adjustment over "
            f"the {judged.holm_over} findings of its family ({adjusted})."
        )

    parts.append(_effects(judged))
    if judged.outcome == OPEN.name:
        seeds = seeds_in_words(judged.decisive, "that comparison")
        if seeds:
            parts.append(f"{seeds} if its effect is as large as observed (power 80 %).")

    return " ".join(filter(None, parts))


def _capitalised(words: str) -> str:
    return words[0].upper() + words[1:]


def _count_of_labels(results: Iterable[Result]) -> int:
    return len({result.label for result in results})


def three_lines(judged: JudgedFinding, scope: str) -> tuple[str, str, str]:
    """Return three lines about a single finding: its verdict, its numbers, and how sure the verdict is.

    `scope` is the sentence on which other scores the results are about (`scope_in_words`).
    """
    finding = judged.finding
    first_line = f"{judged.id}, {finding.short}: {verdict_in_words(judged)}."
    if not judged.known:
        # The finding's remark is about its wording; it is empty where there is nothing to say.
        not_tested = f"Not tested: {judged.missing}."
        return first_line, not_tested, finding.remark or scope

    p, adjusted = p_texts(judged)
    counts = _capitalised(readout(judged))
    certainty = (
        f"{counts}; p {judged.direction} the whole statement {p} (Holm {adjusted})."
    )
    last_line = " ".join(filter(None, (certainty, finding.remark, scope)))
    return first_line, _effects(judged), last_line


def _effects(judged: JudgedFinding) -> str:
    """Return the mean of a finding's comparisons, where there is one, and its most adverse comparison."""
    decisive, mean = judged.decisive, judged.mean
    parts: list[str] = []
    if mean is not None and mean.known:
        mean_of = mean.label
        compared = [result.comparison for result in judged.known_comparisons]
        shared = shared_trunks(compared)
        if shared:
            mean_of += f"; {shared}"
        parts.append(f"Mean: {format_effect(mean)} {mean.unit} ({mean_of}).")

    parts.append(
        f"Most adverse: {decisive.label}, {format_effect(decisive)} {decisive.unit} (claimed: {decisive.claimed})."
    )
    parts.append(outside_in_words(judged))
    return " ".join(filter(None, parts))


def outside_in_words(judged: JudgedFinding) -> str:
    """Return a sentence that every estimate lies outside its claimed range.

    It is empty where an estimate lies inside, where a comparison claims no range with two ends, and of a single
    comparison.
    """
    known = judged.known_comparisons
    if len(known) < 2:
        return ""
    for result in known:
        claimed = result.comparison
        if not claimed.is_range or claimed.holds(result.effect):
            return ""
    return f"All {len(known)} estimates lie outside the claimed range."
