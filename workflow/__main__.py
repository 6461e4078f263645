"""`python -m workflow`: the command is in `clm_or_mlm/commands/workflow/`."""

from clm_or_mlm.rooms import main_of
from common.cli import run

main = main_of("workflow")

if __name__ == "__main__":
    run(main)
