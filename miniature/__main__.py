"""`python -m miniature`: the commands are in `clm_or_mlm/commands/miniature/`."""

from clm_or_mlm.rooms import main_of
from common.cli import run

main = main_of("miniature")

if __name__ == "__main__":
    run(main)
