"""What README.md, docs/claims.md and docs/miniature.md say in numbers, worded as they word it.

    python -m tests.docs.stated

prints a line for each sentence, which `tests/docs/test_every_number.py` looks up in its page. The script of
docs/how-sure.md is `tests.analysis.how_sure`; docs/findings.md is what `clm-or-mlm claims` prints.
"""

import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache

import numpy as np
import pandas as pd
from scipy import stats

from analysis.claims.answer import Answer, answer
from analysis.claims.assessment import Assessment, assess
from analysis.claims.catalogue import FINDINGS
from analysis.claims.catalogue.terms import MARGINS
from analysis.claims.pretraining_spread import measured_spreads
from analysis.claims.titles import ANSWER
from analysis.claims.verdicts import HOLDS, OUTCOMES
from analysis.comparisons.comparison import compare
from analysis.comparisons.contestants import ALL
from analysis.comparisons.differences import AHEAD
from analysis.evidence.cells import SMALLEST_HALF_WIDTH
from analysis.evidence.intervals import SOURCE_CELLS, measured_coverage
from analysis.evidence.pooled import FEWEST_CELLS, FEWEST_SEEDS
from analysis.evidence.settings import Settings
from analysis.published_cells import (
    N_SEEDS,
    NORMAL_QUANTILE,
    published_cells,
    published_values,
)
from analysis.sources import PUBLISHED, open_source
from benchmarks.protocol import AVERAGE, LEARNING_RATES, SEEDS, TASKS
from clm_or_mlm.__main__ import main
from common.provenance import ROOT
from pretraining.paper_models import MODELS, find_model
from pretraining.paper_settings import SHAPES
from pretraining.plan.study_plan import load_study
from tests.analysis.how_sure import of_new_test_sets, seeds_again, without_a_difference
from tests.miniature.questions import (
    ARMS,
    BOTH,
    LENGTHS,
    MLM,
    of_arm,
    values_of,
)
from tests.miniature.questions import answers as toy_answers

WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight")
"""Counts in words."""
TWO_STAGE, MLM_ALONE = "610m-clm-10k-mlm40-42k", "610m-mlm40-42k"
UNTRAINED = "mini-m-random"
"""The miniature's network that was not pretrained."""


@cache
def assessed() -> tuple[Assessment, Answer]:
    """The findings of the published cells, and the answer."""
    found = assess(PUBLISHED, Settings())
    return found, answer(found)


