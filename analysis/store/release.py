"""The authors' result files, fetched by git at one pinned commit into the cache; only the wanted models.

A shallow clone without file contents (`--filter=blob:none`), whose sparse checkout holds the models that were asked
for: git fetches the contents of one model after the other, so an interrupted fetch resumes with the model it was at.
Nothing in the clone is executed: no hooks, filters or submodules, and links are written as plain files.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from common.errors import UserError, nearest
from common.files import cache_folder, mark_cache
from common.locks import wait_for_lease
from common.plain_text import redacted
from common.progress import progress

logger = logging.getLogger(__name__)

URL = "https://github.com/hgissbkh/EncodEval.git"
COMMIT = "7e03774beb4c735b99b93efaff62f85fe298f649"
"""The head of the branch MLM_vs_CLM that holds the 18,483 result files."""

_OFFLINE = (
    "without network access, use --source published, or run `clm-or-mlm fetch-released` on a "
    "machine with access and copy its cache"
)
# Nothing in the clone is executed, git leaves no work for later, and a connection that stalls is given up.
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.symlinks=false",
    "core.fsmonitor=false",
    "gc.auto=0",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=60",
)
_NO_FILTERS = "* -text -eol -ident -filter -working-tree-encoding\n"
"""Attributes that win over those of the clone: file contents are written as they are."""
# Git asks nothing, since nobody may be there to answer, and its messages are in English, by which they are recognised.
_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "LC_ALL": "C",
}
_PASSED = (
    "GIT_SSL_",
    "GIT_PROXY_",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
)
"""Beginnings of the GIT_ variables that say how the user's git reaches the network. No other is passed on: one could
point git at another repository."""


def cached_release(
    cache: Path | None = None, *, commit: str = COMMIT
) -> tuple[str, ...]:
    """Return the names of the released models whose files are all in the cache."""
    return tuple(_Clone(cache or cache_folder(), URL, commit).complete_models())


def is_release(folder: Path, *, commit: str = COMMIT) -> bool:
    """Return whether a folder is a cache's clone of the authors' files, or a copy of it."""
    clone = _Clone(folder.parent, URL, commit)
    return clone.folder == folder and clone.has_commit()


def released_store(
    models: Sequence[str],
    *,
    cache: Path | None = None,
    url: str = URL,
    commit: str = COMMIT,
) -> Path:
    """Return a run store with the released runs of `models`; those that are not there yet are fetched.

    Models that the release does not have (Figure 11's 1b-clm-10k-mlm40-42k) are logged and left out.

    Args:
        models: names in the released scheme.
        cache: the folder of the clone; None: the package's cache.
        url: where it comes from: the authors' repository or a mirror of it.
        commit: the pinned commit.

    Raises:
        UserError: no network, no git, no such commit there, the release holds none of the models, or a file of
            one was changed or lost since it was fetched; or the address has a password in it.
    """
    clone = _Clone(cache or cache_folder(), url, commit)
    if not set(models) <= set(clone.complete_models()):
        with clone.lock():
            clone.prepare()
            clone.fetch(models)

    complete = set(clone.complete_models())
    available = [name for name in models if name in complete]
    # The hint of a near name is about the first model only.
    if not available:
        raise UserError(
            f"the release has no runs of {', '.join(models)}{nearest(models[0], clone.released_models())}"
        )

    for name in models:
        if name not in complete:
            logger.info("the release has no runs of %s", name)

    clone.check(available)
    return clone.folder


class _Clone:
    """The clone in a cache; the folders of its sparse checkout are the models that are complete."""

    def __init__(self, cache: Path, url: str, commit: str) -> None:
        if redacted(url) != url:
            raise UserError(
                f"{redacted(url)}: leave the password out; git asks its own credential helper for it"
            )
        self.folder = cache / f"released-{commit[:12]}"
        self.url = url
        self.commit = commit

    def has_commit(self) -> bool:
        """Return whether the pinned commit is checked out, with some models or none."""
        head = self.folder / ".git" / "HEAD"
        return head.is_file() and head.read_text("utf-8").strip() == self.commit

    def released_models(self) -> list[str]:
        """Return the models of the commit."""
        return self.git("ls-tree", "--name-only", f"{self.commit}:results").split("\n")

    def complete_models(self) -> list[str]:
        """Return the models all of whose files are checked out."""
        if not self.has_commit():
            return []
        folders = self.git("sparse-checkout", "list").split("\n")
        of_models = [name for name in folders if name.startswith("results/")]
        return sorted(name.removeprefix("results/") for name in of_models)

    def check(self, models: Sequence[str]) -> None:
        """Compare the models' files with the commit, and raise a `UserError` about the first that was changed or lost.

        Git hashes only files whose size or times are not those of its checkout.
        """
        options = (
            "--porcelain",
            "-z",
            "--untracked-files=no",
            "--no-renames",
            "--ignore-submodules=all",
        )
        folders = [f"results/{name}" for name in models]
        changed = self.git("status", *options, "--", *folders)
        if changed:
            first_line, _, _ = changed.partition("\0")  # the end of a line, by -z
            # A line has two letters or blanks, a blank and the path: " M results/NAME/SC/sst2/RUN/results.json".
            # `self.git` strips blanks, so that the first line may have lost one.
            _, _, path = first_line.lstrip().partition(" ")
            raise UserError(
                f"{self.folder / path.lstrip()} has changed since it was fetched; delete {self.folder} and fetch again"
            )

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which no other process changes the clone; it waits until another one is done."""
        try:
            mark_cache(self.folder.parent)  # backups leave a marked folder out
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise UserError(
                f"{self.folder} cannot be created ({error.strerror}); set CLM_OR_MLM_CACHE to another folder"
            ) from None
        path = self.folder.with_name(f"{self.folder.name}.lock")
        return wait_for_lease(
            path, f"another process is fetching into {self.folder}; waiting for it"
        )

    def prepare(self) -> None:
        """Make the clone, unless it is there: the pinned commit without file contents."""
        # Git's own locks in the clone are of a git that was killed, since `lock` keeps other processes out.
        stale = list((self.folder / ".git").rglob("*.lock"))
        for path in stale:
            path.unlink()
        if not self.has_commit():
            # Without the user's template, which may hold hooks.
            self.git("init", "--quiet", "--template=")
            (self.folder / ".git" / "info").mkdir(exist_ok=True)
            (self.folder / ".git" / "info" / "attributes").write_text(_NO_FILTERS)
            self.git("config", "remote.origin.url", self.url)
            without_contents = ("--depth=1", "--filter=blob:none", "--no-tags")
            self.git("fetch", "--quiet", *without_contents, "origin", self.commit)
            self.git("sparse-checkout", "set", "--cone")

        # HEAD names the commit only after a checkout. A checkout that was killed is done again, so that no file stays
        # half written.
        if stale or not self.has_commit():
            self.git("checkout", "--quiet", "--force", "--detach", self.commit)

    def fetch(self, models: Sequence[str]) -> None:
        """Fetch the files of those models that the release has and that are not complete here, one after the other."""
        complete = self.complete_models()
        wanted = []
        for name in self.released_models():
            if name in models and name not in complete:
                wanted.append(name)

        if wanted:
            logger.info(
                "fetching %d models of the release from %s into %s",
                len(wanted),
                self.url,
                self.folder,
            )

        for name in progress(wanted, "fetching", len(wanted), "model"):
            # Git lists a model as checked out only when its files are complete.
            self.git("sparse-checkout", "add", f"results/{name}")

    def git(self, *args: str) -> str:
        """Run git in the clone and return its output; git cannot ask for anything or execute anything of the clone.

        Raises:
            UserError: git is absent or fails, in its own words.
        """
        command = ["git"]
        for setting in _SETTINGS:
            command += ["-c", setting]
        command += ["-C", str(self.folder), *args]
        environment = {}
        for name, value in os.environ.items():
            # Git's own variables, which are set where a hook runs this, would lead it to another repository.
            if not name.startswith("GIT_") or name.startswith(_PASSED):
                environment[name] = value

        environment |= _ENVIRONMENT
        try:
            ended = subprocess.run(
                command, capture_output=True, text=True, env=environment, check=False
            )
        except FileNotFoundError:
            raise UserError(
                f"git is not on PATH, but is needed to fetch the released runs; install it, or {_OFFLINE}"
            ) from None

        if ended.returncode == 0:
            return ended.stdout.strip()
        # Servers and versions of git have different words for a commit that is not there.
        unknown = r"not our ref|couldn't find remote ref|not advertised|unadvertised"
        if re.search(unknown, ended.stderr):
            raise UserError(
                f"{self.url} does not have the pinned commit {self.commit}; give --url the address of a full mirror"
            )

        # The reason is the first line such as "fatal: unable to access ...".
        message = re.search(
            r"^(?:fatal|error|remote|git):\s*(.*)", ended.stderr, re.MULTILINE
        )
        reason = message[1] if message else f"git {args[0]} failed"

        # Only these commands bring contents over the network. A full disk is no fault of the network.
        uses_network = args[0] in ("fetch", "checkout", "sparse-checkout")
        if uses_network and "No space left" not in ended.stderr:
            raise UserError(f"{self.url} cannot be fetched ({reason}); {_OFFLINE}")
        raise UserError(
            f"{self.folder}: git {args[0]} failed ({reason}); fix it or delete the folder, and fetch again"
        )
