"""The package's example, the miniature: every table has its interval, test instances travel with their runs."""

from dataclasses import replace

import pytest

from analysis.evidence.settings import Settings
from analysis.sources import EXAMPLES, PUBLISHED, Source, open_source
from analysis.store.instances import read_clusters, read_instances
from analysis.tables import TABLE_FORMATS
from analysis.tables.build import build_table
from analysis.tables.render import table_document
from clm_or_mlm.__main__ import main
from common.tables import show
from pretraining.paper_models import TABLES

MEBIBYTE = 2**20


@pytest.fixture(scope="module")
def example() -> Source:
    return open_source("miniature", need_instances=True)


def test_it_is_small_enough_to_be_kept_with_the_code() -> None:
    assert (
        sum(path.stat().st_size for path in EXAMPLES["miniature"].parent.rglob("*"))
        < 6 * MEBIBYTE
    )


@pytest.mark.parametrize("interval", [None, "crossed"])
def test_every_table_cell_has_an_interval_on_its_scale(
    example: Source, interval: str | None
) -> None:
    scores = example.scores(Settings(interval=interval))
    seen = 0
    for number in list(TABLES)[1:]:
        table = build_table(number, scores, source=example)
        assert interval == "crossed" or "bootstrap t" in table.interval_words
        for cell in (cell for row in table.cells for cell in row):
            assert cell.recomputed is not None and cell.n_seeds == 5
            mean, low, high = cell.recomputed
            assert 0 <= low <= mean <= high <= 100 and low < high, (number, cell)
            seen += 1
    assert seen > 4 * 2 * 36


def test_instances_of_the_example_say_their_clusters(
    example: Source,
) -> None:
    assert example.instances is not None
    for dataset, runs in example.need_runs("instances").groupby("dataset"):
        assert read_instances(example.instances, str(dataset), runs).shape == (
            len(runs),
            runs["n_test"].iloc[0],
        )
    squad = example.need_runs("clusters").query("dataset == 'squad'")
    assert read_clusters(example.instances, "squad", squad) is not None


def test_floors_are_named_by_comparisons_and_tables(
    example: Source, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["compare", "610m-mlm40-42k", "610m-clm-42k", "--source", "miniature"])
        == 0
    )
    said = " ".join(capsys.readouterr().out.split())
    rules = (
        "most frequent class: SST-2 52.00; no entity: UNER 75.48; no answer: SQuAD 0.00; "
        "one ranking for all queries: NQ 1.52"
    )
    assert rules in said
    runs, wanted = example.need_runs("floors"), {"uner_en": 75.48}
    # What most fine-tunings that learnt nothing score, to the digit.
    assert (100 * runs[runs["dataset"] == "uner_en"]["test_score"]).round(
        2
    ).mode().item() == wanted["uner_en"]
    assert (
        "no entity: UNER 75.48"
        in build_table(3, example.scores(Settings()), source=example).caption
    )
    published = build_table(2).caption
    assert "the most frequent class: SST-2 50.92, QQP 63.18, MNLI 35.45" in published
    assert not replace(PUBLISHED, protocol="standard").floors_in_words(["sst2"])


def test_a_table_of_a_family_without_runs_is_a_sentence() -> None:
    source = open_source("curves")
    scores = source.scores(Settings())
    for number, empty in ((2, False), (3, True), (6, True)):
        document = table_document(build_table(number, scores, source=source))
        for form in TABLE_FORMATS:
            shown = show(document, form)
            if form != "csv":
                assert ("curves has no scores for this table." in shown) == empty
        assert (len(document.body) == 1) == empty
