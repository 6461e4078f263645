"""The published analysis and its tests, computed again by scipy, statsmodels and loops, next to what is printed.

    python -m tests.analysis.independent_checks [--pairs 1500]

prints a row for each check: how much was compared, and the largest difference or what was found; the exit code is 1 if
any is off. The last six rows simulate whether `design` promises what `compare` reaches (`tests.speed.design_power`,
`--pairs` pairs of models each, about 20 s of CPU time for 1,500).
"""

import argparse
import csv
import io
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import stats

from analysis.claims.catalogue import FINDINGS
from analysis.claims.statements import AtLeast, Node
from analysis.comparisons.comparison import compare
from analysis.comparisons.replication import replication_of
from analysis.evidence.contrasts import Contrast, Spread
from analysis.evidence.evidence import Settings
from analysis.sources import Source
from clm_or_mlm.__main__ import main as command
from common.provenance import ROOT
from tests.analysis.adjusted import multipletests
from tests.analysis.comparisons.given import best_runs, drawn, share_refused
from tests.speed.design_power import LAYOUTS, promised_and_reached

Cells = dict[tuple[str, str, str], tuple[float, float]]
"""Mean and half-width by (model, task, dataset)."""

TASKS = {
    "SC": ("sst2", "qqp", "mnli_m"), "TC": ("ontonotes", "conll2003_en", "uner_en"),
    "QA": ("squad", "squad_v2", "record"), "IR": ("nq", "msmarco", "mldr_en"),
}  # fmt: skip
MARGINS = {"SC": 0.5, "TC": 0.25, "QA": 1.0, "IR": 0.5}
SPLITS = {12: (3, 6, 9), 22: (5, 11, 17), 42: (10, 21, 32)}
"""By budget the thousands of steps of CLM that are 25, 50 and 75 % of it."""
OLD_GRADES = {
    "supported": "F1 F2 F5a F5c",
    "supported before adjustment": "F4 F13",
    "partly supported": "F3 F5b F5e F6 F8 F11 F15",
    "mixed": "F9",
    "contradicted before adjustment": "F12",
    "undecided": "F5d F14",
    "not decidable": "F7 F10",
}
"""The words of version 1 for the published cells, as docs/claims.md maps them to the four verdicts."""
NEW_WORDS = {
    "supported": "holds", "supported before adjustment": "holds in", "partly supported": "holds in", "mixed": "fails",
    "contradicted before adjustment": "fails", "undecided": "open", "not decidable": "open",
}  # fmt: skip
DESIGNS = [LAYOUTS[place] for place in (0, 3, 4, 6, 7, 9)]
"""A dataset; six models with ten seeds; averages of SC, QA, of two models (Welch) and of six."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """What was computed again."""

    compared: str
    found: str
    agrees: bool | np.bool_


def printed(*words: str) -> str:
    """Return what a command prints."""
    with redirect_stdout(io.StringIO()) as out:
        command(list(words))
    return out.getvalue()


@cache
def findings() -> dict[str, dict[str, Any]]:
    """Return by id what `claims` says of every finding."""
    return {one["id"]: one for one in json.loads(printed("claims", "--format", "json"))["findings"]}


@cache
def published() -> Cells:
    """Return the printed cells, each once."""
    with (ROOT / "analysis" / "data" / "published_scores.csv").open(encoding="utf-8") as file:
        return {
            (row["model"], row["task"], row["dataset"]): (float(row["mean"]), float(row["ci95"]))
            for row in csv.DictReader(file)
        }


def two_ps(contrast: Contrast, cells: Cells) -> tuple[float, float]:
    """Return p for and against by Welch's test, written out, with scipy's t distribution."""
    effect, error, df = welch([(term.weight, *cells[term.cell]) for term in contrast.terms])
    t = stats.t(df)
    above = [t.sf((effect - end) / error) for end in (contrast.low, contrast.high)]  # of "at most the end"
    below = [t.cdf((effect - end) / error) for end in (contrast.low, contrast.high)]  # of "at least the end"
    if math.isfinite(contrast.low) and math.isfinite(contrast.high):
        return max(above[0], below[1]), min(1.0, 2 * min(below[0], above[1]))
    if math.isfinite(contrast.low):
        return min(1.0, 2 * above[0]), min(1.0, 2 * below[0])
    return min(1.0, 2 * below[1]), min(1.0, 2 * above[1])


def welch(values: list[tuple[float, float, float]], added: float = 0.0) -> tuple[float, float, float]:
    """Return effect, error and degrees of freedom of (weight, mean, half-width)s of five seeds each."""
    variances = [(weight * max(half, 0.005) / 1.96) ** 2 for weight, _, half in values]
    total, own = sum(variances) + added, sum(v**2 / 4 for v in variances)
    return sum(weight * mean for weight, mean, _ in values), math.sqrt(total), total**2 / own


def parts_of(node: Node) -> list[Node]:
    """Return the parts that a finding counts."""
    if isinstance(node, AtLeast) and node.count == len(node.parts) and not node.whole:
        return [one for part in node.parts for one in parts_of(part)]
    return [node]


def units_of(node: Node) -> list[Node]:
    """Return the same, or the parts of another rule."""
    return list(node.parts) if isinstance(node, AtLeast) and parts_of(node) == [node] else parts_of(node)


def statement_ps(node: Node, cells: Cells) -> tuple[float, float]:
    """Return p for and against a statement: partial conjunctions, by sorting."""
    if not isinstance(node, AtLeast):
        assert isinstance(node, Contrast)
        return two_ps(node, cells)
    nodes = list(node.parts)
    if node.count == len(nodes):
        nodes = [one for part in node.parts for one in parts_of(part)]
    need = len(nodes) if node.count == len(node.parts) else node.count
    fors, againsts = zip(*(statement_ps(one, cells) for one in nodes), strict=True)
    total = len(nodes)
    refuse = total - need + 1
    return (
        min(1.0, (total - need + 1) * sorted(fors)[need - 1]),
        min(1.0, (total - refuse + 1) * sorted(againsts)[refuse - 1]),
    )


DECIDABLE = [
    name
    for name, finding in FINDINGS.items()
    if not any(isinstance(part, Spread) for part in parts_of(finding.body))
]


def shown(ps: list[float]) -> int:
    """Return how many statements hold, by Holm's procedure at 5 %."""
    return int(multipletests(ps, alpha=0.05, method="holm")[0].sum())


