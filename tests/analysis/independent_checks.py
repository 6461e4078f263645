"""The published analysis and its tests, computed again, next to what is printed.

    python -m tests.analysis.independent_checks [--pairs 1500]

prints a row for each check: how much was compared, and the largest difference or what was found; the exit code is 1 if
any is off. The last six rows simulate whether `compare` reaches the power that was planned
(`tests.analysis.precision.planned_power`; `--pairs` pairs of models each, about 20 s of CPU time for 1,500).
"""

import argparse
import csv
import io
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import stats

from analysis.claims.catalogue import FINDINGS
from analysis.comparisons.comparison import compare
from analysis.evidence.settings import Settings
from analysis.sources import Source
from common.provenance import ROOT
from tests.analysis.adjusted import multipletests
from tests.analysis.comparisons.given import best_runs, drawn
from tests.analysis.precision.planned_power import LAYOUTS, promised_and_reached
from tests.analysis.second_opinion import (
    DECIDABLE,
    MARGINS,
    SPLITS,
    TASKS,
    findings,
    printed,
    published,
    shown,
    shown_parts,
    statement_ps,
    units_of,
    welch,
)

OLD_GRADES = {
    "supported": "F1 F2 F5a F5c",
    "supported before adjustment": "F4 F13",
    "partly supported": "F3 F5e F6 F8 F11 F15",
    "undecided": "F5d F14",
    "not decidable": "F7 F10",
}
"""The words of version 1 for the published cells, of the findings read as they were then (not F5b, F9, F12)."""
NEW_WORDS = {
    "supported": "holds",
    "supported before adjustment": "holds in",
    "partly supported": "holds in",
    "undecided": "open",
    "not decidable": "open",
}
DESIGNS = [LAYOUTS[place] for place in (0, 3, 4, 6, 7, 9)]
"""A dataset; six models with ten seeds; averages of SC, QA, of two models (Welch) and of six."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """What was computed again."""

    compared: str
    found: str
    agrees: bool | np.bool_


def all_cells() -> Check:
    """The tables print every cell of the paper."""
    with (ROOT / "analysis" / "data" / "published_scores.csv").open(
        encoding="utf-8"
    ) as file:
        rows = list(csv.DictReader(file))
    tables = {
        number: {
            row["model"]: row
            for row in csv.DictReader(
                io.StringIO(printed("table", number, "--format", "csv"))
            )
        }
        for number in dict.fromkeys(row["table"] for row in rows)
    }
    equal = sum(
        [
            float(
                tables[one["table"]][one["model"]][f"{one['dataset']}_published_{name}"]
            )
            for name in ("mean", "ci95")
        ]
        == [float(one["mean"]), float(one["ci95"])]
        for one in rows
    )
    return Check(
        compared="800 cells of Tables 2-17",
        found=f"{equal} equal",
        agrees=equal == len(rows) == 800,
    )


def all_verdicts() -> Check:
    """Verdicts by the rules of docs/claims.md."""
    ps = {name: statement_ps(FINDINGS[name].body, published()) for name in DECIDABLE}
    given = {name: one["verdict"].split(",")[0] for name, one in findings().items()}
    expected = dict.fromkeys(FINDINGS, "open")
    for family in dict.fromkeys(FINDINGS[name].family for name in DECIDABLE):
        names = [name for name in DECIDABLE if FINDINGS[name].family == family]
        adjusted = zip(
            *(
                multipletests([ps[name][side] for name in names], method="holm")[1]
                for side in (0, 1)
            ),
            strict=True,
        )
        for name, (p_for, p_against) in zip(names, adjusted, strict=True):
            units = units_of(FINDINGS[name].body)
            hold = shown_parts(name, 0)
            if p_for <= 0.05:
                expected[name] = "holds"
            elif p_against <= 0.05:
                expected[name] = "fails"
            elif hold:
                expected[name] = f"holds in {hold} of {len(units)}"
    same = sum(given[name] == word for name, word in expected.items())
    return Check(
        compared="21 verdicts",
        found=f"{same} the same",
        agrees=same == len(FINDINGS) == 21,
    )


def mean_readings() -> Check:
    """F9, F5b, F16 and F17 from loops over the printed cells: estimates, intervals, and how many parts hold."""
    cells = published()

    def found(
        weights: list[tuple[float, str, str]],
    ) -> tuple[float, float, float, float]:
        merged: dict[tuple[str, str], float] = {}
        for weight, model, task in weights:
            merged[model, task] = merged.get((model, task), 0.0) + weight
        effect, error, df = welch(
            [(w, *cells[model, task, "average"]) for (model, task), w in merged.items()]
        )
        half = stats.t.isf(0.025, df) * error
        return (
            effect,
            effect - half,
            effect + half,
            min(1.0, 2 * stats.t.sf(effect / error, df)),
        )

    def split(budget: int, share: int) -> str:
        if share in (0, 4):
            return f"610m-{'clm' if share else 'mlm40'}-{budget}k"
        return f"610m-clm-{SPLITS[budget][share - 1]}k-mlm40-{budget}k"

    cases = list(itertools.product(SPLITS, TASKS))
    mine = {
        "F9": [
            found(
                [
                    (w / 12, split(budget, share), task)
                    for budget, task in cases
                    for share, w in ((1, 0.5), (2, 0.5), (other, -1.0))
                ]
            )
            for other in (0, 3, 4)
        ],
        "F17": [
            found(
                [
                    (sign * way / 3, split(budget, share), of)
                    for budget in SPLITS
                    for sign, of in ((1, task), (-1, "TC"))
                    for share, way in ((1, 1), (0, -1))
                ]
            )
            for task in ("SC", "QA", "IR")
        ],
        # The slope through 20, 30, 40 and 50 % has the weights -.3, -.1, .1, .3; steps of size add up to 1B - 210M.
        "F5b": [
            found(
                [
                    (sign * w / 8, f"{size}-mlm{ratio}-42k", task)
                    for task in TASKS
                    for size, sign in (("1b", 1), ("210m", -1))
                    for ratio, w in ((20, -0.3), (30, -0.1), (40, 0.1), (50, 0.3))
                ]
            )
        ],
        "F16": [
            found(
                [
                    (sign * way, f"610m-{kind}-42k-{step}", task)
                    for step, sign in ((40000, 1), (1000, -1))
                    for kind, way in (("mlm40", 1), ("clm", -1))
                ]
            )
            for task in TASKS
        ]
        + [
            found([(1, "610m-mlm40-42k-40000", task), (-1, "610m-clm-42k-40000", task)])
            for task in ("SC", "QA", "IR")
        ],
    }
    worst, counts = 0.0, {}
    for name, expected in mine.items():
        printed_here = [
            (one["effect"], one["low"], one["high"])
            for one in findings()[name]["contrasts"]
        ]
        assert len(printed_here) == len(expected)
        for one, other in zip(printed_here, expected, strict=True):
            worst = max(
                worst, *(abs(a - b) for a, b in zip(one, other[:3], strict=True))
            )
        counts[name] = shown([one[3] for one in expected])
        assert counts[name] == findings()[name]["holds_in"]
    return Check(
        compared="F9, F5b, F16, F17 by loops",
        found=f"{counts}, largest difference {worst:.0e}",
        agrees=worst < 1e-8 and counts == {"F9": 3, "F17": 2, "F5b": 1, "F16": 7},
    )


def mirror() -> Check:
    """How often "Probably, and without CLM first" is said where only pretraining moves scores (0.42 points)."""
    rng, sources = np.random.default_rng(7), 2_000
    names = [
        f"{clm}k of {budget}k"
        for budget, shares in SPLITS.items()
        for clm in (0, *shares)
    ]
    models = [
        f"610m-mlm40-{name.split()[2]}"
        if name.startswith("0k")
        else f"610m-clm-{name.split()[0]}-mlm40-{name.split()[2]}"
        for name in names
    ]
    places = [(task, data) for task in TASKS for data in TASKS[task]]
    halves = np.array(
        [
            [published()[model, task, data][1] for task, data in places]
            for model in models
        ]
    )
    sds = halves / 1.96 * math.sqrt(5)
    said = {}
    for shared in ("models", "trunks and tasks"):
        size = (
            (sources, len(models), len(TASKS))
            if shared == "models"
            else (sources, 2, 1)
        )
        moved = rng.normal(0, 0.42, size)
        if shared != "models":  # MLM alone is one trunk, CLM first the other
            moved = np.broadcast_to(
                moved[:, [int("clm" in model) for model in models]],
                (sources, len(models), len(TASKS)),
            )
        seeds = (
            rng.normal(0, 1, (sources, len(models), len(places), 5)) * sds[..., None]
        )
        seeds = (
            seeds.reshape(sources, len(models), len(TASKS), 3, 5).mean(axis=3)
            + moved[..., None]
        )
        mean, variance = seeds.mean(axis=-1), seeds.var(axis=-1, ddof=1) / 5
        ps = []
        for place in range(len(models)):
            alone = place // 4 * 4
            if place != alone:
                error2 = variance[:, place] + variance[:, alone]
                df = error2**2 / (
                    (variance[:, place] ** 2 + variance[:, alone] ** 2) / 4
                )
                t = (mean[:, place] - mean[:, alone]) / np.sqrt(error2)
                ps.append(
                    (2 * stats.t.sf(t, df), 2 * stats.t.sf(-t, df), place % 4 == 1)
                )
        share = np.repeat([own for *_, own in ps], len(TASKS))
        first = sometimes = 0
        for source in range(sources):
            hold, fail = (
                multipletests(
                    np.minimum(1, np.concatenate([one[side][source] for one in ps])),
                    method="holm",
                )[0]
                for side in (0, 1)
            )
            none_hold, worse = (
                not np.asarray(hold)[share].any(),
                int(np.asarray(fail)[share].sum()),
            )
            first += none_hold and worse >= 6
            sometimes += none_hold and worse > 0
        said[shared] = (first / sources, sometimes / sources)
    words = ", ".join(
        f"{name} {one:.1%} (with one comparison {any_one:.1%})"
        for name, (one, any_one) in said.items()
    )
    return Check(
        compared="without CLM first, pretraining alone",
        found=words,
        agrees=all(one <= 0.08 < any_one for one, any_one in said.values()),
    )


def error_shares() -> Check:
    """Of the error that MLM alone leaves, the share that 25 % CLM takes away, as docs/claims.md says it."""
    shares = {}
    for task in TASKS:
        gone = [
            sum(w * mean for w, mean, _ in f8_terms(0, task, budget))
            / (100 - published()[f"610m-mlm40-{budget}k", task, "average"][0])
            for budget in SPLITS
        ]
        shares[task] = 100 * float(np.mean(gone))
    said = "TC gains most, {TC:.1f} % (SC {SC:.1f}, QA {QA:.1f}, IR {IR:.1f})".format(
        **shares
    )
    page = " ".join((ROOT / "docs" / "claims.md").read_text("utf-8").split())
    return Check(
        compared="shares of the error, docs/claims.md",
        found=said,
        agrees=said in page and max(shares, key=lambda task: shares[task]) == "TC",
    )


def old_words() -> Check:
    """The grades of version 1, mapped to the four verdicts."""
    given = {
        one["id"]: one["verdict"]
        for one in json.loads(printed("claims", "--format", "json"))["findings"]
    }
    pairs = [
        (given[name], NEW_WORDS[grade])
        for grade, names in OLD_GRADES.items()
        for name in names.split()
    ]
    same = sum(
        verdict.startswith(word) and (word != "holds" or verdict == word)
        for verdict, word in pairs
    )
    return Check(
        compared="16 grades of version 1",
        found=f"{same} mapped to the four verdicts",
        agrees=same == 16,
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
            values = [
                (float(term[0]), *published()[term[2], term[3], term[4].rstrip(":")])
                for term in terms
            ]
            effect, error, df = welch(values)
            half = stats.t.isf(0.025, df) * error
            no_difference = 2 * stats.t.sf(abs(effect) / error, df)
            for name, value in (
                ("effect", effect),
                ("low", effect - half),
                ("high", effect + half),
                ("standard_error", error),
                ("df", df),
                ("p_zero", no_difference),
            ):
                worst = max(worst, abs(one[name] - value) / max(1.0, abs(value)))
            count += 1
    return Check(
        compared=f"{count} contrasts of findings",
        found=f"largest difference {worst:.0e}",
        agrees=count >= 332 and worst < 1e-8,
    )


def seven_pairs() -> Check:
    """`compare` of seven pairs of printed models: interval, p, Holm, two one-sided tests."""
    models = sorted({model for model, _, _ in published()})
    rng, worst, rows = np.random.default_rng(1), 0.0, 0
    for _ in range(7):
        first, second = rng.choice(models, 2, replace=False)
        found = json.loads(
            printed("compare", str(first), str(second), "--format", "json")
        )["differences"]
        for kind in ("datasets", "tasks", "all"):
            group = [
                one
                for one in found
                if kind
                == (
                    "all"
                    if one["task"] == "all"
                    else "tasks"
                    if one["dataset"] == "average"
                    else "datasets"
                )
            ]
            ps = []
            for one in group:
                tasks = TASKS if one["task"] == "all" else [one["task"]]
                effect, error, df = welch(
                    [
                        (sign / len(tasks), *published()[model, task, one["dataset"]])
                        for sign, model in ((1, first), (-1, second))
                        for task in tasks
                    ]
                )
                t, margin = (
                    stats.t(df),
                    sum(MARGINS[task] for task in tasks) / len(tasks),
                )
                half, p = t.isf(0.025) * error, 2 * t.sf(abs(effect) / error)
                equal = max(
                    t.sf((effect + margin) / error), t.cdf((effect - margin) / error)
                )
                ps.append(p)
                expected = (effect, effect - half, effect + half, p, equal)
                found_here = (
                    one[name] for name in ("effect", "low", "high", "p", "p_equal")
                )
                worst = max(
                    worst,
                    *(abs(a - b) for a, b in zip(found_here, expected, strict=True)),
                )
            adjusted = multipletests(ps, method="holm")[1] if kind != "all" else ps
            worst = max(
                worst,
                *(
                    abs(one["p_holm"] - p)
                    for one, p in zip(group, adjusted, strict=True)
                ),
            )
            rows += len(group)
    return Check(
        compared=f"compare, 7 pairs, {rows} rows",
        found=f"largest difference {worst:.0e}",
        agrees=worst < 1e-9,
    )


def f8_terms(
    share: int, task: str, budget: int, dataset: str = "average"
) -> list[tuple[float, float, float]]:
    """Return CLM then MLM minus MLM alone: share 0, 1 or 2 is 25, 50 or 75 % CLM."""
    mixed = f"610m-clm-{SPLITS[budget][share]}k-mlm40-{budget}k"
    return [
        (1.0, *published()[mixed, task, dataset]),
        (-1.0, *published()[f"610m-mlm40-{budget}k", task, dataset]),
    ]


def corrected_ps() -> list[tuple[int, int, str, float]]:
    """Return share, budget, task and Holm's p of "CLM first is higher", over the 36 comparisons of three shares."""
    places = list(itertools.product(range(3), SPLITS, TASKS))
    found = [welch(f8_terms(share, task, budget)) for share, budget, task in places]
    ps = [min(1.0, 2 * stats.t.sf(effect / error, df)) for effect, error, df in found]
    adjusted = multipletests(ps, method="holm")[1]
    return [(*place, float(p)) for place, p in zip(places, adjusted, strict=True)]


