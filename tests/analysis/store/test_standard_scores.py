"""The standard protocol's scores: read from run.json, recorded, and kept apart from the paper's."""

import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from analysis.evidence.settings import Settings
from analysis.published_cells import published_values
from analysis.sources import open_source
from analysis.store.ingest import RefusedStoreError, ingest
from analysis.store.runs_table import read_runs, read_table
from analysis.tables import TABLE_FORMATS
from benchmarks.protocol import TASKS
from benchmarks.runs import DETAILS, RESULTS, RUN, RunKey, cell_keys, results_text
from clm_or_mlm.__main__ import main
from common.errors import UserError
from common.files import write_text
from tests.analysis.stores import MODELS, age, fill, run_folder
from tests.results import write_results
from tests.sealed import seal


def score(key: RunKey, split: str) -> float:
    """Another number than results.json holds, with all digits."""
    return float(
        np.random.default_rng(
            [len(key.model), len(key.dataset), key.seed, len(split)]
        ).random()
    )


def record(store: Path, key: RunKey, **changes: object) -> None:
    metrics = {"accuracy": "SC", "entity_f1": "TC", "f1": "QA", "ndcg_at_10": "IR"}
    name = next(metric for metric, task in metrics.items() if task == key.task)
    standard = {
        split: {name: score(key, split), "exact_match": 0.0}
        for split in ("validation", "test")
    }
    seal(store / "results" / key.folder, {"standard": standard, **changes})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLM_OR_MLM_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[RunKey]]:
    store = tmp_path_factory.mktemp("recorded")
    keys = fill(store)
    for key in keys:
        record(store, key)
    age(store)
    return store, keys


@pytest.fixture
def both(
    recorded: tuple[Path, list[RunKey]], tmp_path: Path
) -> tuple[Path, list[RunKey]]:
    return Path(shutil.copytree(recorded[0], tmp_path / "my store")), recorded[1]


def test_takes_each_tasks_headline_metric_and_says_so_everywhere(
    both: tuple[Path, list[RunKey]], tmp_path: Path
) -> None:
    store, keys = both
    out = tmp_path / "standard.parquet"
    assert (
        main(["ingest", str(store), "--protocol", "standard", "--out", str(out)]) == 0
    )
    runs = read_runs(out).set_index(["model", "dataset", "lr", "seed"])
    assert len(runs) == len(keys)
    for key in keys:
        row = runs.loc[key.model, key.dataset, key.lr, key.seed]
        assert (row["validation_score"], row["test_score"]) == (
            score(key, "validation"),
            score(key, "test"),
        )
    assert read_table(out).protocol == "standard"
    assert open_source(str(out)).label == f"{out} (standard protocol)"
    assert main(["ingest", str(store), "--out", str(tmp_path / "paper.parquet")]) == 0
    assert read_table(tmp_path / "paper.parquet").protocol == "paper"


