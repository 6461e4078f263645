"""Tables with little or nothing in them, through the commands that read one: a sentence each, and no traceback."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError

HEADER = "model,task,dataset,lr,seed,val_score,test_score"
COLUMNS = HEADER.split(",")
CLM, MLM = "610m-clm-42k", "610m-mlm40-42k"
SC = (("SC", "sst2"), ("SC", "qqp"), ("SC", "mnli_m"))
Row = dict[str, str]
COMMANDS = (
    ["scores"],
    ["claims"],
    ["compare", CLM, MLM],
    ["compare", "*"],
    ["table", "2"],
    ["audit"],
)
"""All but `sensitivity`, whose hundreds of analyses read a table as `claims` does."""


def grid(
    models: tuple[str, ...] = (CLM, MLM),
    datasets: tuple[tuple[str, str], ...] = SC,
    rates: tuple[str, ...] = ("1e-4", "5e-5"),
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
) -> list[Row]:
    """Runs around 0.8, the first model better; the first rate has no better validation score than the second."""
    found: list[Row] = []
    for model in models:
        for task, dataset in datasets:
            for rate in rates:
                for seed in seeds:
                    score = (
                        0.8 + 0.01 * math.sin(7.3 * len(found)) + 0.02 * (model == CLM)
                    )
                    values = (
                        model,
                        task,
                        dataset,
                        rate,
                        str(seed),
                        f"{score:.4f}",
                        f"{score - 0.003:.4f}",
                    )
                    found.append(dict(zip(COLUMNS, values, strict=True)))
    return found


def text_of(rows: list[Row]) -> str:
    return "\n".join([HEADER, *(",".join(row.values()) for row in rows)]) + "\n"


def given(where: Callable[[Row], bool] = lambda row: True, **values: str) -> str:
    """The grid with other values in some of its rows."""
    return text_of([{**row, **values} if where(row) else row for row in grid()])


def of_clm_sst2(row: Row) -> bool:
    return (row["model"], row["dataset"], row["lr"]) == (CLM, "sst2", "5e-5")


READ = {
    "one row": text_of(grid()[:1]),
    "one model": text_of(grid(models=(CLM,))),
    "one seed": text_of(grid(seeds=(0,))),
    "two seeds": text_of(grid(seeds=(0, 1))),
    "one rate": text_of(grid(rates=("1e-4",))),
    "one dataset": text_of(grid(datasets=SC[:1])),
    "one dataset of each task": text_of(
        grid(datasets=(SC[0], ("TC", "conll2003_en"), ("QA", "squad"), ("IR", "nq")))
    ),
    "one constant score": given(val_score="0.8", test_score="0.8"),
    "all wrong": given(val_score="0", test_score="0"),
    "all right": given(val_score="1", test_score="1"),
    "one model constant": given(lambda row: row["model"] == CLM, test_score="0.9"),
    "equal models": text_of(
        [{**row, "model": model} for model in (CLM, MLM) for row in grid(models=(CLM,))]
    ),
    "seeds without an overlap": text_of(
        grid(models=(CLM,)) + grid(models=(MLM,), seeds=(5, 6, 7, 8, 9))
    ),
    "unequal seeds": text_of([row for row in grid() if row["model"] == CLM or row["seed"] < "3"]),
    "a seed missing on each dataset": text_of([row for at, row in enumerate(grid()) if at % 7]),
    "seeds of 10^12": text_of(grid(seeds=tuple(10**12 + at for at in range(4)))),
}  # fmt: skip


def outcome(words: list[str], table: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a command printed, or the one sentence with which it refused."""
    try:
        assert main([*words, "--source", str(table)]) in (0, 1)
    except UserError as error:
        said = str(error)
        assert (
            said.count("\n") == 0
            and "--interval" not in said
            and "--selection" not in said
        )
        return said
    printed = capsys.readouterr().out
    assert (
        "Traceback" not in printed
        and " nan" not in printed
        and "inf" not in printed.split()
    )
    return printed


@pytest.mark.slow
@pytest.mark.parametrize("name", READ)
def test_a_table_with_little_in_it_is_answered_by_every_command(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "t.csv"
    table.write_text(READ[name])
    for words in COMMANDS:
        assert outcome(words, table, capsys), words


def test_unchosen_blank_test_score_is_left_out_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    table = tmp_path / "t.csv"
    table.write_text(given(of_clm_sst2, val_score="0.1", test_score=""))
    with_blanks = outcome(["scores"], table, capsys)
    (note,) = caplog.messages
    assert note.endswith(
        "left out 5 runs without a test_score, at learning rates that are not chosen for any seed"
    )
    table.write_text(given(of_clm_sst2, val_score="0.1", test_score="0.5"))
    assert outcome(["scores"], table, capsys) == with_blanks


def test_models_with_other_rates_are_named_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    table = tmp_path / "t.csv"
    table.write_text(
        text_of(grid(models=(CLM,)) + grid(models=(MLM,), rates=("3e-4",)))
    )
    assert outcome(["compare", CLM, MLM], table, capsys)
    (note,) = caplog.messages
    assert (
        "tried at different learning rates, which contributes to their differences"
        in note
    )
    assert (
        f"{CLM} has 5e-05, 1e-04" in note
        and f"{MLM} has 3e-04" in note
        and "2 more datasets" in note
    )
