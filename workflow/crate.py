"""A finished study as an RO-Crate: what its folder holds, with hashes, and the jobs that made it.

Follows Process Run Crate 0.5 on RO-Crate 1.1. By what, in which image, where and when a job ran is what it wrote down
itself (`workflow.attempts`): true in a copy and by any checkout. The metadata are plain JSON-LD in one file, written in
place from the standard library: a login node can do it and nothing of hundreds of gigabytes is copied.
"""

from __future__ import annotations

import json
import mimetypes
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from common.errors import UserError
from common.files import sha256_file, write_text
from common.locks import holder_of
from common.manifest import CRATE
from common.plain_text import counted
from common.progress import progress
from workflow.attempts import Attempt, attempts_in
from workflow.engine import LEASE, reconcile
from workflow.jobs import Job, Workflow, load

PARTS = ("results", "analysis", "pretraining/models", "tokenizer", "logs")
"""Folders of a study that are archived; shards, training's checkpoints and Snakemake's own files are not."""

_PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
_RUN_TERMS = "https://w3id.org/ro/terms/workflow-run#"
_TERMS = {name: _RUN_TERMS + name for name in ("sha256", "containerImage", "ContainerImage", "SIFImage")}
Entity = dict[str, Any]


def write_crate(folder: Path, *, agent: str, licence: str, mixed: bool = False) -> int:
    """Write `ro-crate-metadata.json` into a finished study's folder and return how many files it lists.

    Args:
        folder: the study's.
        agent: who ran it: a name, or an ORCID's address.
        licence: address of the licence of what is archived.
        mixed: archive it although its jobs ran by several commits or images.

    Raises:
        UserError: no study is there, it is not finished, a call works in it, or it is a mixture.
    """
    if holder := holder_of(folder / LEASE):
        raise UserError(f"another process is using {folder} ({holder}); archive it after that process ends")
    workflow = load(folder)
    todo = reconcile(workflow, folder, change=False)
    if todo:
        raise UserError(
            f"{folder} has {counted(len(todo), 'unfinished job')} (the first: {todo[0].kind.name} {todo[0].name}); "
            "finish the study before archiving it"
        )
    paths = list(_files(folder))
    files = {
        path.relative_to(folder).as_posix(): _file(path, folder)
        for path in progress(paths, "hashing the study's files", unit="file")
    }
    jobs = list(workflow.jobs.values())
    runs = {job.marker: last for job in jobs if (last := _last(job, folder))}
    origins = Counter((run.commit, run.image_sha256) for run in runs.values())
    if len(origins) > 1 and not mixed:
        which = ", ".join(
            f"{count} with commit {commit[:12]}{f' in image {image[:12]}' if image else ''}"
            for (commit, image), count in origins.most_common()
        )
        raise UserError(
            f"jobs in {folder} used different code or images: {which}; rerun them with a single commit and image, or "
            "archive with --mixed"
        )
    newest = int(max(path.stat().st_mtime for path in paths))
    date = max((run.end for run in runs.values()), default=datetime.fromtimestamp(newest, UTC).isoformat())
    graph = _graph(workflow, runs, files, date, agent, licence)
    document = {"@context": ["https://w3id.org/ro/crate/1.1/context", _TERMS], "@graph": graph}
    write_text(folder / CRATE, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return len(files)


def _last(job: Job, folder: Path) -> Attempt | None:
    """Return the attempt that ended a job well, from the start of its first; None for what came here complete."""
    attempts = [attempt for attempt in attempts_in(folder / job.attempts) if attempt.end]
    ended_well = [attempt for attempt in attempts if attempt.code in job.kind.accepted]
    start = min((attempt.start for attempt in attempts), default="")
    return replace(ended_well[-1], start=start) if ended_well else None


def _files(folder: Path) -> Iterator[Path]:
    """Yield what is archived, by name; links that lead elsewhere are not."""
    yield from sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in (".json", ".toml")
                      and path.name != CRATE and not path.name.startswith("."))  # fmt: skip
    for part in PARTS:
        found = (path for path in (folder / part).rglob("[!.]*") if path.is_file())
        yield from sorted(path for path in found if path.resolve().is_relative_to(folder.resolve()))


def _file(path: Path, folder: Path) -> Entity:
    media = mimetypes.guess_type(path.name)[0]
    return {
        "@id": path.relative_to(folder).as_posix(),
        "@type": "File",
        "name": path.name,
        "contentSize": str(path.stat().st_size),
        "sha256": sha256_file(path),
        **({"encodingFormat": media} if media else {}),
    }


def _ids(names: Iterable[str]) -> list[Entity]:
    return [{"@id": name} for name in names]


def _entity(id_: str, kind: str, **more: Any) -> Entity:
    return {"@id": id_, "@type": kind, **more}


def _graph(
    workflow: Workflow,
    runs: Mapping[str, Attempt],
    files: dict[str, Entity],
    date: str,
    agent: str,
    licence: str,
) -> list[Entity]:
    who, name = agent if agent.startswith("https://") else "#agent", workflow.target
    details = list(_of_jobs(workflow, runs, files, who))
    actions = [row["@id"] for row in details if row["@type"] == "CreateAction"]
    return [
        _entity(CRATE, "CreativeWork", about={"@id": "./"}, conformsTo=_ids(["https://w3id.org/ro/crate/1.1"])),
        _entity("./", "Dataset", name=name, datePublished=date, license={"@id": licence}, conformsTo=_ids([_PROFILE]),
                description=f"A study of masked and causal language modelling for encoders (arXiv 2507.00994): {name}.",
                hasPart=_ids(files), mentions=_ids(actions)),
        _entity(_PROFILE, "CreativeWork", name="Process Run Crate", version=_PROFILE.rsplit("/", 1)[-1]),
        _entity(licence, "CreativeWork", name=licence.rsplit("/", 1)[-1]),
        _entity(who, "Person", name=agent),
        *details,
        *files.values(),
    ]  # fmt: skip


def _of_jobs(
    workflow: Workflow, runs: Mapping[str, Attempt], files: Mapping[str, Entity], who: str
) -> Iterator[Entity]:
    """Yield a tool for each kind of job, the images that jobs ran in, and an action for each job."""
    ran = [job for job in workflow.jobs.values() if job.marker in runs]
    commits = ", ".join(sorted({run.commit for run in runs.values()}))
    for kind in dict.fromkeys(job.kind for job in ran):
        yield _entity(f"#tool-{kind.name}", "SoftwareApplication", name=kind.title, softwareVersion=commits,
                      url="https://arxiv.org/abs/2507.00994")  # fmt: skip
    for digest in sorted({run.image_sha256 for run in runs.values()} - {""}):
        yield _entity(f"#image-{digest}", "ContainerImage", name="full", sha256=digest,
                      additionalType={"@id": f"{_RUN_TERMS}SIFImage"})  # fmt: skip
    for job in ran:
        run = runs[job.marker]
        image = {"containerImage": {"@id": f"#image-{run.image_sha256}"}} if run.image_sha256 else {}
        slurm = f", Slurm job {run.slurm}" if run.slurm else ""
        name = f"{job.kind.name} {job.name}"
        yield _entity(f"#job/{quote(f'{job.kind.name}/{job.name}')}", "CreateAction", name=name,
                      startTime=run.start, endTime=run.end, instrument={"@id": f"#tool-{job.kind.name}"},
                      agent={"@id": who}, actionStatus="http://schema.org/CompletedActionStatus",
                      description=f"commit {run.commit} on {run.node}{slurm}",
                      result=_ids(path for path in job.makes if path in files), **image)  # fmt: skip
