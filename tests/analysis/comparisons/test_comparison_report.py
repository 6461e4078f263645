import csv
import io
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.comparisons.comparison import Comparison, compare, compare_table
from analysis.comparisons.comparison_report import (
    about,
    comparison_document,
    difference_tables,
    footer,
    in_a_sentence,
)
from analysis.comparisons.contestants import OVERALL, Place
from analysis.comparisons.differences import (
    AHEAD,
    BEHIND,
    EQUAL,
    OPEN,
    UNKNOWN,
    Difference,
)
from analysis.comparisons.scores_table import read_scores
from analysis.comparisons.table_options import TableOptions
from analysis.evidence.contrasts import Contrast, Result
from analysis.evidence.settings import Settings
from analysis.sources import PUBLISHED, Source
from analysis.store.text_table import text_table_of
from benchmarks.protocol import AVERAGE, PAPER, STANDARD, Dataset, DatasetFiles
from common.errors import UserError
from common.tables import PRINTED, show, signed
from tests.analysis.comparisons.given import MADE_UP, REAL, best_runs, real_and_made_up
from tests.analysis.made_up import with_instances

SETTINGS = Settings(interval="t", resamples=500)
PAIR = compare(PUBLISHED, [REAL, MADE_UP], SETTINGS)
MANY = compare(PUBLISHED, ["610m-*-12k"], SETTINGS)
RUNS = compare(real_and_made_up(), [REAL, MADE_UP], SETTINGS)


@pytest.mark.parametrize("form", [*PRINTED, "latex"])
@pytest.mark.parametrize("result", [PAIR, MANY, RUNS], ids=["pair", "many", "runs"])
def test_every_format_prints_every_comparison(form, result):
    text = show(comparison_document(result), form)
    assert text.endswith("\n") and not text.endswith("\n\n")
    assert "nan" not in text.lower().replace("finance", "")
    assert all(name.replace("_", "\\_") in text for name in result.contestants.models)


def test_json_and_csv_hold_the_same_numbers():
    rows = list(csv.DictReader(io.StringIO(show(comparison_document(PAIR), "csv"))))
    content = json.loads(show(comparison_document(PAIR), "json"))
    assert len(rows) == len(content["differences"]) == 17
    for row, one in zip(rows, content["differences"], strict=True):
        assert float(row["effect"]) == pytest.approx(one["effect"], rel=1e-8)
        assert float(row["p_holm"]) == pytest.approx(one["p_holm"], rel=1e-8)
    assert [one["name"] for one in content["models"]] == [REAL, MADE_UP]
    models = json.loads(show(comparison_document(MANY), "json"))["models"]
    means = [one["mean"] for one in models]
    assert len(means) == 5 and means == sorted(means, reverse=True)


def test_the_text_has_the_table_and_how_it_was_done():
    short, text = (
        show(comparison_document(PAIR, full=full), "text") for full in (False, True)
    )
    assert (
        "±0.5" not in short and max(map(len, short.split("\n\n")[2].splitlines())) <= 80
    )
    assert "SC average  87.00  83.58  +3.42   [+3.13, +3.71]" in text and "±0.5" in text
    assert "Each model was pretrained once" in text and "two one-sided tests" in text
    assert (
        "intervals take the test instances as given" in short and "Metric" not in text
    )


@pytest.mark.parametrize(
    ("first", "second", "answer"),
    [
        (
            "610m-clm-10k-mlm40-42k",
            REAL,
            "610m-clm-10k-mlm40-42k is ahead by +1.76 [+1.11, +2.41] points over all tasks; ahead on SC, TC, QA; "
            "open on IR.",
        ),
        (
            "210m-clm-42k",
            "210m-mlm40-42k",
            "210m-mlm40-42k is ahead by +3.79 [+3.29, +4.29] points over all tasks; ahead on SC, QA, IR; "
            "practically equal on TC.",
        ),
    ],
)
def test_two_models_get_one_sentence_whichever_is_named_first(
    first: str, second: str, answer: str
):
    for names in ((first, second), (second, first)):
        assert (
            in_a_sentence(compare(PUBLISHED, names, Settings(interval="t"))) == answer
        )


def test_a_sentence_says_what_is_open_and_what_has_one_seed():
    scores = {REAL: {"sst2": [90.0, 91.0, 89.0]}, MADE_UP: {"sst2": [90.5, 89.0, 91.0]}}
    said = in_a_sentence(
        compare(Source(label="x", runs=best_runs(scores)), [REAL, MADE_UP], Settings())
    )
    assert said.startswith(f"Open over SST-2: {REAL} minus {MADE_UP} is -0.17 [")
    scores[REAL]["sst2"] = [90.0]
    said = in_a_sentence(
        compare(Source(label="x", runs=best_runs(scores)), [REAL, MADE_UP], Settings())
    )
    assert "a test needs two seeds of each model" in said and "-0.17 points" in said


