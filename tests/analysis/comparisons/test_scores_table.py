"""Scores by seed as people and other tools write them: `compare` is right about them, or says why not in a sentence."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import clm_or_mlm as cm
from analysis.comparisons.comparison import compare, compare_table
from analysis.comparisons.comparison_report import records_of
from analysis.comparisons.scores_table import read_scores
from analysis.comparisons.table_options import TableOptions
from analysis.evidence.cells import seed_scores
from analysis.evidence.settings import Settings
from analysis.sources import EXAMPLES, Source
from analysis.store.runs_table import read_runs
from analysis.store.text_table import text_table_of
from benchmarks.protocol import AVERAGE
from clm_or_mlm.__main__ import main
from common.errors import UserError
from common.provenance import ROOT
from tests.analysis.comparisons.given import best_runs
from tests.commands import python
from tests.test_imports import HEAVY

RNG = np.random.default_rng(0)
A, B = [71.2, 70.8, 71.9, 71.5], [69.9, 70.4, 70.1]
TIDY = pd.DataFrame(
    [
        (model, "sst2", seed, score)
        for model, of in (("A", A), ("B", B))
        for seed, score in enumerate(of)
    ],
    columns=["model", "dataset", "seed", "score"],
)
TEXT = TIDY.to_csv(index=False)
WIDE = "model,dataset,seed0,seed1,seed2,seed3\nA,sst2,71.2,70.8,71.9,71.5\nB,sst2,69.9,70.4,70.1,\n"
RATES = TIDY.assign(lr=1e-5, validation_score=0.5)
TRIED = pd.concat([RATES, RATES.assign(lr=1e-4, validation_score=0.4, score=0.0)])

RIGHT: dict[str, str | bytes] = {
    "tidy": TEXT,
    "semicolons, decimal commas": TEXT.replace(",", ";").replace(".", ","),
    "tabs": TEXT.replace(",", "\t"),
    "UTF-16": TEXT.encode("utf-16"),
    "UTF-16 without a mark": TEXT.encode("utf-16-be"),
    "units in the header": TEXT.replace("score", "Score (%)"),
    "UTF-8 with a mark, CRLF": b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode(),
    "per cent signs": re.sub(r"(\.\d)$", r"\1 %", TEXT, flags=re.M),
    "a comment, an empty row": f"# from the cluster\n{TEXT},,,\n",
    "capitals, blanks, an index": TIDY.rename(columns=str.title).to_csv().replace(",A,", ", A ,"),
    "the spreadsheet's own line": "sep=;\n" + TEXT.replace(",", ";"),
    "other columns": TIDY.assign(n_shot=5, stderr=0.1).to_csv(index=False),
    "no dataset": TIDY.drop(columns="dataset").to_csv(index=False),
    "task for dataset": TIDY.rename(columns={"dataset": "task"}).to_csv(index=False),
    "one metric": TIDY.assign(metric="acc").to_csv(index=False),
    "one rate": RATES.drop(columns="validation_score").to_csv(index=False),
    "several rates": TRIED.to_csv(index=False),
    "seeds of any name": TIDY.replace({"seed": {0: "x", 1: "y y"}}).to_csv(index=False),
    "models in turns": TIDY.sort_values("seed", kind="stable").to_csv(index=False),
    "wide": WIDE,
    "wide, numbers": WIDE.replace("seed", ""),
    "wide, with means": re.sub("$", ",m", WIDE, flags=re.M).removesuffix(",m"),
    "wide, semicolons": WIDE.replace(",", ";").replace(".", ","),
}  # fmt: skip


def compared(
    content: str | bytes, folder: Path, capsys: pytest.CaptureFixture[str], *words: str
) -> pd.DataFrame:
    (folder / "scores.csv").write_bytes(
        content.encode() if isinstance(content, str) else content
    )
    assert not main(
        ["compare", *words, "--source", str(folder / "scores.csv"), "--format", "json"]
    )
    return pd.DataFrame(json.loads(capsys.readouterr().out)["differences"])


@pytest.mark.parametrize("name", RIGHT)
def test_a_table_is_scipys_welch(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(RIGHT[name], tmp_path, capsys, "A", "B")
    expected = stats.ttest_ind(A, B, equal_var=False)
    low, high = expected.confidence_interval(0.95)
    assert found[["effect", "p", "p_holm", "low", "high"]].iloc[
        0
    ].to_numpy() == pytest.approx(
        [np.mean(A) - np.mean(B), expected.pvalue, expected.pvalue, low, high], abs=1e-6
    )
    assert found[["outcome", "interval", "seeds"]].to_numpy().tolist() == [
        ["ahead", "t", "4/3"]
    ]


REFUSED: dict[str, tuple[str, tuple[str, ...]]] = {
    "several metrics": (
        pd.concat([TIDY.assign(metric="acc"), TIDY.assign(metric="f1")]).to_csv(index=False),
        ("line 9 (A, sst2, f1, 0)", "--metric"),
    ),
    "a seed twice": (f"{TEXT}B,sst2,0,70\n", ("line 9 (B, sst2, 0)", "same seed")),
    "nan": (f"{TEXT}B,sst2,9,nan\n", ("line 9", "diverged")),
    "no score": (f"{TEXT}B,sst2,9,\n", ("line 9", "no finite score")),
    "infinite": (f"{TEXT}B,sst2,9,inf\n", ("line 9", "no finite score")),
    "nan in a wide one": (WIDE.replace("70.1,", "70.1,NaN"), ("line 3", "diverged")),
    "a word": (f"{TEXT}B,sst2,9,good\n", ("line 9", "'good' is not a number")),
    "some per cent": (f"{TEXT}B,sst2,9,70%\n", ("line 2", "per cent sign")),
    "decimal commas between commas": (TEXT.replace(".", ","), ("line 2", "5 columns", "semicolons")),
    "means with errors": (f"{TEXT}B,sst2,9,70±1\n", ("line 9", "nor a seed's score")),
    "no seed": (TIDY.drop(columns="seed").to_csv(index=False), ("no column seed", "seed0")),
    "no model": (TIDY.drop(columns="model").to_csv(index=False), ("no column model",)),
    "a column for each dataset": ("model,seed,sst2,mnli\nA,0,1,2\n", ("no column score",)),
    "a header alone": ("model,dataset,seed,score\n", ("no scores",)),
    "nothing": ("", ("empty",)),
    "rates without validation": (TRIED.drop(columns="validation_score").to_csv(index=False), ("validation_score",)),
    "one model": ("model,dataset,seed,score\nA,sst2,0,1\n", ("two models or more, not 1",)),
    "nothing in common": ("model,dataset,seed,score\nA,a,0,1\nB,b,0,1\n", ("no dataset in common",)),
    "a column twice": (TEXT.replace("dataset", "score"), ("'score' twice",)),
    "other letters": (TEXT.replace("A", "é"), ("line 2, byte", "is not UTF-8")),
    "a name that is none": (TEXT.replace("A,", "A\a,"), ("line 2", "no printable model")),
    "a formula": (TEXT.replace("A,", "=1+1,"), ("line 2", "like a formula")),
    "no name": (f"{TEXT},sst2,0,1\n", ("line 9", "no printable model")),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_is_not_clear_is_one_sentence(name: str, tmp_path: Path) -> None:
    content, words = REFUSED[name]
    (tmp_path / "scores.csv").write_bytes(
        content.encode("latin-1" if name == "other letters" else "utf-8")
    )
    with pytest.raises(UserError) as refusal:
        main(["compare", "--source", str(tmp_path / "scores.csv")])
    said = str(refusal.value)
    place = [str(tmp_path / "scores.csv")] if words[0].startswith("line") else []
    assert "\n" not in said and all(word in said for word in (*place, *words)), said


def test_one_of_several_metrics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = pd.concat(
        [TIDY.assign(metric="acc"), TIDY.assign(metric="f1", score=TIDY["score"] / 100)]
    )
    found = compared(
        both.to_csv(index=False), tmp_path, capsys, "--metric", "f1", "B", "A"
    )
    assert found["effect"].item() == pytest.approx(
        (np.mean(B) - np.mean(A)) / 100, abs=1e-6
    )


def test_the_validation_score_chooses_in_any_unit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worse = TRIED.assign(validation_score=-100 * TRIED["validation_score"])
    assert compared(worse.to_csv(index=False), tmp_path, capsys)["effect"].item() == 0


def test_two_hundred_datasets_and_one_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        (m, f"d {n}", s, RNG.normal(1e-3 * n * (m == "A"), 1e-2))
        for m in "AB"
        for n in range(200)
        for s in range(5)
    ]
    many = pd.DataFrame(rows, columns=list(TIDY.columns))
    found = compared(many.to_csv(index=False), tmp_path, capsys, "A", "B")
    assert len(found) == 201 and 100 < (found["outcome"] == "ahead").sum() < 195
    one = compared(
        many[many["seed"] == 0].to_csv(index=False), tmp_path, capsys, "A", "B"
    )
    assert (
        set(one["outcome"]) == {"unknown"}
        and one.set_index("dataset").at["d 199", "effect"] > 0.1
    )
    assert not main(
        [
            "compare",
            "A",
            "B",
            "--source",
            str(tmp_path / "scores.csv"),
            "--full",
            "--margin",
            "0.01",
        ]
    )
    reason = "a test needs two seeds of each model"
    assert capsys.readouterr().out.startswith(f"Not tested ({reason}) on the mean")
    assert set(one["missing"]) == {reason}


def test_a_frame_is_read_as_its_file_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sixth of the models makes a pool; `models` takes two of them."""
    rows = [(f"m{m}", "NA", s, RNG.normal(m, 1)) for m in range(6) for s in range(5)]
    frame = pd.DataFrame(rows, columns=list(TIDY.columns))
    found = cm.compare_scores(frame, models=("m4", "m0"))
    assert found["interval"].item() == "pooled" and found.index.tolist() == ["NA"]
    of = {name: one["score"].to_numpy() for name, one in frame.groupby("model")}
    expected = stats.ttest_ind(of["m4"], of["m0"], equal_var=False)
    low, high = expected.confidence_interval(0.95)
    assert (
        high - low <= found["high"].item() - found["low"].item() < 1.25 * (high - low)
    )
    assert found["p_exceeds"].item() == pytest.approx(1 - expected.pvalue / 2)
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "scores.parquet")
    for file in ("scores.csv", "scores.parquet"):
        frame.to_csv(tmp_path / "scores.csv", index=False)
        assert not main(
            [
                "compare",
                "m4",
                "m0",
                "--source",
                str(tmp_path / file),
                "--format",
                "json",
            ]
        )
        [row] = json.loads(capsys.readouterr().out)["differences"]
        assert row["p"] == pytest.approx(found["p"].item(), rel=1e-9)
    by_t = compared(
        frame.to_csv(index=False), tmp_path, capsys, "m4", "m0", "--interval", "t"
    )
    assert by_t["p"].item() == pytest.approx(expected.pvalue, abs=1e-6)
    wide = frame.pivot(
        index=["model", "dataset"], columns="seed", values="score"
    ).reset_index()
    pd.testing.assert_frame_equal(cm.compare_scores(wide, models=("m4", "m0")), found)
    with pytest.raises(UserError, match=r"row 3 .*diverged"):
        cm.compare_scores(frame.assign(score=frame["score"].where(frame.index != 2)))
    with pytest.raises(UserError, match="give it alone"):
        cm.compare_scores(frame, frame)


