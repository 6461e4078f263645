"""The paper's printed cells: complete, consistent, in the paper's order."""

from analysis.published_cells import published_cells, published_values
from benchmarks.protocol import AVERAGE, DATASETS, TASKS
from pretraining.paper_models import TABLES


def test_every_table_is_there_in_its_order() -> None:
    cells = published_cells()
    assert len(cells) == 800 and sorted(cells["table"].unique()) == list(range(2, 18))
    for table, rows in cells.groupby("table"):
        assert list(dict.fromkeys(rows["model"])) == list(TABLES[table])
        assert rows["task"].nunique() == 1 and rows["dataset"].nunique() == 4
    assert set(cells["dataset"]) == {*DATASETS, AVERAGE} and set(cells["task"]) == set(
        TASKS
    )
    assert cells["mean"].between(0, 100).all() and (cells["ci95"] >= 0).all()


def test_repeated_cells_are_alike_and_once_among_the_values() -> None:
    keys = ["model", "task", "dataset"]
    repeated = published_cells().groupby(keys)[["mean", "ci95"]].nunique()
    assert (repeated == 1).all(axis=None)
    values = published_values()
    assert not values.duplicated(keys).any() and len(values) == len(repeated)
