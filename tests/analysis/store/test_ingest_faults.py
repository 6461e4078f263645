import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.sources import open_source
from analysis.store.ingest import RefusedStoreError, StoreTable, ingest
from analysis.store.instances import RunScores, read_clusters
from analysis.store.runs_table import read_runs
from benchmarks.runs import CLUSTERS, DETAILS, RESULTS, cell_keys, clusters_hash
from clm_or_mlm.__main__ import main
from common.errors import UserError
from tests.analysis.made_up import write_instances
from tests.analysis.stores import (
    MODELS,
    contents,
    cut,
    kinds,
    read,
    run_folder,
    twice,
    twice_differently,
)
from tests.results import write_results
from tests.sealed import seal


def spoil(store: Path, edit: Callable[[dict[str, dict[str, object]]], None]) -> None:
    file = run_folder(store) / RESULTS
    document = json.loads(file.read_text())
    edit(document)
    file.write_text(json.dumps(document))


def write(text: str, name: str = RESULTS) -> Callable[[Path], None]:
    return lambda store: (run_folder(store) / name).write_text(text) and None


def edited(
    edit: Callable[[dict[str, dict[str, object]]], object],
) -> Callable[[Path], None]:
    return lambda store: spoil(store, lambda document: edit(document) and None)


def rename(old: str, new: str) -> Callable[[Path], None]:
    return lambda store: (
        (store / "results" / MODELS[1] / old).rename(
            store / "results" / MODELS[1] / new
        )
        and None
    )


def folder_for_file(store: Path) -> None:
    (run_folder(store) / RESULTS).unlink()
    (run_folder(store) / RESULTS).mkdir()


def wrong_task(store: Path) -> None:
    shutil.copytree(
        run_folder(store, "uner_en").parent,
        store / "results" / MODELS[0] / "SC" / "uner_en",
    )


def loop(store: Path) -> None:
    (store / "results" / MODELS[0] / "SC" / "sst2" / "lr1e-04_sd9").symlink_to(
        "lr1e-04_sd9"
    )