def test_a_metric_by_its_name_takes_the_runs_that_have_it(
    both: tuple[Path, list[RunKey]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also below zero; where another task lacks it, its runs are left out, and nobody is alarmed."""
    store, keys = both
    of_ner = [key for key in keys if key.task == "TC"]
    for key in of_ner:
        record(
            store,
            key,
            standard={
                split: {"mine": -score(key, split)} for split in ("validation", "test")
            },
        )
    found = ingest(store, tmp_path / "x.parquet", protocol="mine")
    runs = found.runs.set_index(["model", "dataset", "lr", "seed"])
    assert len(runs) == len(of_ner) < len(keys) and found.status == 0
    for key in of_ner:
        assert runs.loc[key.model, key.dataset, key.lr, key.seed][
            "test_score"
        ] == -score(key, "test")
    opened = open_source(str(store), protocol="mine")
    assert (
        opened.options == ("--source", str(store), "--metric", "mine")
        and not opened.comparable
    )
    assert main(["table", "3", "--source", str(store), "--metric", "mine"]) == 0
    assert "METRIC mine: not the paper's metric" in capsys.readouterr().out
    with pytest.raises(
        RefusedStoreError, match=r"has no metric 'their', only .*exact_match"
    ):
        ingest(store, tmp_path / "y.parquet", protocol="their")


def test_every_task_has_a_headline_that_its_evaluator_writes() -> None:
    assert {name: task.headline for name, task in TASKS.items()} == {
        "SC": "accuracy",
        "TC": "entity_f1",
        "QA": "f1",
        "IR": "ndcg_at_10",
    }


def test_runs_without_it_are_told_and_the_others_used(
    both: tuple[Path, list[RunKey]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, keys = both
    several: dict[str, Any] = {
        "lr1e-05_sd0": None,
        "lr1e-05_sd2": {"status": "complete"},
        "lr2e-05_sd0": {"dataset": "qqp"},
        "lr2e-05_sd1": {
            "standard": {name: {"accuracy": 91.4} for name in ("validation", "test")}
        },
    }
    for name, content in several.items():
        folder = run_folder(store, name=name)
        if content is None:
            (folder / RUN).unlink()
        else:
            seal(folder, content)
    found = ingest(store, tmp_path / "x.parquet", protocol="standard")
    told = {
        Path(p.path).name: p.sentence
        for p in found.problems
        if p.kind in ("standard", "value", "changed")
    }
    told |= {
        Path(p.path).parent.name: p.sentence
        for p in found.problems
        if p.kind == "value"
    }
    assert set(several) <= set(told) and found.status == 1
    assert (
        "has no run.json" in told["lr1e-05_sd0"]
        and "of another run" in told["lr2e-05_sd0"]
    )
    assert len(found.runs) == len(keys) - len(several)
    paper = ingest(store, tmp_path / "y.parquet")  # which needs no standard metric
    assert len(paper.runs) == len(keys) - 2 and {
        p.kind for p in paper.problems if not p.harmless
    } == {"changed"}


def test_a_changed_record_is_read_again_and_only_it(
    both: tuple[Path, list[RunKey]], tmp_path: Path
) -> None:
    store, keys = both
    out = tmp_path / "x.parquet"
    first = ingest(store, out, protocol="standard")
    key = keys[3]
    values = {
        split: {TASKS[key.task].headline: 0.5} for split in ("validation", "test")
    }
    record(store, key, standard=values)
    second = ingest(store, out, protocol="standard")
    changed = (first.runs["test_score"] != second.runs["test_score"]).to_numpy()
    assert changed.sum() == 1 and second.runs["test_score"][changed].tolist() == [0.5]
    assert (
        ingest(store, out).runs["test_score"].tolist()
        != second.runs["test_score"].tolist()
    )


def test_of_a_store_without_records_nothing_is_left(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    with pytest.raises(RefusedStoreError, match="no usable run"):
        ingest(tmp_path / "store", tmp_path / "x.parquet", protocol="standard")
    assert not (tmp_path / "x.parquet").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--protocol", "standard", "--out", "x.csv"], "cannot record the protocol"),
        (
            ["--protocol", "standard", "--out", "x.parquet", "--instances", "i"],
            "leave --instances out",
        ),
    ],
)
def test_what_a_file_cannot_say_is_refused(
    both: tuple[Path, list[RunKey]],
    words: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(both[0].parent)
    with pytest.raises(UserError, match=sentence):
        main(["ingest", str(both[0]), *words])
    assert not (both[0].parent / "x.csv").exists()


def test_the_protocols_of_tables_are_not_mixed_up(
    both: tuple[Path, list[RunKey]], tmp_path: Path
) -> None:
    paper, standard = tmp_path / "paper.parquet", tmp_path / "standard.parquet"
    ingest(both[0], paper, instances=tmp_path / "instances.parquet")
    ingest(both[0], standard, protocol="standard")
    assert open_source(str(paper)).instances is not None
    assert open_source(str(standard)).instances is None  # they are the paper's
    with pytest.raises(
        UserError, match="of the paper protocol, not the standard protocol"
    ):
        open_source(str(paper), protocol="standard")


@pytest.mark.parametrize("form", TABLE_FORMATS)
def test_tables_by_standard_metrics_say_so(
    both: tuple[Path, list[RunKey]],
    cache: None,
    capsys: pytest.CaptureFixture[str],
    form: str,
) -> None:
    words = ["table", "3", "--format", form, "--source"]
    assert main([*words, str(both[0])]) == 0
    paper = capsys.readouterr().out
    assert main([*words, f"standard:{both[0]}"]) == 0
    standard = capsys.readouterr().out
    cells = published_values().set_index(["model", "task", "dataset"])
    printed = f"{cells.loc[(MODELS[0], 'TC', 'uner_en'), 'mean']:.2f}"
    assert printed in paper and printed not in standard
    assert (
        "(standard protocol)" if form == "csv" else "STANDARD PROTOCOL: not the paper's"
    ) in standard
    assert "standard protocol" not in paper.lower()
    scores = open_source(str(both[0]), protocol="standard").scores(Settings())
    mean = scores.set_index(["model", "task", "dataset"]).loc[
        (MODELS[0], "TC", "uner_en"), "mean"
    ]
    assert f"{mean:.2f}" in standard


def test_a_figure_by_the_standard_metrics_says_so(
    tmp_path: Path, cache: None, capsys: pytest.CaptureFixture[str]
) -> None:
    for model, dataset in product(
        ("210m-mlm40-42k", "210m-clm-42k"), ("sst2", "qqp", "mnli_m")
    ):
        for key in cell_keys(model, dataset):
            write_results(
                tmp_path / "store", key, {"validation": [0, 1], "test": [1, 0, 1]}
            )
            record(tmp_path / "store", key)
    words = [
        "figure",
        "2",
        "--source",
        f"standard:{tmp_path / 'store'}",
        "--format",
        "svg",
    ]
    assert main([*words, "--out", str(tmp_path)]) == 0
    made = json.loads((tmp_path / "figure2.json").read_text())
    assert made["title"].startswith("STANDARD PROTOCOL. Figure 2.")
    assert "Not the paper's metrics but the field's" in made["caption"]
    assert made["source"]["name"].startswith("STANDARD PROTOCOL runs-")
    assert "STANDARD PROTOCOL" in (tmp_path / "figure2.txt").read_text()


def test_what_has_no_standard_metrics_says_where_they_are(
    both: tuple[Path, list[RunKey]], cache: None
) -> None:
    with pytest.raises(UserError, match="neither confirm nor contradict"):
        main(["audit", "--source", f"standard:{both[0]}"])


def own_runs(
    store: Path, task: str, definition: str, metric: str, value: float | None = None
) -> list[Any]:
    """Runs of two models on a dataset of the store's own, whose metric is not the paper's; return its test scores.

    The metric is the mean of the scores by instance in details.json unless its value is given.
    """
    rng, kept = np.random.default_rng(5), []
    write_text(store / "datasets" / "mine.json", definition)
    hard = rng.random(40)
    for number, model in enumerate(MODELS):
        for seed in range(4):
            scores = [
                np.clip(hard + 0.05 * number + rng.normal(0, 0.1, 40), 0, 1)
                for _ in range(2)
            ]
            by_split = dict(
                zip(
                    ("validation", "test"),
                    (one.tolist() for one in scores),
                    strict=True,
                )
            )
            folder = (
                store
                / "results"
                / RunKey(
                    model=model, dataset="mine", lr=1e-4, seed=seed, task=task
                ).folder
            )
            write_text(
                folder / RESULTS,
                results_text(
                    {
                        split: (one**0.5).tolist()
                        for split, one in zip(by_split, scores, strict=True)
                    }
                ),
            )
            instances = {
                split: {metric: one} if value is None else {}
                for split, one in by_split.items()
            }
            write_text(
                folder / DETAILS,
                json.dumps({"losses": [seed + number / 7], "standard": instances}),
            )
            means = {
                split: {
                    metric: float(np.mean(one)) if value is None else value + seed / 9
                }
                for split, one in by_split.items()
            }
            seal(folder, {"standard": means})
            kept.append(100 * scores[1])
    age(store)
    return kept


@pytest.mark.parametrize(
    ("task", "definition", "metric"),
    [
        ("IR", '{"kind": "retrieval"}', "ndcg_at_10"),
        ("IR", '{"kind": "retrieval", "metric": "recall_at_100"}', "recall_at_100"),
        ("QA", '{"kind": "answers"}', "f1"),
    ],
)
@pytest.mark.usefixtures("cache")
def test_own_datasets_crossed_interval_uses_its_metric(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    task: str,
    definition: str,
    metric: str,
) -> None:
    scores = np.array(own_runs(tmp_path, task, definition, metric))
    assert (
        main(
            [
                "compare",
                *MODELS,
                "--source",
                str(tmp_path),
                "--interval",
                "crossed",
                "--format",
                "json",
            ]
        )
        == 0
    )
    [found] = json.loads(capsys.readouterr().out)["differences"]
    apart = scores[:4] - scores[4:]  # of each shared seed and query
    own, covariance = stats.sem(apart.mean(axis=1)) ** 2, np.cov(apart) / 40
    shared = covariance[~np.eye(4, dtype=bool)].mean()
    df = (own + shared) ** 2 / (own**2 / 3 + shared**2 / 39)
    ends = stats.t.interval(0.95, df, apart.mean(), np.sqrt(own + shared))
    assert shared > 0 and (found["low"], found["high"]) == pytest.approx(ends)


@pytest.mark.usefixtures("cache")
def test_metric_without_instances_has_no_crossed_interval(
    tmp_path: Path,
) -> None:
    own_runs(
        tmp_path, "TC", '{"kind": "tags", "labels": ["O", "B-X"]}', "entity_f1", 0.4
    )
    with pytest.raises(
        UserError,
        match=r"mine: its metric is no mean of scores by instance.* such as pooled",
    ):
        main(["compare", *MODELS, "--source", str(tmp_path), "--interval", "crossed"])
    assert (
        main(["compare", *MODELS, "--source", str(tmp_path), "--interval", "pooled"])
        == 0
    )


@pytest.mark.usefixtures("cache")
def test_details_that_were_changed_are_not_read(tmp_path: Path) -> None:
    own_runs(tmp_path, "IR", '{"kind": "retrieval"}', "ndcg_at_10")
    path = next(tmp_path.glob("results/*/*/*/*/details.json"))
    path.write_text(path.read_text() + " ")
    with pytest.raises(
        UserError, match=r"has a details\.json that does not match its run\.json"
    ):
        main(["compare", *MODELS, "--source", str(tmp_path), "--interval", "crossed"])
