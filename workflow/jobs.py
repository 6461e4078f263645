"""A workflow as data: jobs with their commands, the files that each makes, and the jobs and resources that it needs.

A workflow is written to its folder, where later calls and Slurm jobs read it. `workflow.study` plans the jobs of a
study. A job's marker is the file `done/<kind>/<name>.json`, which says that the job is done; jobs are named by it.

A site is the cluster, or the machine, that jobs run on; its file (`workflow.study_settings`) says what Slurm is asked
for them. Jobs are sorted in two ways: by what they make (`JobKind`), and, as a site's file does, by their number of
GPUs (`QUEUES`).

This module needs only Python's standard library.
"""

from __future__ import annotations

import dataclasses
import json
import math
import textwrap
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

from benchmarks.runs import RUN, record_of
from common.description import first_difference
from common.errors import UserError
from common.files import write_text
from common.manifest import another_shape, manifest_text, read_manifest, strangers
from common.plain_text import first_of
from common.reading import read_bounded

WORKFLOW = "workflow.json"
"""File in a workflow's folder with all of its jobs."""

LEASE = ".lease"
"""File in a workflow's folder that names the call that works there."""

_OWN = ("done", "logs", "analysis")
"""Folders with what a study makes anew whenever it runs: markers, logs and tables."""

_REMEDY = f"delete it with {', '.join(_OWN)} beside it and rerun the study, which then keeps all other files"
"""What to do about a `WORKFLOW` file that cannot be used, for error messages."""

QUEUES = ("cpu", "gpu", "gpus")
"""Kinds of jobs as a site's file names them: jobs without a GPU, with one GPU, with several."""

Command = tuple[str, ...]
"""Words after `clm-or-mlm`: `("benchmarks", "run", "--model", ...)`; relative paths start from the study's folder."""


def _failed(results: Path) -> bool:
    """Return whether a run has no file of results, `results`, and is recorded as failed beside it."""
    return not results.is_file() and record_of(results.parent).get("status") == "failed"


@dataclass(frozen=True, kw_only=True)
class JobKind:
    """A kind of job."""

    name: str
    """The name of the folders of its markers and logs."""
    title: str
    """What its jobs are called in the table of a study's progress."""
    may_fail: bool = False
    """Whether a run that is recorded as failed counts as done: a loss that diverged would diverge again."""
    goal: bool = False
    """Whether a study is for its jobs. Jobs of other kinds are only done while a job of such a kind waits for them."""
    follows: bool = False
    """Whether its jobs are done again whenever a job that they wait for is."""

    @property
    def accepted(self) -> tuple[int, ...]:
        """Exit codes of its commands that are not a failure; `benchmarks run` ends with 3 when some runs failed."""
        return (0, 3) if self.may_fail else (0,)


