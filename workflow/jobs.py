"""A workflow as data: jobs with their commands, what each makes, needs and takes; written to a folder and read there.

A job's kind says what it may end with and when it is complete; each kind is one rule of Snakemake.

`workflow.study` plans those of a study, `miniature.plan` those of the miniature. Standard library only.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.runs import record_of
from common.files import write_text
from common.registry import Registry
from workflow.slurm_account import queue_name

__all__ = [
    "KINDS",
    "WORKFLOW",
    "Command",
    "Job",
    "Kind",
    "Workflow",
    "by_marker",
    "load",
    "marker",
    "save",
    "write_marker",
]

WORKFLOW = "workflow.json"
"""File in a workflow's folder with all of its jobs."""

Command = tuple[str, ...]
"""A room and the words after it: `("benchmarks", "run", "--model", ...)`; relative paths are the folder's."""


def _all_there(paths: Sequence[Path]) -> bool:
    return all(path.is_file() for path in paths)


def _done_or_failed(results: Sequence[Path]) -> bool:
    """Return whether every run has its results or is recorded as failed: a loss that diverged does so again."""
    return all(path.is_file() or record_of(path.parent).get("status") == "failed" for path in results)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of job."""

    name: str
    """The name of its rule, and of the folders of its markers and logs."""
    title: str
    """What its jobs are, in the summary."""
    part: str
    """The part of a study that its time is counted for."""
    accepted: tuple[int, ...] = (0,)
    """Exit codes of its commands that are no failure."""
    complete: Callable[[Sequence[Path]], bool] = _all_there
    """Whether a job is complete, from the files that it makes."""
    priority: int = 0
    """Of jobs that could start, those of the highest priority do."""
    goal: bool = False
    """Whether its jobs are what a study is for; jobs of other kinds are done when one of these waits for them."""
    follows: bool = False
    """Whether its jobs are done again whenever one that they wait for is."""
    free: tuple[str, ...] = ()
    """Options of its commands that may change while what is done stays: they decide no result, or a study grows by
    them."""


_STOP = ("--stop-file",)
_TUNING = Kind(
    name="cell", title="cells of fine-tunings", part="fine-tuning", accepted=(0, 3), complete=_done_or_failed,
    free=(
        "--dataset", "--lr", "--seed",
        # What the runs' own records leave out (benchmarks.sweep.identity).
        "--adopt", "--device", "--exact-micro-batches", "--positions", "--retry-failed", "--threads", "--workers",
    ),
)  # fmt: skip

KINDS = Registry(
    "kind of job",
    (
        Kind(name="data", title="datasets", part="data"),
        Kind(name="shards", title="shards", part="data", free=("--workers",)),
        Kind(name="stage", title="trunks and stages", part="pretraining", priority=10, free=_STOP),
        Kind(name="model", title="decays and exports", part="pretraining", priority=5, goal=True, free=_STOP),
        _TUNING,
        dataclasses.replace(_TUNING, name="pack", title="packed cells"),
        Kind(name="analysis", title="tables, claims, figures", part="analysis", goal=True, follows=True),
    ),
)  # fmt: skip
"""All kinds, in the order of a study. 3 is the exit code of `python -m benchmarks run` when some runs failed."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job of a workflow."""

    kind: Kind
    """What kind of job it is."""
    name: str
    """Its name within its kind: a stage, a model (also of a pack), or `model/dataset` of a cell."""
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
    """Memory on each node."""
    gpu_hours: float = 0.0
    """Estimated hours of one GPU; of one job without GPUs."""
    disk_bytes: float = 0.0
    """What it leaves on disk."""
    files: int = 0
    """Files and folders that it leaves there."""
    limit_hours: float = 20.0
    """Longest job the site allows."""
    lost: int = 2
    """How often it is started again when it ended without a sentence, as on a lost node."""

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
        """Which of `workflow.slurm_account.QUEUES` it belongs to."""
        return queue_name(self.nodes, self.gpus)

    @property
    def parts(self) -> int:
        """Jobs it takes in a row, each within the limit; every one but the last saves and stops."""
        return max(1, math.ceil(self.hours / self.limit_hours))

    @property
    def minutes(self) -> int:
        """Time to ask for, for one part: a quarter more than estimated, half an hour at least, the limit at most."""
        return max(1, round(60 * min(self.limit_hours, max(0.5, 1.25 * self.hours))))

    @property
    def margin_seconds(self) -> int:
        """How long before its time limit a job is asked to save itself: ten minutes, or a tenth of a short one."""
        return min(600, 6 * self.minutes)

    @property
    def log(self) -> str:
        """What its commands print, relative to the folder."""
        return f"logs/{self.kind.name}/{self.name.replace('/', '__')}.log"

    @property
    def refused(self) -> str:
        """The file that says a user's mistake ended it, so that starting it again would end the same way."""
        return self.log.removesuffix("log") + "refused"

    @property
    def stop(self) -> str:
        """The file that asks a stage to save and end: it reaches every rank, also inside images on other nodes."""
        return self.log.removesuffix("log") + "stop"

    @property
    def saved(self) -> str:
        """The file with a line for every job that met its time limit and left the stage further than before."""
        return self.log.removesuffix("log") + "saved"

    @property
    def crashed(self) -> str:
        """The file with a line for every time that it ended without a sentence and was started again."""
        return self.log.removesuffix("log") + "crashed"

    @property
    def attempts(self) -> str:
        """The file with a JSON line for every time that it ran and was not killed: seconds, GPUs, exit code."""
        return self.log.removesuffix("log") + "attempts.jsonl"

    @property
    def timings(self) -> str:
        """The file with a JSON line for every time that it ran to its end: CPU seconds of its commands."""
        return self.log.removesuffix("log") + "timings.jsonl"

    def is_complete(self, folder: Path) -> bool:
        """Return whether what it makes is all there."""
        return self.kind.complete([folder / path for path in self.makes])

    def has_failures(self, folder: Path) -> bool:
        """Return whether it is complete by what is recorded as failed."""
        return self.is_complete(folder) and not _all_there([folder / path for path in self.makes])


