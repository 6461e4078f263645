"""`clm-or-mlm sensitivity`, and `claims` over pretrainings."""

from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError


def test_it_is_printed_or_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sensitivity"]) == 0
    assert "overturns" in capsys.readouterr().out
    assert (
        main(["sensitivity", "--format", "csv", "--out", str(tmp_path / "spreads.csv")])
        == 0
    )
    assert (
        (tmp_path / "spreads.csv")
        .read_text()
        .startswith("id,verdict,p_holm,sharing,pretraining_sd\nanswer,holds,")
    )


def test_finding_over_pretrainings_is_the_comparisons(
    capsys: pytest.CaptureFixture[str],
) -> None:
    both, mlm = "610m-clm-10k-mlm40-42k", "610m-mlm40-42k"
    how = ["--source", "miniature", "--interval", "t"]
    assert (
        main(
            [
                "compare",
                "--replicates",
                both,
                "--replicates",
                mlm,
                *how,
                "--format",
                "csv",
            ]
        )
        == 0
    )
    compared = pd.read_csv(StringIO(capsys.readouterr().out)).set_index("dataset")
    given = ["claims", "F8", "--replicates", *how]
    assert main([*given, "--explain", "--format", "csv"]) == 0
    found = pd.read_csv(StringIO(capsys.readouterr().out))
    found = found[(found["label"] == "25 % CLM - MLM alone on IR, 42k")]
    ends = ["effect", "low", "high"]
    assert compared.loc["nq", ends].astype(float).to_list() == pytest.approx(
        found[ends].iloc[0].to_list()
    )
    assert main(given) == 0
    said = capsys.readouterr().out
    assert (
        "Each model is several pretrainings" in said and "pretrained once" not in said
    )


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("published", "needs individual runs"),
        ("tests/data/released_sst2_610m-mlm40-42k.csv", "pretrained twice"),
    ],
)
def test_single_pretrainings_leave_nothing_to_test(source: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        main(["claims", "--replicates", "--source", source])