JOB_KINDS = {
    kind.name: kind
    for kind in (
        JobKind(name="data", title="datasets"),
        JobKind(name="shards", title="shards"),
        JobKind(name="stage", title="trunks and stages"),
        JobKind(name="model", title="decays and exports", goal=True),
        JobKind(name="cell", title="fine-tuning cells", may_fail=True),
        JobKind(name="analysis", title="tables, claims, figures", goal=True, follows=True),
    )
}  # fmt: skip
"""All kinds, in the order of a study.

A model's job exports the model. Before that it trains the model's last stage, mostly a decay (the learning rate falls
to 0), unless this is a stage of another job.
"""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job of a workflow."""

    kind: JobKind
    """What kind of job it is."""
    name: str
    """Its name within its kind: a stage or a model; `model/dataset` of a cell, `model` of all of its cells."""
    commands: tuple[Command, ...] = ()
    """What it runs, one after the other."""
    makes: tuple[str, ...] = ()
    """Files that it makes, relative to the folder."""
    needs: tuple[str, ...] = ()
    """Markers of the jobs it waits for."""
    checkpoints: str = ""
    """Pattern of the checkpoints that it saves. Such a job runs a process on each GPU, and can be asked by a file to
    save and end."""
    network: bool = False
    """Whether its commands may use hubs."""
    nodes: int = 1
    """Nodes it takes."""
    gpus: int = 0
    """GPUs on each of them."""
    cpus: int = 1
    """CPU cores on each node."""
    memory_gb: float = 2.0
    """Memory on each node; 0: Slurm is not asked for any."""
    gpu_hours: float = 0.0
    """Estimated hours of all its GPUs together; without GPUs, of the job."""
    disk_bytes: float = 0.0
    """Bytes that it leaves on disk."""
    files: int = 0
    """Files and folders that it leaves there."""
    limit_hours: float = 20.0
    """Longest job the site allows."""
    tokens: float = 0.0
    """Tokens that its shards must have; 0: any number will do."""
    description: dict[str, Any] = field(default_factory=dict)
    """The settings that decide what is in its files, for `common.description`; when empty, its commands decide it."""

    @property
    def marker(self) -> str:
        """The file that says that it is done, relative to the folder."""
        return marker(self.kind.name, self.name)

    @property
    def hours(self) -> float:
        """Estimated hours of wall time, all its `parts` together."""
        return self.gpu_hours / max(1, self.nodes * self.gpus)

    @property
    def queue(self) -> str:
        """Which of `QUEUES` it belongs to."""
        return queue_name(self.nodes, self.gpus)

    @property
    def parts(self) -> int:
        """Number of jobs in a row that it takes because of the site's limit; all but the last save and stop."""
        return max(1, math.ceil(self.hours / self.limit_hours))

    @property
    def minutes(self) -> int:
        """Minutes to ask for, for one of its `parts`.

        That is a quarter more than estimated and at least half an hour, but at most the site's limit.
        """
        hours = max(0.5, 1.25 * self.hours)
        return max(1, round(60 * min(self.limit_hours, hours)))

    @property
    def margin_seconds(self) -> int:
        """How many seconds before its time limit a job is asked to save: ten minutes, or a tenth of a short job."""
        return min(600, 6 * self.minutes)  # a tenth of a minute has 6 seconds

    def _note(self, ending: str) -> str:
        """Return a file about the job, relative to the folder."""
        return f"logs/{self.kind.name}/{self.name.replace('/', '__')}.{ending}"

    @property
    def log(self) -> str:
        """The file with what its commands print, relative to the folder."""
        return self._note("log")

    @property
    def refused(self) -> str:
        """The file that says a user's mistake ended it, so that starting it again would end the same way."""
        return self._note("refused")

    @property
    def stop(self) -> str:
        """The file by which training is asked to save and end: every process sees it, also in images on other nodes."""
        return self._note("stop")

    @property
    def slurm_log(self) -> str:
        """The file with what Slurm and `workflow.step` print of it."""
        return self._note("slurm")

    @property
    def lease(self) -> str:
        """The file that names the process that works on it."""
        return self._note("lease")

    @property
    def attempts(self) -> str:
        """The file that says when it ran (`workflow.attempts`)."""
        return self._note("attempts.jsonl")

    def made_from(self) -> dict[str, Any]:
        """Return its description: files that it made are reused only where the description is the same."""
        return self.description or {
            "commands": [list(words) for words in self.commands]
        }

    def is_complete(self, folder: Path) -> bool:
        """Return whether all files that it makes are there; a run that is recorded as failed needs none."""
        for name in self.makes:
            path = folder / name
            if path.is_file():
                continue
            is_failed = self.kind.may_fail and _failed(path)
            if not is_failed:
                return False
        return True

    def shortage(self, folder: Path) -> str | None:
        """Return a sentence where the job's shards have fewer tokens than the study needs; None where they have enough.

        None as well for a job that makes no shards, and before they are made.
        """
        path = folder / "shards/manifest.json"
        if not self.tokens or not path.is_file():
            return None
        remedy = (
            f"remove {path.parent} and rerun the study, which makes the shards again"
        )
        record = read_manifest(path, remedy)
        # A manifest without this number, as of another version, becomes a `UserError` that ends with the remedy.
        with another_shape(path, remedy):
            tokens = float(record["splits"]["train"]["tokens"])
        if tokens >= self.tokens:
            return None
        return (
            f"the shards have {tokens:,.0f} tokens, but the study needs {self.tokens:,.0f}; name more text and remove "
            f"{folder / 'shards'}, or set repeat_text = true to train on it more than once"
        )

    def failures(self, folder: Path) -> list[Path]:
        """Return the record, `run.json`, of each of its runs that failed."""
        if not self.kind.may_fail:
            return []
        results = [folder / path for path in self.makes]
        return [path.with_name(RUN) for path in results if _failed(path)]