def marker(kind: str, name: str) -> str:
    """Return the marker of a job, relative to the folder."""
    return f"done/{kind}/{name}.json"


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """Jobs that wait for each other, and where they run."""

    target: str
    """What is made: `figure3`, `all`, a model, `miniature`."""
    jobs: dict[str, Job]
    """All jobs by marker, those that others wait for first."""
    image: str = ""
    """The image that jobs run in; this environment when empty."""
    binds: tuple[str, ...] = ()
    """Folders outside the workflow's that its jobs read; the image shows them."""
    queues: dict[str, dict[str, str]] = field(default_factory=dict)
    """What each of `workflow.slurm_account.QUEUES` asks Slurm for, by the names of Snakemake's resources."""
    gres: str = "gpu"
    """What Slurm calls a GPU."""
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

    @property
    def kinds(self) -> list[Kind]:
        """The kinds of its jobs, in the order of a study."""
        names = {job.kind.name for job in self.jobs.values()}
        return [kind for kind in KINDS.values() if kind.name in names]


def by_marker(jobs: Iterable[Job]) -> dict[str, Job]:
    """Return jobs by their markers."""
    return {job.marker: job for job in jobs}


def write_marker(job: Job, folder: Path) -> None:
    """Write a job's marker."""
    write_text(folder / job.marker, json.dumps({"kind": job.kind.name, "name": job.name}) + "\n")


def save(workflow: Workflow, folder: Path) -> None:
    """Write what `load` reads, unless it is there already."""
    values = {item.name: getattr(workflow, item.name) for item in dataclasses.fields(Workflow)}
    jobs = [_fields(job) for job in workflow.jobs.values()]
    text = json.dumps(values | {"jobs": jobs}, indent=1) + "\n"
    path = folder / WORKFLOW
    if not path.is_file() or path.read_text("utf-8") != text:
        write_text(path, text)


def load(folder: Path) -> Workflow:
    """Return the workflow of a folder."""
    values: dict[str, Any] = json.loads((folder / WORKFLOW).read_text("utf-8"))
    jobs = [Job(**{**job, "kind": KINDS[job["kind"]]}) for job in _tuples(values.pop("jobs"))]
    return Workflow(**{key: _tuples(value) for key, value in values.items()}, jobs=by_marker(jobs))


def _fields(job: Job) -> dict[str, Any]:
    """Return what of a job differs from the defaults."""
    values = {item.name: (getattr(job, item.name), item.default) for item in dataclasses.fields(Job)}
    changed = {key: value for key, (value, default) in values.items() if value != default}
    return changed | {"kind": job.kind.name}


def _tuples(value: Any) -> Any:
    """Return JSON's lists as tuples."""
    if isinstance(value, list):
        return tuple(_tuples(item) for item in value)
    return {key: _tuples(item) for key, item in value.items()} if isinstance(value, dict) else value
