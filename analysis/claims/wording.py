"""Judged findings in words: p's, effects, counts, and the sentences that say why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from analysis.claims.catalogue.terms import MARGINS
from analysis.claims.judged import JudgedFinding
from analysis.claims.statements import shared_trunks
from analysis.claims.verdicts import IN_PART, OPEN, OUTCOMES
from analysis.evidence.contrasts import Result
from analysis.evidence.intervals import INTERVALS, coverage_words
from analysis.published_cells import N_SEEDS
from analysis.sources import Source
from analysis.statistics.inference import ALPHA


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
    """Return to which scores results extend: to other pretrainings, or only to `others` of one pretraining."""
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
    """Return a sentence each on the test behind p's and intervals, on what they are about, and on multiplicity.

    `tested`: the comparisons; a kind of interval gives way to Student's t where seeds or cells are few.
    """
    used: dict[str, int] = {}
    for result in tested:
        if result.interval and result.seeds:
            fewest = min(result.seeds)
            used[result.interval] = min(used.get(result.interval, fewest), fewest)
    used = used or {interval: N_SEEDS}
    over = "fine-tuning seeds on the same test instances"
    if source.is_published:
        test = (
            f"{INTERVALS[interval].tests_of_cells} from each model's mean and printed interval "
            f"({N_SEEDS} seeds, models treated as independent)"
        )
    else:
        tests = (INTERVALS[name].tests for name in used)
        test = f"{', or '.join(tests)} (Welch's t with fewer than five models)"
        over = (
            "fine-tuning seeds and test instances"
            if INTERVALS[interval].needs_instances
            else over
        )
    coverage = "".join(
        f"; the {name} interval of a single mean {words}"
        for name, count in used.items()
        if (words := coverage_words(name, count))
    )
    return (
        f"Tests and 95 % intervals ({', '.join(used)}): {test}{coverage}.",
        scope_in_words(source, over),
        "Holm's adjustment covers the findings about one question, not all findings.",
    )


def counted(findings: Iterable[JudgedFinding]) -> str:
    """Return how many findings hold, fail, hold in some of their parts and are open, in a sentence."""
    judged = list(findings)
    counts = Counter(one.outcome for one in judged)
    parts = [
        f"{n} {one.counted[n != 1]}"
        for one in OUTCOMES.values()
        if (n := counts[one.name])
    ]
    unknown = sum(one.outcome == OPEN.name and bool(one.missing) for one in judged)
    if unknown:
        parts[-1] += f" ({unknown} for lack of scores in this source)"
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"Of {len(judged)} findings, {listed}."


def verdict_in_words(judged: JudgedFinding) -> str:
    """Return the verdict in full: `all 3 parts hold, not after correction (0.078)`."""
    if judged.outcome == IN_PART.name and judged.holds_in == judged.parts:
        held = (
            "the only part holds"
            if judged.parts == 1
            else f"all {judged.parts} parts hold"
        )
        return f"{held}, not after correction ({format_p(judged.p_for_holm)})"
    if judged.outcome not in (IN_PART.name, OPEN.name) or not judged.fails_in:
        return judged.verdict
    of_parts = f"{judged.parts} parts"
    if judged.known < judged.parts:
        of_parts = f"the {judged.known} parts that this source has, of {judged.parts},"
    failing = f"{judged.fails_in} of {of_parts} fail{'s' * (judged.fails_in == 1)}"
    if judged.p_against <= ALPHA:
        failing += f", not after correction ({format_p(judged.p_against_holm)})"
    holds_in = (
        f" in {judged.holds_in} of {judged.of}"
        if judged.outcome == IN_PART.name
        else ""
    )
    return f"{judged.outcome.split()[0]}{holds_in}: {failing}"


def readout(judged: JudgedFinding) -> str:
    """Return `holds in at least 6 of 12, none shown to fail (simultaneous 95 %)`, and how many do so uncorrected."""
    parts = [part.branch for part in judged.counted]
    hold = sum(part.p_for <= ALPHA for part in parts)
    fail = sum(part.p_against <= ALPHA for part in parts)
    remark = ""
    if (hold, fail) != (judged.holds_in, judged.fails_in):
        remark = f"; without correction {hold} hold and {fail} fail"
    holds = f"none of {judged.of} shown to hold"
    if judged.holds_in:
        holds = f"holds in at least {judged.holds_in} of {judged.of}"
    fails = (
        f"fails in at least {judged.fails_in}"
        if judged.fails_in
        else "none shown to fail"
    )
    return f"{holds}, {fails} (simultaneous 95 %{remark})"


def levels_in_words() -> str:
    """Return the levels of all tests, and the margins."""
    *margins, last = (f"{margin:g} ({task})" for task, margin in MARGINS.items())
    return (
        "A claimed direction is tested at 5 % two-sided (2.5 % one-sided), a claimed range by two one-sided tests at "
        f'5 %, "competitive", "on par", "close" and "gap closed" by one. Margins: {", ".join(margins)} or {last} '
        "points."
    )


def seeds_that_decide(result: Result) -> int | None:
    """Return the seeds with which a comparison as large as it was seen would be decided, with power 80 %.

    None: not known, or more than `design.MOST_SEEDS`. Decided for the finding where the effect is in the claimed
    region, else against it; the error shrinks with the root of the number of seeds.
    """
    claimed = result.comparison
    distance = min(
        (
            abs(result.effect - end)
            for end in (claimed.low, claimed.high)
            if math.isfinite(end)
        ),
        default=0.0,
    )
    if not (_has_error(result) and distance > 0):
        return None
    from analysis.precision.design import seeds_needed

    seeds = min(result.seeds)
    # That an effect is inside a range, or above a margin, is shown by one-sided tests.
    is_inside = not claimed.has_direction and claimed.holds(result.effect)
    return seeds_needed(
        distance,
        result.error,
        seeds,
        paired=result.df <= seeds - 1,
        alpha=2 * ALPHA if is_inside else ALPHA,
    )


def seeds_in_words(result: Result, comparison: str) -> str:
    """Return `About 18 seeds would decide <comparison>` or that none would; empty without a standard error.

    A percentile bootstrap and a spread have none: how their errors shrink with seeds is not known.
    """
    if not _has_error(result):
        return ""
    from analysis.precision.design import MOST_SEEDS

    seeds = seeds_that_decide(result)
    number = (
        f"No number of seeds up to {MOST_SEEDS:,}"
        if seeds is None
        else f"About {seeds:,} seeds"
    )
    return f"{number} would decide {comparison}"


def _has_error(result: Result) -> bool:
    return result.known and bool(result.seeds) and result.error > 0


def sentence(judged: JudgedFinding) -> str:
    """Return the verdict in a few sentences: itself, readout, mean and most adverse effect, what would decide it."""
    words = verdict_in_words(judged)
    verdict = f"{words[0].upper()}{words[1:]}"
    if not judged.known:
        return f"{verdict}: {judged.missing}."
    held = readout(judged)
    parts = [
        f"{held[0].upper()}{held[1:]}."  # says the verdict itself
        if words == f"holds in {judged.holds_in} of {judged.known}{judged.not_run}"
        else f"{verdict}: {held}."
    ]
    if judged.missing:
        computed, planned = (
            len({result.label for result in results})
            for results in (judged.known_comparisons, judged.comparisons)
        )
        parts.append(
            f"{computed} of {planned} comparisons can be computed; {judged.missing}."
        )
    if judged.p_raw <= ALPHA < judged.p_holm:
        way = "fails" if judged.direction == "against" else "holds"
        parts.append(
            f"The whole statement {way} on its own (p {format_p(judged.p_raw)}) but not after Holm's adjustment over "
            f"the {judged.holm_over} findings of its family ({format_p(judged.p_holm)})."
        )
    parts.append(_effects(judged))
    if judged.outcome == OPEN.name and (
        words := seeds_in_words(judged.decisive, "that comparison")
    ):
        parts.append(f"{words} if its effect is as large as observed (power 80 %).")
    return " ".join(filter(None, parts))


def three_lines(judged: JudgedFinding, scope: str) -> tuple[str, str, str]:
    """Return a verdict for whoever asks about one finding: the verdict, its numbers, and how sure it is."""
    finding = judged.finding
    head = f"{judged.id}, {finding.short}: {verdict_in_words(judged)}."
    if not judged.known:
        return head, f"Not tested: {judged.missing}.", finding.remark or scope
    p, adjusted = p_texts(judged)
    held = readout(judged)
    certainty = f"{held[0].upper()}{held[1:]}; p {judged.direction} the whole statement {p} (Holm {adjusted})"
    return (
        head,
        _effects(judged),
        " ".join(filter(None, (f"{certainty}.", finding.remark, scope))),
    )


def _effects(judged: JudgedFinding) -> str:
    """Return the mean of a finding's comparisons, where there is one, and its most adverse comparison."""
    parts, decisive, mean = [], judged.decisive, judged.mean
    if mean is not None and mean.known:
        shared = shared_trunks(one.comparison for one in judged.known_comparisons)
        parts.append(
            f"Mean: {format_effect(mean)} {mean.unit} ({mean.label}{shared and f'; {shared}'})."
        )
    parts.append(
        f"Most adverse: {decisive.label}, {format_effect(decisive)} {decisive.unit} (claimed: {decisive.claimed})."
    )
    return " ".join(filter(None, (*parts, outside_in_words(judged))))


def outside_in_words(judged: JudgedFinding) -> str:
    """Return that every estimate lies outside the range that is claimed for it; empty where some does not."""
    known = judged.known_comparisons
    if len(known) < 2 or any(
        not result.comparison.is_range or result.comparison.holds(result.effect)
        for result in known
    ):
        return ""
    return f"All {len(known)} estimates lie outside the claimed range."
