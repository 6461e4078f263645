"""`python -m benchmarks`: the commands are in `clm_or_mlm/commands/benchmarks/`."""

from clm_or_mlm.rooms import main_of
from common.cli import run

main = main_of("benchmarks")

if __name__ == "__main__":
    run(main)
