"""`python -m paper_figures`: its commands are functions in `clm_or_mlm/commands/`."""

import gc

import common.interrupts  # noqa: F401  (first: Ctrl-C while the rest is imported)
from clm_or_mlm.rooms import main_of
from common.cli import run

main = main_of("paper_figures")

if __name__ == "__main__":
    # What is imported for a picture stays: looking through it for garbage would be a tenth of the time.
    gc.set_threshold(100_000)
    run(main)
