"""`clm-or-mlm claims`: options that exclude each other; the verdicts are tested with the claims."""

from __future__ import annotations

import pytest

from clm_or_mlm.__main__ import main


def test_the_second_opinion_is_a_column(capsys: pytest.CaptureFixture[str]) -> None:
    """F1 holds on these datasets, less surely on others like them, as quadrature says (test_second_opinion)."""
    assert main(["claims", "--id", "F1", "--opinion"]) == 0
    said = capsys.readouterr().out
    assert "1.00/0.72" in said and "Corani et al. 2017" in said


def test_the_multiverse_is_the_grid_of_the_claims_that_were_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["claims", "--id", "F4", "--id", "F11", "--multiverse"]) == 0
    said = capsys.readouterr().out
    assert "50% of 2" in said and "2  seed/t" in said and "F1 " not in said
