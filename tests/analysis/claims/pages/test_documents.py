"""The formats of claims, the ids that can be chosen, and options that are refused."""

from __future__ import annotations

import pytest

from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import CLAIMS
from analysis.claims.pages.documents import verdicts_document
from analysis.commands.findings import choose
from common.errors import UserError
from common.tables import PRINTED, show


def test_ids_are_taken_in_any_case_and_f5_is_all_of_f5():
    assert choose(["f5", "F1"]) == ["F1", "F5a", "F5b", "F5c", "F5d", "F5e"]
    assert choose(None) == list(CLAIMS)
    with pytest.raises(UserError, match=r"unknown claim 'F16'; the claims are F1, .*; did you mean 'F"):
        choose(["F16"])


@pytest.mark.parametrize("form", PRINTED)
@pytest.mark.parametrize("explain", [False, True])
def test_every_format_names_the_claims_shown_and_ends_in_a_line_break(
    assessment: Assessment, form: str, explain: bool
) -> None:
    shown = [verdict for verdict in assessment.verdicts if verdict.claim.id in ("F1", "F7")]
    text = show(verdicts_document(assessment, shown, explain=explain), form)
    assert text.endswith("\n") and "F1" in text and "F7" in text and "F5a" not in text
