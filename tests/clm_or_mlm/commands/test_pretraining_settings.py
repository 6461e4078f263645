from __future__ import annotations

from pathlib import Path

import pytest

from pretraining.__main__ import main
from tests.pretraining.small_study import STUDY


def test_the_studys_settings_and_those_of_set_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.toml").write_text(STUDY)
    main(["settings", "--study", str(tmp_path / "s.toml"), "--set", "wandb=", "save_every=7"])
    out = capsys.readouterr().out
    assert "global_batch = 8\n" in out and "save_every = 7\n" in out and "wandb = ''\n" in out
    assert "seed = 0\n    Key of the initial weights" in out
