"""Formats that the field exchanges: by their own libraries, and back with every score."""

from __future__ import annotations

import io
import json
import math
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from huggingface_hub import ModelCard, parse_eval_result_entries

from analysis.__main__ import main
from analysis.evidence.evidence import Settings
from analysis.exchange.results import NOMINAL_RATE
from analysis.export import FORMATS, zipped
from analysis.published_cells import published_values
from analysis.sources import PUBLISHED, Source, open_source
from analysis.store.runs_table import write_runs
from benchmarks.protocol import STANDARD
from common.errors import UserError
from tests.analysis.made_up import made_up_runs
from tests.oracle import EXCHANGE, CannotInstall, install

MODELS = ("610m-clm-42k", "610m-mlm40-42k")
READ_BACK = ("model-index", "lm-eval", "mteb")


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    frame = made_up_runs(np.random.default_rng(1), models=MODELS)
    frame.loc[0, "test_score"] = 0.1 + 0.2  # no short decimal
    frame.loc[1, ["test_score", "validation_score"]] = [0.0, 1.0]
    frame["n_test"] = frame["n_test"].astype("Int64")
    frame.loc[frame["dataset"] == "squad", ["n_test", "n_validation"]] = pd.NA
    return frame


def exported(source: Source, name: str, folder: Path) -> Path:
    for path, text in FORMATS[name].write(source, source.with_interval(Settings())).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.mark.parametrize("name", READ_BACK)
@pytest.mark.parametrize("protocol", ["paper", STANDARD])
def test_runs_come_back_equal_in_every_score(
    runs: pd.DataFrame, name: str, protocol: str, tmp_path: Path
) -> None:
    frame = runs.replace({"model": {MODELS[1]: "mine"}})
    write_runs(tmp_path / "runs.parquet", frame, protocol=protocol)
    source = open_source(str(tmp_path / "runs.parquet"))
    back = open_source(str(exported(source, name, tmp_path / "out")))
    pd.testing.assert_frame_equal(back.need_runs(""), source.need_runs(""), check_exact=True)
    assert back.protocol == protocol and back.name == source.name and back.unsealed == len(back.need_runs(""))
    # A file alone, and through ingest to a table of ours.
    one = next(path for path in sorted((tmp_path / "out").glob("**/*")) if path.name in ("README.md", "sst2.json")
               or path.name.startswith("results_"))  # fmt: skip
    assert set(open_source(str(one)).need_runs("")["model"]) == {MODELS[0]}
    assert (
        main(["ingest", str(tmp_path / "out"), "--protocol", protocol, "--out", str(tmp_path / "b.parquet")])
        == 0
    )
    assert (tmp_path / "b.parquet").read_bytes() == (tmp_path / "runs.parquet").read_bytes()


@pytest.mark.parametrize("name", READ_BACK)
def test_printed_cells_come_back_as_scores_that_name_their_origin(name: str, tmp_path: Path) -> None:
    frame = open_source(str(exported(PUBLISHED, name, tmp_path))).need_runs("")
    assert (frame["lr"] == NOMINAL_RATE).all() and not frame.duplicated(["model", "dataset"]).any()
    cells = published_values()
    cells = cells[cells["dataset"] != "average"]
    origin = {"model-index": "huggingface"}.get(name, name)
    printed = {(f"{model}@{origin}", dataset): mean for model, dataset, mean in
               zip(cells["model"], cells["dataset"], cells["mean"], strict=True)}  # fmt: skip
    found = dict(
        zip(zip(frame["model"], frame["dataset"], strict=True), frame["test_score"] * 100, strict=True)
    )
    assert found.keys() == printed.keys()
    assert all(math.isclose(found[cell], mean, abs_tol=1e-9) for cell, mean in printed.items())


def test_a_model_card_is_one_to_the_hubs_library(runs: pd.DataFrame, tmp_path: Path) -> None:
    source = Source(label="x", runs=runs)
    exported(source, "model-index", tmp_path)
    card = ModelCard.load(tmp_path / MODELS[0] / "README.md")
    results = card.data.eval_results
    assert card.data.model_name == MODELS[0] and results is not None and len(results) == 12
    scores = source.scores(source.with_interval(Settings()))
    means = {row.dataset: row.mean for row in scores[scores["model"] == MODELS[0]].itertuples()}
    for result in results:
        assert math.isclose(result.metric_value, means[result.dataset_config], rel_tol=1e-12)
    # The library writes a card that is read back, too: as YAML, with the field of ours.
    card.save(tmp_path / "again.md")
    back = open_source(str(tmp_path / "again.md")).need_runs("")
    assert len(back) == (runs["model"] == MODELS[0]).sum()
    entries = [
        parse_eval_result_entries(yaml.safe_load(path.read_text()))[0]
        for path in (tmp_path / MODELS[0] / ".eval_results").iterdir()
    ]
    assert {entry.task_id: entry.value for entry in entries}.items() <= means.items() or all(
        math.isclose(entry.value, means[entry.task_id], rel_tol=1e-12) for entry in entries
    )


