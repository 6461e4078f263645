"""`clm-or-mlm claims`: its options; the verdicts are tested with the claims."""

from __future__ import annotations

import pytest

from clm_or_mlm.__main__ import main


def test_the_multiverse_is_of_the_claims_that_were_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims", "F4", "F11", "--multiverse"]) == 0
    said = capsys.readouterr().out
    assert "seed/paper, seed/t" in said and "F11" in said and "F1 " not in said
