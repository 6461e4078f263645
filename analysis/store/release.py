"""The authors' result files, by git at one pinned commit: only the wanted models, in the cache.

The clone is shallow, without file contents, and sparse: the contents of one model after the other are fetched
and checked out, so an interrupted fetch resumes with the model it was at. Nothing in the clone is executed: no
hooks, filters or submodules, and links are written as plain files.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.runs import RESULTS
from common.errors import UserError, nearest
from common.files import cache_folder, write_text
from common.locks import wait_for_lock
from common.plain_text import redacted
from common.progress import progress

__all__ = ["COMMIT", "URL", "cached_release", "released_store"]

logger = logging.getLogger(__name__)

URL = "https://github.com/hgissbkh/EncodEval.git"
COMMIT = "7e03774beb4c735b99b93efaff62f85fe298f649"
"""The head of the branch MLM_vs_CLM that holds the 18,483 result files."""

_REF = "refs/heads/pinned"
_OFFLINE = (
    "without network access, use --source published, or run `clm-or-mlm fetch-released` on a "
    "machine with access and copy its cache"
)
_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.symlinks": "false",
    "core.fsmonitor": "false",
    "core.sparseCheckout": "true",
    "core.sparseCheckoutCone": "false",
    "credential.helper": "",
    "gc.auto": "0",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
}
_PASSED = ("GIT_SSL_", "GIT_PROXY_", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
"""How the user's git reaches the network; every other GIT_ variable would point it at another repository."""
_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}
_NO_FILTERS = "* -text -eol -ident -filter -working-tree-encoding\n"
"""Attributes that win over those of the clone: file contents are written as they are."""


def cached_release(cache: Path | None = None, *, commit: str = COMMIT) -> tuple[str, ...]:
    """Return the names of the released models that are complete in the cache."""
    clone = _Clone(cache or cache_folder(), URL, commit)
    return tuple(sorted(name for name, count in clone.released().items() if clone.holds(name, count)))


def released_store(
    models: Sequence[str], *, cache: Path | None = None, url: str = URL, commit: str = COMMIT
) -> Path:
    """Return a run store with the released runs of `models`; those that are not there yet are fetched.

    Models that the release does not hold (Figure 11's 1b-clm-10k-mlm40-42k) are logged and left out.

    Args:
        models: names in the released scheme.
        cache: the folder of the clone; None: the package's cache.
        url: where it comes from: the authors' repository or a mirror of it.
        commit: the pinned commit.

    Raises:
        UserError: no network, no git, no such commit there, the release holds none of the models, or a file of
            one was changed since it was fetched.
    """
    clone = _Clone(cache or cache_folder(), url, commit)
    released = clone.released()
    if not released or clone.lacking(models, released):
        with clone.lock():
            released = clone.prepare()
            clone.fetch(clone.lacking(models, released), released)
    clone.check([name for name in models if name in released])
    absent = [name for name in models if name not in released]
    if absent and len(absent) == len(models):
        known = nearest(absent[0], released)
        raise UserError(f"the release has no runs of {', '.join(absent)}{known}")
    for name in absent:
        logger.info("the release has no runs of %s", name)
    return clone.folder


