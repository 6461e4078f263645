"""CSV that is safe to open in a spreadsheet."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd

from analysis.csv_text import csv_text


def test_ordinary_frames_are_written_as_pandas_does() -> None:
    frame = pd.DataFrame(
        {
            "model": ["a", "b"],
            "n": [1, 2],
            "x": [0.1, np.nan],
            "lower": [None, "-0.5 \u00b1 0.1"],
            "t": [True, False],
        }
    )
    assert csv_text(frame) == frame.to_csv(index=False, lineterminator="\n")
    assert csv_text(frame, float_format="%.3f") == frame.to_csv(
        index=False, lineterminator="\n", float_format="%.3f"
    )


def test_no_cell_is_a_formula() -> None:
    cells = ["=HYPERLINK(1)", "+cmd|' /C calc'!A0", "-2+3+cmd|'x'!A0", "@SUM(1)", "\tx", "a\x1b[2J"]
    frame = pd.DataFrame({"=name": cells, "x": [-1.0] * len(cells)})
    read = pd.read_csv(io.StringIO(csv_text(frame)), dtype=str)
    assert all(cell[0] not in "=+-@\t" for cell in [*read.iloc[:, 0], *read.columns])
    assert "\x1b" not in csv_text(frame)
    assert list(read["x"]) == ["-1.0"] * len(cells)
