from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import UserError
from pretraining.__main__ import main


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"MODEL requires an argument \(see python -m pretraining train --help\)"
    ):
        main(["train"])
    with pytest.raises(UserError, match="no shards here; write them with"):
        main(["train", "610m-clm", "--data", str(tmp_path), "--out", str(tmp_path)])
