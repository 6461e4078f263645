"""The paper's figures: which module draws which number."""

__all__ = ["NUMBERS"]

NUMBERS = {
    "figure1": ("1",),
    "figures2_11": ("2", "3", "4", "6", "8", "9", "10", "11"),
    "figures5_7": ("5", "7"),
    "figure12": ("12",),
}
"""By module the numbers that it draws: an overview, task averages, spreads, training losses."""
