"""The frame of findings in words: p's, effects, counts, and the sentences that say why.

`found` is a finding's rows of the frame.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import pandas as pd

from analysis.claims.catalogue import STATEMENTS
from analysis.claims.catalogue.terms import MARGINS
from analysis.claims.frame import (
    FindingRow,
    comparisons_of,
    decisive_of,
    known_of,
    main_of,
    mean_of,
    rows,
    short_verdict,
)
from analysis.claims.statements import shared_trunks
from analysis.claims.verdicts import IN_PART, OPEN, OUTCOMES
from analysis.evidence.intervals import INTERVALS, coverage_words
from analysis.published_cells import N_SEEDS
from analysis.statistics.inference import ALPHA


def format_p(p: float) -> str:
    """Return a p with two significant digits, `< 0.0001` below that, and `-` for none."""
    if math.isnan(p):
        return "-"
    if p < 0.0001:
        return "< 0.0001"
    return f"{p:.4f}" if p < 0.001 else f"{p:.3f}"


def p_texts(main: FindingRow) -> tuple[str, str]:
    """Return p and Holm's p of the direction the evidence leans to; `-` when the source knows nothing."""
    return (format_p(main.p_raw), format_p(main.p_holm)) if main.known else ("-", "-")


def format_effect(row: FindingRow | None) -> str:
    """Return `+2.09 [+1.67, +2.51]`, a ratio without signs, or `-` for none."""
    if row is None or row.missing:
        return "-"
    sign = "" if row.unit.startswith("ratio") else "+"
    return f"{row.effect:{sign}.2f} [{row.low:{sign}.2f}, {row.high:{sign}.2f}]"


def pretrained_once(others: str) -> str:
    """Return to which other scores than those at hand results extend, where each model was pretrained once."""
    return f"Each model was pretrained once, so this is about other {others}, not other pretrainings."


ONCE = pretrained_once("fine-tuning seeds")
ARMS = "Each model is several pretrainings, which are its seeds, so this is about other pretrainings, too."


def how_tested(
    interval: str, tested: Iterable[FindingRow], *, published: bool, arms: bool = False
) -> tuple[str, str, str]:
    """Return a sentence each on the test behind p's and intervals, on what they are about, and on multiplicity.

    `tested`: the comparisons; a kind of interval gives way to Student's t where seeds or cells are few.
    """
    used: dict[str, int] = {}
    for row in tested:
        if row.interval and row.seeds:
            fewest = min(row.seeds)
            used[row.interval] = min(used.get(row.interval, fewest), fewest)
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
        ARMS if arms else pretrained_once(over),
        "Holm's adjustment covers the findings about one question, not all findings.",
    )


def counted(frame: pd.DataFrame) -> str:
    """Return how many findings hold, fail, hold in some of their parts and are open, in a sentence."""
    findings = frame[frame["role"] == "finding"]
    counts = Counter(findings["outcome"])
    parts = [
        f"{n} {one.counted[n != 1]}"
        for one in OUTCOMES.values()
        if (n := counts[one.name])
    ]
    unknown = ((findings["outcome"] == OPEN.name) & (findings["missing"] != "")).sum()
    if unknown:
        parts[-1] += f" ({unknown} for lack of scores in this source)"
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"Of {len(findings)} findings, {listed}."


def not_run(main: FindingRow) -> str:
    """Return ` (8 not run)` where the source lacks some of a finding's parts."""
    return (
        f" ({main.parts - main.known} not run)" if 0 < main.known < main.parts else ""
    )


def counted_verdict(main: FindingRow) -> str:
    """Return the verdict with the parts that the source has: `holds in 1 of 4 (8 not run)`."""
    if main.outcome not in (IN_PART.name, OPEN.name) or not main.known:
        return main.verdict
    counts = short_verdict(main, main.known)
    return counts if counts == main.outcome else f"{counts}{not_run(main)}"


def verdict_in_words(main: FindingRow) -> str:
    """Return the verdict in full: `all 3 parts hold, not after correction (0.078)`."""
    if main.outcome == IN_PART.name and main.holds_in == main.parts:
        held = (
            "the only part holds" if main.parts == 1 else f"all {main.parts} parts hold"
        )
        return f"{held}, not after correction ({format_p(main.p_for_holm)})"
    if main.outcome not in (IN_PART.name, OPEN.name) or not main.fails_in:
        return main.verdict
    failing = f"{main.fails_in} of {main.parts} parts fail{'s' * (main.fails_in == 1)}"
    if main.p_against <= ALPHA:
        failing += f", not after correction ({format_p(main.p_against_holm)})"
    holds_in = (
        f" in {main.holds_in} of {main.parts}" if main.outcome == IN_PART.name else ""
    )
    return f"{main.outcome.split()[0]}{holds_in}: {failing}"


def readout(found: pd.DataFrame) -> str:
    """Return `holds in at least 6 of 12, none shown to fail (simultaneous 95 %)`, and how many do so uncorrected."""
    main, parts = main_of(found), found[found["counted"] != ""]
    uncorrected = (parts["p_for"] <= ALPHA).sum(), (parts["p_against"] <= ALPHA).sum()
    remark = ""
    if uncorrected != (main.holds_in, main.fails_in):
        remark = f"; without correction {uncorrected[0]} hold and {uncorrected[1]} fail"
    holds = f"none of {main.parts} shown to hold"
    if main.holds_in:
        holds = f"holds in at least {main.holds_in} of {main.parts}"
    fails = (
        f"fails in at least {main.fails_in}" if main.fails_in else "none shown to fail"
    )
    return f"{holds}, {fails} (simultaneous 95 %{remark})"


