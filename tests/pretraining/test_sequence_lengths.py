from __future__ import annotations

import pytest

from pretraining.sequence_lengths import effective_length


def test_effective_length_is_the_expectation_over_uniform_lengths() -> None:
    lengths = range(12, 2049)
    assert effective_length(12, 2048) == pytest.approx(sum(n * n for n in lengths) / sum(lengths), rel=1e-12)
    assert effective_length(7, 7) == 7
