"""Claims and p's given by hand."""

from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import SHOWN
from analysis.claims.judged import JudgedFinding, judge
from analysis.claims.statements import Finding, Node
from analysis.evidence.contrasts import Contrast, Result, Term


def part(name: str) -> Contrast:
    terms = tuple(
        Term(weight=weight, model=model, task="SC", dataset=name)
        for weight, model in ((1.0, "610m-clm-42k"), (-1.0, "610m-mlm40-42k"))
    )
    return Contrast(label=name, terms=terms)


def finding_of(body: Node, name: str = "X", family: str = "ratio") -> Finding:
    return Finding(id=name, statement="S.", where="here", family=family, body=body)


class Given:
    """p's by label: (for, against), or None for a contrast that the source does not know."""

    def __init__(self, **ps: tuple[float, float] | None) -> None:
        self.ps = ps

    def result(self, comparison) -> Result:
        p = self.ps.get(comparison.label)  # of typical effects: not there
        if p is None:
            return Result(comparison=comparison, missing="not there")
        return Result(
            comparison=comparison,
            effect=1.0 if p[0] < p[1] else -1.0,
            low=-1,
            high=1,
            p_for=p[0],
            p_against=p[1],
        )


def judged(body: Node, **ps: tuple[float, float] | None) -> JudgedFinding:
    """A finding with these p's."""
    return judge([finding_of(body)], Given(**ps).result)["X"]


def verdicts_of(assessment: Assessment) -> dict[str, str]:
    """The verdict on the answer at its split and on every finding."""
    return {name: assessment.judged[name].verdict for name in SHOWN}