BAD: dict[str, tuple[Callable[[Path], None], str, str, int]] = {
    # What is done to the store: kind, words of the sentence, usable runs left of 180. What may be wrong in a file has
    # its tests at its reader, `test_results_json`; here is one of each kind.
    "truncated": (cut, "broken", "is cut off after 100 bytes", 179),
    "no test": (edited(lambda d: d.pop("test")), "incomplete", "lacks 'test'", 179),
    "null": (edited(lambda d: d["test"]["scores_i"].__setitem__(2, None)), "value", r"scores_i\[2\] = None", 179),
    "not the mean": (edited(lambda d: d["test"].update(score=0.123)), "mean", "but the mean of its 5 scores_i", 179),
    "count": (edited(lambda d: d["test"].update(score=1, scores_i=[1])), "count", "7 validation and 1 test", 179),
    "twice": (twice, "duplicate", "repeats the run in lr1e-04_sd0, with the same scores", 180),
    "twice differently": (twice_differently, "duplicate", "whose test score is", 180),
    "model": (lambda s: (s / "results" / MODELS[1]).rename(s / "results" / "610m-clmm-42k") and None,
              "unknown", "unknown model '610m-clmm-42k'; .*did you mean '610m-clm-42k'.*--add-model", 90),
    "task": (rename("SC", "CS"), "unknown", "CS: is not a task", 150),
    "dataset": (rename("SC/sst2", "SC/sst-2"), "unknown", "not a dataset of SC; did you mean 'sst2'", 150),
    "wrong task": (wrong_task, "unknown", "it belongs under TC", 180),
    "run folder": (rename("SC/sst2/lr1e-04_sd0", "SC/sst2/lr1e-04_seed0"), "unknown", "named lr1e-04_sd0", 179),
    "a copy": (rename("SC/sst2/lr1e-04_sd0", "SC/sst2/lr1e-04_sd0 (copy)"), "unknown", "is not a run of sst2", 179),
    "no prefix": (rename("IR/nq/msmarco_pairs_lr1e-04_sd0", "IR/nq/lr1e-04_sd0"), "unknown",
                  "named msmarco_pairs_lr1e-04_sd0", 179),
    "stray": (write("x", "results.json.bak"), "stray", "results.json.bak: is ignored", 180),
    "stray above": (lambda s: (s / "results" / "notes.txt").write_text("x") and None, "stray", "notes.txt", 180),
    "a folder": (folder_for_file, "unreadable", "is a folder", 179),
    "link to nowhere": (lambda s: (s / "results" / "610m-clm-22k").symlink_to("nowhere"), "unreadable",
                        "is a broken link", 180),
    "loop of links": (loop, "unreadable", "lr1e-04_sd9", 180),
}  # fmt: skip
HARMLESS: dict[str, tuple[Callable[[Path], None], str, str, int]] = {
    "unfinished": (
        lambda s: (run_folder(s) / RESULTS).unlink(),
        "unfinished",
        "the run is unfinished",
        179,
    ),
    "being written": (
        write("{", ".results.json.77-ab.tmp.json"),
        "unfinished",
        "is still writing it",
        180,
    ),
    "qed": (
        lambda s: (
            shutil.copytree(
                run_folder(s).parent, s / "results" / MODELS[1] / "QA" / "qed"
            )
            and None
        ),
        "left out",
        "qed: is not one of the paper's twelve",
        180,
    ),
    "empty model": (
        lambda s: (s / "results" / "610m-clm-22k").mkdir(),
        "unfinished",
        "has no runs",
        180,
    ),
    "empty dataset": (
        lambda s: (s / "results" / MODELS[0] / "QA" / "squad").mkdir(parents=True),
        "unfinished",
        "has no runs",
        180,
    ),
}


@pytest.mark.parametrize("name", [*BAD, *HARMLESS])
def test_faults_are_told_once_and_good_runs_are_used(
    store: Path, tmp_path: Path, name: str
) -> None:
    spoil_it, kind, sentence, runs = (BAD | HARMLESS)[name]
    spoil_it(store)
    ingested = read(store, tmp_path / "out")
    assert kinds(ingested) == [kind]
    problem = next(problem for problem in ingested.problems if problem.kind == kind)
    assert problem.path.startswith(str(store / "results"))
    assert "\n" not in str(problem)
    assert re.search(sentence, str(problem)), str(problem)
    assert len(ingested.runs) == runs
    assert ingested.status == (name in BAD)
    pd.testing.assert_frame_equal(
        read_runs(tmp_path / "out" / "runs.parquet"), ingested.runs
    )


def test_missing_runs_are_named(store: Path, tmp_path: Path) -> None:
    shutil.rmtree(run_folder(store, "uner_en", "lr5e-04_sd4"))
    found = read(store, tmp_path)
    assert (found.status, found.complete, found.incomplete) == (0, 5, 1)
    assert [(problem.kind, problem.sentence) for problem in found.problems] == [
        ("missing", "lacks 1 of the 30 runs of the paper's grid: lr5e-04_sd4")
    ]


def test_the_majority_decides_how_many_instances_a_dataset_has(
    store: Path, tmp_path: Path
) -> None:
    for key in cell_keys(MODELS[0], "nq")[:29]:
        write_results(store, key, {"validation": [1.0] * 4, "test": [0.5] * 3})
    ingested = read(store, tmp_path)
    assert len(ingested.runs) == 180 - 29
    assert kinds(ingested) == ["count"] * 29


