"""A verdict in words: p, effect with its interval, the sentence that says why, and what a finding lacks."""

from __future__ import annotations

import math
from collections.abc import Iterable

from analysis.claims.catalogue.terms import MARGINS
from analysis.claims.statements import shared_trunks
from analysis.claims.verdicts import ALPHA, IN_PART, OPEN, Verdict
from analysis.evidence.contrasts import Result
from analysis.evidence.intervals import INTERVALS, coverage_words
from analysis.published_cells import N_SEEDS

__all__ = [
    "format_effect", "format_p", "format_typical", "how_tested", "levels_in_words", "p_texts",
    "readout", "says", "seeds_in_words", "seeds_that_decide", "sentence", "three_lines",
]  # fmt: skip


def format_p(p: float) -> str:
    """Return a p with two significant digits, `< 0.0001` below that, and `-` for none."""
    if math.isnan(p):
        return "-"
    if p < 0.0001:
        return "< 0.0001"
    return f"{p:.4f}" if p < 0.001 else f"{p:.3f}"


def p_texts(verdict: Verdict) -> tuple[str, str]:
    """Return p and Holm's p of the direction the evidence leans to; `-` when the source knows nothing."""
    if not verdict.known:
        return "-", "-"
    return format_p(verdict.p), format_p(verdict.p_adjusted)


def format_effect(result: Result) -> str:
    """Return `+2.09 [+1.67, +2.51]`, a ratio without signs, or `-`."""
    if not result.known:
        return "-"
    sign = "" if result.comparison.unit.startswith("ratio") else "+"
    return f"{result.effect:{sign}.2f} [{result.low:{sign}.2f}, {result.high:{sign}.2f}]"


def says(result: Result) -> str:
    """Return `holds`, `fails` or `open`: what a comparison says of its region on its own."""
    if result.p_for <= ALPHA:
        return "holds"
    return "fails" if result.p_against <= ALPHA else "open"


def format_typical(verdict: Verdict) -> str:
    """Return the typical effect like `format_effect`, or `-` where a finding has none."""
    return "-" if verdict.typical is None else format_effect(verdict.typical)


def how_tested(interval: str, results: Iterable[Result], *, published: bool) -> tuple[str, str, str]:
    """Return a sentence each on the test behind p's and intervals, on what they are about, and on multiplicity.

    `results`: what was tested; a kind of interval gives way to Student's t where seeds or cells are few.
    """
    used: dict[str, int] = {}
    for result in results:
        if result.interval and result.seeds:
            fewest = min(result.seeds)
            used[result.interval] = min(used.get(result.interval, fewest), fewest)
    used = used or {interval: N_SEEDS}
    over = "fine-tuning seeds on the same test instances"
    if published:
        test = (
            f"{INTERVALS[interval].tests_of_cells} from each model's mean and printed interval "
            f"({N_SEEDS} seeds, models treated as independent)"
        )
    else:
        tests = (INTERVALS[name].tests for name in used)
        test = f"{', or '.join(tests)} (Welch's t with fewer than five models)"
        over = "fine-tuning seeds and test instances" if INTERVALS[interval].needs_instances else over
    known = "".join(
        f"; the {name} interval of a single mean {words}"
        for name, count in used.items()
        if (words := coverage_words(name, count))
    )
    return (
        f"Tests and 95 % intervals ({', '.join(used)}): {test}{known}.",
        f"The results generalise to other {over}, but not to other pretrainings: each model was pretrained once.",
        "Holm's adjustment covers the findings about one question, not all findings.",
    )


def readout(verdict: Verdict) -> str:
    """Return `holds in at least 8 of 12, none shown to fail (simultaneous 95 %)`, and how many do so uncorrected."""
    tree = verdict.tree
    total = len(tree.units)
    alone = sum(unit.p_for <= ALPHA for unit in tree.units)
    failing = sum(unit.p_against <= ALPHA for unit in tree.units)
    judged = (
        f"; without correction {alone} hold and {failing} fail"
        if (alone, failing) != (verdict.hold, verdict.fail)
        else ""
    )
    holds = (
        f"holds in at least {verdict.hold} of {total}" if verdict.hold else f"none of {total} shown to hold"
    )
    fails = f"fails in at least {verdict.fail}" if verdict.fail else "none shown to fail"
    return f"{holds}, {fails} (simultaneous 95 %{judged})"


def levels_in_words() -> str:
    """Return the levels of all tests and the margins of "comparable"."""
    *margins, last = (f"{margin:g} ({task})" for task, margin in MARGINS.items())
    return (
        "A claimed direction is tested at 5 % two-sided (2.5 % one-sided), a claimed range by two one-sided tests at "
        f'5 %. "Comparable" means within {", ".join(margins)} or {last} points.'
    )