def levels_in_words() -> str:
    """Return the levels of all tests and the margins of "comparable"."""
    *margins, last = (f"{margin:g} ({task})" for task, margin in MARGINS.items())
    return (
        "A claimed direction is tested at 5 % two-sided (2.5 % one-sided), a claimed range by two one-sided tests at "
        f'5 %. "Comparable" means within {", ".join(margins)} or {last} points.'
    )


def seeds_that_decide(row: FindingRow) -> int | None:
    """Return the seeds with which a comparison as large as it was seen would be decided, with power 80 %.

    None: not known, or more than `design.MOST_SEEDS`. Decided for the finding where the effect is in the claimed
    region, else against it; the error shrinks with the root of the number of seeds.
    """
    distance = min(
        (
            abs(row.effect - end)
            for end in (row.region_low, row.region_high)
            if math.isfinite(end)
        ),
        default=0.0,
    )
    if not (_has_error(row) and distance > 0):
        return None
    from analysis.precision.design import seeds_needed

    seeds = min(row.seeds)
    # That an effect is inside a range is shown by two one-sided tests.
    alpha = 2 * ALPHA if row.is_range and row.claims(row.effect) else ALPHA
    return seeds_needed(
        distance, row.standard_error, seeds, paired=row.df <= seeds - 1, alpha=alpha
    )


def seeds_in_words(row: FindingRow, comparison: str) -> str:
    """Return `About 18 seeds would decide <comparison>` or that none would; empty without a standard error.

    A percentile bootstrap and a spread have none: how their errors shrink with seeds is not known.
    """
    if not _has_error(row):
        return ""
    from analysis.precision.design import MOST_SEEDS

    seeds = seeds_that_decide(row)
    number = (
        f"No number of seeds up to {MOST_SEEDS:,}"
        if seeds is None
        else f"About {seeds:,} seeds"
    )
    return f"{number} would decide {comparison}"


def _has_error(row: FindingRow) -> bool:
    return not row.missing and bool(row.seeds) and row.standard_error > 0


def sentence(found: pd.DataFrame) -> str:
    """Return the verdict in a few sentences: itself, readout, mean and most adverse effect, what would decide it."""
    main = main_of(found)
    words = verdict_in_words(main)
    verdict = f"{words[0].upper()}{words[1:]}"
    if not main.known:
        return f"{verdict}: {main.missing}."
    held = readout(found)
    parts = [
        f"{held[0].upper()}{held[1:]}."  # says the verdict itself
        if words == f"holds in {main.holds_in} of {main.parts}"
        else f"{verdict}: {held}."
    ]
    if main.missing:
        computed, planned = (
            part["label"].nunique() for part in (known_of(found), comparisons_of(found))
        )
        parts.append(
            f"{computed} of {planned} comparisons can be computed; {main.missing}."
        )
    if main.p_raw <= ALPHA < main.p_holm:
        way = "fails" if main.direction == "against" else "holds"
        parts.append(
            f"The whole statement {way} on its own (p {format_p(main.p_raw)}) but not after Holm's adjustment over the "
            f"{main.holm_over} findings of its family ({format_p(main.p_holm)})."
        )
    parts.append(_effects(found))
    if main.outcome == OPEN.name and (
        words := seeds_in_words(decisive_of(found), "that comparison")
    ):
        parts.append(f"{words} if its effect is as large as observed (power 80 %).")
    return " ".join(filter(None, parts))


def three_lines(found: pd.DataFrame, once: str = ONCE) -> tuple[str, str, str]:
    """Return a verdict for whoever asks about one finding: the verdict, its numbers, and how sure it is."""
    main = main_of(found)
    finding = STATEMENTS[found["id"].iloc[0]]
    head = f"{main.id}, {finding.short}: {verdict_in_words(main)}."
    if not main.known:
        return head, f"Not tested: {main.missing}.", finding.remark or once
    p, adjusted = p_texts(main)
    held = readout(found)
    certainty = f"{held[0].upper()}{held[1:]}; p {main.direction} the whole statement {p} (Holm {adjusted})"
    return (
        head,
        _effects(found),
        " ".join(filter(None, (f"{certainty}.", finding.remark, once))),
    )


def _effects(found: pd.DataFrame) -> str:
    """Return the mean of a finding's comparisons, where there is one, and its most adverse comparison."""
    parts, decisive, mean = [], decisive_of(found), mean_of(found)
    if mean is not None and not mean.missing:
        shared = shared_trunks(known_of(found)["comparison"])
        parts.append(
            f"Mean: {format_effect(mean)} {mean.unit} ({mean.label}{shared and f'; {shared}'})."
        )
    parts.append(
        f"Most adverse: {decisive.label}, {format_effect(decisive)} {decisive.unit} (claimed: {decisive.claimed})."
    )
    return " ".join(filter(None, (*parts, outside_in_words(found))))


def outside_in_words(found: pd.DataFrame) -> str:
    """Return that every estimate lies outside the range that is claimed for it; empty where some does not."""
    known = rows(known_of(found))
    if len(known) < 2 or any(
        not row.is_range or row.claims(row.effect) for row in known
    ):
        return ""
    return f"All {len(known)} estimates lie outside the claimed range."