def all_cells() -> Check:
    """The tables print every cell of the paper."""
    with (ROOT / "analysis" / "data" / "published_scores.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    tables = {
        number: {
            row["model"]: row
            for row in csv.DictReader(io.StringIO(printed("table", number, "--format", "csv")))
        }
        for number in dict.fromkeys(row["table"] for row in rows)
    }
    equal = sum(
        [
            float(tables[one["table"]][one["model"]][f"{one['dataset']}_published_{name}"])
            for name in ("mean", "ci95")
        ]
        == [float(one["mean"]), float(one["ci95"])]
        for one in rows
    )
    return Check(
        compared="800 cells of Tables 2-17", found=f"{equal} equal", agrees=equal == len(rows) == 800
    )


def all_verdicts() -> Check:
    """Verdicts by the rules of docs/claims.md."""
    cells, ps = published(), {name: statement_ps(FINDINGS[name].body, published()) for name in DECIDABLE}
    given = {
        one["id"]: one["verdict"] for one in json.loads(printed("claims", "--format", "json"))["findings"]
    }
    expected = dict.fromkeys(FINDINGS, "open")
    for family in dict.fromkeys(FINDINGS[name].family for name in DECIDABLE):
        names = [name for name in DECIDABLE if FINDINGS[name].family == family]
        adjusted = zip(*(multipletests([ps[name][side] for name in names], method="holm")[1] for side in (0, 1)),
                       strict=True)  # fmt: skip
        for name, (p_for, p_against) in zip(names, adjusted, strict=True):
            body, units = FINDINGS[name].body, units_of(FINDINGS[name].body)
            hold, fail = (shown([statement_ps(unit, cells)[side] for unit in units]) for side in (0, 1))
            refuted = fail and isinstance(body, AtLeast) and body.count == len(body.parts)
            if p_for <= 0.05:
                expected[name] = "holds"
            elif p_against <= 0.05 or refuted:
                expected[name] = "fails"
            elif hold:
                expected[name] = f"holds in {hold} of {len(units)}"
    same = sum(given[name] == word for name, word in expected.items())
    return Check(compared="19 verdicts", found=f"{same} the same", agrees=same == len(FINDINGS) == 19)


