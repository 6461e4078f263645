"""Tables of text as people and other tools write them: one reader of runs tables and of scores by seed.

Columns are separated by commas, semicolons, tabs or bars, numbers have points or decimal commas and maybe per cent
signs, the text is UTF-8 or UTF-16. A line that begins with # is a comment. No word but those of `_MISSING` is taken
for a missing number, and in a column of names none is.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from common.errors import UserError
from common.reading import encoding_of, text_of

ENDINGS = (".csv", ".tsv")
"""How the name of a table of text ends."""
_MISSING = frozenset(("", "nan", "na", "n/a", "null", "none", "-", "--"))
"""Cells in small letters that stand for a missing number."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?", re.ASCII)
"""A number as it is read: `91.4`, `-.5`, `1e-05`, `inf`."""
_DECIMALS = r"^[+-]?\d*[.,]?(\d*)\s*%?$"
"""Its group is the decimals of a number without an exponent: `42` of `91.42` and of `91,42 %`."""
_EXACT = 6
"""With so many decimals or more, a number was not rounded for readers."""
_THOUSANDS = re.compile(r"[1-9]\d{0,2}[.,]\d{3}")
"""A number such as `1,234` or `12.345`: it has thousands, or three decimals."""
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


@dataclass(frozen=True, kw_only=True)
class TextTable:
    """The cells of a table, without blanks at their ends."""

    where: str
    """How sentences call the table: the path of its file, or `frame`."""
    header: tuple[str, ...]
    """In small letters, with _ between words and without a unit in brackets."""
    rows: Sequence[Sequence[str]]
    places: Sequence[str]
    """Of each row: `line 2`, or `row 1` of a frame."""
    titles: tuple[str, ...] = ()
    """The header as it is written."""
    separator: str = ";"
    """The sign between two columns."""
    is_written: bool = True
    """Whether somebody wrote its digits; the numbers of a frame have all digits that a computer keeps."""

    def at(self, row: int) -> str:
        """Return the beginning of a sentence about the row at this position."""
        return f"{self.where}: {self.places[row]}"

    def texts(self, name: str) -> list[str]:
        """Return a column as texts."""
        place = self.header.index(name)
        return [row[place] for row in self.rows]

    def numbers(
        self, name: str, texts: Iterable[str] | None = None, *, whole: float = 100.0
    ) -> npt.NDArray[np.float64]:
        """Return a column as numbers, nan where one is missing.

        Args:
            name: of the column.
            texts: the cells to read in place of the column's own; `name` is then only for messages.
            whole: the number that 100 % becomes.

        Raises:
            UserError: a cell is no number, or some have a per cent sign and others none; the sentence names the row.
        """
        # The cells, and what they say together: one alone may not tell a decimal comma from thousands.
        written = self.texts(name) if texts is None else list(texts)
        cells = [cell.lower().replace("\N{MINUS SIGN}", "-") for cell in written]
        # Positions of rows.
        filled = [row for row, cell in enumerate(cells) if cell not in _MISSING]
        in_percent = [row for row in filled if cells[row].endswith("%")]

        # A comma in a number is a decimal comma, unless commas separate columns or another number has a point.
        has_points = any("." in cells[row] for row in filled)
        has_decimal_commas = self.separator != "," and not has_points

        # Scores in percent are at most 100. Beside a larger whole number, 1,234 may have three decimals or thousands.
        whole_numbers = [int(cell) for cell in cells if cell.isdecimal()]
        largest_whole = max(whole_numbers, default=0)

        # Each number.
        values = np.full(len(cells), np.nan)
        for row in filled:
            cell = cells[row].removesuffix("%").rstrip()
            number = cell.replace(",", ".") if has_decimal_commas else cell
            if largest_whole > 100 and _THOUSANDS.fullmatch(cell):
                raise UserError(
                    f"{self.at(row)}: {name} {cell!r} may be thousands or have three decimals; write thousands "
                    "without a separator, and whole numbers with decimals"
                )

            if not _NUMBER.fullmatch(number):
                # A cell such as `91±0.5` is a mean with its error, where the score of a seed was expected.
                hint = ", nor a seed's score" if "±" in cell else ""
                if re.fullmatch(r"[+-]?\d+(,\d+)+", cell):  # such as 91,4
                    hint = "; write points for decimal commas"
                    if not has_decimal_commas:
                        hint += ", or separate columns by semicolons"

                raise UserError(
                    f"{self.at(row)}: {name} {written[row]!r:.60} is not a number{hint}"
                )

            values[row] = float(number)

        # Per cent signs.
        if not in_percent:
            return values

        # All have a sign, or none has: a column with both may be of scores from 0 to 1 and from 0 to 100.
        without_sign = sorted({*filled} - {*in_percent})
        if without_sign:
            raise UserError(
                f"{self.at(without_sign[0])}: {name} has no per cent sign, but others in this column have one"
            )

        # 91 becomes 0.91 for a `whole` of 1, and stays 91 for one of 100.
        return values / (100 / whole)

    def half_digits(self, texts: pd.Series) -> npt.NDArray[np.float64]:
        """Return half of the last digit of each number in `texts`; nan where that is not known to be rounded to it."""
        decimals = texts.str.extract(_DECIMALS)[0].str.len()
        # The digits that a computer wrote are not rounded: those of a frame, or very many.
        is_rounded = decimals.lt(_EXACT) & self.is_written
        halves = (0.5 / 10**decimals).where(is_rounded)
        return np.array(halves, dtype=np.float64)