def f8_counts() -> Check:
    """Comparisons shown to hold and to fail, by split: alone, and as the page of findings prints them for all three."""
    counts: dict[str, list[tuple[int, int]]] = {}
    for of, places in (
        ("tasks", [(task, "average") for task in TASKS]),
        ("datasets", [(task, name) for task, names in TASKS.items() for name in names]),
    ):
        ps = np.empty((2, len(SPLITS), len(places) * len(SPLITS)))
        for share in range(len(SPLITS)):
            for at, (budget, (task, name)) in enumerate(
                itertools.product(SPLITS, places)
            ):
                effect, error, df = welch(f8_terms(share, task, budget, name))
                ps[:, share, at] = [
                    min(1.0, 2 * stats.t.sf(sign * effect / error, df))
                    for sign in (1, -1)
                ]
        together = [
            multipletests(side.ravel(), method="holm")[0]
            .reshape(side.shape)
            .sum(axis=1)
            for side in ps
        ]
        counts[of] = [
            (int(hold), int(fail)) for hold, fail in zip(*together, strict=True)
        ]
        counts[f"{of} alone"] = [
            (shown(list(hold)), shown(list(fail)))
            for hold, fail in zip(*ps, strict=True)
        ]
    page = re.findall(
        r"better in (?:at least )?(\w+) of \d+ comparisons and worse in (?:at least )?(\w+)",
        printed("claims", "--format", "markdown"),
    )
    given = [
        tuple(0 if word == "none" else int(word) for word in pair) for pair in page
    ]
    f8 = findings()["F8"]
    same = given == [
        one
        for pair in zip(counts["tasks"], counts["datasets"], strict=True)
        for one in pair
    ]
    same &= (f8["holds_in"], f8["fails_in"]) == counts["tasks"][0]
    words = ", ".join(
        f"{of} {' '.join(f'{a}/{b}' for a, b in found)}" for of, found in counts.items()
    )
    return Check(
        compared="F8: hold/fail at 25, 50, 75 %",
        found=words,
        agrees=same
        and counts["tasks alone"] == [(8, 0), (6, 0), (4, 1)]
        and counts["datasets alone"] == [(9, 0), (8, 1), (5, 5)],
    )


