"""The table of questions.md from what is in results/: scores with intervals, and the comparisons that it asks for.

python -m tests.benchmarks.better.table
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.statistics.crossed import covariance_of_means, freedom_of
from analysis.statistics.estimates import Student
from analysis.statistics.inference import holm
from common.tables import markdown_table
from tests.benchmarks.better.scores import RESULTS, SETS_FILE

Array = NDArray[Any]

_SEED = re.compile(r"-seed\d+$")
_OF_TEXTS = {"ndcg_by_query": 1.0, "right_by_text": 100.0}
"""Where a result has its scores by query or text, and what makes them percent."""
MAIN = (
    ("b-minilm-pairs-nq-128", "a-minilm-nq-128"),
    ("b-minilm-pairs-qmsum-128", "a-minilm-qmsum-128"),
    ("b-minilm-pairs-qmsum-128", "a-bm25-qmsum"),
    ("c-minilm-mlm-pairs-qmsum-128", "b-minilm-pairs-qmsum-128"),
    ("d-smollm2-clm-mlm-nq-64", "d-smollm2-mlm-nq-64"),
    ("d-smollm2-clm-mlm-qmsum-64", "d-smollm2-mlm-qmsum-64"),
)
OTHERS = (
    ("a-minilm-nq-128", "a-bm25-nq"),
    ("a-minilm-squad-128", "a-bm25-squad"),
    ("a-minilm-qmsum-128", "a-bm25-qmsum"),
    ("b-minilm-pairs-nq-128", "a-bm25-nq"),
    ("b-minilm-pairs-qmsum-256", "a-minilm-qmsum-256"),
    ("c-minilm-mlm-pairs-qmsum-128", "a-minilm-qmsum-128"),
    ("d-smollm2-plain-nq-64", "d-smollm2-as-loaded-nq-64"),
    ("d-smollm2-both-ways-nq-64", "d-smollm2-plain-nq-64"),
    ("d-smollm2-mlm-nq-64", "d-smollm2-both-ways-nq-64"),
    ("d-smollm2-plain-qmsum-64", "d-smollm2-as-loaded-qmsum-64"),
    ("d-smollm2-both-ways-qmsum-64", "d-smollm2-plain-qmsum-64"),
    ("d-smollm2-mlm-qmsum-64", "d-smollm2-both-ways-qmsum-64"),
    ("e-smollm2-mlm-pairs-nq-32", "e-smollm2-both-ways-pairs-nq-32"),
    ("e-smollm2-clm-mlm-pairs-nq-32", "e-smollm2-mlm-pairs-nq-32"),
    ("e-smollm2-both-ways-pairs-nq-32", "e-smollm2-random-pairs-nq-32"),
    ("f-smollm2-clm-mlm-sst2-64", "f-smollm2-mlm-sst2-64"),
    ("f-smollm2-mlm-sst2-64", "f-smollm2-both-ways-sst2-64"),
)


def difference(
    first: Array, second: Array | None = None, clusters: Array | None = None
) -> Student:
    """Return the mean of some runs less that of others, with the error over seeds and test instances together.

    What a single run's seed would do is unknown and not counted: its error is over instances alone.

    Args:
        first: (runs, instances), in percent.
        second: the same of what is subtracted; None: nothing is.
        clusters: (instances,) labels; None: each instance stands for itself.
    """
    parts = [first] if second is None else [first, second]
    together = np.concatenate(parts)
    covariance = covariance_of_means(together, clusters)
    signs = np.concatenate(
        [np.full(len(part), sign) for part, sign in zip(parts, (1, -1), strict=False)]
    )
    variances = []
    shared = 0.0
    for one in np.unique(signs):
        rows = signs == one
        count = int(rows.sum())
        inside = covariance[np.ix_(rows, rows)]
        if count == 1:
            shared += float(inside[0, 0])
            continue
        shared += float(inside.sum() - np.trace(inside)) / (count * (count - 1))
        variances.append(
            (float(together[rows].mean(axis=1).var(ddof=1)) / count, count - 1.0)
        )
    if second is not None:
        shared -= 2 * float(covariance[np.ix_(signs == 1, signs == -1)].mean())
    variances.append(
        (max(0.0, shared), freedom_of(first.shape[1] if clusters is None else clusters))
    )
    total = sum(variance for variance, _ in variances)
    squares = sum(variance**2 / freedom for variance, freedom in variances)
    effect = float(first.mean()) - (0.0 if second is None else float(second.mean()))
    return Student(
        effect=effect, error=total**0.5, df=total**2 / squares if squares else np.inf
    )


def found() -> dict[str, list[dict[str, Any]]]:
    """Return what is in results/, the seeds of one model together."""
    runs = defaultdict(list)
    for path in sorted(RESULTS.glob("?-*.json")):
        runs[_SEED.sub("", path.stem)].append(json.loads(path.read_text()))
    return runs


def by_text(runs: Iterable[dict[str, Any]]) -> Array:
    """Return the scores of each run's queries or texts, (runs, instances), in percent."""
    rows = []
    for run in runs:
        (name,) = _OF_TEXTS.keys() & run.keys()
        rows.append(_OF_TEXTS[name] * np.array(run[name], dtype=np.float64))
    return np.stack(rows)


