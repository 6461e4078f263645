"""What the script of docs/how-sure.md simulates; that its lines are on the page: `tests/docs/test_every_number.py`."""

from tests.analysis.how_sure import redrawn


def test_alike_models_are_rarely_answered_and_never_surely() -> None:
    alike = redrawn(4_000, differ=False)
    assert alike.answered.mean() <= 0.08 and alike.sure.mean() <= 0.08
