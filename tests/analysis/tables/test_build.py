"""Every table's cells against the published CSV, and every format against the table."""

import pandas as pd
import pytest

from analysis.evidence.evidence import Evidence, scores_of
from analysis.evidence.settings import Settings
from analysis.published_cells import published_cells
from analysis.sources import PUBLISHED
from analysis.tables.build import _Layout, build_table
from analysis.tables.render import table_document
from benchmarks.protocol import TASKS, Task
from common.errors import UserError
from common.tables import show
from pretraining.paper_models import TABLES
from pretraining.paper_settings import SHAPES
from tests.analysis.made_up import random_runs

CELLS = published_cells()


def test_rows_and_columns_of_a_table_of_each_layout() -> None:
    assert build_table(2).columns == ("SST-2", "QQP", "MNLI", "Average")
    assert build_table(3).columns == ("OntoNotes", "CoNLL", "UNER", "Average")
    assert build_table(4).columns == ("SQuAD", "SQuAD-v2", "ReCoRD", "Average")
    assert build_table(5).columns == ("NQ", "MS MARCO", "MLDR", "Average")
    assert build_table(2).labels[:5] == tuple(
        ("210M", o) for o in ("MLM 20 %", "MLM 30 %", "MLM 40 %", "MLM 50 %", "CLM")
    )
    assert build_table(6).labels[0] == ("MLM 40 %", "1,000")
    assert build_table(10).labels[:2] == (("12K", "0+12K"), ("12K", "3K+9K"))
    assert build_table(14).labels[:4] == tuple(
        ("MLM 40 %", steps) for steps in ("-", "2K", "12K", "22K")
    )


def test_table_1_states_the_plan() -> None:
    rows = dict(
        zip(
            (label[0] for label in build_table(1).labels),
            build_table(1).texts,
            strict=True,
        )
    )
    assert rows["Layers"] == ("12", "26", "28")
    assert rows["Parameters (embedding + body)"] == ("211.8M", "607.9M", "1,187.9M")
    assert rows["Tokens per step (expected)"][0] == "2,373,120"
    assert len(rows["Steps"]) == len(SHAPES)


def test_recomputed_values_stand_beside_the_published_ones() -> None:
    scores = scores_of(
        Evidence(Settings(interval="bootstrap", resamples=500), runs=random_runs()),
        source="runs.parquet",
    )
    table = build_table(2, scores)
    by_key = scores.set_index(["model", "task", "dataset"])
    for row in table.cells:
        for cell in row:
            assert cell.published is not None
            if cell.model in ("610m-clm-42k", "610m-mlm40-42k"):
                expected = by_key.loc[(cell.model, "SC", cell.dataset)]
                assert cell.recomputed == (
                    expected["mean"],
                    expected["low"],
                    expected["high"],
                )
            else:
                assert cell.recomputed is None
    assert "runs.parquet" in show(table_document(table), "markdown")


def test_own_models_become_rows_of_the_table_of_their_kind() -> None:
    own = (
        "610m-mlm60-42k",
        "610m-clm-20k-mlm40-42k",
        "bert-base",
        "610m-mlm40-42k-3000",
        "610m-clm-dec42k-mlm30-64k",
        "toy-s-clm-60-mlm35-120",
    )
    scores = scores_of(
        Evidence(Settings(), runs=random_runs(models=own)), source="mine"
    )
    held = {
        number: set(build_table(number, scores).models) & set(own)
        for number in (2, 6, 10, 14)
    }
    assert held == {
        2: {own[0], own[2], own[5]},
        6: {own[3]},
        10: {own[1]},
        14: {own[4]},
    }
    row = build_table(2, scores)
    assert row.labels[row.models.index("610m-mlm60-42k")] == ("610M", "MLM 60 %")
    assert row.labels[row.models.index("bert-base")] == ("bert-base", "")
    assert row.labels[row.models.index(own[-1])] == (
        own[-1],
        "CLM + MLM 35 % (120 steps)",
    )
    assert row.cells[row.models.index("610m-mlm60-42k")][0].published is None


def test_a_row_of_an_own_model_fills_every_stub() -> None:
    layout = _Layout(
        title="",
        stubs=("Size", "Layers", "Objective"),
        label=lambda model: (model.size, "12", model.objective),
        models=(),
        kinds=("base",),
        takes_foreign=True,
    )
    for name in ("610m-mlm60-42k", "bert-base", "toy-s-clm-120"):
        assert len(layout.label_of(name, PUBLISHED)) == 3


@pytest.mark.parametrize("number", [0, 18, -1])
def test_a_table_the_paper_does_not_have(number: int) -> None:
    with pytest.raises(UserError, match="Tables 1 to 17"):
        build_table(number)


def test_a_fifth_family_has_tables_after_the_papers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Registered as an add-on does it: all of the paper's tables are as before."""
    before = [build_table(number) for number in TABLES]
    task = Task(
        name="RR",
        title="Reranking",
        metric="MRR",
        standard_metric="MRR",
        headline="mrr",
    )
    monkeypatch.setitem(TASKS, task.name, task)
    assert [build_table(number) for number in TABLES] == before
    scores = pd.DataFrame(
        [
            {
                "model": model,
                "task": "RR",
                "dataset": "average",
                "mean": 50.0,
                "low": 40.0,
                "high": 60.0,
                "n_seeds": 5,
                "interval": "t",
                "source": "mine",
            }
            for model in ("610m-mlm40-42k", "610m-mlm60-42k", "610m-clm-10k-mlm40-42k")
        ]
    )
    tables = [build_table(number, scores) for number in (18, 19, 20, 21)]
    assert all(table.caption.startswith("Reranking (MRR, %): ") for table in tables)
    assert [table.models for table in tables] == [
        ("610m-mlm40-42k", "610m-mlm60-42k"),
        (),
        ("610m-mlm40-42k", "610m-clm-10k-mlm40-42k"),
        ("610m-mlm40-42k",),
    ]
    assert "50.00 [40.00, 60.00]" in show(table_document(tables[0]), "markdown")
    with pytest.raises(UserError, match="other families Tables 18 to 21"):
        build_table(22)


def test_published_cells_come_in_the_order_of_the_rows() -> None:
    for number, cells in CELLS.groupby("table"):
        assert list(pd.unique(cells["model"])) == list(build_table(int(number)).models)


def test_a_model_of_ones_own_has_a_row_where_it_has_a_score() -> None:
    scores = pd.DataFrame(
        [
            {
                "model": model,
                "task": "SC",
                "dataset": dataset,
                "mean": 50.0,
                "low": 40.0,
                "high": 60.0,
                "n_seeds": 5,
                "interval": "t",
                "source": "mine",
            }
            for model, dataset in (("seen", "qqp"), ("elsewhere", "reviews"))
        ]
    )
    assert [
        model
        for model in build_table(2, scores).models
        if model not in build_table(2).models
    ] == ["seen"]
