"""A workflow as data: jobs with their commands, what each makes, needs and takes; written to a folder and read there.

A job's kind says what it may end with and when it is complete. `workflow.study` plans those of a study. Standard
library only.
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
"""File there that names the call that works in it."""

_OWN = ("done", "logs", "analysis")
"""Folders of what a study writes down itself, and makes anew whenever it runs."""

_REMEDY = f"delete it with {', '.join(_OWN)} beside it and rerun the study, which then keeps all other files"

QUEUES = ("cpu", "gpu", "gpus")
"""Kinds of jobs to a site: without a GPU, with one, with more."""

Command = tuple[str, ...]
"""Words after `clm-or-mlm`: `("benchmarks", "run", "--model", ...)`; relative paths are the folder's."""


def _failed(results: Path) -> bool:
    """Return whether a run has no results and is recorded as failed."""
    return not results.is_file() and record_of(results.parent).get("status") == "failed"


@dataclass(frozen=True, kw_only=True)
class JobKind:
    """A kind of job."""

    name: str
    """The name of the folders of its markers and logs."""
    title: str
    """What its jobs are, in the summary."""
    may_fail: bool = False
    """Whether a run that is recorded as failed is done, too: a loss that diverged does so again."""
    goal: bool = False
    """Whether its jobs are what a study is for; jobs of other kinds are done when one of these waits for them."""
    follows: bool = False
    """Whether its jobs are done again whenever one that they wait for is."""

    @property
    def accepted(self) -> tuple[int, ...]:
        """Exit codes of its commands that are no failure; 3 is that of `benchmarks run` when some runs failed."""
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
"""All kinds, in the order of a study."""


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
    """Files it makes, relative to the folder; the kind says when they are complete."""
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
    """Memory on each node; 0 is not asked for."""
    gpu_hours: float = 0.0
    """Estimated hours of one GPU; of one job without GPUs."""
    disk_bytes: float = 0.0
    """What it leaves on disk."""
    files: int = 0
    """Files and folders that it leaves there."""
    limit_hours: float = 20.0
    """Longest job the site allows."""
    tokens: float = 0.0
    """Tokens that its shards must have; 0: any number will do."""
    description: dict[str, Any] = field(default_factory=dict)
    """What decides the content of what it makes, for `common.description`; its commands when empty."""

    @property
    def marker(self) -> str:
        """The file that says it is done, relative to the folder."""
        return marker(self.kind.name, self.name)

    @property
    def hours(self) -> float:
        """Estimated wall time, all parts together."""
        return self.gpu_hours / max(1, self.nodes * self.gpus)

    @property
    def queue(self) -> str:
        """Which of `QUEUES` it belongs to."""
        return queue_name(self.nodes, self.gpus)

    @property
    def parts(self) -> int:
        """Jobs it takes in a row, each within the limit; every one but the last saves and stops."""
        return max(1, math.ceil(self.hours / self.limit_hours))

    @property
    def minutes(self) -> int:
        """Time to ask for, for one part: a quarter more than estimated, half an hour at least, the limit at most."""
        hours = max(0.5, 1.25 * self.hours)
        return max(1, round(60 * min(self.limit_hours, hours)))

    @property
    def margin_seconds(self) -> int:
        """How long before its time limit a job is asked to save itself: ten minutes, or a tenth of a short one."""
        return min(600, 6 * self.minutes)

    def _note(self, ending: str) -> str:
        """Return a file that says something of it, relative to the folder."""
        return f"logs/{self.kind.name}/{self.name.replace('/', '__')}.{ending}"

    @property
    def log(self) -> str:
        """What its commands print, relative to the folder."""
        return self._note("log")

    @property
    def refused(self) -> str:
        """The file that says a user's mistake ended it, so that starting it again would end the same way."""
        return self._note("refused")

    @property
    def stop(self) -> str:
        """The file that asks a stage to save and end: it reaches every rank, also inside images on other nodes."""
        return self._note("stop")

    @property
    def slurm_log(self) -> str:
        """What Slurm and `workflow.step` say of it."""
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
        """Return its description: what it made is reused only where this is the same."""
        return self.description or {
            "commands": [list(words) for words in self.commands]
        }

    def is_complete(self, folder: Path) -> bool:
        """Return whether what it makes is all there."""
        for name in self.makes:
            path = folder / name
            if not path.is_file() and not (self.kind.may_fail and _failed(path)):
                return False
        return True

    def shortage(self, folder: Path) -> str | None:
        """Return a sentence where the shards that it made have fewer tokens than the study needs."""
        path = folder / "shards/manifest.json"
        if not self.tokens or not path.is_file():
            return None
        remedy = (
            f"remove {path.parent} and rerun the study, which makes the shards again"
        )
        record = read_manifest(path, remedy)
        with another_shape(path, remedy):
            tokens = float(record["splits"]["train"]["tokens"])
        if tokens >= self.tokens:
            return None
        return (
            f"the shards have {tokens:,.0f} tokens, but the study needs {self.tokens:,.0f}; name more text and remove "
            f"{folder / 'shards'}, or set repeat_text = true to train on it more than once"
        )

    def failures(self, folder: Path) -> list[Path]:
        """Return the records of its runs that failed."""
        if not self.kind.may_fail:
            return []
        paths = [folder / path for path in self.makes]
        return [path.with_name(RUN) for path in paths if _failed(path)]


