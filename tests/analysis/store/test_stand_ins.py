"""A small study's runs in the paper's places: averages, tables, claims, and that it is said."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.claims.assessment import assess
from analysis.claims.catalogue import SHOWN
from analysis.claims.pages.explain import verdicts_document
from analysis.evidence.cells import seed_scores
from analysis.evidence.settings import Settings
from analysis.sources import open_source
from analysis.store.runs_table import write_runs
from analysis.store.stand_ins import STAND_INS
from analysis.tables import TABLE_FORMATS
from analysis.tables.build import build_table
from analysis.tables.render import table_document
from clm_or_mlm.__main__ import main
from common.errors import UserError
from common.tables import show

MODELS = {
    "mini-m-mlm40-42": "610m-mlm40-42k",
    "mini-m-clm-42": "610m-clm-42k",
    "mini-m-clm-10-mlm40-42": "610m-clm-10k-mlm40-42k",
}
FAMILIES = {"SC": "sst2", "TC": "uner_en", "QA": "squad", "IR": "nq"}
CONTENT = {
    "title": "MINIATURE",
    "note": "not the paper's models.",
    "steps": 1000,
    "models": MODELS,
    "others": ["mini-m-random"],
    "stages": {"mini-m-clm": "610m-clm"},
    "families": {task: [name] for task, name in FAMILIES.items()},
    "logs": "logs",
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = [
        {
            "model": model,
            "task": task,
            "dataset": dataset,
            "lr": 1e-3,
            "seed": seed,
            "validation_score": rng.uniform(),
            "test_score": rng.uniform(),
            "n_validation": 10,
            "n_test": 10,
        }
        for model in (*MODELS, "mini-m-random")
        for task, dataset in FAMILIES.items()
        for seed in range(3)
    ]
    path = tmp_path / "runs.parquet"
    write_runs(path, pd.DataFrame(rows))
    (tmp_path / STAND_INS).write_text(json.dumps(CONTENT))
    return path


def test_a_familys_average_is_its_one_dataset(table: Path) -> None:
    source = open_source(str(table))
    assert source.runs is not None
    values = seed_scores(source.runs)
    for task, dataset in FAMILIES.items():
        for model in (*MODELS.values(), "mini-m-random"):
            average, alone = (
                values.loc[(model, task, "average")],
                values.loc[(model, task, dataset)],
            )
            assert average.to_numpy() == pytest.approx(alone.to_numpy())


@pytest.mark.parametrize("form", TABLE_FORMATS)
def test_tables_say_so_and_print_no_number_of_the_paper(table: Path, form: str) -> None:
    source = open_source(str(table))
    scores = source.scores(Settings(interval="t"))
    for number in (2, 5, 10):
        made = build_table(number, scores, source=source)
        assert all(cell.published is None for row in made.cells for cell in row)
        text = show(table_document(made), form)
        if form != "csv":
            assert "MINIATURE: not the paper" in text.replace("&#x27;", "'")
    shown = build_table(2, scores, source=source)
    assert shown.models == ("610m-mlm40-42k", "610m-clm-42k", "mini-m-random")
    assert shown.columns == ("SST-2", "Average")


def test_claims_say_so(table: Path) -> None:
    source = open_source(str(table))
    found = assess(source, Settings(interval="t"))
    for form in ("text", "markdown", "json"):
        assert "MINIATURE: not the paper" in show(verdicts_document(found, SHOWN), form)


def test_without_the_file_the_runs_keep_their_names(table: Path) -> None:
    (table.parent / STAND_INS).unlink()
    source = open_source(str(table))
    assert source.stand_ins is None and source.runs is not None
    assert set(source.runs["model"]) == {*MODELS, "mini-m-random"}


def test_a_damaged_file_is_told(table: Path) -> None:
    (table.parent / STAND_INS).write_text("{}")
    with pytest.raises(
        UserError,
        match=r"stand_ins\.json: title is missing; make it again or remove it",
    ):
        open_source(str(table))


def test_the_audit_lists_the_runs_and_compares_nothing(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "--source", str(table)]) == 0
    text = capsys.readouterr().out
    assert "not compared with the paper's. It has 48 runs:" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["mini-m-clm-42", "610m-clm-42k", "squad", "3"] in rows
    assert ["mini-m-random", "-", "nq", "3"] in rows
    assert "published" not in text
