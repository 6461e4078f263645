"""`clm-or-mlm table`: numbers, and files named after them."""

from pathlib import Path

import pytest

from analysis.tables import TABLE_FORMATS
from clm_or_mlm.__main__ import main
from common.tables import FORMATS


def test_tables_are_printed_one_below_the_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["table", "2", "10"]) == 0
    both = capsys.readouterr().out
    assert main(["table", "2"]) == 0
    first = capsys.readouterr().out
    assert main(["table", "10"]) == 0
    assert both == f"{first}\n{capsys.readouterr().out}"


@pytest.mark.parametrize("form", TABLE_FORMATS)
def test_all_tables_become_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    assert main(["table", "all", "--format", form, "--out", str(tmp_path)]) == 0
    paths = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert [path.name for path in paths] == [
        f"table{n:02d}.{FORMATS[form].ending}" for n in range(1, 18)
    ]
    assert all(path.read_text().endswith("\n") for path in paths)
