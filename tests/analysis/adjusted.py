"""statsmodels' adjustment of several p's, without the search for garbage that it makes in every call."""

import gc
from typing import Any

from statsmodels.stats import multitest


def multipletests(*arguments: Any, **named: Any) -> tuple[Any, ...]:
    """Return what statsmodels' function of this name returns.

    A search takes up to half a second in a process that has imported everything; nothing frozen is searched.
    """
    gc.freeze()
    try:
        return multitest.multipletests(*arguments, **named)
    finally:
        gc.unfreeze()
