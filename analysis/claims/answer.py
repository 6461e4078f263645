"""The answer: what the verdicts say about the paper's question, in two sentences, and the findings it rests on.

The README and the report's first screen print these sentences, so that they cannot say different things.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from analysis.claims.evidence import Finding
from analysis.claims.grades import GRADES
from analysis.claims.verdicts import Verdict

__all__ = ["HEADLINES", "MAIN", "QUESTION", "Answer", "answer"]

QUESTION = "Should we still pretrain encoders with masked language modeling?"
"""The paper's title."""
MAIN = "F8"
"""The claim that the paper's answer is: CLM then MLM beats MLM alone at equal budget."""
HEADLINES = (MAIN, "F1", "F6", "F7", "F11", "F12")
"""The claims of the paper's abstract: biphasic training; MLM against CLM; data efficiency; stability; continuing a CLM
model; with less compute."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a source answers."""

    sentences: tuple[str, str]
    """On the question; on all findings and what none of them can say."""
    headlines: tuple[Verdict, ...]
    """The verdicts on `HEADLINES`, in their order."""


def answer(verdicts: Sequence[Verdict], *, stand_ins: bool = False) -> Answer:
    """Return the answer that verdicts on the whole catalogue give.

    Args:
        verdicts: one for each claim.
        stand_ins: whether the models are others than the paper's, which stand in their place.
    """
    by_id = {verdict.claim.id: verdict for verdict in verdicts}
    return Answer(
        sentences=(_on_the_question(by_id[MAIN], stand_ins), _on_all(verdicts)),
        headlines=tuple(by_id[name] for name in HEADLINES),
    )


def _on_the_question(main: Verdict, stand_ins: bool) -> str:
    whose = "in these stand-ins for the paper's models " if stand_ins else ""
    scope = f" ({main.claim.scope})" if main.claim.scope and not stand_ins else ""
    tree = main.tree
    if not main.known:
        missing = next(finding.missing for finding in tree.findings)
        return f"This source does not say whether CLM followed by MLM beats MLM alone: {missing}."
    known = sum(any(one.known for one in unit.findings) for unit in tree.units)
    of = f"{len(tree.units)} comparisons"
    if known < len(tree.units):
        of = f"the {known} comparisons (of {len(tree.units)}) that this source allows"
    typical = main.typical if main.typical is not None and main.typical.known else None
    if not tree.hold and not tree.fail:
        mean = "" if typical is None else f"; the mean difference is {_points(typical)}"
        return (
            f"{_lead(main)}: {whose}none of {of} shows CLM followed by MLM better or worse than MLM alone at equal "
            f"budget{scope} (simultaneous 95 %){mean}."
        )
    middle = median(one.effect for one in tree.findings if one.known)
    mean = "" if typical is None else f", by {_points(typical)} on average, {middle:+.1f} in the median,"
    beaten = "none" if tree.fail == 0 else f"at least {tree.fail}"
    return (
        f"{_lead(main)}: {whose}CLM followed by MLM beats MLM alone at equal budget{scope} in at least {tree.hold} of "
        f"{of} (simultaneous 95 %){mean} and is shown to be worse in {beaten}."
    )


def _lead(verdict: Verdict) -> str:
    tree = verdict.tree
    if verdict.grade.sided:
        return "Yes, after CLM" if verdict.grade.sided > 0 else "Not after CLM"
    if tree.hold and tree.fail:
        return "It depends"
    if tree.hold:
        return "Mostly yes, after CLM" if 2 * tree.hold >= len(tree.units) else "Sometimes, after CLM"
    return "Undecided"


def _points(finding: Finding) -> str:
    return f"{finding.effect:+.1f} points [{finding.low:+.1f}, {finding.high:+.1f}]"


def _on_all(verdicts: Sequence[Verdict]) -> str:
    given = Counter(verdict.verdict for verdict in verdicts)
    parts = [f"{n} {grade.counted[n != 1]}" for name, grade in GRADES.items() if (n := given[name])]
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return (
        f"Of {len(verdicts)} findings tested {listed}; each model was pretrained once, so none of this says how much "
        "another pretraining would move the numbers."
    )
