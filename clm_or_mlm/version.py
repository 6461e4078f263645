"""The package's version, the one place where it is written."""

from common.provenance import git_commit

__all__ = ["VERSION", "version_line"]

VERSION = "0.2.0"


def version_line() -> str:
    """Return what `--version` prints: version and commit."""
    return f"clm-or-mlm {VERSION} (commit {git_commit()})"