@pytest.mark.slow
def test_mteb_lm_eval_and_croissant_take_them(runs: pd.DataFrame, tmp_path: Path) -> None:
    try:
        oracle = install(lock=EXCHANGE)
    except CannotInstall as error:
        pytest.skip(f"requirements/exchange.txt cannot be installed here: {error}")
    source = Source(label="x", runs=runs)
    for name in ("lm-eval", "mteb", "croissant"):
        exported(source, name, tmp_path / name)
    script = """
    import json
    from pathlib import Path
    import mlcroissant
    from lm_eval.utils import make_table
    from mteb.results import TaskResult

    folder = Path(given["exports"])
    tasks = [TaskResult.from_disk(path) for path in sorted(folder.glob("mteb/*/*/*.json")) if path.stem != "model_meta"]
    harness = [json.loads(path.read_text()) for path in sorted(folder.glob("lm-eval/*/*.json"))]
    crate = mlcroissant.Dataset(str(folder / "croissant/croissant.json"))
    text = (folder / "croissant/croissant.json").read_text()
    (folder / "croissant/wrong.json").write_text(text.replace('"@type": "cr:Field"', '"@type": "cr:Fild"'))
    try:
        wrong = mlcroissant.Dataset(str(folder / "croissant/wrong.json")).metadata.issues.report()
    except mlcroissant.ValidationError as error:
        wrong = str(error)
    plain = lambda value: value.decode() if isinstance(value, bytes) else value
    answer = {
        "mteb": {task.task_name: task.scores["test"][0]["main_score"] for task in tasks[:12]},
        "tables": [make_table(one) for one in harness],
        "errors": sorted(crate.metadata.issues.errors),
        "wrong": wrong,
        "rows": [[plain(value) for value in row.values()] for row in crate.records("runs")],
    }
    """
    found = oracle.run(script, folder=tmp_path / "run", exports=tmp_path)
    scores = source.scores(source.with_interval(Settings()))
    means = {row.dataset: row.mean for row in scores[scores["model"] == MODELS[0]].itertuples()}
    assert len(found["mteb"]) == 12
    assert all(math.isclose(score * 100, means[name], rel_tol=1e-12) for name, score in found["mteb"].items())
    assert all(f"|{means[name] / 100:.4f}|" in found["tables"][0] for name in found["mteb"])
    assert found["errors"] == [] and "Fild" in found["wrong"]
    mine = runs.astype(object).where(runs.notna(), None)
    kept = [tuple(row) for row in mine[mine["dataset"] != "squad"].itertuples(index=False)]
    assert {tuple(row) for row in found["rows"] if row[2] != "squad"} == set(kept)


FOREIGN_CARD = """---
license: mit
model-index:
- name: org/e5
  results:
  - task: {type: text-classification}
    dataset: {type: nyu-mll/glue, name: GLUE SST-2, config: sst2}
    metrics:
    - {type: accuracy, value: 93.25}
  - task: {type: Retrieval}
    dataset: {type: other/data, name: Other}
    metrics:
    - {type: ndcg_at_10, value: 12}
---
# A model
"""
HARNESS = {
    "results": {"sst2": {"alias": "sst2", "acc,none": 0.5, "acc_stderr,none": 0.01}, "arc": {"acc,none": 0.2},
                "qqp": {"acc,none": 0.75, "f1,none": 0.6}},
    "versions": {"sst2": 1.0}, "config": {"model": "hf", "model_args": "pretrained=org/bert,dtype=float"},
    "n-samples": {"sst2": {"original": 872, "effective": 872}},
}  # fmt: skip
MIXED = json.dumps(HARNESS | {"n-samples": {"sst2": {"effective": "x"}, "qqp": {"effective": 5}}})
MTEB = {
    "task_name": "NQ", "mteb_version": "2.0.0", "dataset_revision": "x", "evaluation_time": 1.0,
    "scores": {"dev": [{"main_score": 0.9, "hf_subset": "default"}],
               "test": [{"main_score": 0.1, "hf_subset": "de"}, {"main_score": 0.41, "hf_subset": "en"}]},
}  # fmt: skip


