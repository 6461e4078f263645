"""What is found about the published cells, once a process, when a test asks for it."""

from functools import cache

from analysis.evidence.settings import Settings
from analysis.sensitivity.overturning import Overturned
from analysis.sensitivity.sensitivity_page import Sensitivity, sensitivity_of
from analysis.sources import PUBLISHED


@cache
def published() -> Sensitivity:
    """Everything, under Student's t."""
    return sensitivity_of(PUBLISHED, Settings(interval="t"))


@cache
def overturned() -> dict[str, Overturned]:
    """What overturns each verdict, by claim."""
    return {one.main.id: one for one in published().overturned}
