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
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.store.ingest import open_store
from benchmarks.runs import RESULTS
from common.errors import UserError, nearest
from common.files import cache_folder
from common.locks import wait_for_lock
from common.manifest import read_manifest, write_manifest
from common.plain_text import redacted
from common.progress import progress

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COMMIT", "URL", "cached_release", "released_runs", "released_store"]

logger = logging.getLogger(__name__)

URL = "https://github.com/hgissbkh/EncodEval.git"
COMMIT = "7e03774beb4c735b99b93efaff62f85fe298f649"
"""The head of the branch MLM_vs_CLM that holds the 18,483 result files."""

_REF = "refs/heads/pinned"
_OFFLINE = (
    "where there is no network, use --source published, or run `python -m analysis fetch-released` "
    "on a machine that has it and copy its cache"
)
_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.symlinks": "false",
    "core.fsmonitor": "false",
    "core.autocrlf": "false",
    "core.sparseCheckout": "true",
    "core.sparseCheckoutCone": "false",
    "advice.detachedHead": "false",
    "credential.helper": "",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
}
_PASSED = ("GIT_SSL_", "GIT_PROXY_", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
"""How the user's git reaches the network; every other GIT_ variable would point it at another repository."""
_NO_FILTERS = "* -text -eol -ident -filter -working-tree-encoding\n"
"""Attributes that win over those of the clone: file contents are written as they are."""


def released_runs(models: Sequence[str], *, instances: bool = False) -> tuple[pd.DataFrame, Path | None]:
    """Return the released runs of `models`, fetched if need be, and the folder of their per-instance scores."""
    ingested, folder = open_store(released_store(models), instances=instances, models=models)
    return ingested.runs, folder


def cached_release(cache: Path | None = None, *, commit: str = COMMIT) -> tuple[str, ...]:
    """Return the names of the released models that are complete in the cache."""
    clone = _Clone(cache or cache_folder(), URL, commit)
    return tuple(sorted(name for name in clone.record()["models"] if clone.holds(name)))


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
    if not clone.complete(models):
        with clone.lock():
            if not clone.complete(models):  # the one we waited for may have brought them
                clone.fetch(models)
    absent = [name for name in models if name in clone.record()["absent"]]
    clone.check([name for name in models if name not in absent])
    if absent and len(absent) == len(models):
        known = nearest(absent[0], clone.record()["released"])
        raise UserError(f"the release holds no runs of {', '.join(absent)}{known}")
    for name in absent:
        logger.info("the release holds no runs of %s", name)
    return clone.folder


class _Clone:
    """The clone in a cache, and the record of the models that are whole in it."""

    def __init__(self, cache: Path, url: str, commit: str) -> None:
        self.folder = cache / f"released-{commit[:12]}"
        self.url = url
        self.commit = commit

    @property
    def _record(self) -> Path:
        return self.folder / ".git" / "clm_or_mlm.json"

    def record(self) -> dict[str, dict[str, int]]:
        """Return file counts: of the models that are here, of all released ones, and of those that are not (0)."""
        empty: dict[str, dict[str, int]] = {"models": {}, "released": {}, "absent": {}}
        try:
            record = read_manifest(self._record, "it is made again")
            counts = [record[name] for name in empty]
        except (OSError, UserError, KeyError):
            return empty
        whole = all(
            isinstance(part, dict) and all(isinstance(count, int) for count in part.values())
            for part in counts
        )
        return dict(zip(empty, counts, strict=True)) if whole else empty

    def holds(self, model: str) -> bool:
        """Whether all of a model's files are here."""
        expected = self.record()["models"].get(model)
        present = sum(1 for _ in (self.folder / "results" / model).glob(f"*/*/*/{RESULTS}"))
        return expected is not None and present == expected

    def complete(self, models: Sequence[str]) -> bool:
        """Whether nothing needs to be fetched."""
        absent = self.record()["absent"]
        return all(model in absent or self.holds(model) for model in models)

    def check(self, models: Sequence[str]) -> None:
        """Compare the models' files with the commit by git's own hashes; nobody can where there is no git.

        Git hashes only files whose size or times are not those of its checkout.
        """
        if not models or shutil.which("git") is None:
            return
        options = ("--porcelain", "-z", "--untracked-files=no", "--no-renames", "--ignore-submodules=all")
        changed = self.git("status", *options, "--", *(f"results/{name}" for name in models))
        if changed:
            first = changed.split("\0")[0].lstrip().partition(" ")[2].lstrip()
            raise UserError(
                f"{self.folder / first}: was changed since it was fetched; delete {self.folder} and "
                "fetch again"
            )

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Let only one process at a time change the clone."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"{self.folder}: cannot be made ({error.strerror}); name another place with CLM_OR_MLM_CACHE"
            ) from None
        path = self.folder.with_name(f"{self.folder.name}.lock")
        return wait_for_lock(path, f"another process fetches into {self.folder}; waiting for it")

    def fetch(self, models: Sequence[str]) -> None:
        """Bring the models that are not here, one after the other."""
        self.prepare()
        record = self.record()
        counts = self.released()
        record["released"] = counts
        record["absent"] = record["absent"] | {name: 0 for name in models if name not in counts}
        record["models"] = {name: count for name, count in record["models"].items() if self.holds(name)}
        wanted = [name for name in dict.fromkeys(models) if name in counts and name not in record["models"]]
        if wanted:
            logger.info(
                "fetching %d models of the release from %s into %s",
                len(wanted),
                redacted(self.url),
                self.folder,
            )
        for name in progress(wanted, "fetching", len(wanted), "model"):
            patterns = "".join(f"/results/{model}/\n" for model in sorted({*record["models"], name}))
            self.git("sparse-checkout", "set", "--stdin", given=patterns)
            self.git("checkout", "--quiet", "--force", "--detach", _REF)
            record["models"][name] = counts[name]
            write_manifest(self._record, record)
            if not self.holds(name):
                raise UserError(
                    f"{self.folder}: {name} is not whole after its fetch; delete that folder and fetch again"
                )
        write_manifest(self._record, record)

    def prepare(self) -> None:
        """Make the clone, unless it is there: the pinned commit and its folders, without file contents."""
        self.git("init", "--quiet", "--template=")
        for stale in (self.folder / ".git").rglob("*.lock"):  # a killed git's; ours keeps others out
            stale.unlink()
        info = self.folder / ".git" / "info"
        info.mkdir(exist_ok=True)
        (info / "attributes").write_text(_NO_FILTERS)
        self.git("config", "remote.origin.url", redacted(self.url))  # a password is for the fetch alone
        if self.git("for-each-ref", "--format=%(objectname)", _REF) != self.commit:
            self.git(
                "fetch", "--quiet", "--depth=1", "--filter=blob:none", "--no-tags", "--no-write-fetch-head",
                "origin", self.commit,
            )  # fmt: skip
            self.git("update-ref", _REF, self.commit)

    def released(self) -> dict[str, int]:
        """Return the number of result files of each model in the commit."""
        names = self.git("ls-tree", "-r", "-z", "--name-only", _REF, "results/").split("\0")
        return dict(Counter(name.split("/")[1] for name in names if name.endswith(f"/{RESULTS}")))

    def git(self, *args: str, given: str = "") -> str:
        """Run git in the clone, unable to ask or to execute anything of it, and return its output."""
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        passed = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        passed |= {name: value for name, value in os.environ.items() if name.startswith(_PASSED)}
        environment = passed | {
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "true",
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
            "GIT_LFS_SKIP_SMUDGE": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_CEILING_DIRECTORIES": str(self.folder.parent.resolve()),
            "LC_ALL": "C",
        }
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
                f"git is not on PATH, and it brings the released runs; install it, or {_OFFLINE}"
            ) from None
        if done.returncode:
            raise self._error(args[0], done.stderr)
        return done.stdout.strip()

    def _error(self, step: str, stderr: str) -> UserError:
        stderr = redacted(stderr)
        lines = [line for line in stderr.splitlines() if line.startswith(("fatal:", "error:", "remote:"))]
        reason = re.sub(r"^(fatal|error|remote):\s*", "", lines[0]) if lines else f"git {step} failed"
        if "is not a git command" in stderr or "unknown option" in stderr:
            return UserError(
                f"this git is too old to bring the released runs; install 2.31 or newer, or {_OFFLINE}"
            )
        if re.search(r"not our ref|couldn't find remote ref|not advertised|unadvertised", stderr):
            return UserError(
                f"{redacted(self.url)} does not hold the pinned commit {self.commit}; give --url a full mirror"
            )
        if "No space left" in stderr:
            return UserError(
                f"{self.folder}: no space left; free some and run the same command again to resume"
            )
        if step in ("fetch", "checkout", "sparse-checkout"):
            return UserError(f"{redacted(self.url)} cannot be fetched ({reason}); {_OFFLINE}")
        return UserError(f"{self.folder}: git {step} failed ({reason}); delete that folder and fetch again")