def f8_spreads() -> Check:
    """The table of docs/how-sure.md: parts that hold and the interval of the mean if pretraining moves scores."""
    found = json.loads(printed("sensitivity", "--format", "json"))["findings"]
    [rows] = [one["moved"] for one in found if one["id"] == "F8"]
    worst, counts = 0.0, 0
    for row in rows:
        ps, values, added = [], [], dict[object, float]()
        for share, task, budget in itertools.product(range(3), TASKS, SPLITS):
            # Both trunks, the CLM and the MLM one, are different, so every sharing adds 2 sd^2 to a single difference.
            effect, error, df = welch(f8_terms(share, task, budget), 2 * row["sd"] ** 2)
            base = welch(f8_terms(share, task, budget))
            ps.append(
                max(
                    2 * stats.t.sf(effect / error, df),
                    2 * stats.t.sf(base[0] / base[1], base[2]),
                )
            )
            if share:
                continue
            values += [
                (weight / 12, mean, half)
                for weight, mean, half in f8_terms(0, task, budget)
            ]
            for weight, model in (
                (1 / 12, f"mixed {budget}"),
                (-1 / 12, f"alone {budget}"),
            ):
                units = {
                    "models": (model, task),
                    "trunks": (model[:5], task),
                    "trunks and tasks": model[:5],
                }
                unit = units[row["sharing"]]
                added[unit] = added.get(unit, 0.0) + weight
        mean, error, df = welch(
            values, row["sd"] ** 2 * sum(weight**2 for weight in added.values())
        )
        half = stats.t.isf(0.025, df) * error
        counts += (
            row["hold"]
            == multipletests([min(1.0, p) for p in ps], method="holm")[0][
                : len(TASKS) * 3
            ].sum()
        )
        worst = max(
            worst, abs(row["mean"][1] - mean + half), abs(row["mean"][2] - mean - half)
        )
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
        source = Source(
            label="x", runs=best_runs(scores), added_models=("mine", "other")
        )
        for one in compare(
            source, ["mine", "other"], Settings(interval="pooled")
        ).differences:
            if one.place.is_dataset:
                a, b = (
                    scores["mine"][one.place.dataset],
                    scores["other"][one.place.dataset],
                )
                exact = abs(one.result.effect - (np.mean(a) - np.mean(b)))
                test = stats.ttest_ind(a, b, equal_var=False)
                ends = test.confidence_interval(0.95)
                numbers = zip(
                    (one.result.p_zero, one.result.low, one.result.high),
                    (test.pvalue, *ends),
                    strict=True,
                )
                worst = max(worst, exact, *(abs(x - y) for x, y in numbers))
    return Check(
        compared="240 differences of 3 and 5 seeds",
        found=f"largest difference {worst:.0e}",
        agrees=worst < 1e-10,
    )


