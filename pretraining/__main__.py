"""`python -m pretraining`: its commands are functions in `clm_or_mlm/commands/`."""

import common.interrupts  # noqa: F401  (first: Ctrl-C while the rest is imported)
from clm_or_mlm.rooms import main_of
from common.cli import run

main = main_of("pretraining")

if __name__ == "__main__":
    run(main)
