"""What the published cells say of every claim, judged once."""

import pytest

from analysis.claims.assessment import Assessment, assess
from analysis.claims.judged import JudgedFinding
from analysis.evidence.settings import Settings
from analysis.sources import PUBLISHED


@pytest.fixture(scope="session")
def assessment() -> Assessment:
    return assess(PUBLISHED, Settings(interval="t"))


@pytest.fixture(scope="session")
def found(assessment: Assessment) -> dict[str, JudgedFinding]:
    """Each finding."""
    return assessment.judged