def two_models() -> Check:
    """A store of two models gets the test that their printed cells would get."""
    worst, kinds = 0.0, set()
    scores = drawn({"mine": 0.5, "other": 0.0})
    source = Source(label="x", runs=best_runs(scores), added_models=("mine", "other"))
    for one in compare(
        source, ["mine", "other"], Settings(interval="pooled")
    ).differences:
        if one.place.is_dataset:
            cells = [
                np.array(scores[name][one.place.dataset]) for name in ("mine", "other")
            ]
            halves = [1.96 * cell.std(ddof=1) / math.sqrt(len(cell)) for cell in cells]
            effect, error, df = welch(
                [
                    (sign, float(cell.mean()), half)
                    for sign, cell, half in zip((1, -1), cells, halves, strict=True)
                ]
            )
            worst = max(
                worst, abs(one.result.p_zero - 2 * stats.t.sf(abs(effect) / error, df))
            )
            kinds.add(one.result.test)
    return Check(
        compared="12 differences, two models alone",
        found=f"{', '.join(kinds)}, within {worst:.0e}",
        agrees=kinds == {"Welch"} and worst < 1e-10,
    )


CHECKS: tuple[Callable[[], Check], ...] = (
    all_cells,
    all_verdicts,
    mean_readings,
    mirror,
    error_shares,
    old_words,
    all_contrasts,
    seven_pairs,
    f8_counts,
    f8_spreads,
    unequal_seeds,
    two_models,
)


def designs(pairs: int) -> Iterator[Check]:
    """Yield for each of `DESIGNS` the power that is promised and the share that `compare` finds."""
    for place, layout in enumerate(DESIGNS):
        promised, reached = promised_and_reached(layout, pairs, place + 100)
        error = math.sqrt(reached * (1 - reached) / pairs)
        yield Check(
            compared=f"design: {layout}",
            found=f"{promised:.1%} promised, {reached:.1%} +- {error:.1%} found",
            agrees=abs(reached - promised) <= 0.02 + 2 * error,
        )


def main() -> int:
    """Print every check; return 1 if any is off."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=1_500)
    wrong = 0
    for check in itertools.chain(
        (one() for one in CHECKS), designs(parser.parse_args().pairs)
    ):
        wrong += not check.agrees
        print(
            f"{'agrees' if check.agrees else 'DIFFERS':8}{check.compared:56}{check.found}",
            flush=True,
        )
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