def first_line(*command: str) -> str:
    """Return the first line that a command prints."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        main([*command])
    return printed.getvalue().splitlines()[0]


def readme() -> Iterator[str]:
    """Yield what README.md says."""
    assessment, answered = assessed()
    row = assessment.judged[ANSWER]
    f8 = assessment.judged["F8"]
    assert row.mean is not None and row.fails_in == 0
    yield f"higher than MLM alone in {row.holds_in} of {row.parts} comparisons and clearly lower in none"
    shortest = find_model("610m-mlm40-12k")
    assert shortest is not None
    yield f"12K: {shortest.steps:,}"
    effects = {result.label: result.effect for result in row.comparisons}
    last = [effects[f"25 % CLM - MLM alone on {task}, 42k"] for task in ("SC", "TC")]
    assert max(last) < 1
    yield "the clear gains are below one point: {:.2f} and {:.2f}".format(*last)
    low, high = row.mean.low, row.mean.high
    yield f"The {row.parts} differences have a mean of {row.mean.effect:.1f} points out of 100 [{low:.1f}, {high:.1f}]"
    yield f"half are below {np.median(list(effects.values())):.1f}"
    alike = [one for one in measured_spreads() if one.parameters >= 200]
    spreads = [one.sd + 1e-9 for one in alike]
    left = answered.pretraining.split("), ")[1].split(f" of {row.parts}")[0]
    yield (
        f"as it did for T5 ({alike[0].parameters:.0f}M; standard deviation {min(spreads):.2f} to {max(spreads):.2f} "
        f"points), only {left} of the {row.parts} comparisons would still be clear"
    )
    yield f"five other seeds would {seeds_again().split(' seeds ')[1].split(' of the')[0]}"
    covered = np.mean(list(of_new_test_sets().values()))
    yield f"On new test sets the interval may cover only {100 * covered:.0f} %"
    clear = [one for one in f8.comparisons if f8.marks[one.label] == HOLDS.name]
    own = [TASKS[one.task].metric for one in clear]
    of_paper = own.count("F1") + own.count("NDCG@10")
    yield f"The {WORDS[len(clear)]}: token classification"
    yield f"twelve differences, {WORDS[len(clear)]} filled"
    yield f"{WORDS[of_paper]} of the {WORDS[len(clear)]} are in the paper's own F1 or NDCG"
    outcomes = [assessment.judged[name].outcome for name in FINDINGS]
    hold, fail, part, are_open = (
        outcomes.count(outcome.name) for outcome in OUTCOMES.values()
    )
    yield f"Of {len(outcomes)} findings, {hold} hold, {fail} fail, {part} hold in part and {are_open} are open"
    scores = ROOT / "analysis" / "examples" / "scores.csv"
    yield first_line("compare", "mine", "baseline", "--source", str(scores))
    yield f"the {len(MODELS)} models"
    tokens = load_study(None).config.tokens_per_step
    yield f"thousands of training steps, about {tokens / 1e6:.1f} M tokens each"
    runs = len(LEARNING_RATES) * len(SEEDS)
    rates, seeds = WORDS[len(LEARNING_RATES)], WORDS[len(SEEDS)]
    yield f"{runs} runs, {rates} learning rates times {seeds} seeds"
    yield f"from its {runs} files"
    yield f"the {len(published_cells())} cells"
    model = find_model(TWO_STAGE)
    assert model is not None
    [switch] = [stage.end for stage in model.stages if stage.objective == "clm"]
    ratio = model.stages[-1].ratio
    yield (
        f"`{TWO_STAGE}` has {model.size.removesuffix('m')} M parameters, CLM up to step {switch:,}, then MLM with "
        f"{ratio} % of the tokens masked, up to step {model.steps:,}"
    )


def claims() -> Iterator[str]:
    """Yield what docs/claims.md says."""
    assessment, answered = assessed()
    judged = assessment.judged
    f8, row = judged["F8"], judged[ANSWER]
    tried = row.parts * sum(name.startswith(ANSWER) for name in judged)
    yield f"beats MLM alone in {f8.parts} comparisons: three budgets, four tasks"
    hardest = max(f8.comparisons, key=lambda result: result.p_for)
    assert hardest.label.endswith("IR, 22k")
    yield (
        f"holds only if all {f8.parts} hold, so its p is the largest: {f8.p_for:.3f}, for retrieval at 22K"
    )
    yield f'looking {tried} times; {f8.holds_in} of the {f8.parts} pass it: "{f8.verdict}"'
    yield f"{MARGINS['TC']:g} on TC and {MARGINS['QA']:.1f} on QA"
    half = published_values().query(f"dataset == '{AVERAGE}'").groupby("task")["ci95"]
    medians = half.median().sort_values()
    assert (medians.index[0], medians.index[-1]) == ("TC", "QA")
    yield f"(median half-width {medians.iloc[0]:.2f} and {medians.iloc[-1]:.2f})"
    yield f"(n = {N_SEEDS}, standard error = half-width / {NORMAL_QUANTILE}"
    yield _shares_of_the_error()
    yield _one_budget_alone()
    families: dict[str, list[str]] = {}
    for name, finding in FINDINGS.items():
        families.setdefault(finding.family, []).append(name)
    yield f"by Holm over the findings about one question: {'; '.join(map(in_ranges, families.values()))}."
    moved = [
        f"{name} ({judged[name].p_for:.3f} to {judged[name].p_for_holm:.3f})"
        for name in ("F4", "F13")
    ]
    f12 = judged["F12"]
    yield (
        f"the p of {moved[0]}, {moved[1]} and, against it, F12 ({f12.p_against:.3f} to {f12.p_against_holm:.3f})"
    )
    alone = answered.cautions[0].split("covers: ")[1].split(" for ")[0]
    yield (
        f"over all {tried} comparisons: {row.holds_in} of {row.parts} hold; {alone} would, had no other share been "
        "tried"
    )
    yield f"MLM alone in at least half of {row.parts} comparisons"
    yield f"if half of the {row.parts} are shown to be worse and none better"
    yield without_a_difference()
    normal = {name: _covered(name, "normal") for name in ("paper", "t", "pooled")}
    yield f"of five normal seeds {normal['paper']:.0f} % of the time, not 95 %"
    yield f"`paper` | mean ± {NORMAL_QUANTILE} sd / √n"
    yield f"(five seeds: {stats.t.ppf(0.975, N_SEEDS - 1):.2f})"
    yield f"runs, {FEWEST_SEEDS} or more seeds and {FEWEST_CELLS} or more models"
    yield f"percentile bootstrap | runs, {FEWEST_SEEDS} or more seeds"
    yield f"±0.00 is read as ±{SMALLEST_HALF_WIDTH}"
    yield f"in simulated sources of {SOURCE_CELLS} cells"
    least = 100.0
    for shape, words in SHAPES_IN_WORDS.items():
        shares = [
            _covered(name, shape) for name in ("paper", "t", "bootstrap", "pooled")
        ]
        least = min(least, shares[-1])
        yield f"| {words} | {' | '.join(f'{share:.1f}' for share in shares)} |"
    yield f"Only `pooled` covers more than {np.floor(least):.0f} % everywhere"
    yield f"with normal seeds it is {_width('pooled', 'normal'):.2f} times as wide as `t`"
    few = [_covered("pooled", shape, FEWEST_CELLS) for shape in ("collapse", "normal")]
    yield (
        f"With five models it covers {few[0]:.0f} % where one in ten collapses, and {few[1]:.0f} % with normal seeds"
    )


def in_ranges(names: list[str]) -> str:
    """Return names of findings, three or more in a row as a range: `F8-F10, F14 and F17`."""
    rows: list[list[str]] = [[names[0]]]
    for name in names[1:]:
        if rows[-1][-1] == _before(name):
            rows[-1].append(name)
        else:
            rows.append([name])
    parts: list[str] = []
    for row in rows:
        parts += [f"{row[0]}-{row[-1]}"] if len(row) > 2 else row
    *others, last = parts
    return f"{', '.join(others)} and {last}" if others else last


def _before(name: str) -> str:
    """Return the name before a finding's: F5a of F5b, F8 of F9."""
    if name[-1].isalpha():
        return f"{name[:-1]}{chr(ord(name[-1]) - 1)}"
    return f"F{int(name[1:]) - 1}"


