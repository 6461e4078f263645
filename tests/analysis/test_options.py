"""Options that several commands share, and the package that all their numbers need."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.comparisons.contestants import contestants_of
from analysis.evidence.intervals import INTERVALS
from analysis.evidence.settings import Settings
from analysis.options import SourceOptions
from analysis.sources import PUBLISHED
from analysis.store.runs_table import write_runs
from analysis.tables.build import build_table
from clm_or_mlm.__main__ import main
from common.errors import UserError
from tests.analysis.stores import RELEASED
from tests.messages import refused
from tests.paper_figures.made_up import made_up_runs

STUDY = """
[sizes."610m"]
hidden = 1152
layers = 26
heads = 18
kv_heads = 6
mlp = 4096
[models.mine]
stages = {stages}
"""


def test_an_interval_that_is_left_open_is_the_sources() -> None:
    runs = SourceOptions(source=str(RELEASED)).open()
    assert PUBLISHED.with_interval(Settings()).interval == "t"
    assert runs.with_interval(Settings()).interval == "pooled"
    assert runs.with_interval(Settings(interval="bootstrap")).interval == "bootstrap"


def test_published_cells_refuse_other_selection_rules() -> None:
    for words in (
        "scores",
        "table 3",
        "audit",
        "claims",
        "sensitivity",
        "reproduce",
        "report",
        "compare 610m-mlm40-42k 610m-clm-42k",
    ):
        with pytest.raises(
            UserError,
            match="in the published cells, the learning rate was chosen for each seed",
        ):
            main([*words.split(), "--selection", "mean"])


def test_two_sources_of_one_process_have_their_own_models(
    tmp_path: Path,
) -> None:
    """Both studies call a model `mine`; the third source has no study, so there its name says nothing."""
    write_runs(tmp_path / "runs.parquet", made_up_runs(["mine"]))
    for name, stages in (("one", ["mlm40:42k"]), ("two", ["clm:10k", "mlm20:32k"])):
        (tmp_path / f"{name}.toml").write_text(STUDY.format(stages=stages))
    options = [
        SourceOptions(
            source=str(tmp_path / "runs.parquet"), study=tmp_path / f"{name}.toml"
        )
        for name in ("one", "two")
    ]
    opened = [one.open() for one in options]
    opened.append(replace(options[0], study=None, add_model=("mine",)).open())
    labels = []
    for source, number in zip(opened, (2, 10, 2), strict=True):
        table = build_table(number, source.scores(Settings()), source=source)
        labels.append(table.labels[table.models.index("mine")])
    assert labels == [
        ("610M", "MLM 40 %"),
        ("42K", "10K+32K (CLM + MLM 20 %)"),
        ("mine", ""),
    ]


def test_the_options_of_a_source_name_its_study(tmp_path: Path) -> None:
    write_runs(tmp_path / "runs.parquet", made_up_runs(["mine", "other"]))
    (tmp_path / "one.toml").write_text(STUDY.format(stages=["mlm40:42k"]))
    source = SourceOptions(
        source=str(tmp_path / "runs.parquet"),
        study=tmp_path / "one.toml",
        add_model=("oth*",),
    )
    opened = source.open()
    words = opened.options
    given = dict(zip(words[::2], words[1::2], strict=True))
    again = SourceOptions(
        source=given["--source"],
        study=Path(given["--study"]),
        add_model=(given["--add-model"],),
    )
    assert len(words) == 6 and again.open().study_models == opened.study_models
    # What is printed to be copied must survive a shell that expands stars.
    with refused("--study", "'oth*'"):
        contestants_of(opened, ["absent", "other"], Settings())


def test_instances_are_read_where_the_interval_needs_them() -> None:
    named = {name: Settings(interval=name).method.needs_instances for name in INTERVALS}
    assert [name for name, needed in named.items() if needed] == ["crossed"]
    assert not Settings().method.needs_instances


@pytest.mark.parametrize(
    "words",
    [
        "table 2 --source miniature --interval t",
        "compare 610m-mlm40-42k 610m-clm-42k",
        "claims",
    ],
)
def test_without_statsmodels_one_sentence_names_it(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Also those that are imported already.
    for module in (
        "statsmodels",
        "statsmodels.stats.weightstats",
        "statsmodels.stats.multitest",
    ):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match="needs statsmodels, which is not installed"):
        main(words.split())