def old_words() -> Check:
    """The grades of version 1, mapped to the four verdicts."""
    given = {
        one["id"]: one["verdict"] for one in json.loads(printed("claims", "--format", "json"))["findings"]
    }
    pairs = [(given[name], NEW_WORDS[grade]) for grade, names in OLD_GRADES.items() for name in names.split()]
    same = sum(verdict.startswith(word) and (word != "holds" or verdict == word) for verdict, word in pairs)
    return Check(
        compared="19 grades of version 1", found=f"{same} mapped as docs/claims.md says", agrees=same == 19
    )


def all_contrasts() -> Check:
    """Sums and differences of scores in `claims --format json`: effect, interval, error, df, p."""
    worst, count = 0.0, 0
    for finding in findings().values():
        for one in [
            *finding["contrasts"],
            *(one for node in finding["reported"] for one in node["contrasts"]),
        ]:
            terms = [line.split(" ", 6) for line in one["inputs"]]
            if {term[0] for term in terms} != {"+1", "-1"}:
                continue
            values = [(float(term[0]), *published()[term[2], term[3], term[4].rstrip(":")]) for term in terms]
            effect, error, df = welch(values)
            half = stats.t.isf(0.025, df) * error
            no_difference = 2 * stats.t.sf(abs(effect) / error, df)
            for name, value in (("effect", effect), ("low", effect - half), ("high", effect + half),
                                ("standard_error", error), ("df", df), ("p_zero", no_difference)):  # fmt: skip
                worst = max(worst, abs(one[name] - value) / max(1.0, abs(value)))
            count += 1
    return Check(compared=f"{count} contrasts of findings", found=f"largest difference {worst:.0e}",
                 agrees=count >= 332 and worst < 1e-8)  # fmt: skip


def seven_pairs() -> Check:
    """`compare` of seven pairs of printed models: interval, p, Holm, two one-sided tests."""
    models = sorted({model for model, _, _ in published()})
    rng, worst, rows = np.random.default_rng(1), 0.0, 0
    for _ in range(7):
        first, second = rng.choice(models, 2, replace=False)
        found = json.loads(printed("compare", str(first), str(second), "--format", "json"))["differences"]
        for kind in ("datasets", "tasks", "all"):
            group = [one for one in found if kind == ("all" if one["task"] == "all" else
                     "tasks" if one["dataset"] == "average" else "datasets")]  # fmt: skip
            ps = []
            for one in group:
                tasks = TASKS if one["task"] == "all" else [one["task"]]
                effect, error, df = welch([
                    (sign / len(tasks), *published()[model, task, one["dataset"]])
                    for sign, model in ((1, first), (-1, second)) for task in tasks
                ])  # fmt: skip
                t, margin = stats.t(df), sum(MARGINS[task] for task in tasks) / len(tasks)
                half, p = t.isf(0.025) * error, 2 * t.sf(abs(effect) / error)
                equal = max(t.sf((effect + margin) / error), t.cdf((effect - margin) / error))
                ps.append(p)
                expected = (effect, effect - half, effect + half, p, equal)
                found_here = (one[name] for name in ("effect", "low", "high", "p", "p_equal"))
                worst = max(worst, *(abs(a - b) for a, b in zip(found_here, expected, strict=True)))
            adjusted = multipletests(ps, method="holm")[1] if kind != "all" else ps
            worst = max(worst, *(abs(one["p_holm"] - p) for one, p in zip(group, adjusted, strict=True)))
            rows += len(group)
    return Check(compared=f"compare, 7 pairs, {rows} rows", found=f"largest difference {worst:.0e}",
                 agrees=worst < 1e-9)  # fmt: skip


def f8_terms(
    share: int, task: str, budget: int, dataset: str = "average"
) -> list[tuple[float, float, float]]:
    """Return CLM then MLM minus MLM alone: share 0, 1 or 2 is 25, 50 or 75 % CLM."""
    mixed = f"610m-clm-{SPLITS[budget][share]}k-mlm40-{budget}k"
    return [
        (1.0, *published()[mixed, task, dataset]),
        (-1.0, *published()[f"610m-mlm40-{budget}k", task, dataset]),
    ]


