"""What the published cells say of every claim, judged once."""

import pytest

from analysis.claims.assessment import Assessment, assess
from analysis.claims.verdicts import Verdict
from analysis.evidence.evidence import Settings
from analysis.sources import PUBLISHED


@pytest.fixture(scope="session")
def assessment() -> Assessment:
    return assess(PUBLISHED, Settings(interval="t"))


@pytest.fixture(scope="session")
def verdicts(assessment: Assessment) -> dict[str, Verdict]:
    return {verdict.finding.id: verdict for verdict in assessment.verdicts}