def judged(outcome: str, place: Place, effect: float) -> Difference:
    """A difference of REAL and MADE_UP with an outcome."""
    clear = outcome in (AHEAD, BEHIND)
    result = Result(
        comparison=Contrast(label="", terms=(), low=-0.5, high=0.5),
        effect=effect,
        low=effect - 1,
        high=effect + 1,
        p_for=0.01 if outcome == EQUAL else 0.9,
        missing="no seeds" if outcome == UNKNOWN else "",
    )
    one = Difference(
        first=REAL,
        second=MADE_UP,
        place=place,
        result=result,
        p_holm=0.01 if clear else 0.9,
    )
    assert one.outcome == outcome
    return one


OUTCOMES = {AHEAD: 1.0, BEHIND: -1.0, EQUAL: 0.1, OPEN: -0.4, UNKNOWN: 0.2}


@pytest.mark.parametrize("part", OUTCOMES)
@pytest.mark.parametrize("whole", OUTCOMES)
def test_only_a_model_whose_lead_is_shown_is_called_ahead(whole: str, part: str):
    differences = (
        judged(part, Place("SC", AVERAGE), OUTCOMES[part]),
        judged(whole, OVERALL, OUTCOMES[whole]),
    )
    said = in_a_sentence(replace(PAIR, differences=differences))
    first, rest = said.removesuffix(".").split("; ")
    leads = {AHEAD: REAL, BEHIND: MADE_UP}
    reason = " (no seeds)" if whole != UNKNOWN else ""  # said once
    others = {
        EQUAL: "practically equal",
        OPEN: "open",
        UNKNOWN: f"not tested{reason}",
    }
    if whole in leads:
        assert first.startswith(
            f"{leads[whole]} is ahead by +1.00 ["
        ) and first.endswith("over all tasks")
        shown = {True: "ahead on SC", False: "behind on SC"}[
            leads.get(part) == leads[whole]
        ]
    else:
        assert first.startswith(others[whole].capitalize()) and "ahead" not in first
        assert (whole == UNKNOWN) == ("no seeds" in first)
        assert " over all tasks: " in first
        assert f"{REAL} minus {MADE_UP} is {OUTCOMES[whole]:+.2f} [" in first
        shown = f"{leads.get(part)} is ahead on SC"
    assert rest == (shown if part in leads else f"{others[part]} on SC")


def test_many_models_are_compared_with_the_highest_mean():
    result = MANY
    first, *others = result.contestants.models
    tables = dict(difference_tables(result))
    assert all(title.startswith(f"{first} (A) minus") for title in tables)
    assert [len(rows) for rows in tables.values()] == [
        6
    ] * 5  # four tasks and all, a head and five models
    assert {one.first for one in result.differences} == {first}
    by_name = {
        one.second: one for one in result.differences if one.place.title == "SC average"
    }
    _, best, *rows = tables[
        f"{first} (A) minus each of the other models (B), SC average; Holm over all pairs of models:"
    ]
    assert best[0] == first and [row[0] for row in rows] == others
    for name, mean, difference, *_ in rows:
        assert float(mean) == pytest.approx(
            float(best[1]) - by_name[name].result.effect, abs=0.011
        )
        assert difference == signed(by_name[name].result.effect)
    assert about(result).startswith("5 models, highest mean over all tasks first.")
    assert "pretrained once" in " ".join(footer(result))


def test_the_order_is_by_the_widest_scope_that_all_models_have():
    """A dataset where no average is common, and none where no dataset is."""
    scores = {
        "610m-mlm20-42k": {"sst2": [89.0] * 5, "qqp": [80.0] * 5, "mnli_m": [80.0] * 5},
        REAL: {"sst2": [90.0, 91.0, 89.0, 90.0, 90.0]},
        MADE_UP: {"sst2": [91.0] * 5, "squad": [50.0] * 5},
    }
    found = compare(Source(label="x", runs=best_runs(scores)), list(scores), SETTINGS)
    assert found.contestants.models == (MADE_UP, REAL, "610m-mlm20-42k")
    [(title, rows)] = difference_tables(found, full=False)
    assert "(B), SST-2;" in title and [row[:3] for row in rows[1:3]] == [
        [MADE_UP, "91.00", ""],
        [REAL, "90.00", "+1.00"],
    ]
    scores[REAL] = {"qqp": [90.0, 91.0, 89.0, 90.0, 90.0]}
    apart = compare(Source(label="x", runs=best_runs(scores)), list(scores), SETTINGS)
    assert apart.over is None and apart.contestants.models == tuple(scores)
    assert (
        about(apart).startswith("3 models. ") and list(difference_tables(apart)) == []
    )


