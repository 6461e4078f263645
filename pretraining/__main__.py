"""`python -m pretraining`: the commands are in `clm_or_mlm/commands/pretraining/`."""

from clm_or_mlm.rooms import main_of
from common.cli import run

main = main_of("pretraining")

if __name__ == "__main__":
    run(main)
