"""What is taken of a dataset that is too large (whole samples are in `test_data_source`)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from common.errors import UserError
from miniature.forms import FORMS
from miniature.sample import _shortened, answer_sentence, spread, write_sample


def test_a_question_is_asked_of_its_answers_sentence() -> None:
    context = 'It rained. "Dr. Wu" came in May 1999. She left in June.'

    def asked(*answers: str) -> list[tuple[int, int]]:
        return [(context.index(text), len(text)) for text in answers]

    for answer, sentence in (
        ("It", "It rained."), ("May 1999", 'Wu" came in May 1999.'), ("June", "She left in June."),
        ("left in June.", "She left in June."),
    ):  # fmt: skip
        found = answer_sentence(context, asked(answer))
        assert found is not None and context[slice(*found)] == sentence
    assert answer_sentence(context, asked("May 1999", "June")) is None
    assert answer_sentence("x" * 300, [(7, 1)]) is None
    rows = [
        {"context": context, "answers": [{"text": "May 1999", "start": context.index("May")}]},
        {"context": context, "answers": []},
    ]
    (row,) = _shortened(pa.Table.from_pylist(rows))
    start = row["answers"][0]["start"]
    assert row["context"] == 'Wu" came in May 1999.' and row["context"][start:].startswith("May 1999")


def test_rows_are_spread_over_a_file() -> None:
    assert spread(range(10), 4) == [0, 2, 5, 7]
    assert spread(range(3), 4) == [0, 1, 2]


def test_a_dataset_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="sst2"):
        write_sample(FORMS["quick"], "sst2", tmp_path, tmp_path / "sample")
