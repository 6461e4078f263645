"""What the scripts that measure speed share: their parser, and on what machine."""

import argparse
import os
import platform


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """Return the parser of a script, which shows its docstring."""
    return argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def machine() -> str:
    """Return what the numbers were measured on."""
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}"
