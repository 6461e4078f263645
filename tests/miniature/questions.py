"""Answers the questions that the toy study `curves` was run for, by the tests that its study file states.

python -m tests.miniature.questions                     # the packaged runs
python -m tests.miniature.questions --source build/miniature/curves/analysis/all/runs.parquet \\
    --logs build/miniature/curves/pretraining/models --format csv
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.claims.wording import format_p
from analysis.comparisons.arm_spreads import ArmScores
from analysis.comparisons.contestants import Place
from analysis.sources import Source, arms_of, open_source
from analysis.statistics.estimates import difference_estimate, student_estimate
from analysis.statistics.inference import holm
from analysis.statistics.learning_rate_selection import select_runs
from analysis.store.stand_ins import RECORDED_AS
from common.errors import UserError
from common.level import ALPHA
from common.tables import PRINTED, Grid, TableDocument, signed, write
from miniature.data import CURVES
from pretraining.models import arm_of
from pretraining.plan.study_plan import load_study
from pretraining.training.log import LOG, read_log

MODELS = load_study(CURVES / "study.toml").models
LENGTHS = (840, 2520, 5040)
"""Steps."""
MLM, CLM, BOTH = "MLM alone", "CLM alone", "CLM, then MLM"
ARMS = {
    MLM: tuple(f"mini-m-mlm40-{steps}" for steps in LENGTHS),
    CLM: tuple(f"mini-m-clm-{steps}" for steps in LENGTHS),
    BOTH: (
        "mini-m-clm-200-mlm40-840",
        "mini-m-clm-600-mlm40-2520",
        "mini-m-clm-1200-mlm40-5040",
    ),
}
"""The models of each arm, by length."""
PRETRAINING, SEED = "pretraining", "fine-tuning seed"
CONTINUED = ("mini-m-clm-dec840-mlm40-1280", "mini-m-mlm40-dec840-mlm40-1280")
SCORES = {
    "loss": "loss of MLM (nats)",
    "nq": "NQ (NDCG@10)",
    "sst2": "SST-2 (accuracy)",
}
QUESTIONS = {
    1: f"Does CLM first help, and still when training is longer? {BOTH} minus {MLM}",
    2: f"Does MLM catch up with CLM? {MLM} minus {CLM}",
    3: "Does MLM on a CLM model beat MLM continued? MLM after CLM minus MLM after MLM",
}


def document(source: str = "curves", logs: Path | None = None) -> TableDocument:
    """Return the answers, whole: as data a row a test, then a row a standard deviation."""
    opened = open_source(source)
    found, spread = answers(values_of(opened, logs)), spreads(opened)
    body: list[str | Grid] = []
    for number, words in QUESTIONS.items():
        part = found[found["question"] == number]
        rows = [
            ["", "steps", "difference", "95 % interval", "p (Holm)", "", "pretrainings"]
        ]
        for row in part.to_dict("records"):
            said = (
                "open"
                if row["p_holm"] > ALPHA
                else "higher"
                if row["effect"] > 0
                else "lower"
            )
            numbers = [
                signed(row["effect"]),
                f"[{signed(row['low'])}, {signed(row['high'])}]",
                format_p(row["p_holm"]),
            ]
            ends = (
                ["-", "-", "-", "not run"]
                if np.isnan(row["effect"])
                else [*numbers, said]
            )
            rows.append(
                [SCORES[row["score"]], row["steps"], *ends, row["pretrainings"]]
            )
        body += [
            f"{number}. {words} (Holm over {len(part)} tests):",
            "",
            Grid(rows, numbers={2, 4}),
            "",
        ]
    rows = [["", "steps", "between", "sd", "95 % interval"]]
    for row in spread.to_dict("records"):
        ends = [f"{row['sd']:.2f}", f"[{row['low']:.2f}, {row['high']:.2f}]"]
        rows.append([SCORES[row["score"]], row["steps"], f"{row['component']}s", *ends])
    body += [
        "4. How much do pretrainings differ, against fine-tunings? In points:",
        "",
        Grid(rows, numbers={3}),
        "",
    ]
    body += [f"Tests: miniature/curves/study.toml. Source: {opened.words}."]
    return TableDocument(
        body=body, records=pd.concat([found, spread], ignore_index=True)
    )


def _under_own_names(source: Source) -> pd.DataFrame:
    runs = source.need_runs("the study curves")
    return runs.assign(model=runs[RECORDED_AS]) if RECORDED_AS in runs else runs


def values_of(source: Source, logs: Path | None = None) -> pd.DataFrame:
    """Return one value a pretraining: index the names of `curves`, columns `loss` (nats), `nq`, `sst2` (points).

    A score is the mean over fine-tuning seeds at the learning rates that validation chose, a loss that of the last
    objective on held-out text after the last step; what is not there is not a number.

    Raises:
        UserError: a source without runs, or without logs where none are given.
    """
    logs = logs or (source.stand_ins.logs if source.stand_ins else None)
    if logs is None:
        raise UserError(
            f"{source.label} has no training logs; give the folder of its models' logs with --logs"
        )
    rows = [row for path in sorted(logs.rglob(LOG)) for row in read_log(path)]
    losses = {}
    for name, model in MODELS.items():
        ends = [
            row["loss"]
            for row in rows
            if (row["stage"], row["split"], row["step"])
            == (name, "validation", model.steps)
        ]
        losses[name] = ends[-1] if ends else np.nan
    chosen = select_runs(_under_own_names(source))
    scores = 100 * chosen.pivot_table(
        index="model", columns="dataset", values="test_score"
    )
    return scores.reindex(index=list(losses), columns=["nq", "sst2"]).assign(
        loss=pd.Series(losses)
    )


def of_arm(values: pd.DataFrame, arm: str, score: str) -> pd.Series:
    """Return the values of an arm's pretrainings, by their seeds, of those that have one."""
    held: pd.Series = values.loc[
        [name for name in values.index if arm_of(name)[0] == arm], score
    ].dropna()
    return held.set_axis([arm_of(name)[1] for name in held.index])