def test_a_file_without_permission_is_unreadable(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, open_file = run_folder(store) / RESULTS, os.open

    def closed(path: Any, *args: Any, **kwargs: Any) -> Any:
        if path == target:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return open_file(path, *args, **kwargs)

    monkeypatch.setattr("common.reading.os.open", closed)
    ingested = read(store, tmp_path / "out")
    assert kinds(ingested) == ["unreadable"]
    assert len(ingested.runs) == 179


def test_values_that_rounding_put_above_one_are_one(
    store: Path, tmp_path: Path
) -> None:
    key = cell_keys(MODELS[0], "nq")[0]
    write_results(
        store,
        key,
        {"validation": [1.0000000000000002] * 3, "test": [1.0000000000000002] * 3},
    )
    ingested = read(store, tmp_path)
    assert ingested.problems == ()
    assert ingested.runs["test_score"].max() == 1.0


def test_no_store_an_empty_one_and_a_models_own_folder_are_told(
    store: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="does not exist"):
        read(tmp_path / "nowhere", tmp_path / "out")
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="is not a folder"):
        read(tmp_path / "file", tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RefusedStoreError, match="no usable run found"):
        read(tmp_path / "empty", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match="one model's folder"):
        read(store / "results" / MODELS[0], tmp_path / "out")
    with pytest.raises(UserError, match="is a folder; --out must be a file"):
        ingest(store, tmp_path)
    with pytest.raises(UserError, match="has files, but not from an earlier ingest"):
        ingest(store, tmp_path / "runs.parquet", instances=store)
    with pytest.raises(UserError, match="is a file; --instances must be a new folder"):
        ingest(store, tmp_path / "runs.parquet", instances=tmp_path / "file")


def test_nothing_usable_leaves_the_old_table(store: Path, tmp_path: Path) -> None:
    read(store, tmp_path / "out")
    old = contents(tmp_path / "out")["runs.parquet"]
    for file in store.rglob(RESULTS):
        file.write_text("")
    with pytest.raises(RefusedStoreError, match="no usable run found"):
        read(store, tmp_path / "out")
    assert contents(tmp_path / "out")["runs.parquet"] == old


def test_own_models_are_taken_by_name_or_pattern(store: Path, tmp_path: Path) -> None:
    (store / "results" / MODELS[1]).rename(store / "results" / "bert-base")
    assert len(read(store, tmp_path / "a").runs) == 90
    ingested = read(store, tmp_path / "a", add_models=["bert-*"])
    assert (ingested.status, len(ingested.runs)) == (0, 180)
    # The table remembers the name
    assert len(read_runs(tmp_path / "a" / "runs.parquet")) == 180
    with pytest.raises(UserError, match="a CSV cannot record"):
        ingest(store, tmp_path / "runs.csv", add_models=["bert-base"])


def test_own_models_are_taken_where_their_runs_name_them(
    store: Path, tmp_path: Path
) -> None:
    """A folder that was only renamed is not: its runs are another model's."""
    (store / "results" / MODELS[1]).rename(store / "results" / "bert-base")
    for run in (store / "results" / "bert-base").glob("*/*/*"):
        seal(run)
    assert (found := read(store, tmp_path / "a")).status == 0 and "bert-base" in set(
        found.runs["model"]
    )
    assert (
        len(read_runs(tmp_path / "a" / "runs.parquet"))
        == len(open_source(str(store)).runs)
        == 180
    )
    with pytest.raises(
        UserError, match="has no runs of 'bert-bose'; did you mean 'bert-base'"
    ):
        main(["compare", "bert-bose", MODELS[0], "--source", str(store)])
    (store / "results" / "bert-base").rename(store / "results" / "bert-bose")
    assert (
        kinds(found := read(store, tmp_path / "b")) == ["unknown"]
        and len(found.runs) == 90
    )


