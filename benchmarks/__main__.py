"""`python -m benchmarks`: the functions are in `clm_or_mlm/commands/benchmarks/`, their list in `clm_or_mlm/rooms.py`."""

from clm_or_mlm.rooms import main_of
from common.cli import run

main = main_of("benchmarks")

if __name__ == "__main__":
    run(main)