SHAPES_IN_WORDS = {
    "normal": "normal",
    "t3": "Student's t, 3 degrees of freedom",
    "sst2": "released SST-2 runs, standardised per learning rate",
    "collapse": "one in ten collapses by 5 to 10 sd",
    "queries": "43 queries, few distinct scores",
}


def _covered(interval: str, shape: str, cells: int = SOURCE_CELLS) -> float:
    found = measured_coverage(interval, shape, N_SEEDS, cells)
    assert found is not None
    return 100 * found[0]


def _width(interval: str, shape: str) -> float:
    table = pd.read_csv(ROOT / "analysis" / "data" / "interval_coverage.csv")
    rows = table.set_index(["interval", "shape", "n_seeds", "n_cells"])["width"]
    return float(rows[interval, shape, N_SEEDS, SOURCE_CELLS])


def _shares_of_the_error() -> str:
    """Return which share of its error each task loses by a quarter of CLM, the mean over budgets."""
    means = published_values().query(f"dataset == '{AVERAGE}'")
    mean = means.set_index(["model", "task"])["mean"]
    pairs = {
        "610m-clm-3k-mlm40-12k": "610m-mlm40-12k",
        "610m-clm-5k-mlm40-22k": "610m-mlm40-22k",
        TWO_STAGE: MLM_ALONE,
    }
    gone = {}
    for task in TASKS:
        shares = []
        for mixed, alone in pairs.items():
            gain = mean[mixed, task] - mean[alone, task]
            shares.append(100 * gain / (100 - mean[alone, task]))
        gone[task] = float(np.mean(shares))
    assert max(gone, key=gone.__getitem__) == "TC"
    return f"TC gains most, {gone['TC']:.1f} % (SC {gone['SC']:.1f}, QA {gone['QA']:.1f}, IR {gone['IR']:.1f})"


def _one_budget_alone() -> str:
    """Return F8's verdict in a source of one budget and two tasks."""
    f8 = assess(open_source("curves"), Settings(interval="t")).judged["F8"]
    return f'"{f8.verdict}". All {f8.parts} do not hold by two'


