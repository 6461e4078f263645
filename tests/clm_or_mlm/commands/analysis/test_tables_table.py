"""`clm-or-mlm table`: numbers, and files named after them."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.tables.render import TABLE_FORMATS
from common.errors import UserError
from common.tables import FORMATS


def test_tables_are_printed_one_below_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", "2", "10"]) == 0
    both = capsys.readouterr().out
    assert main(["table", "2"]) == 0
    first = capsys.readouterr().out
    assert main(["table", "10"]) == 0
    assert both == f"{first}\n{capsys.readouterr().out}"


@pytest.mark.parametrize("form", TABLE_FORMATS)
def test_all_tables_become_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    assert main(["table", "all", "--format", form, "--out", str(tmp_path)]) == 0
    paths = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert [path.name for path in paths] == [f"table{n:02d}.{FORMATS[form].ending}" for n in range(1, 18)]
    assert all(path.read_text().endswith("\n") for path in paths)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["ten"], "'ten' is no table; give numbers from 1 to 17, or all"),
        (["18"], "there is no Table 18; the paper has Tables 1 to 17"),
        ([], "NUMBER requires"),
        (["2", "--format", "pdf"], 'Invalid value "pdf" for --format'),
    ],
)
def test_what_is_no_table_is_one_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(UserError) as error:
        main(["table", *words])
    assert sentence in str(error.value)