def shown(estimate: Student, sign: str = "") -> str:
    """Return an effect and its 95 % interval."""
    low, high = estimate.interval()
    return f"{estimate.effect:{sign}.1f} [{low:{sign}.1f}, {high:{sign}.1f}]"


def p_of(estimate: Student) -> float:
    """Return the two-sided p of no difference."""
    return 2 * min(estimate.p_above(0.0), estimate.p_below(0.0))


def main() -> None:
    """Print the scores, then the comparisons."""
    results = found()
    clusters = {
        name: np.array(labels)
        for name, labels in json.loads(SETS_FILE.read_text()).items()
    }
    rows = [
        [
            "result",
            "seeds",
            "NDCG@10 or accuracy",
            "by cluster",
            "recall@10",
            "recall@100",
            "CPU s a run",
        ]
    ]
    for name, runs in results.items():
        scores, groups = by_text(runs), clusters.get(runs[0]["set"])
        recalls = [
            f"{np.mean([run[key] for run in runs]):.1f}" if key in runs[0] else ""
            for key in ("recall_10", "recall_100")
        ]
        seconds = np.mean(
            [run["cpu_seconds"] + run.get("training_cpu_seconds", 0.0) for run in runs]
        )
        seeds = str(len(runs)) if "seed" in runs[0] else ""
        whole = difference(scores)
        grouped = "" if groups is None else shown(difference(scores, clusters=groups))
        rows.append([name, seeds, shown(whole), grouped, *recalls, f"{seconds:,.0f}"])
    print("\n".join(markdown_table(rows)))
    for title, pairs in (("Main comparisons", MAIN), ("Others", OTHERS)):
        made = [
            (one, other) for one, other in pairs if one in results and other in results
        ]
        rows = [["first", "second", "difference", "by cluster", "p", "Holm"]]
        estimates = [
            difference(by_text(results[one]), by_text(results[other]))
            for one, other in made
        ]
        values = [p_of(estimate) for estimate in estimates]
        # Of all main comparisons, those that are still to come included.
        missing = [1.0] * (len(pairs) - len(made))
        adjusted = (
            holm([*values, *missing])[: len(made)]
            if title.startswith("Main")
            else [None] * len(made)
        )
        for (one, other), estimate, p, corrected in zip(
            made, estimates, values, adjusted, strict=True
        ):
            groups = clusters.get(results[one][0]["set"])
            grouped = ""
            if groups is not None:
                grouped = shown(
                    difference(by_text(results[one]), by_text(results[other]), groups),
                    "+",
                )
            last = "" if corrected is None else f"{corrected:.3g}"
            rows.append([one, other, shown(estimate, "+"), grouped, f"{p:.3g}", last])
        print(f"\n{title}\n")
        print("\n".join(markdown_table(rows)))


if __name__ == "__main__":
    main()