def f8_counts() -> Check:
    """Comparisons shown to hold and to fail, by split: alone, and as the page of findings prints them for all three."""
    counts: dict[str, list[tuple[int, int]]] = {}
    for of, places in (
        ("tasks", [(task, "average") for task in TASKS]),
        ("datasets", [(task, name) for task, names in TASKS.items() for name in names]),
    ):
        ps = np.empty((2, len(SPLITS), len(places) * len(SPLITS)))
        for share in range(len(SPLITS)):
            for at, (budget, (task, name)) in enumerate(itertools.product(SPLITS, places)):
                effect, error, df = welch(f8_terms(share, task, budget, name))
                ps[:, share, at] = [min(1.0, 2 * stats.t.sf(sign * effect / error, df)) for sign in (1, -1)]
        together = [
            multipletests(side.ravel(), method="holm")[0].reshape(side.shape).sum(axis=1) for side in ps
        ]
        counts[of] = [(int(hold), int(fail)) for hold, fail in zip(*together, strict=True)]
        counts[f"{of} alone"] = [
            (shown(list(hold)), shown(list(fail))) for hold, fail in zip(*ps, strict=True)
        ]
    page = re.findall(
        r"better in (?:at least )?(\w+) of \d+ comparisons and worse in (?:at least )?(\w+)",
        printed("claims", "--format", "markdown"),
    )
    given = [tuple(0 if word == "none" else int(word) for word in pair) for pair in page]
    f8 = findings()["F8"]
    same = given == [one for pair in zip(counts["tasks"], counts["datasets"], strict=True) for one in pair]
    same &= (f8["holds_in"], f8["fails_in"]) == counts["tasks alone"][0]
    words = ", ".join(f"{of} {' '.join(f'{a}/{b}' for a, b in found)}" for of, found in counts.items())
    return Check(compared="F8: hold/fail at 25, 50, 75 %", found=words,
                 agrees=same and counts["tasks alone"] == [(8, 0), (6, 0), (4, 1)]
                 and counts["datasets alone"] == [(9, 0), (8, 1), (5, 5)])  # fmt: skip


def f8_spreads() -> Check:
    """The table of docs/how-sure.md: parts that hold and the interval of the mean if pretraining moves scores."""
    found = json.loads(printed("sensitivity", "--format", "json"))["findings"]
    [rows] = [one["moved"] for one in found if one["id"] == "F8"]
    worst, counts = 0.0, 0
    for row in rows:
        ps, values, added = [], [], dict[object, float]()
        for task, budget in itertools.product(TASKS, SPLITS):
            # Both trunks, the CLM and the MLM one, are different, so every sharing adds 2 sd^2 to a single difference.
            effect, error, df = welch(f8_terms(0, task, budget), 2 * row["sd"] ** 2)
            base = welch(f8_terms(0, task, budget))
            ps.append(max(2 * stats.t.sf(effect / error, df), 2 * stats.t.sf(base[0] / base[1], base[2])))
            values += [(weight / 12, mean, half) for weight, mean, half in f8_terms(0, task, budget)]
            for weight, model in ((1 / 12, f"mixed {budget}"), (-1 / 12, f"alone {budget}")):
                units = {"models": (model, task), "trunks": (model[:5], task), "trunks and tasks": model[:5]}
                unit = units[row["sharing"]]
                added[unit] = added.get(unit, 0.0) + weight
        mean, error, df = welch(values, row["sd"] ** 2 * sum(weight**2 for weight in added.values()))
        half = stats.t.isf(0.025, df) * error
        counts += row["hold"] == shown([min(1.0, p) for p in ps])
        worst = max(worst, abs(row["mean"][1] - mean + half), abs(row["mean"][2] - mean - half))
    found = f"{counts} of {len(rows)} counts, {len(rows)} intervals within {worst:.0e}"
    return Check(
        compared="F8 by spread between pretrainings",
        found=found,
        agrees=counts == len(rows) == 15 and worst < 1e-9,
    )


def unequal_seeds() -> Check:
    """A minus B over all seeds of each, and scipy's Welch test, where one model has three seeds."""
    worst = 0.0
    for seed in range(20):
        scores = drawn({"mine": 0.3, "other": 0.0}, seed)
        scores["mine"] = {name: values[:3] for name, values in scores["mine"].items()}
        source = Source(label="x", runs=best_runs(scores), added_models=("mine", "other"))
        for one in compare(source, ["mine", "other"], Settings(interval="pooled")).differences:
            if one.place.is_dataset:
                a, b = scores["mine"][one.place.dataset], scores["other"][one.place.dataset]
                exact = abs(one.result.effect - (np.mean(a) - np.mean(b)))
                test = stats.ttest_ind(a, b, equal_var=False)
                ends = test.confidence_interval(0.95)
                numbers = zip(
                    (one.result.p_zero, one.result.low, one.result.high), (test.pvalue, *ends), strict=True
                )
                worst = max(worst, exact, *(abs(x - y) for x, y in numbers))
    return Check(compared="240 differences of 3 and 5 seeds", found=f"largest difference {worst:.0e}",
                 agrees=worst < 1e-10)  # fmt: skip


