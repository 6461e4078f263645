"""From runs to scores: selection, intervals, resampling. Pure functions of arrays and a Generator."""