def test_few_seeds_against_many_are_said() -> None:
    rows = [("A", seed, 80 + seed / 7) for seed in range(2)] + [
        ("B", seed, 79 + seed / 9) for seed in range(5)
    ]
    frame = pd.DataFrame(rows, columns=["model", "seed", "score"]).assign(dataset="d")
    table = read_scores(text_table_of(frame), TableOptions())
    found = compare_table(table, (), Settings())
    assert found.differences[0].result.df == 1
    assert any(
        "On d, two or three seeds are held against many" in note for note in found.notes
    )


def in_both_forms(
    runs: pd.DataFrame, pair: tuple[str, str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a pair's differences on datasets, from a runs table and from a table of the same scores in percent."""
    source = Source(label="runs", runs=runs)
    scores = (
        seed_scores(runs)
        .rename_axis(columns="seed")
        .stack()
        .rename("score")
        .reset_index()
    )
    table = scores[scores["dataset"] != AVERAGE]
    found = pd.DataFrame(records_of(compare(source, pair, Settings())))
    of_runs = found[found["dataset"] != AVERAGE].set_index("dataset").sort_index()
    of_table = cm.compare_scores(table.drop(columns="task"), models=pair)
    return of_runs, of_table.drop(index=AVERAGE, errors="ignore").sort_index()


def test_curves_are_compared_alike_as_runs_and_as_scores() -> None:
    """Every length and way of pretraining against one; all models pool their errors."""
    runs = read_runs(EXAMPLES["curves"], add_models=["*"])
    first, *others = sorted(name for name in set(runs["model"]) if name[-3:-1] != "-s")
    for other in others:
        of_runs, of_table = in_both_forms(runs, (first, other))
        of_runs = of_runs[[*of_table]]  # a frame for reading has another order
        pd.testing.assert_frame_equal(of_runs, of_table, check_exact=True)
    assert set(of_table["interval"]) == {"pooled"}


@pytest.mark.parametrize("form", ["runs", "percent", "fractions"])
def test_scores_at_the_floor_are_not_equal(form: str) -> None:
    """Ten scores of what a model gets on SST-2 that reads no input."""
    scores = {
        model: {"sst2": [50.90 + 0.01 * seed for seed in range(5)]}
        for model in ("A", "B")
    }
    runs = best_runs(scores)
    if form == "runs":
        [row] = records_of(
            compare(Source(label="runs", runs=runs), ["A", "B"], Settings())
        )
    else:
        scale = 1 if form == "fractions" else 100
        frame = runs[["model", "dataset", "seed"]].assign(
            score=runs["test_score"] * scale
        )
        [row] = cm.compare_scores(frame).to_dict("records")
    assert row["p_equal"] < 0.05 and row["outcome"] == "open"


def test_a_table_needs_no_heavy_package(tmp_path: Path) -> None:
    """A plain installation compares a table, and frames in Python."""
    (tmp_path / "scores.csv").write_text(TEXT)
    code = (
        "import sys\nimport clm_or_mlm as cm, pandas as pd\nfrom clm_or_mlm.__main__ import main\n"
        "assert not main(['compare', 'A', 'B', '--source', 'scores.csv'])\n"
        "cm.compare_scores(pd.read_csv('scores.csv'))\nprint('LOADED', *sys.modules)"
    )
    done = python("-c", code, cwd=tmp_path, PYTHONPATH=str(ROOT), code=0)
    said, loaded = done.stdout.split("LOADED")
    assert said.startswith("A is ahead by +1.22 [")
    assert not {*loaded.split()} & {*HEAVY, "matplotlib.pyplot"}