def test_files_of_other_makers_in_one_folder_are_models_to_compare(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("card", "harness", "m/r"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "card/README.md").write_text(FOREIGN_CARD)
    (tmp_path / "harness/results_2026.json").write_text(json.dumps(HARNESS))
    (tmp_path / "m/r/NQ.json").write_text(json.dumps(MTEB))
    (tmp_path / "m/r/model_meta.json").write_text('{"name": "google/bert"}')
    (tmp_path / "m/README.md").write_text("# nothing\n")
    frame = open_source(str(tmp_path)).need_runs("")
    found = {(row.model, row.dataset): (row.test_score, row.n_test) for row in frame.itertuples()}
    assert {key: score for key, (score, _) in found.items()} == {
        ("org__e5@huggingface", "sst2"): 0.9325, ("org__bert@lm-eval", "sst2"): 0.5,
        ("org__bert@lm-eval", "qqp"): 0.75, ("google__bert@mteb", "nq"): 0.41,
    }  # fmt: skip
    assert found["org__bert@lm-eval", "sst2"][1] == 872
    assert "one run with seed 0 and a nominal learning rate of 0.5" in caplog.text
    harness = str(tmp_path / "harness")
    assert main(["compare", "org__bert@lm-eval", MODELS[0], "--source", harness]) == 0
    assert "org__bert@lm-eval minus 610m-clm-42k" in (printed := capsys.readouterr().out)
    assert "50.00" in printed and "75.00" in printed


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.json", "{}", "has no score on a known dataset in a supported format"),
        ("a.json", "[1", r"a.json: line 1: .*; fetch or export it again"),
        ("a.json", '{"task_name": "NQ", "scores": {}}', r"cannot be read as mteb results \(IndexError"),
        ("a.json", json.dumps(MTEB), "there is no model_meta.json in this folder"),
        ("a.json", json.dumps(HARNESS).replace("0.5,", '"x",'), "acc of sst2 is 'x', not a number"),
        ("a.json", json.dumps(HARNESS).replace("0.5,", "1.5,"), r"score of org/bert on sst2 is 1.5, outside \[0, 1\]"),
        ("a.json", json.dumps(HARNESS | {"clm_or_mlm": {"sst2": {"protocol": "paper"}}}), "task is missing"),
        ("a.json", json.dumps(HARNESS | {"clm_or_mlm": {"sst2": 3}}), "clm_or_mlm must be a table"),
        ("a.json", json.dumps(HARNESS | {"config": "x"}), r"cannot be read as lm-eval results \(AttributeError"),
        ("a.json", MIXED, "cannot be converted to a runs table"),
        ("a.md", "# no card", "has no score"),
        ("a.md", FOREIGN_CARD.replace("name: org", "nam: org"), r"cannot be read as huggingface results \(KeyError"),
        ("a.md", FOREIGN_CARD.replace("93.25", "[93]"), "the value of sst2 is"),
        ("a.yaml", "{a: [", "not valid YAML"),
        ("a.yaml", "- value: 3", "cannot be read as huggingface results"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_in_a_sentence(
    name: str, text: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=words):
        open_source(str(tmp_path / name))


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Croissant, which describes a table of runs, needs individual runs"):
        main(["export", "croissant", "--out", str(tmp_path)])
    with pytest.raises(UserError, match="would be exported under the names of those models"):
        main(["export", "mteb", "--source", "miniature", "--out", str(tmp_path)])
    assert not list(tmp_path.iterdir())


def test_scores_of_two_protocols_do_not_mix(runs: pd.DataFrame, tmp_path: Path) -> None:
    for protocol in ("paper", STANDARD):
        one = runs.assign(model=protocol)
        exported(Source(label="x", runs=one, protocol=protocol), "lm-eval", tmp_path)
    with pytest.raises(UserError, match="scores from both protocols"):
        open_source(str(tmp_path))


def test_a_zip_holds_the_files_and_has_one_form() -> None:
    files = {"b/x": "1", "a": "\u00e9"}
    content = zipped(files)
    assert content == zipped(dict(reversed(files.items())))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert {name: archive.read(name).decode() for name in archive.namelist()} == files