def test_the_footer_names_the_interval_over_instances(tmp_path):
    runs, folder = with_instances(
        tmp_path / "instances",
        np.random.default_rng(0),
        models=(REAL, MADE_UP),
        counts={},
    )
    source = Source(label="x", runs=runs, instances=folder)
    found = compare(
        source, [REAL, MADE_UP], Settings(interval="crossed", resamples=200)
    )
    assert footer(found)[0].startswith(
        "Intervals for differences (crossed): 95 % interval by Student"
    )
    assert {one.result.interval for one in found.differences} == {"crossed"}
    assert "instances as given" not in " ".join(footer(found))


@pytest.mark.parametrize("names", [[REAL, MADE_UP], [REAL, MADE_UP, "210m-clm-42k"]])
@pytest.mark.parametrize(
    ("protocol", "metric"),
    [(PAPER, "recall_at_10"), (STANDARD, "recall_at_10"), ("ndcg_at_10",) * 2],
)
def test_the_metric_of_an_own_dataset_is_named(
    names: list[str], protocol: str, metric: str
) -> None:
    own = Dataset(
        name="manuals",
        title="Manuals",
        task="IR",
        labels=None,
        trained_on="manuals",
        headline="recall_at_10",
        files=DatasetFiles(content={"kind": "retrieval"}),
    )
    runs = best_runs({name: {"nq": [70.0, 71.0, 72.0]} for name in names}).assign(
        dataset="manuals"
    )
    source = Source(label="x", runs=runs, datasets={"manuals": own}, protocol=protocol)
    document = comparison_document(compare(source, names, SETTINGS))
    assert "over all tasks: it needs" not in show(document, "text")
    said = f"Metric (standard protocol): {metric} of Manuals."
    assert (
        said in show(document, "text")
        and said == json.loads(show(document, "json"))["metrics"]
    )


def table_of(*levels: float) -> Comparison:
    rows = [
        (f"m{level:g}", dataset, seed, 70 + level + (seed - 2) / 10)
        for level in levels
        for dataset in ("a", "b")
        for seed in range(5)
    ]
    frame = pd.DataFrame(rows, columns=["model", "dataset", "seed", "score"])
    return compare_table(
        read_scores(text_table_of(frame), TableOptions()), (), Settings()
    )


def test_runs_and_tables_pairs_and_many_have_one_schema():
    records, keys = set(), set()
    for found in (PAIR, MANY, RUNS, table_of(0, 5), table_of(0, 5, 9)):
        document = comparison_document(found)
        content = json.loads(show(document, "json"))
        keys.add(tuple(content))
        records.add(tuple(content["differences"][0]))
        records.add(tuple(show(document, "csv").splitlines()[0].split(",")))
    assert len(records) == len(keys) == 1
    assert {"read", "notes", "settings"} <= {*keys.pop()}


def test_latex_sets_in_bold_what_its_caption_says():
    pair, many = (
        show(comparison_document(table_of(*levels)), "latex")
        for levels in ((0, 5), (0, 4.99, 5))
    )
    assert "Bold: the model that is ahead." in pair
    assert pair.count("\\textbf{75.000}") == 3 == pair.count("\\textbf")
    assert "Bold: the best mean, and those that are not shown to be worse." in many
    assert "\\textbf{75.000}" in many and "\\textbf{74.990}" in many
    assert many.count("\\textbf") == 2


def test_names_that_are_alike_and_copies_are_found_in_runs():
    scores = {name: {"sst2": [90.0, 91.0, 89.0]} for name in ("mine", "Mine", "base")}
    source = Source(label="x", runs=best_runs(scores))
    with pytest.raises(UserError, match="'Mine' and 'mine' differ in case"):
        compare(source, ["mine", "Mine"], Settings())
    notes = compare(source, ["mine", "base"], Settings()).notes
    assert any("base, mine have the same scores, seed by seed" in one for one in notes)


def test_many_models_begin_with_what_the_best_is_ahead_of() -> None:
    gaps = np.array([-0.4, 0.1, 0.3, -0.2, 0.2])
    scores = {"good": 90 + gaps, "near": 89.95 + gaps[::-1], "bad": 70 + gaps}
    rows = [
        {"model": model, "dataset": dataset, "seed": seed, "score": value}
        for dataset in ("one", "two")
        for model, values in scores.items()
        for seed, value in enumerate(values)
    ]
    table = read_scores(text_table_of(pd.DataFrame(rows)), TableOptions())
    first = comparison_document(compare_table(table, [], Settings())).body[0]
    assert (
        first
        == "good has the best mean of 2 datasets: ahead of bad; open against near."
    )
