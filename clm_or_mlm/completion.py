"""`clm-or-mlm completion SHELL`: a script that completes commands, options and choices."""

from __future__ import annotations

from typing import Literal, cast, get_args

from cyclopts import App

from clm_or_mlm.rooms import ROOMS
from common.errors import UserError, nearest

__all__ = ["SHELLS", "completion"]

Shell = Literal["bash", "zsh", "fish"]
SHELLS: tuple[str, ...] = get_args(Shell)

_WHERE = {
    "bash": "~/.local/share/bash-completion/completions/clm-or-mlm",
    "zsh": "a folder of $fpath, as _clm-or-mlm",
    "fish": "~/.config/fish/completions/clm-or-mlm.fish",
}


def completion(shell: str, app: App) -> str:
    """Return the completion script of a shell.

    Args:
        shell: one of `SHELLS`.
        app: the program `clm-or-mlm`; every room is mounted on it.

    Raises:
        UserError: another shell.
    """
    if shell not in SHELLS:
        raise UserError(f"unknown shell {shell!r}{nearest(shell, SHELLS)}; one of {', '.join(SHELLS)}")
    for room in ROOMS.values():
        app.command(room.program("clm-or-mlm"), name=room.name)
    script: str = app.generate_completion(prog_name="clm-or-mlm", shell=cast(Shell, shell))
    return f"# Put this into {_WHERE[shell]}\n{script}" if shell != "zsh" else script
