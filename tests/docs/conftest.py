"""What several tests of the pages compare them with, found once."""

import pytest

from analysis.claims.answer import Answer, answer
from analysis.claims.assessment import assess
from analysis.evidence.settings import Settings
from analysis.sources import PUBLISHED


@pytest.fixture(scope="session")
def published() -> Answer:
    """The answer of the published cells."""
    return answer(assess(PUBLISHED, Settings()))