def queue_name(nodes: int, gpus: int) -> str:
    """Return which of `QUEUES` a job of some nodes, with some GPUs on each, belongs to."""
    return QUEUES[min(2, nodes * gpus)]


def marker(kind: str, name: str) -> str:
    """Return the marker of a job, relative to the folder."""
    return f"done/{kind}/{name}.json"


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """Jobs that wait for each other, and where they run."""

    target: str
    """What is made: `figure3`, `all`, a model."""
    jobs: dict[str, Job]
    """All jobs by marker; a job stands after those that it waits for."""
    image: str = ""
    """The image that jobs run in; this environment when empty."""
    image_sha256: str = ""
    """SHA-256 of the image when the jobs were planned; empty when it was not read."""
    image_written: str = ""
    """Size and time of last change of the image then: where they are the same, no job hashes it again."""
    image_commit: str = ""
    """The commit of the code that it holds; empty when it was not started."""
    binds: tuple[str, ...] = ()
    """Folders outside the workflow's that its jobs read; the image shows them."""
    queues: dict[str, dict[str, str]] = field(default_factory=dict)
    """What jobs of each of `QUEUES` ask Slurm for, by the keys of [jobs] in a site's file."""
    gres: str = "gpu"
    """What Slurm calls a GPU."""
    numa_binding: str = ""
    """How torchrun binds the processes of a training to cores near their GPUs; empty: not at all."""
    max_jobs: int = 200
    """Most jobs in Slurm's queue at a time."""
    restarts: int = 2
    """How often a job that died without an error message, as on a lost node, is started again."""
    modules: tuple[str, ...] = ()
    """Environment modules that jobs load."""
    environ: dict[str, str] = field(default_factory=dict)
    """Variables of every job, in place of the user's; $NAME is expanded in the job."""

    def of_kind(self, kind: str) -> list[Job]:
        """Return the jobs of one kind."""
        return [job for job in self.jobs.values() if job.kind.name == kind]

    def queue(self, job: Job) -> dict[str, str]:
        """Return what Slurm is asked for a job beyond its size, by the keys of [jobs] in a site's file."""
        return self.queues.get(job.queue, {})

    def places(self, folder: Path, environ: Mapping[str, str]) -> list[str]:
        """Return those of `binds` that an image shows: folders that exist here and lie outside the workflow's folder.

        Args:
            folder: the workflow's folder.
            environ: has the variables that the folders' names may begin with, as in `$SCRATCH/data`.
        """
        places = []
        for bind in self.binds:
            place = Template(bind).safe_substitute(environ)
            path = Path(place)
            if path.exists() and not path.is_relative_to(folder):
                places.append(place)
        return places

    @property
    def kinds(self) -> list[JobKind]:
        """The kinds of its jobs, in the order of a study."""
        names = {job.kind.name for job in self.jobs.values()}
        return [kind for kind in JOB_KINDS.values() if kind.name in names]


def by_marker(jobs: Iterable[Job]) -> dict[str, Job]:
    """Return jobs by their markers, and so each job once, in the order of the first time that it occurs."""
    return {job.marker: job for job in jobs}


