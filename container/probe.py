"""Whether Apptainer can start here at all, asked within a time limit before anything depends on it.

Where no user namespace can be made (a chroot, a container, some sites) Apptainer, or a site's wrapper around it,
may wait for ever in place of failing.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from container.site import Site, SiteError

__all__ = ["SECONDS", "is_setuid", "namespace_problem", "program_of", "version_of"]

SECONDS = 300.0
"""Time that `apptainer --version` has to answer; a site's wrapper may set itself up at its first start."""


def program_of(site: Site) -> str | None:
    """Return the path of the Apptainer (or Singularity) command, or None."""
    return site.which("apptainer") or site.which("singularity")


def namespace_problem(site: Site) -> str | None:
    """Return why no user namespace can be made, or None; `unshare` is asked, since settings do not say all."""
    if site.text("/proc/sys/user/max_user_namespaces") == "0":
        return "user.max_user_namespaces is 0"
    if site.text("/proc/sys/kernel/unprivileged_userns_clone") == "0":
        return "kernel.unprivileged_userns_clone is 0"
    code, _ = site.output(["unshare", "--user", "true"])
    if code == 0:
        return None
    if code == 127:
        # No `unshare` here: Apptainer's own start will show.
        return None
    restricted = site.text("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1"
    return "kept off by AppArmor" if restricted else "`unshare --user true` fails, as in a chroot"


def is_setuid(program: str) -> bool:
    """Return whether this Apptainer is installed setuid and so does without user namespaces."""
    starter = Path(program).resolve().parent.parent / "libexec" / "apptainer" / "bin" / "starter-suid"
    return starter.exists()


def version_of(site: Site, seconds: float = SECONDS) -> tuple[str, tuple[int, int]]:
    """Return the words of `apptainer --version` and the version in them.

    Raises:
        SiteError: Apptainer is not on PATH, cannot run here, does not answer in time, or fails.
    """
    program = program_of(site)
    if program is None:
        raise SiteError(
            "apptainer is not on PATH",
            "load your site's module (often `module load apptainer`) or install Apptainer 1.1 or later",
        )
    why = namespace_problem(site)
    # Root can do without, where Apptainer is a plain installation; whether it is, its answer shows.
    if why is not None and os.geteuid() and not is_setuid(program):
        raise SiteError(
            f"no user namespaces can be made here ({why}), so Apptainer cannot run",
            "ask for them or for a setuid Apptainer, or go to a machine that has either",
        )
    code, text = site.output([program, "--version"], seconds)
    last = text.splitlines()[-1] if text else "no message"
    if code == 124:
        also = f" (no user namespaces can be made here: {why})" if why else ""
        raise SiteError(
            f"`{program} --version` gave no answer within {seconds:.0f} s{also}, so nothing can run in an image here",
            "try it by hand, and show it to the site's support",
        )
    match = re.search(r"(\d+)\.(\d+)", text)
    if code or match is None:
        raise SiteError(f"`{program} --version` ended with code {code}: {last}", "ask the site's support")
    return last, (int(match[1]), int(match[2]))
