"""Sources by name and by path: what each opens, and what is refused with which words."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.sources import NAMES, PUBLISHED, Source, open_source
from analysis.store.runs_table import write_runs
from common.errors import UserError
from tests.analysis.made_up import made_up_runs, random_runs
from tests.analysis.stores import RELEASED
from tests.messages import refused

CLM = "610m-clm-42k"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "runs.parquet"
    write_runs(path, made_up_runs(np.random.default_rng(0), models=(CLM,)))
    return path


def test_the_published_cells_have_no_runs() -> None:
    source = open_source("published")
    assert source is PUBLISHED and source.is_published and source.name == "published"
    with pytest.raises(
        UserError,
        match="a figure needs individual runs, which the published tables do not have",
    ):
        source.need_runs("a figure")


def test_the_miniature_stands_in_for_the_papers_models() -> None:
    source = open_source("miniature")
    assert (
        source.stand_ins is not None
        and source.label == "miniature"
        and not source.comparable
    )
    assert source.kind.words.startswith(source.kind.title) and source.options == (
        "--source",
        "miniature",
    )
    with pytest.raises(UserError, match="stand-ins have no standard scores"):
        open_source("miniature", protocol="standard")


def test_table_is_opened_with_its_neighbouring_instances(
    table: Path,
) -> None:
    alone = open_source(str(table))
    assert (alone.label, alone.instances, alone.store) == (str(table), None, None)
    (neighbour := table.with_name("instances.parquet")).mkdir()
    assert open_source(str(table)).instances == neighbour
    mine = open_source(str(table), add_models=["mine", "x*"])
    assert mine.options == (
        "--source",
        str(table),
        "--add-model",
        "mine",
        "--add-model",
        "x*",
    )


def test_a_name_by_content_does_not_depend_on_path_or_order(tmp_path: Path) -> None:
    runs = random_runs()
    shuffled = runs.sample(frac=1, random_state=0)
    names = {
        Source(label=label, runs=table).name
        for label, table in (("a", runs), ("b", shuffled))
    }
    assert len(names) == 1 and names.pop().startswith("runs-")
    assert Source(label="a", runs=runs.assign(test_score=0.5)).name not in names


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("releasd", "did you mean 'released'"),
        ("publishd", "did you mean 'published'"),
        ("minature", "did you mean 'miniature'"),
        ("", "an empty --source: no such source"),
        ("reslts", "did you mean 'results'"),
    ],
)
def test_a_near_miss_is_answered_with_the_nearest_name(
    source: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results" / "mine").mkdir(parents=True)
    with pytest.raises(UserError, match=words):
        open_source(source)


@given(st.text(st.characters(codec="ascii", exclude_characters="/.\x00"), max_size=12))
def test_an_unknown_source_is_refused_with_all_names(source: str) -> None:
    if source in NAMES or Path(source).exists():
        return
    with pytest.raises(
        UserError,
        match=r"no such source.* give published, released, miniature, curves, or a path to a run",
    ):
        open_source(source)


def test_files_that_are_no_table_are_told_what_a_source_is(
    tmp_path: Path, table: Path
) -> None:
    (tmp_path / "text.txt").write_text("hello")
    with refused(
        tmp_path / "text.txt", *NAMES, "run store", "folder", "Parquet", ".csv"
    ):
        open_source(str(tmp_path / "text.txt"))
    assert open_source(str(table.rename(tmp_path / "another-name"))).runs is not None


@pytest.mark.parametrize("source", ["published", "released"])
def test_the_papers_own_numbers_have_its_protocol_only(source: str) -> None:
    with pytest.raises(
        UserError,
        match=r"have no standard scores, only those of the paper's own protocol",
    ):
        open_source(source, protocol="standard")


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_runs_on_other_test_sets_than_the_papers_are_announced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ending: str
) -> None:
    runs = pd.read_csv(RELEASED).assign(n_validation=3_368, n_test=872)
    runs = runs.rename(columns={"val_score": "validation_score"})
    write_runs(tmp_path / f"paper.{ending}", runs)
    assert (
        open_source(str(tmp_path / f"paper.{ending}")).comparable
        and not caplog.messages
    )
    write_runs(tmp_path / f"other.{ending}", runs.assign(n_test=4))
    open_source(str(tmp_path / f"other.{ending}"))
    (said,) = caplog.messages
    assert "other" in said and "sst2 (4 test examples, the paper's has 872)" in said


def test_a_store_with_a_toy_test_set_is_announced(
    store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    open_source(str(store))
    (said,) = caplog.messages
    assert (
        "nq (3 test examples, the paper's has 1,726)" in said and "sst2 (5 test" in said
    )
