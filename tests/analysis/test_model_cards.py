"""Scores as model cards, read by the hub's own library."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from huggingface_hub import ModelCard, parse_eval_result_entries

from analysis.evidence.settings import Settings
from analysis.model_cards import model_cards
from analysis.published_cells import published_values
from analysis.sources import PUBLISHED, Source
from tests.analysis.made_up import made_up_runs

MODELS = ("610m-clm-42k", "610m-mlm40-42k")
RUN = ("lr", "seed", "validation_score", "test_score", "n_validation", "n_test")


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    frame = made_up_runs(np.random.default_rng(1), models=MODELS)
    frame.loc[0, "test_score"] = 0.1 + 0.2  # no short decimal
    frame.loc[1, ["test_score", "validation_score"]] = [0.0, 1.0]
    frame["n_test"] = frame["n_test"].astype("Int64")
    frame.loc[frame["dataset"] == "squad", ["n_test", "n_validation"]] = pd.NA
    return frame


def exported(source: Source, folder: Path) -> Path:
    for path, text in model_cards(source, source.with_interval(Settings())).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def test_the_hubs_library_reads_cards_and_results(runs: pd.DataFrame, tmp_path: Path) -> None:
    source = Source(label="x", runs=runs)
    card = ModelCard.load(exported(source, tmp_path) / MODELS[0] / "README.md")
    results = card.data.eval_results
    assert card.data.model_name == MODELS[0] and results is not None and len(results) == 12
    scores = source.scores(source.with_interval(Settings()))
    means = {row.dataset: row.mean for row in scores[scores["model"] == MODELS[0]].itertuples()}
    assert {one.dataset_config: one.metric_value for one in results}.items() <= means.items()
    entries = [
        parse_eval_result_entries(yaml.safe_load(path.read_text()))[0]
        for path in (tmp_path / MODELS[0] / ".eval_results").iterdir()
    ]
    assert entries and {entry.task_id: entry.value for entry in entries}.items() <= means.items()


def results_of(text: str) -> list[dict[str, Any]]:
    """The results in a card's front matter."""
    found: list[dict[str, Any]] = yaml.safe_load(text.split("---\n")[1])["model-index"][0]["results"]
    return found


def test_every_run_is_in_the_card_to_the_last_digit(runs: pd.DataFrame, tmp_path: Path) -> None:
    exported(Source(label="x", runs=runs), tmp_path)
    found = set()
    for model in MODELS:
        for one in results_of((tmp_path / model / "README.md").read_text()):
            args = one["metrics"][0]["args"]["clm_or_mlm"]
            found |= {(model, args["task"], one["dataset"]["config"], *run) for run in args["runs"]}
    mine = runs.fillna({"n_validation": 0, "n_test": 0})
    assert found == set(mine[["model", "task", "dataset", *RUN]].itertuples(index=False, name=None))


def test_printed_cells_are_written_as_printed() -> None:
    card = model_cards(PUBLISHED, PUBLISHED.with_interval(Settings()))[f"{MODELS[1]}/README.md"]
    found = {one["dataset"]["config"]: one["metrics"][0]["value"] for one in results_of(card)}
    cells = published_values().query(f"model == '{MODELS[1]}' and dataset != 'average'")
    assert found == pytest.approx(dict(zip(cells["dataset"], cells["mean"], strict=True)), abs=1e-9)