def miniature() -> Iterator[str]:
    """Yield what docs/miniature.md says."""
    curves, example = open_source("curves"), open_source("miniature")
    values = values_of(curves)
    rows = {
        (row["question"], row["score"], row["steps"]): row
        for row in toy_answers(values).to_dict("records")
    }

    def shown(question: int, score: str, steps: int, sign: int = 1) -> str:
        row = rows[question, score, str(steps)]
        low, high = sorted([sign * row["low"], sign * row["high"]])
        return f"{sign * row['effect']:+.2f} [{low:.2f}, {high:.2f}]"

    def p(score: str) -> float:
        return float(rows[1, score, f"{LENGTHS[0]} to {LENGTHS[2]}"]["p_holm"])

    for steps in LENGTHS:
        cells = []
        for score in ("loss", "nq", "sst2"):
            row = rows[1, score, str(steps)]
            cells.append(
                f"{row['effect']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]"
            )
        yield f"| {steps:,} | {' | '.join(cells)} |"
    yield f"(`compare`: {_longest_over_both_tasks()})"
    yield f"(p = {p('loss'):.3f}, {p('nq'):.3f}), that of SST-2 does not ({p('sst2'):.2f})"
    behind = [shown(2, "nq", steps, sign=-1).lstrip("+") for steps in LENGTHS]
    first, last = behind[0].replace(" ", " points ", 1), behind[2]
    yield f"on NQ it is behind by {first} at first, by {last} finally"
    continued = {score: shown(3, score, 1280) for score in ("nq", "sst2")}
    loss = shown(3, "loss", 1280)
    yield f"loss {loss}, NQ {continued['nq']}, SST-2 {continued['sst2']}"
    higher = []
    for names in ARMS.values():
        one, other = (
            of_arm(each, names[0], "loss") for each in (values, values_of(example))
        )
        higher.append(one.mean() - other.mean())
    yield f"Losses are {min(higher):.2f} to {max(higher):.2f} nats higher"
    yield from _sizes()
    tuned = curves.need_runs("the page").query(f"recorded_as != '{UNTRAINED}'")
    yield f"`curves` has {tuned['model'].nunique()} pretrainings and {len(tuned):,} fine-tunings"
    runs = example.need_runs("the page")
    networks = runs.query(f"recorded_as != '{UNTRAINED}'")["model"].nunique()
    assert example.stand_ins is not None
    sizes = [size.removesuffix("M") for size in example.stand_ins.sizes.values()]
    yield f"from {networks} networks of {sizes[0]}, {sizes[1]} and {sizes[2]} M parameters"
    nq = runs.query("dataset == 'nq'").iloc[0]
    yield f"({nq['n_validation'] + nq['n_test']} of the 655 NQ-open questions"
    helped = [_helped(model) for model in (MLM_ALONE, "610m-clm-42k")]
    yield f"on {WORDS[helped[0]]} of four by more than seeds vary, CLM on {WORDS[helped[1]]}"


def _longest_over_both_tasks() -> str:
    """Return CLM, then MLM minus MLM alone after the longest training, over both tasks."""
    curves = open_source("curves")
    assert curves.stand_ins is not None
    names = [
        curves.stand_ins.models.get(ARMS[arm][2], ARMS[arm][2]) for arm in (BOTH, MLM)
    ]
    how = curves.with_interval(Settings())
    differences = compare(curves, [], how, replicates=names).differences
    [whole] = [one.result for one in differences if one.place.task == ALL]
    return f"{whole.effect:+.2f} [{whole.low:.2f}, {whole.high:.2f}]"


def _helped(model: str) -> int:
    """Return on how many tasks of the miniature a model beats the untrained network."""
    how = Settings(interval="t")
    differences = compare(open_source("miniature"), [model, UNTRAINED], how).differences
    return sum(one.outcome == AHEAD for one in differences if one.place.is_dataset)


def _sizes() -> Iterator[str]:
    """Yield how large the toy networks are, and what they see, next to the paper's."""
    folder = ROOT / "miniature"
    curves, smallest = (
        load_study(folder / name / "study.toml") for name in ("curves", "smallest")
    )
    network = curves.shapes["mini-m"].encoder_parameters
    yield f"A network of {network / 1e6:.2f} M parameters"
    yield f"two networks of {smallest.shapes['tiny-t'].encoder_parameters / 1e6:.2f} M parameters"
    yield f"A step has about {curves.config.tokens_per_step:,.0f} tokens"
    example = open_source("miniature").stand_ins
    assert example is not None
    of_paper = {
        size.upper(): shape.encoder_parameters / 1e6 for size, shape in SHAPES.items()
    }
    smaller = [
        of_paper[size] / float(toy.removesuffix("M"))
        for size, toy in example.sizes.items()
    ]
    yield f"at most 1/{np.floor(min(smaller) / 100) * 100:,.0f} of the paper's parameters"
    seen = max(LENGTHS) * curves.config.tokens_per_step
    papers = 42_000 * load_study(None).config.tokens_per_step
    yield f"at most 1/{np.floor(papers / seen / 1000) * 1000:,.0f} of its tokens"


STATED = {"README.md": readme, "docs/claims.md": claims, "docs/miniature.md": miniature}
"""By page."""

if __name__ == "__main__":
    for page, lines in STATED.items():
        print(page, *lines(), sep="\n    ")