def test_one_bad_name_or_file_costs_itself_alone(store: Path, tmp_path: Path) -> None:
    cell = run_folder(store).parent
    for name in (
        "lr1e-04_sd99999999999999999999",
        "lr1e-04_sd9223372036854775808",
        "lr1e-9999_sd0",
        f"lr{'1' * 200}_sd0",
    ):
        shutil.copytree(run_folder(store), cell / name)
    os.mkfifo(cell / "lr1e-05_sd0" / "run.json")
    with (cell / "lr1e-05_sd1" / RESULTS).open("r+b") as file:
        file.truncate(200 << 30)
    (cell / "lr1e-05_sd2" / RESULTS).unlink()
    os.mkfifo(cell / "lr1e-05_sd2" / RESULTS)
    odd = os.fsencode(store / "results") + b"/not-utf8-\xff\x1b[31m"
    Path(os.fsdecode(odd + b"/SC/sst2/lr1e-04_sd0")).mkdir(parents=True)
    ingested = read(store, tmp_path / "out", add_models=["*"])
    assert len(ingested.runs) == 180 - 3
    assert sorted(set(kinds(ingested))) == ["changed", "unknown", "unreadable"]
    told = [str(problem) for problem in ingested.problems]
    assert any(
        "is not UTF-8, so it cannot name a model" in sentence for sentence in told
    )
    assert any("more than the limit of" in sentence for sentence in told)
    assert ingested.status == 1


def test_runs_with_other_clusters_are_left_out(store: Path, tmp_path: Path) -> None:
    folder = run_folder(store)
    clusters = {"validation": [0, 0, 1, 1, 2, 2, 2], "test": [0, 1, 1, 1, 0]}
    for other in folder.parent.iterdir():
        seal(other)

    def ingested(
        written: object, hashed: dict[str, list[int]], name: str
    ) -> StoreTable:
        (folder / DETAILS).write_text(json.dumps(written))
        seal(folder, {CLUSTERS: clusters_hash(hashed)})
        return read(store, tmp_path / name)

    whole = ingested({CLUSTERS: clusters}, clusters, "whole")
    assert kinds(whole) == []
    sst2 = whole.runs[whole.runs["dataset"] == "sst2"]
    for split, ids in clusters.items():  # one run speaks for all
        found = read_clusters(tmp_path / "whole" / "instances", "sst2", sst2, split)
        assert found is not None and found.tolist() == ids
    alone = sst2[sst2["model"] == MODELS[1]]
    assert read_clusters(tmp_path / "whole" / "instances", "sst2", alone) is None

    other = {**clusters, "test": [0, 1, 1, 1, 2]}
    for place, wrong in enumerate([{CLUSTERS: other}, {}, [], "x", {CLUSTERS: None}]):
        assert kinds(ingested(wrong, clusters, f"wrong {place}")) == ["changed"]
    short = {**clusters, "test": [0, 0]}
    assert kinds(ingested({CLUSTERS: short}, short, "short")) == ["value"]
    (folder / DETAILS).unlink()
    assert kinds(read(store, tmp_path / "gone")) == ["changed"]
    assert kinds(ingest(store, tmp_path / "runs.parquet")) == [], (
        "without instances nothing is read of it"
    )


def test_runs_that_disagree_about_clusters_are_named(tmp_path: Path) -> None:
    scores = np.array([0.5, 0.5, 1.0])

    def run(seed: int, ids: list[int]) -> RunScores:
        clusters = {"test": np.array(ids, dtype=np.int32)}
        return RunScores(
            lr=1e-4, seed=seed, validation=scores, test=scores, clusters=clusters
        )

    cells = {
        (MODELS[0], "squad"): [run(0, [0, 0, 1])],
        (MODELS[1], "squad"): [run(0, [0, 1, 1])],
    }
    write_instances(tmp_path / "i", cells)
    rows = pd.DataFrame({"model": MODELS, "dataset": "squad", "lr": 1e-4, "seed": 0})
    with pytest.raises(
        UserError,
        match=f"runs of {MODELS[0]} and {MODELS[1]} put the test instances of squad",
    ):
        read_clusters(tmp_path / "i", "squad", rows)
    assert read_clusters(tmp_path / "i", "squad", rows, "validation") is None
