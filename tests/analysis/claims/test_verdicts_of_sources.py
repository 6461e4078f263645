"""Every verdict on the sources that come with the package, written down: a change of one is a change of this table."""

import pytest

from analysis.claims.assessment import assess
from analysis.comparisons.comparison import source_of_arms
from analysis.evidence.settings import Settings
from analysis.sources import Source, open_source
from tests.analysis.claims.given import verdicts_of

_SOURCES = ("published", "miniature", "curves", "curves --replicates")
_TABLE = """
answer | holds                        | holds in 1 of 12     | holds in 2 of 12     | holds in 1 of 12
F1     | holds                        | open, fails in 1 of 6 | fails                | fails
F2     | holds                        | holds in 3 of 9      | open                 | open
F3     | holds in 3 of 4              | open, fails in 1 of 4 | open                 | open
F4     | holds in 3 of 3, uncorrected | holds in 1 of 3      | open                 | open
F5a    | holds                        | open                 | open                 | open
F5b    | holds                        | holds                | open                 | open
F5c    | holds                        | holds in 2 of 3      | open                 | open
F5d    | open                         | open                 | open                 | open
F5e    | holds in 4 of 8              | open, fails in 1 of 8 | open                 | open
F6     | holds in 15 of 19            | holds in 1 of 19     | open                 | open
F7     | open                         | open                 | open                 | open
F8     | holds in 6 of 12             | holds in 1 of 12     | holds in 2 of 12     | holds in 1 of 12
F9     | holds                        | open                 | open                 | open
F10    | open                         | open                 | open                 | open
F11    | holds in 1 of 4              | fails                | fails                | fails
F12    | open, fails in 1 of 4        | open                 | open                 | open
F13    | holds in 2 of 2, uncorrected | open                 | open                 | open
F14    | open                         | fails                | open, fails in 1 of 4 | open, fails in 1 of 4
F15    | holds in 3 of 4              | open                 | open                 | open
F16    | holds                        | fails                | open                 | open
F17    | holds in 2 of 3              | open                 | open                 | open
"""


def opened(name: str) -> Source:
    source = open_source(name.split()[0])
    return source_of_arms(source, "seed") if name.endswith("--replicates") else source


@pytest.mark.parametrize("name", _SOURCES)
def test_verdicts_are_those_of_the_table(name: str) -> None:
    place = 1 + _SOURCES.index(name)
    cells = [line.split("|") for line in _TABLE.strip().splitlines()]
    expected = {row[0].strip(): row[place].strip() for row in cells}
    assert verdicts_of(assess(opened(name), Settings())) == expected
