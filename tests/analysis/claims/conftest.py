"""What the published cells say of every claim, judged once."""

import pandas as pd
import pytest

from analysis.claims.assessment import Assessment, assess
from analysis.evidence.settings import Settings
from analysis.sources import PUBLISHED


@pytest.fixture(scope="session")
def assessment() -> Assessment:
    return assess(PUBLISHED, Settings(interval="t"))


@pytest.fixture(scope="session")
def found(assessment: Assessment) -> dict[str, pd.DataFrame]:
    """The rows of each finding."""
    return dict(list(assessment.frame.groupby("id", sort=False)))
