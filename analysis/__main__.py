"""`python -m analysis`: the commands are in `clm_or_mlm/commands/analysis/`."""

from clm_or_mlm.rooms import main_of
from common.cli import run

main = main_of("analysis")

if __name__ == "__main__":
    run(main)