def two_models() -> Check:
    """A store of two models gets the test that their printed cells would get."""
    worst, kinds = 0.0, set()
    scores = drawn({"mine": 0.5, "other": 0.0})
    source = Source(label="x", runs=best_runs(scores), added_models=("mine", "other"))
    for one in compare(source, ["mine", "other"], Settings(interval="pooled")).differences:
        if one.place.is_dataset:
            cells = [np.array(scores[name][one.place.dataset]) for name in ("mine", "other")]
            halves = [1.96 * cell.std(ddof=1) / math.sqrt(len(cell)) for cell in cells]
            effect, error, df = welch([(sign, float(cell.mean()), half)
                                       for sign, cell, half in zip((1, -1), cells, halves, strict=True)])  # fmt: skip
            worst = max(worst, abs(one.result.p_zero - 2 * stats.t.sf(abs(effect) / error, df)))
            kinds.add(one.result.test)
    return Check(compared="12 differences, two models alone", found=f"{', '.join(kinds)}, within {worst:.0e}",
                 agrees=kinds == {"Welch"} and worst < 1e-10)  # fmt: skip


def negative_scores() -> Check:
    """`certify` refuses correlations 58 points apart, one of them below 0, and passes their reruns."""
    refused = passed = 0
    for seed in range(24):
        rng = np.random.default_rng(seed)

        def runs(level: float, rng: np.random.Generator = rng) -> Source:
            scores = {"mine": {name: list(level + rng.normal(0, 0.5, 5)) for name in TASKS["SC"]}}
            return Source(label="x", runs=best_runs(scores), added_models=("mine",))

        reference = runs(-3.0)
        refused += bool(replication_of(runs(55.0), reference).faults)
        passed += not replication_of(runs(-3.0), reference).faults
    return Check(compared="24 certificates of 55 against -3", found=f"{refused} refused; of 24 reruns {passed} passed",
                 agrees=refused == 24 and passed >= 21)  # fmt: skip


def certificates() -> Check:
    """Of 4,000 genuine replications at most 6 % are refused, whatever the number of cells (`given.certificate_p`)."""
    shares = [share_refused(models, datasets, 4_000) for models in (1, 2, 6) for datasets in (1, 4, 12)]
    off = [share_refused(models, 4, 4_000, off=4) for models in (6, 20)]
    return Check(compared="9 x 4,000 certificates of 1, 2, 6 models; one cell off",
                 found=f"at most {max(shares):.1%} refused; off {off[0]:.0%}, {off[1]:.0%}",
                 agrees=max(shares) <= 0.06 and off[0] >= 0.87 and off[1] >= 0.6)  # fmt: skip


CHECKS: tuple[Callable[[], Check], ...] = (
    all_cells, all_verdicts, old_words, all_contrasts, seven_pairs, f8_counts, f8_spreads, unequal_seeds, two_models,
    negative_scores, certificates,
)  # fmt: skip


def designs(pairs: int) -> Iterator[Check]:
    """Yield for each of `DESIGNS` the power that is promised and the share that `compare` finds."""
    for place, layout in enumerate(DESIGNS):
        promised, reached = promised_and_reached(layout, pairs, place + 100)
        error = math.sqrt(reached * (1 - reached) / pairs)
        yield Check(compared=f"design: {layout}", found=f"{promised:.1%} promised, {reached:.1%} +- {error:.1%} found",
                    agrees=abs(reached - promised) <= 0.02 + 2 * error)  # fmt: skip


def main() -> int:
    """Print every check; return 1 if any is off."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=1_500)
    wrong = 0
    for check in itertools.chain((one() for one in CHECKS), designs(parser.parse_args().pairs)):
        wrong += not check.agrees
        print(f"{'agrees' if check.agrees else 'DIFFERS':8}{check.compared:56}{check.found}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
