"""Claims and p's given by hand."""

from __future__ import annotations

from analysis.claims.statements import Claim, Node
from analysis.claims.verdicts import judge_claim
from analysis.evidence.contrasts import Contrast, Finding, Term


def part(name: str) -> Contrast:
    terms = tuple(
        Term(weight=weight, model=model, task="SC", dataset=name)
        for weight, model in ((1.0, "610m-clm-42k"), (-1.0, "610m-mlm40-42k"))
    )
    return Contrast(label=name, terms=terms)


def claim_of(body: Node, name: str = "X", family: str = "ratio") -> Claim:
    return Claim(id=name, statement="S.", where="here", family=family, body=body)


class Given:
    """p's by label: (for, against), or None for a contrast that the source does not know."""

    def __init__(self, **ps: tuple[float, float] | None) -> None:
        self.ps = ps

    def finding(self, comparison) -> Finding:
        p = self.ps.get(comparison.label)  # of typical effects: not there
        if p is None:
            return Finding(comparison=comparison, missing="not there")
        return Finding(
            comparison=comparison,
            effect=1.0 if p[0] < p[1] else -1.0,
            low=-1,
            high=1,
            p_for=p[0],
            p_against=p[1],
        )


def verdict_of(body: Node, **ps):
    return judge_claim(claim_of(body), Given(**ps).finding)
