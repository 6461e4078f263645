from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import UserError
from common.provenance import ROOT
from pretraining.__main__ import main


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--data", "a", "--out", "b", "--set", "peak_rl=1"],
            "--set: unknown key 'peak_rl'; did you mean 'peak_lr'?",
        ),
        (["--dta", "a", "--out", "b"], "Did you mean --data instead of --dta?"),
        (
            ["--data", "a", "--out", "b", "--set", "backend=flsh"],
            "unknown backend 'flsh'; did you mean 'flash4'?",
        ),
    ],
)
def test_mistakes_are_reported_before_torch_is_imported(words: list[str], sentence: str) -> None:
    code = (
        "import sys\nfrom pretraining.__main__ import main\n"
        f"try:\n    main(['train', '610m-clm', *{words!r}])\n"
        "except ValueError as error:\n    print(error)\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert sentence in done.stdout


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"MODEL requires an argument \(see python -m pretraining train --help\)"
    ):
        main(["train"])
    with pytest.raises(UserError, match="no shards here; write them with"):
        main(["train", "610m-clm", "--data", str(tmp_path), "--out", str(tmp_path)])
