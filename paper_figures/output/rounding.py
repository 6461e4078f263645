"""How many digits a figure's CSV has: what the source knows, not what binary arithmetic leaves behind.

Published means and half-widths are printed with two decimals, so no percentage that follows from them is known to
more. Of runs a percentage has four: with fewer than a million test instances, one instance more or less shows in
them. Anything else (losses, FLOPs, p values, shares) has six significant digits.
"""

from __future__ import annotations

import pandas as pd

from analysis.sources import Source

__all__ = ["PERCENTAGES", "decimals", "rounded"]

PERCENTAGES = ("mean", "low", "high", "effect", "region_low", "region_high", "gap")
"""Columns in percent or in points of percent."""
_DIGITS = 6


def decimals(source: Source) -> int:
    """Return the decimals of a percentage."""
    return 2 if source.is_published else 4


def rounded(table: pd.DataFrame, source: Source) -> pd.DataFrame:
    """Return a table as its CSV shows it."""
    shown = table.copy()
    for name in table.columns:
        if pd.api.types.is_float_dtype(table[name]):
            if name in PERCENTAGES and set(table.get("interval", ())) != {"range"}:
                shown[name] = table[name].round(decimals(source)) + 0.0  # no -0
            else:
                shown[name] = [float(f"{value:.{_DIGITS}g}") for value in table[name]]
        elif pd.api.types.is_object_dtype(table[name]):
            shown[name] = [
                float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value for value in table[name]
            ]
    return shown
