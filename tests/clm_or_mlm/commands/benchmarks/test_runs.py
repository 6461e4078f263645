"""What `run` refuses before it looks at a model."""

from __future__ import annotations

import pytest

from benchmarks.__main__ import main as benchmarks
from common.errors import UserError


def test_an_option_of_the_estimate_alone_is_refused_without_it() -> None:
    with pytest.raises(UserError, match="--tflops is for the estimate of --dry-run"):
        benchmarks(["run", "--model", "m", "--dataset", "sst2", "--tflops", "1"])