def write_marker(job: Job, folder: Path) -> None:
    """Write a job's marker."""
    write_text(
        folder / job.marker,
        json.dumps({"kind": job.kind.name, "name": job.name}) + "\n",
    )


def save(workflow: Workflow, folder: Path) -> None:
    """Write the file that `load_workflow` reads, unless it is there already with the same content."""
    values = dataclasses.asdict(workflow)
    # The file has a list of jobs, each with the name of its kind.
    jobs = [job | {"kind": job["kind"]["name"]} for job in values["jobs"].values()]
    text = manifest_text(values | {"jobs": jobs})
    path = folder / WORKFLOW
    if not path.is_file() or read_bounded(path) != text.encode():
        write_text(path, text)


def load_workflow(folder: Path) -> Workflow:
    """Return the workflow of a folder.

    Raises:
        UserError: there is none, or its file is not as it was written.
    """
    try:
        values = read_manifest(folder / WORKFLOW, _REMEDY)
    except FileNotFoundError:
        raise UserError(
            f"there is no study in {folder}; give the study's folder with --dir DIR"
        ) from None

    # A file with other keys or other values than `save` writes is a `UserError` with what to do.
    with another_shape(folder / WORKFLOW, _REMEDY):
        # The fields of jobs and workflows are tuples. Lists in descriptions become tuples too, which does not matter:
        # `first_difference` takes both for equal.
        values = _tuples(values)
        jobs = [Job(**job | {"kind": JOB_KINDS[job["kind"]]}) for job in values["jobs"]]
        return Workflow(**values | {"jobs": by_marker(jobs)})


def refuse_other_settings(
    workflow: Workflow, folder: Path, live: Collection[str] = ()
) -> None:
    """Refuse a workflow that would reuse files that an earlier workflow of the folder made from other settings.

    Args:
        workflow: the jobs to be done now.
        folder: the workflow's folder; where it has no `WORKFLOW` file, its `_OWN` folders may hold no files.
        live: markers of jobs of an earlier call that are still queued or running.

    Raises:
        UserError: a complete or live job was made from other settings, and the sentence says which; or the file of the
            earlier workflow is not as it was written; or files of others are there.
    """
    if not (folder / WORKFLOW).exists():
        # Files in these folders would be replaced or mixed with the study's. The empty dictionary: without a
        # `WORKFLOW` file nothing is known to be the study's. Other folders, such as shards, may be there: a study that
        # is begun anew after `_REMEDY` keeps them.
        others = strangers(folder, {}, _OWN)
        if others:
            raise UserError(
                f"{folder} is no study and holds other files ({first_of(others)}); choose another --dir"
            )
        return

    # The earlier job that makes each file. Jobs are compared by their files and not by their names: a site with another
    # number of GPUs a job has the same cells in other jobs.
    makers: dict[str, Job] = {}
    for job in load_workflow(folder).jobs.values():
        makers |= dict.fromkeys(job.makes, job)
    for job_marker, job in workflow.jobs.items():
        # Tables (`follows`) are made again anyway, and a job that is not complete yet may change.
        is_reused = job_marker in live or job.is_complete(folder)
        if job.kind.follows or not is_reused:
            continue

        # The earlier jobs that made this job's files, each once.
        earlier = by_marker(makers[path] for path in job.makes if path in makers)
        for before in earlier.values():
            changed = first_difference(before.made_from(), job.made_from())
            if changed:
                # The setting's name, the earlier job's value, and the value now.
                name, old, new = changed
                raise UserError(
                    f"{folder}: {job.kind.name} {job.name} was made with {name} {_short(old)}, but the settings now "
                    f"give {_short(new)}; restore the setting or choose another folder"
                )


def _short(value: object) -> str:
    return textwrap.shorten(json.dumps(value), 200)


def _tuples(value: Any) -> Any:
    """Return a value of JSON with tuples for its lists, at every depth."""
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return value