class _Clone:
    """The clone in a cache; what it lacks follows from the commit's own list of files."""

    def __init__(self, cache: Path, url: str, commit: str) -> None:
        self.folder = cache / f"released-{commit[:12]}"
        self.url = url
        self.commit = commit
        self.fetched = self.folder / ".git" / "fetched"
        """A file with the names of the models whose checkout came to its end."""

    def released(self) -> dict[str, int]:
        """Return the number of result files of each model in the commit; nothing before that is here."""
        if not (self.folder / ".git" / "HEAD").is_file() or not self.has_commit():
            return {}
        names = self.git("ls-tree", "-r", "-z", "--name-only", _REF, "results/").split("\0")
        return dict(Counter(name.split("/")[1] for name in names if name.endswith(f"/{RESULTS}")))

    def has_commit(self) -> bool:
        """Whether the pinned commit is here."""
        return self.git("for-each-ref", "--format=%(objectname)", _REF) == self.commit

    def holds(self, model: str, expected: int) -> bool:
        """Whether all of a model's files are here."""
        present = sum(1 for _ in (self.folder / "results" / model).glob(f"*/*/*/{RESULTS}"))
        return present == expected and model in self.ended()

    def ended(self) -> list[str]:
        """Return the models whose checkout came to its end."""
        return self.fetched.read_text("utf-8").split() if self.fetched.is_file() else []

    def lacking(self, models: Sequence[str], released: Mapping[str, int]) -> list[str]:
        """Return those of `models` that the release holds and that are not whole here."""
        there = [name for name in dict.fromkeys(models) if name in released]
        return [name for name in there if not self.holds(name, released[name])]

    def check(self, models: Sequence[str]) -> None:
        """Compare the models' files with the commit by git's own hashes.

        Git hashes only files whose size or times are not those of its checkout.
        """
        options = ("--porcelain", "-z", "--untracked-files=no", "--no-renames", "--ignore-submodules=all")
        if not models:
            return
        changed = self.git("status", *options, "--", *(f"results/{name}" for name in models))
        if changed:
            first = changed.split("\0")[0].lstrip().partition(" ")[2].lstrip()
            raise UserError(
                f"{self.folder / first} has changed since it was fetched; delete {self.folder} and fetch again"
            )

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Let only one process at a time change the clone."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"{self.folder} cannot be created ({error.strerror}); set CLM_OR_MLM_CACHE to another folder"
            ) from None
        path = self.folder.with_name(f"{self.folder.name}.lock")
        return wait_for_lock(path, f"another process is fetching into {self.folder}; waiting for it")

    def fetch(self, models: Sequence[str], released: Mapping[str, int]) -> None:
        """Bring the contents of some models, one after the other."""
        here = {name for name in self.ended() if self.holds(name, released.get(name, 0))}
        if models:
            what = f"{len(models)} models of the release from {redacted(self.url)}"
            logger.info("fetching %s into %s", what, self.folder)
        for name in progress(models, "fetching", len(models), "model"):
            here.add(name)
            self.git(
                "sparse-checkout", "set", "--stdin", given="".join(f"/results/{m}/\n" for m in sorted(here))
            )
            self.git("checkout", "--quiet", "--force", "--detach", _REF)
            write_text(self.fetched, "\n".join(sorted(here)))
            if not self.holds(name, released[name]):
                raise UserError(
                    f"{self.folder}: {name} is incomplete although it was fetched; delete that folder and fetch again"
                )

    def prepare(self) -> dict[str, int]:
        """Make the clone, unless it is there: the pinned commit without file contents; return `released`."""
        self.git("init", "--quiet", "--template=")
        for stale in (self.folder / ".git").rglob("*.lock"):  # a killed git's; ours keeps others out
            stale.unlink()
        info = self.folder / ".git" / "info"
        info.mkdir(exist_ok=True)
        (info / "attributes").write_text(_NO_FILTERS)
        self.git("config", "remote.origin.url", redacted(self.url))  # a password is for the fetch alone
        if not self.has_commit():
            self.git(
                "fetch", "--quiet", "--depth=1", "--filter=blob:none", "--no-tags", "--no-write-fetch-head",
                "origin", self.commit,
            )  # fmt: skip
            self.git("update-ref", _REF, self.commit)
        return self.released()

    def git(self, *args: str, given: str = "") -> str:
        """Run git in the clone, unable to ask or to execute anything of it, and return its output."""
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("GIT_") or name.startswith(_PASSED)
        } | _ENVIRONMENT
        if (shown := redacted(self.url)) != self.url:
            environment |= {
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": f"url.{self.url}.insteadOf",
                "GIT_CONFIG_VALUE_0": shown,
            }
        command = ["git", *settings, "-C", str(self.folder), *args]
        try:
            done = subprocess.run(
                command, input=given, capture_output=True, text=True, env=environment, check=False
            )
        except FileNotFoundError:
            raise UserError(
                f"git is not on PATH, but is needed to fetch the released runs; install it, or {_OFFLINE}"
            ) from None
        if done.returncode:
            raise self._error(args[0], redacted(done.stderr))
        return done.stdout.strip()

    def _error(self, step: str, stderr: str) -> UserError:
        """Return what went wrong in git's own words; a wrong mirror and an old git are recognised."""
        if "is not a git command" in stderr or "unknown option" in stderr:
            return UserError(
                f"this git is too old to fetch the released runs; install 2.31 or newer, or {_OFFLINE}"
            )
        if re.search(r"not our ref|couldn't find remote ref|not advertised|unadvertised", stderr):
            return UserError(
                f"{redacted(self.url)} does not have the pinned commit {self.commit}; give --url the address of a full "
                "mirror"
            )
        said = re.search(r"^(?:fatal|error|remote):\s*(.*)", stderr, re.MULTILINE)
        reason = said[1] if said else f"git {step} failed"
        if step in ("fetch", "checkout", "sparse-checkout") and "No space left" not in stderr:
            return UserError(f"{redacted(self.url)} cannot be fetched ({reason}); {_OFFLINE}")
        return UserError(
            f"{self.folder}: git {step} failed ({reason}); fix the cause or delete the folder, and fetch again"
        )