def seeds_that_decide(result: Result) -> int | None:
    """Return the seeds with which a contrast as large as it was seen would be decided, with power 80 %.

    None: not known, or more than `design.MOST_SEEDS`. Decided for the finding where the effect is in the claimed
    region, else against it; the error shrinks with the root of the number of seeds.
    """
    distance = min(
        (abs(result.effect - end) for end in result.comparison.ends if math.isfinite(end)), default=0.0
    )
    if not (_has_error(result) and distance > 0):
        return None
    from analysis.precision.design import seeds_needed

    seeds, inside = min(result.seeds), result.comparison.is_range and result.comparison.holds(result.effect)
    alpha = 2 * ALPHA if inside else ALPHA
    return seeds_needed(distance, result.error, seeds, paired=result.df <= seeds - 1, alpha=alpha)


def seeds_in_words(result: Result, comparison: str) -> str:
    """Return `About 18 seeds would decide <comparison>` or that none would; empty without a standard error.

    A percentile bootstrap and a spread have none: how their errors shrink with seeds is not known.
    """
    if not _has_error(result):
        return ""
    from analysis.precision.design import MOST_SEEDS

    seeds = seeds_that_decide(result)
    number = f"No number of seeds up to {MOST_SEEDS:,}" if seeds is None else f"About {seeds:,} seeds"
    return f"{number} would decide {comparison}"


def _has_error(result: Result) -> bool:
    return result.known and bool(result.seeds) and result.error > 0


def sentence(verdict: Verdict) -> str:
    """Return the verdict in a few sentences: itself, readout, typical and most adverse effect, what would decide it."""
    outcome, results, missing = verdict.outcome, verdict.tree.results, _missing(verdict)
    name = f"{verdict.verdict[0].upper()}{verdict.verdict[1:]}"
    if not verdict.known:
        return f"{name}: {missing}."
    counted = readout(verdict)
    parts = [f"{counted[0].upper()}{counted[1:]}." if outcome is IN_PART else f"{name}: {counted}."]
    if missing:
        different = len(set(results)), len(set(verdict.known))
        parts.append(f"{different[1]} of {different[0]} comparisons can be computed; {missing}.")
    if 0 < verdict.p <= ALPHA < verdict.p_adjusted:
        way = "fails" if verdict.leans_against else "holds"
        parts.append(
            f"The whole statement {way} on its own (p {format_p(verdict.p)}) but not after Holm's adjustment over the "
            f"{verdict.family_size} findings of its family ({format_p(verdict.p_adjusted)})."
        )
    parts.append(_effects(verdict))
    if outcome is OPEN and (words := seeds_in_words(verdict.decisive, "that comparison")):
        parts.append(f"{words} if its effect is as large as observed (power 80 %).")
    return " ".join(parts)


def three_lines(verdict: Verdict) -> tuple[str, str, str]:
    """Return a verdict for whoever asks about one finding: the verdict, its numbers, and how sure it is."""
    head = f"{verdict.finding.id}, {verdict.finding.short}: {verdict.verdict}."
    once = "Each model was pretrained once, so this is about other fine-tuning seeds, not other pretrainings."
    if not verdict.known:
        return head, f"Not tested: {_missing(verdict)}.", verdict.finding.remark or once
    way, (p, adjusted) = "against" if verdict.leans_against else "for", p_texts(verdict)
    counted = readout(verdict)
    sure = f"{counted[0].upper()}{counted[1:]}; p {way} the whole statement {p} (Holm {adjusted})"
    return head, _effects(verdict), " ".join(filter(None, (f"{sure}.", verdict.finding.remark, once)))


def _missing(verdict: Verdict) -> str:
    """Return why the source lacks some of a finding's comparisons; empty if it has all."""
    return next((result.missing for result in verdict.tree.results if not result.known), "")


def _effects(verdict: Verdict) -> str:
    """Return a finding's typical effect, where there is one, and its most adverse comparison."""
    parts, decisive = [], verdict.decisive
    if verdict.typical is not None and verdict.typical.known and len(verdict.tree.results) > 1:
        typical, shared = verdict.typical, shared_trunks(verdict.known)
        parts.append(
            f"Typical: {format_effect(typical)} {typical.comparison.unit} ({typical.comparison.label}"
            f"{shared and f'; {shared}'})."
        )
    comparison = decisive.comparison
    parts.append(
        f"Most adverse: {comparison.label}, {format_effect(decisive)} {comparison.unit} (claimed: {comparison.region})."
    )
    return " ".join(parts)