def answers(values: pd.DataFrame) -> pd.DataFrame:
    """Return every test of the first three questions.

    Args:
        values: `values_of` a source.

    Returns:
        Columns `question, steps, score, effect, low, high` (95 %), `p, pretrainings, p_holm` (over the question's
        tests); of a test for which a side has fewer than two pretrainings, no effect, and a p of 1.
    """
    rows = [
        *_compared(1, BOTH, MLM, list(SCORES), values),
        *_compared(2, MLM, CLM, ["nq", "sst2"], values),
    ]
    rows += [
        _test(3, "1280", score, *(of_arm(values, arm, score) for arm in CONTINUED))
        for score in SCORES
    ]
    found = pd.DataFrame(rows)
    return found.assign(
        p_holm=found.groupby("question")["p"].transform(lambda p: holm(p.to_list()))
    )


def _compared(
    question: int, first: str, second: str, scores: Sequence[str], values: pd.DataFrame
) -> Iterator[dict[str, object]]:
    """Yield the difference of two arms at each length, and its change from the first length to the last."""
    for score in scores:
        pairs = [
            [of_arm(values, ARMS[arm][place], score) for arm in (first, second)]
            for place in range(3)
        ]
        for steps, pair in zip(LENGTHS, pairs, strict=True):
            yield _test(question, str(steps), score, *pair)
        change = (pairs[2][0] - pairs[2][1]) - (pairs[0][0] - pairs[0][1])
        yield _test(question, f"{LENGTHS[0]} to {LENGTHS[2]}", score, change.dropna())


def _test(
    question: int, steps: str, score: str, *sides: pd.Series
) -> dict[str, object]:
    """Return a test of two sides (Welch's t), or of one against 0 (t)."""
    row = {
        "question": question,
        "steps": steps,
        "score": score,
        "effect": np.nan,
        "low": np.nan,
        "high": np.nan,
    }
    row |= {"p": 1.0, "pretrainings": "/".join(str(len(side)) for side in sides)}
    if min(map(len, sides)) < 2:
        return row
    arrays = [side.to_numpy(dtype=np.float64) for side in sides]
    found = (
        difference_estimate(*arrays)
        if len(arrays) == 2
        else student_estimate(arrays[0])
    )
    low, high = found.interval()
    p = 2 * min(found.p_above(0.0), found.p_below(0.0))
    return {**row, "effect": found.effect, "low": low, "high": high, "p": p}


def spreads(source: Source) -> pd.DataFrame:
    """Return the standard deviations between pretrainings and fine-tuning seeds, pooled over the arms of each length.

    Returns:
        Columns `question, score, steps, component, sd, low, high` (points, 95 %).
    """
    runs = _under_own_names(source)
    task_of = dict(zip(runs["dataset"], runs["task"], strict=True))
    rows = []
    for steps, arms in (
        *zip(map(str, LENGTHS), zip(*ARMS.values(), strict=True), strict=True),
        ("1280", CONTINUED),
    ):
        own = {arm: names for arm, names in arms_of(runs).items() if arm in arms}
        if not own:
            continue
        scores = ArmScores.of(runs, own, "seed")
        for dataset, task in task_of.items():
            found = scores.spreads(arms, Place(task, dataset), ())
            if found is not None:
                head = {"question": 4, "score": dataset, "steps": steps}
                rows.append(
                    {**head, "component": PRETRAINING, **asdict(found.pretrainings)}
                )
                rows.append({**head, "component": SEED, **asdict(found.seeds)})
    columns = ["question", "score", "steps", "component", "sd", "low", "high"]
    return pd.DataFrame(rows, columns=columns).sort_values("score", kind="stable")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--source",
        default="curves",
        help="curves, or the runs table of one that you made",
    )
    parser.add_argument(
        "--logs",
        type=Path,
        help="folder with the logs of its models (default: the source's)",
    )
    parser.add_argument("--format", choices=PRINTED, default="text")
    given = parser.parse_args()
    write(document(given.source, given.logs), given.format, None)