def queue_name(nodes: int, gpus: int) -> str:
    """Return which of `QUEUES` a job of so many nodes with so many GPUs belongs to."""
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
    """All jobs by marker, those that others wait for first."""
    image: str = ""
    """The image that jobs run in; this environment when empty."""
    image_sha256: str = ""
    """The image's, when the jobs were planned; empty when it was not read."""
    image_written: str = ""
    """Its size and time of last change then: where they are the same, no job hashes it again."""
    image_commit: str = ""
    """The commit of the code that it holds; empty when it was not started."""
    binds: tuple[str, ...] = ()
    """Folders outside the workflow's that its jobs read; the image shows them."""
    queues: dict[str, dict[str, str]] = field(default_factory=dict)
    """What each of `QUEUES` asks Slurm for, by the keys of [jobs] in a site's file."""
    gres: str = "gpu"
    """What Slurm calls a GPU."""
    numa_binding: str = ""
    """How torchrun binds the processes of a training to cores near their GPUs; empty: not at all."""
    max_jobs: int = 200
    """Most jobs in Slurm's queue at a time."""
    restarts: int = 2
    """How often a job that died without a sentence, as on a lost node, is started again."""
    modules: tuple[str, ...] = ()
    """Environment modules that jobs load."""
    environ: dict[str, str] = field(default_factory=dict)
    """Variables of every job, in place of the user's; $NAME is expanded in the job."""

    def of_kind(self, kind: str) -> list[Job]:
        """Return the jobs of one kind."""
        return [job for job in self.jobs.values() if job.kind.name == kind]

    def queue(self, job: Job) -> dict[str, str]:
        """Return what Slurm is asked for a job beyond its size."""
        return self.queues.get(job.queue, {})

    def places(self, folder: Path, environ: Mapping[str, str]) -> list[str]:
        """Return the folders outside the workflow's that an image shows, of those that exist here.

        Args:
            folder: the workflow's.
            environ: has the variables that their names begin with.
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
    """Return jobs by their markers."""
    return {job.marker: job for job in jobs}


def write_marker(job: Job, folder: Path) -> None:
    """Write a job's marker."""
    write_text(
        folder / job.marker,
        json.dumps({"kind": job.kind.name, "name": job.name}) + "\n",
    )


def save(workflow: Workflow, folder: Path) -> None:
    """Write what `load_workflow` reads, unless it is there already."""
    values = dataclasses.asdict(workflow)
    jobs = [job | {"kind": job["kind"]["name"]} for job in values["jobs"].values()]
    text = manifest_text(values | {"jobs": jobs})
    path = folder / WORKFLOW
    if not path.is_file() or read_bounded(path) != text.encode():
        write_text(path, text)


def load_workflow(folder: Path) -> Workflow:
    """Return the workflow of a folder.

    Raises:
        UserError: there is none, or it is not as it was written.
    """
    try:
        values = read_manifest(folder / WORKFLOW, _REMEDY)
    except FileNotFoundError:
        raise UserError(
            f"there is no study in {folder}; give the study's folder with --dir DIR"
        ) from None
    with another_shape(folder / WORKFLOW, _REMEDY):
        values = _tuples(values)
        jobs = [Job(**job | {"kind": JOB_KINDS[job["kind"]]}) for job in values["jobs"]]
        return Workflow(**values | {"jobs": by_marker(jobs)})


def refuse_other_settings(
    workflow: Workflow, folder: Path, live: Collection[str] = ()
) -> None:
    """Refuse a workflow that would reuse files that an earlier workflow of the folder made from other inputs.

    Args:
        workflow: the jobs to be done now.
        folder: the workflow's folder; without a `WORKFLOW` file there, no file may be in the places of a study's.
        live: markers of jobs of an earlier call that are still queued or running.

    Raises:
        UserError: a complete or live job was made from something else, and the sentence says what; or the earlier
            workflow is not as it was written; or files of others are there.
    """
    if not (folder / WORKFLOW).exists():
        others = strangers(folder, {}, _OWN)
        if others:
            raise UserError(
                f"{folder} is no study and holds other files ({first_of(others)}); choose another --dir"
            )
        return
    # Jobs are compared by the files that they make: the same cells, packed otherwise, are other jobs.
    makers: dict[str, Job] = {}
    for job in load_workflow(folder).jobs.values():
        makers |= dict.fromkeys(job.makes, job)
    for marker, job in workflow.jobs.items():
        if job.kind.follows or not (marker in live or job.is_complete(folder)):
            continue
        earlier = by_marker(makers[path] for path in job.makes if path in makers)
        for before in earlier.values():
            changed = first_difference(before.made_from(), job.made_from())
            if changed:
                name, old, new = changed
                raise UserError(
                    f"{folder}: {job.kind.name} {job.name} was made with {name} {_short(old)}, but the settings now "
                    f"give {_short(new)}; restore the setting or choose another folder"
                )


def _short(value: object) -> str:
    return textwrap.shorten(json.dumps(value), 200)


def _tuples(value: Any) -> Any:
    """Return JSON's lists as tuples."""
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return value
