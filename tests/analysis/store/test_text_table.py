"""Tables of text: whatever the separator, the encoding and the decimal mark, names and numbers are what was written."""

import csv
import io
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.store.text_table import read_text_table, text_table_of

NAMES = st.text(
    st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), min_size=1
).filter(lambda name: name == name.strip() and name[0] not in '#"')
NUMBERS = st.floats(-1e6, 1e6).map(lambda number: round(number, 6))


@given(
    rows=st.lists(st.tuples(NAMES, NUMBERS), min_size=1, max_size=8),
    separator=st.sampled_from(",;\t|"),
    encoding=st.sampled_from(
        ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"]
    ),
    end=st.sampled_from(["\n", "\r\n"]),
    percent=st.sampled_from(["", "%", " %"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    comma=st.booleans(),
)
def test_what_is_written_is_read(
    rows: list[tuple[str, float]],
    separator: str,
    encoding: str,
    end: str,
    percent: str,
    quoting: int,
    comma: bool,
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator=end, quoting=quoting)  # type: ignore[arg-type]
    writer.writerow(["model", "Val Score"])
    for name, number in rows:
        shown = f"{number:f}".replace(".", "," if comma and separator != "," else ".")
        writer.writerow([name, shown + percent])
        text.write(f"# a comment{end}{end}")
    found = read_text_table(Path("t.csv"), text.getvalue().encode(encoding))
    assert found.header == ("model", "val_score")
    assert found.texts("model") == [name for name, _ in rows]
    whole = [number / 100 if percent else number for _, number in rows]
    assert found.numbers("val_score", whole=1.0).tolist() == pytest.approx(
        whole, abs=1e-12
    )
    assert found.places == [f"line {2 + 3 * row}" for row in range(len(rows))]


@given(st.lists(st.tuples(NAMES, st.floats(allow_nan=False)), min_size=1, max_size=8))
def test_a_frame_keeps_every_digit(rows: list[tuple[str, float]]) -> None:
    frame = pd.DataFrame(rows, columns=["model", "score"])
    for one in (frame, frame.set_index("model")):
        found = text_table_of(one)
        assert (found.texts("model"), found.numbers("score").tolist()) == (
            frame["model"].tolist(),
            frame["score"].tolist(),
        )
