"""Tables in the forms of pandas, wandb, spreadsheets and papers: scipy's and statsmodels' numbers, or one sentence."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import clm_or_mlm as cm
from analysis.comparisons.contestants import OVERALL, contestants_of_table
from analysis.comparisons.scores_table import ScoresTable
from analysis.evidence.pooled import FEWEST_CELLS
from analysis.evidence.settings import Settings
from analysis.published_cells import published_values
from clm_or_mlm.__main__ import main
from common.errors import UserError
from tests.analysis.adjusted import multipletests

RNG = np.random.default_rng(11)
MODELS, DATASETS = ("base", "mine"), ("cola", "rte", "stsb")
LONG = pd.DataFrame(
    [
        (model, dataset, seed, round(60 + 9 * place + shift + RNG.normal(), 2))
        for model, shift in zip(MODELS, (0, 1.5), strict=True)
        for place, dataset in enumerate(DATASETS)
        for seed in range(5)
    ],
    columns=["model", "dataset", "seed", "score"],
)
WIDE = LONG.pivot(
    index=["model", "dataset"], columns="seed", values="score"
).reset_index()
assert len(MODELS) < FEWEST_CELLS  # Welch's


def csv(frame: pd.DataFrame, **more: object) -> str:
    return frame.to_csv(index=False, **more)  # type: ignore[call-overload, no-any-return]


def wide(title: str) -> pd.DataFrame:
    return WIDE.rename(columns={seed: title.format(seed) for seed in range(5)})


def wandb(**more: object) -> pd.DataFrame:
    names = {"model": "model_name", "dataset": "task_name", "score": "eval/accuracy"}
    return LONG.rename(columns=names).assign(
        Name=[f"run-{row}" for row in LONG.index], _runtime=RNG.normal(99, 1, 30), **more
    )  # fmt: skip


TUNED = pd.concat(
    [
        LONG.assign(lr=1e-5, validation_score=LONG["score"]),
        LONG.assign(lr=3e-5, validation_score=1.0, score=0.5),
    ]
)
BY_SEED: dict[str, tuple[str | bytes, tuple[str, ...]]] = {
    "pandas": (csv(LONG), ()),
    "pandas, with its index": (LONG.to_csv(), ()),
    "pandas, other columns first": (csv(LONG[["score", "seed", "dataset", "model"]]), ()),
    "pandas, sorted by score": (csv(LONG.sort_values("score")), ()),
    "pandas, other titles": (csv(LONG.set_axis(["method", "benchmark", "run", "accuracy"], axis=1)), ()),
    "pandas, capitals": (csv(LONG.rename(columns=str.title)), ()),
    "pandas, named titles": (csv(LONG.set_axis(["who", "what", "nr", "r1"], axis=1)),
                             ("--columns", "model=who,dataset=what,seed=nr,score=r1")),
    "pandas, named one by one": (csv(LONG.set_axis(["who", "what", "seed", "score"], axis=1)),
                                 ("--columns", "model=who", "--columns", "dataset=what")),
    "pandas, constant texts": (csv(LONG.assign(split="test", metric="acc")), ()),
    "pandas, measurements": (csv(LONG.assign(runtime=RNG.normal(9, 1, 30), n=800)), ()),
    "pandas, two metrics": (csv(pd.concat([LONG.assign(metric="acc"), LONG.assign(metric="f1", score=1.5)])),
                            ("--metric", "acc")),
    "pandas, a task of all": (csv(LONG.assign(task="all")), ()),
    "pandas, tuned": (csv(TUNED), ()),
    "pandas, seeds numbered through": (csv(LONG.assign(seed=range(30))), ()),
    "pandas, seeds by name": (csv(LONG.assign(seed=[f"s{seed}" for seed in LONG["seed"]])), ()),
    "pandas, said that more is better": (csv(LONG.assign(higher_is_better=True)), ()),
    "spreadsheet, semicolons": (csv(LONG, sep=";", decimal=","), ()),
    "spreadsheet, tabs in UTF-16": (csv(LONG, sep="\t").encode("utf-16"), ()),
    "spreadsheet, per cent": (csv(LONG.assign(score=LONG["score"].map("{:.2f} %".format))), ()),
    "spreadsheet, a mark": (b"\xef\xbb\xbf" + csv(LONG, lineterminator="\r\n").encode(), ()),
    "wide, seed_0": (csv(wide("seed_{}")), ()),
    "wide, run1": (csv(wide("run{}")), ()),
    "wide, Seed 0": (csv(wide("Seed {}")), ()),
    "wide, 0": (csv(wide("{}")), ()),
    "wide, mean and std": (csv(wide("seed{}").assign(mean=1.0, std=2.0)), ()),
    "wide, one ignored": (csv(wide("seed{}").assign(seed9=1.0, note=range(6))), ("--columns", "ignore=seed9")),
    "pandas, a title twice": (csv(pd.concat([LONG, LONG["seed"].rename("x"), LONG["seed"].rename("x")], axis=1)), ()),
    "wide, said": (csv(wide("s{}")), ("--columns", "seed=s?")),
    "wide, steps said": (csv(wide("{}00")[["model", "dataset", "000", "100", "200", "300", "400"]]),
                         ("--columns", "seed=?00")),
    "pandas, one of two scores": (csv(LONG.assign(f1=1.0)), ("--columns", "ignore=f1")),
    "wandb": (csv(wandb()), ("--columns", "score=eval/accuracy,ignore=name")),
    "wandb, quoted": (csv(wandb(State="finished"), quoting=1), ("--columns", "score=eval/accuracy,ignore=Name")),
}  # fmt: skip


def compared(
    content: str | bytes,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...] = (),
    models: tuple[str, ...] = ("mine", "base"),
) -> tuple[pd.DataFrame, str]:
    path = folder / "scores.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    command = ["compare", *models, "--source", str(path), "--format", "json", *words]
    assert not main(command)
    found = json.loads(capsys.readouterr().out)
    return pd.DataFrame(found["differences"]).set_index("dataset"), found["read"]


def expected() -> pd.DataFrame:
    """Return Welch's tests by scipy: of each dataset, with Holm's p by statsmodels, and of the means within seeds."""
    table = LONG.pivot(index="seed", columns=["model", "dataset"], values="score")
    samples = {
        dataset: [table[model, dataset] for model in ("mine", "base")]
        for dataset in DATASETS
    }
    samples["average"] = [table[model].mean(axis=1) for model in ("mine", "base")]
    rows = {}
    for dataset, pair in samples.items():
        test = stats.ttest_ind(*pair, equal_var=False)
        ends = test.confidence_interval(0.95)
        rows[dataset] = (pair[0].mean() - pair[1].mean(), *ends, test.pvalue)
    found = pd.DataFrame(rows, index=["effect", "low", "high", "p"]).T
    adjusted = multipletests(found["p"].iloc[:3], method="holm")[1]
    return found.assign(p_holm=[*adjusted, found.at["average", "p"]])


def test_it_is_scipys_welch_and_statsmodels_holm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = expected()
    for name, (content, words) in BY_SEED.items():
        found, read = compared(content, tmp_path, capsys, words)
        wanted = right
        if "through" in name:  # no dataset has the seeds of another
            wanted = right.drop(index="average")
            cells = LONG.groupby(["model", "dataset"])["score"]
            variances = cells.var() / 5 / 9
            df = variances.sum() ** 2 / (variances**2 / 4).sum()
            ratio = right.at["average", "effect"] / variances.sum() ** 0.5
            by_cells = 2 * stats.t.sf(abs(ratio), df)
            assert found.at["average", "p"] == pytest.approx(by_cells, abs=1e-9), name
        numbers = found.loc[wanted.index, wanted.columns].to_numpy(dtype=float)
        assert numbers == pytest.approx(wanted.to_numpy(), abs=1e-9), name
        assert read.startswith("Read: 3 datasets, 2 models, 5 seeds each"), name
    assert "columns not read: Name, _runtime, State" in read


STATED = LONG.groupby(["model", "dataset"])["score"].agg(["mean", "std"]).round(1)
SUMMARY = STATED.reset_index().assign(n=[5, 4, 4, 5, 5, 8])
T95 = stats.t.ppf(0.975, SUMMARY["n"] - 1)
ROOT_N = np.sqrt(SUMMARY["n"])
CELLS = SUMMARY["mean"].map("{:.1f}".format), SUMMARY["std"].map("{:.1f}".format)
WITHOUT = SUMMARY.drop(columns=["mean", "std"])
FIVE = SUMMARY.assign(n=5)


def pairs(form: str, frame: pd.DataFrame = SUMMARY) -> pd.DataFrame:
    cells = [form.format(*pair) for pair in zip(*CELLS, strict=True)]
    return frame.drop(columns=["mean", "std"]).assign(score=cells)


def by_dataset(form: str) -> str:
    return csv(pairs(form).pivot(index="model", columns="dataset", values="score").reset_index())  # fmt: skip


SD = ("--spread", "sd")
SUMMARIES: dict[str, tuple[str, tuple[str, ...], bool]] = {
    "pandas agg": (csv(SUMMARY), (), False),
    "pandas agg, count": (csv(SUMMARY.rename(columns={"n": "count", "mean": "score"})), (), False),
    "standard errors": (csv(SUMMARY.assign(std=SUMMARY["std"] / ROOT_N).rename(columns={"std": "sem"})), (), False),
    "ci95": (csv(SUMMARY.assign(std=1.96 * SUMMARY["std"] / ROOT_N).rename(columns={"std": "ci95"})), (), False),
    "ci95-t": (csv(SUMMARY.assign(std=T95 * SUMMARY["std"] / ROOT_N).rename(columns={"std": "CI95-t"})), (), False),
    "seeds counted once": (csv(SUMMARY.drop(columns="n")), ("--columns", "n=5"), True),
    "one of two spreads": (csv(SUMMARY.assign(sem=0.1)), ("--columns", "ignore=sem"), False),
    "spread named": (csv(SUMMARY.rename(columns={"std": "spread"})), ("--columns", "sd=spread"), False),
    "plus minus": (csv(pairs("{} ± {}")), SD, False),
    "plus minus, per cent": (csv(pairs("{}% ± {}%")), SD, False),
    "plus minus in ASCII": (csv(pairs("{} +- {}")), SD, False),
    "brackets": (csv(pairs("{} ({})")), SD, False),
    "LaTeX": (csv(pairs("$\\mathbf{{{}}}_{{\\pm {}}}$")), SD, False),
    "semicolons, commas": (csv(pairs("{} ± {}"), sep=";").replace(".", ","), SD, False),
    "a column a dataset": (by_dataset("{}±{}"), (*SD, "--columns", "n=5"), True),
    "a column a dataset, bold": (by_dataset("**{}** ({})"), (*SD, "--columns", "n=5"), True),
}  # fmt: skip


@pytest.mark.parametrize("name", SUMMARIES)
def test_means_as_papers_print_them_are_scipys_welch(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, words, are_five = SUMMARIES[name]
    found, _ = compared(content, tmp_path, capsys, words)
    given = (FIVE if are_five else SUMMARY).set_index(["model", "dataset"])
    for dataset in DATASETS:
        pair = [given.loc[model, dataset] for model in ("mine", "base")]
        numbers = [one[name] for one in pair for name in ("mean", "std", "n")]
        right = stats.ttest_ind_from_stats(*numbers, equal_var=False)
        assert found.at[dataset, "p"] == pytest.approx(right.pvalue, abs=1e-9)
    error = (given["std"] / np.sqrt(given["n"]) / 3) ** 2
    half = found.at["average", "high"] - found.at["average", "effect"]
    df = error.sum() ** 2 / (error**2 / (given["n"] - 1)).sum()
    assert half == pytest.approx(stats.t.ppf(0.975, df) * error.sum() ** 0.5)


def test_a_spread_of_zero_is_below_half_of_its_last_digit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for zero, sd in (("0.0", 0.05), ("0.00", 0.005)):
        text = f"model,dataset,mean,sd,n\nmine,d,71.2,{zero},5\nbase,d,71.1,0.1,5\n"
        found, _ = compared(text, tmp_path, capsys)
        right = stats.ttest_ind_from_stats(71.2, sd, 5, 71.1, 0.1, 5, equal_var=False)
        assert found["p"].item() == pytest.approx(right.pvalue, abs=1e-9)


@pytest.mark.parametrize("digits", [1, 4, 10])
def test_seeds_that_all_agree_have_the_error_of_their_decimals(
    digits: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = [f"{value:.{digits}f}" for value in (0.71, 0.7)]
    rows = [
        f"{m},d{',' + x:}" + f",{x}" * 4 for m, x in zip(MODELS, seeds, strict=True)
    ]
    text = "\n".join(["model,dataset,0,1,2,3,4", *rows])
    found, _ = compared(text, tmp_path, capsys)
    if digits == 10:  # nobody rounded them
        assert found["missing"].item() == "all seeds of each model are equal"
    else:
        error = 0.5 / 10**digits / 1.96 * 2**0.5
        right = 2 * stats.t.sf(abs(float(seeds[0]) - float(seeds[1])) / error, 8)
        assert found["p"].item() == pytest.approx(right, abs=1e-9)


def test_the_papers_dataset_rows_give_the_papers_comparison(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = ("610m-clm-10k-mlm40-42k", "610m-mlm40-42k")
    columns = ["effect", "low", "high", "p", "p_holm", "outcome"]
    assert not main(["compare", *models, "--source", "published", "--format", "json"])
    printed = json.loads(capsys.readouterr().out)["differences"]
    right = pd.DataFrame(printed).query("dataset != 'average'").set_index("dataset")
    cells = published_values().query("model in @models and dataset != 'average'")
    table = cells[["model", "dataset", "mean", "ci95"]].assign(n=5)
    text = table.to_csv(index=False, float_format="%.2f")
    found, _ = compared(text, tmp_path, capsys, models=models)
    assert len(right) == 12
    pd.testing.assert_frame_equal(
        found.loc[right.index, columns], right[columns], rtol=0, atol=1e-9
    )


def test_order_of_rows_and_columns_changes_no_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = LONG.sample(frac=1, random_state=1)[["seed", "score", "model", "dataset"]]
    for frame, turned in ((LONG, other), (SUMMARY, SUMMARY[::-1].iloc[:, ::-1])):
        both = [
            compared(csv(one), tmp_path, capsys, models=())[0]
            for one in (frame, turned)
        ]
        pd.testing.assert_frame_equal(*both, check_exact=True)


def test_many_models_have_the_best_first_and_holm_over_all_pairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    third = LONG[LONG["model"] == "base"]
    third = third.assign(model="third", score=third["score"] + RNG.normal(0.5, 1, 15))
    frame = pd.concat([LONG, third])
    found, _ = compared(csv(frame), tmp_path, capsys, models=())
    means = frame.groupby("model")["score"].mean().sort_values(ascending=False)
    assert set(found["first"]) == {means.index[0]}
    assert [*dict.fromkeys(found["second"])] == [*means.index[1:]]
    of_cola = found.loc["cola"]
    adjusted = multipletests([*of_cola["p"], 1.0], method="holm")[1]
    assert of_cola["p_holm"].to_list() == pytest.approx(adjusted[:2])


def test_less_is_better_where_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    losses = csv(LONG.assign(metric="eval_loss"))
    found, _ = compared(losses, tmp_path, capsys, ("--lower-is-better",))
    right = expected()
    assert found["p"].to_numpy() == pytest.approx(right["p"].to_numpy(), abs=1e-9)
    assert set(found["outcome"]) <= {"behind", "open"}
    half = found["p"].to_numpy() / 2  # the probability that the first is better
    assert found["p_exceeds"].to_numpy() == pytest.approx(half, abs=1e-9)
    said = csv(LONG.assign(metric="loss", lower_is_better="true"))
    assert compared(said, tmp_path, capsys)[0]["outcome"].equals(found["outcome"])


def of_mine(column: str, value: Callable[[pd.Series], object]) -> str:
    is_mine = LONG["model"] == "mine"
    cells = LONG[column].astype(object) if column in LONG else pd.Series("", LONG.index)
    return csv(LONG.assign(**{column: cells.mask(is_mine, value(LONG["score"]))}))  # type: ignore[arg-type]


REFUSED: dict[str, tuple[str, tuple[str, ...], str]] = {
    "two metrics": (of_mine("metric", lambda _: "acc_norm"), (), "another metric"),
    "fractions": (of_mine("score", lambda score: score / 100), (), "mine seems to be in fractions"),
    "a loss": (csv(LONG.assign(metric="eval_loss")), (), "--lower-is-better"),
    "a perplexity by its title": (csv(LONG.rename(columns={"score": "word_perplexity"})),
                                  ("--columns", "score=word_perplexity"), "--lower-is-better"),
    "an unknown text": (csv(LONG.rename(columns={"dataset": "corpus"})), (), "--columns dataset=corpus"),
    "checkpoints": (csv(LONG.assign(checkpoint=[f"c{seed % 2}" for seed in LONG["seed"]])), (),
                    "'checkpoint' is not read"),
    "splits": (of_mine("split", lambda _: "dev"), (), "'split' is not read"),
    "epochs": (csv(LONG.assign(epoch=LONG["seed"] % 2)), (), "'epoch' is not read"),
    "recall": (csv(wide("R{}")), (), "no column score"),
    "tops": (csv(wide("top{}")), (), "no column score"),
    "seeds but no scores": (csv(LONG.drop(columns="score")), ("--columns", "seed=seed"), "no column score"),
    "r2": (csv(LONG.rename(columns={"score": "r2"})), (), "no column score"),
    "years": (csv(wide("202{}")), (), "may be years or steps"),
    "steps": (csv(wide("1{}00")), (), "--columns seed=1000,seed=1100"),
    "a mean among seeds": (csv(pd.concat([LONG, LONG[:1].assign(seed="mean")])), (), "line 32 (base, cola, mean)"),
    "an average among datasets": (csv(pd.concat([LONG, LONG[:5].assign(dataset="Average")])), (), "mean over datasets"),
    "two columns of scores": (csv(LONG.assign(f1=1.0)), (), "choose one: --columns score=score"),
    "thousands": ("model;dataset;seed;score\nmine;d;0;1,200\nbase;d;0;980\n", (), "may be thousands"),
    "thousands with points": ("model;dataset;seed;score\nmine;d;0;1.200\nbase;d;0;980\n", (), "may be thousands"),
    "names in two cases": (csv(LONG.assign(model=LONG["model"].mask(LONG["seed"] > 2, "Mine"))), (),
                           "'Mine' and 'mine' differ in case"),
    "Unicode forms": (csv(LONG.replace({"dataset": {"rte": "é", "cola": "e\u0301"}})), (), "Unicode form"),
    "a seed twice": (csv(pd.concat([LONG.assign(part=1), LONG.assign(part=2)])), (), "if part (not read)"),
    "a pair without its meaning": (csv(pairs("{} ± {}")), (), "--spread sd, se, ci95"),
    "means without a count": (csv(SUMMARY.drop(columns="n")), (), "--columns n=5"),
    "two spreads": (csv(SUMMARY.assign(sem=0.1)), (), "sd and se"),
    "a spread of another kind": (csv(SUMMARY), ("--spread", "ci95"), "ignore=std"),
    "a mean without a spread": (csv(SUMMARY.drop(columns="std")), (), "no column seed"),
    "half a seed": (csv(SUMMARY.assign(n=2.5)), (), "no whole number of seeds"),
    "a negative spread": (csv(SUMMARY.assign(std=-1.0)), (), "no spread from 0 on"),
    "an unknown role": (csv(LONG), ("--columns", "modell=model"), "did you mean 'model'"),
    "an unknown title": (csv(LONG), ("--columns", "score=scores"), "did you mean 'score'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_compared_is_one_sentence_with_a_remedy(
    name: str, tmp_path: Path
) -> None:
    content, words, why = REFUSED[name]
    path = tmp_path / "scores.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError) as refused:
        main(["compare", "--source", str(path), *words])
    said = str(refused.value)
    assert why in said and "\n" not in said and len(said) <= 300, said
    assert name == "an unknown role" or said.startswith((str(path), "--columns"))


def test_copies_and_scores_of_two_sizes_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = LONG.assign(model="mine", score=[*LONG["score"][:15]] * 2)
    copy.loc[copy.index < 15, "model"] = "base"
    small = copy["score"].mask(copy["dataset"] == "rte", copy["score"] / 100)
    path = tmp_path / "scores.csv"
    path.write_text(csv(copy.assign(score=small)))
    assert not main(["compare", "--source", str(path), "--format", "json"])
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert "No mean over datasets: some have scores up to 1, others far above." in notes
    assert (
        sum("base, mine have the same scores, seed by seed" in one for one in notes)
        == 3
    )


def test_frames_as_pandas_aggregates_and_pivots_them() -> None:
    right = expected()
    cells = LONG.groupby(["model", "dataset"])
    by_cell = cells.agg({"score": ["mean", "std", "count"]})
    wide = LONG.pivot(index=["model", "dataset"], columns="seed", values="score")
    for frame in (by_cell, by_cell.reset_index(), wide, wide.reset_index()):
        found = cm.compare_scores(frame, models=("mine", "base")).loc[[*DATASETS]]
        assert found["p"].to_numpy() == pytest.approx(right["p"].iloc[:3], abs=1e-9)
        assert found.attrs["read"].startswith("Read: 3 datasets, 2 models, 5 seeds")


def test_missing_cells_and_minus_signs_of_papers_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "model,MCC,RTE\nmine,\u22121.5 ± 0.4,\u2014\nbase,\u22122.5 ± 0.4,70 ± 1\n"
    found, _ = compared(text, tmp_path, capsys, (*SD, "--columns", "n=5"))
    assert found["effect"].to_dict() == {"MCC": 1}


def test_what_is_no_table_names_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    path.write_text("[]")
    with pytest.raises(UserError, match="is not a table; write it as CSV"):
        main(["compare", "--source", str(path)])
    with pytest.raises(UserError, match="are for a table of scores"):
        main(["compare", "a", "b", "--spread", "sd"])


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [(5, 5)])
@pytest.mark.parametrize("shared", [0.0, 0.9])
@pytest.mark.parametrize("n_models", [2, 6])
def test_mean_of_equal_models_leads_in_at_most_65_of_1000(
    n_models: int, shared: float, seeds: tuple[int, int]
) -> None:
    """A share of a score's variance is of the training, which is scored on every dataset; six models make a pool."""
    rng = np.random.default_rng(n_models)
    counts = [*seeds, *([seeds[1]] * (n_models - 2))]
    keys = pd.DataFrame(
        [
            (f"m{model}", "", dataset, "", str(seed), 0.005)
            for model, count in enumerate(counts)
            for seed in range(count)
            for dataset in DATASETS
        ],
        columns=["model", "task", "dataset", "metric", "seed", "half_digit"],
    )
    leads, draws = 0, 1000
    for _ in range(draws):
        of_training = rng.normal(0, shared**0.5, sum(counts)).repeat(len(DATASETS))
        own = rng.normal(0, (1 - shared) ** 0.5, len(keys))
        table = ScoresTable(
            where="drawn", rows=keys.assign(test_score=50 + of_training + own), read=""
        )
        contestants = contestants_of_table(table, ("m0", "m1"), Settings(resamples=999))
        contrast = contestants.difference("m0", "m1", OVERALL)
        leads += contestants.evidence.result(contrast).p_zero <= 0.05
    assert leads / draws <= 0.065