def read_text_table(path: Path, content: bytes) -> TextTable:
    """Return the table in a file's content; lines without a text are left out.

    Raises:
        UserError: the content is no text or has no header, or a line has more or fewer columns than the header.
    """
    # The lines of the file.
    encoding = encoding_of(content)
    try:
        # Spreadsheets save UTF-16 under the name of Unicode text.
        is_utf16 = encoding.startswith("utf-16")
        text = content.decode(encoding) if is_utf16 else text_of(path, content)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UserError(
            f"{path}: line {line} is not {encoding.upper()}; save the table as CSV in UTF-8"
        ) from None

    # Not `splitlines`, which would end lines at separators of Unicode as well.
    lines = list(io.StringIO(text, newline=""))
    # The separator of the columns. Excel writes a first line such as `sep=;`, so that it knows the separator
    # of the file.
    declared = re.fullmatch(r"sep=(.)\s*", lines[0]) if lines else None
    # It becomes an empty line, which has a number as well.
    if declared:
        lines[0] = "\n"

    # A comment becomes an empty line, so that the numbers of later lines are right.
    lines = ["\n" if line.startswith("#") else line for line in lines]
    if declared:
        separator = declared[1]
    else:  # the one that the header has most often
        header_line = next((line for line in lines if line.strip()), "")
        separator = max(_SEPARATORS, key=header_line.count)

    # The cells.
    reader = csv.reader(lines, delimiter=separator, strict=True, skipinitialspace=True)
    # Each row that is not empty, with the number of the line where it begins; a quoted cell may go on in the next line.
    numbered_rows: list[tuple[int, list[str]]] = []
    start = 1
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            if any(stripped):
                numbered_rows.append((start, stripped))
            start = reader.line_num + 1
    except csv.Error as error:
        raise UserError(f"{path}: line {start} cannot be read: {error}") from None

    if not numbered_rows:
        raise UserError(f"{path} is empty; its first line names the columns")
    # The header, and rows that are as wide. `numbered` is `numbered_rows` without the header.
    (_, header), *numbered = numbered_rows
    width = len(header)
    for line, cells in numbered:
        # Empty cells after the last column do no harm.
        if len(cells) < width or any(cells[width:]):
            by = _SEPARATORS.get(separator, repr(separator))
            hint = ""
            if by == "commas":
                hint = "; numbers with decimal commas need other separators, such as semicolons"
            raise UserError(
                f"{path}: line {line} has {len(cells)} columns, the header {width}, separated by {by}{hint}"
            )

    rows = [cells for _, cells in numbered]
    places = [f"line {line}" for line, _ in numbered]
    return TextTable(
        where=str(path),
        header=tuple(map(column_name, header)),
        titles=tuple(header),
        rows=rows,
        places=places,
        separator=separator,
    )


def text_table_of(frame: pd.DataFrame, where: str = "frame") -> TextTable:
    """Return a frame's cells as they would be written; missing values are empty."""
    # A groupby leaves columns of the table in the index, whose levels then have names.
    if any(frame.index.names):
        frame = frame.reset_index()
    texts = frame.astype(object).map(lambda cell: str(cell).strip())
    rows = np.where(frame.isna(), "", texts).tolist()
    titles = []
    levels_of_columns = frame.columns.to_frame().astype(str)

    # Where columns have several levels, as pandas' aggregates have, the lowest that is not empty is the title.
    for levels in levels_of_columns.to_numpy():
        named = [name for name in levels if name]
        titles.append(named[-1] if named else "")

    places = [f"row {number}" for number in range(1, len(rows) + 1)]
    return TextTable(
        where=where,
        header=tuple(map(column_name, titles)),
        titles=tuple(titles),
        rows=rows,
        places=places,
        is_written=False,
    )


def column_name(title: str) -> str:
    """Return a column's title as `TextTable.header` has it: `Test score (%)` is `test_score`."""
    # Without a last part in round or square brackets, which is a unit.
    without_unit = re.sub(r"[(\[][^()\[\]]*[)\]]$", "", title.strip())
    return re.sub(r"[\s-]+", "_", without_unit.strip()).lower()
