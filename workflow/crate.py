"""A finished study as an RO-Crate: what its folder holds, with hashes, and the runs of the workflow that made it.

Follows Workflow Run RO-Crate 0.5 (with Process Run Crate and Workflow RO-Crate 1.0) on RO-Crate 1.1. The metadata are
plain JSON-LD in one file: they are written here, in place, from the standard library, so that a login node can do it
and nothing of hundreds of gigabytes is copied.
"""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.files import sha256_file, write_text
from common.locks import holder_of
from common.manifest import CRATE
from common.progress import progress
from common.provenance import ROOT, git_commit
from workflow.engine import LEASE, reconcile
from workflow.jobs import WORKFLOW, Job, load

__all__ = ["PARTS", "write_crate"]

PARTS = ("results", "analysis", "pretraining/models", "tokenizer", "logs")
"""Folders of a study that are archived; shards, training's checkpoints and Snakemake's own files are not."""

_SNAKEFILE = "Snakefile"
_PROFILES = "https://w3id.org/ro/wfrun"
_VERSION = "0.5"
_WORKFLOW_CRATE = "https://w3id.org/workflowhub/workflow-ro-crate/1.0"
_LANGUAGE = "https://w3id.org/workflowhub/workflow-ro-crate#snakemake"
_TERMS = {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}
Entity = dict[str, Any]


def write_crate(folder: Path, *, agent: str, licence: str) -> int:
    """Write `ro-crate-metadata.json` into a finished study's folder and return how many files it lists.

    Args:
        folder: the study's.
        agent: who ran it: a name, or an ORCID's address.
        licence: address of the licence of what is archived.

    Raises:
        UserError: no study is there, it is not finished, or a call works in it.
    """
    if holder := holder_of(folder / LEASE):
        raise UserError(f"a call works in {folder} ({holder}); archive the study when it has ended")
    workflow = load(folder)
    todo = reconcile(workflow, folder, change=False)
    if todo:
        raise UserError(
            f"{len(todo)} jobs of {folder} are not done, {todo[0].kind.name} {todo[0].name} first; finish the study, "
            "then archive it"
        )
    write_text(folder / _SNAKEFILE, (ROOT / "workflow" / _SNAKEFILE).read_text("utf-8"))
    paths = list(_files(folder))
    files = {
        path.relative_to(folder).as_posix(): _file(path, folder)
        for path in progress(paths, "hashing the study's files", unit="file")
    }
    newest = max(path.stat().st_mtime for path in paths if path.name != _SNAKEFILE)
    jobs = list(workflow.jobs.values())
    graph = _graph(folder, jobs, files, _date(newest), workflow.target, agent, licence)
    document = {"@context": ["https://w3id.org/ro/crate/1.1/context", _TERMS], "@graph": graph}
    write_text(folder / CRATE, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return len(files)


def _files(folder: Path) -> Iterator[Path]:
    """Yield what is archived, by name; links that lead elsewhere are not."""
    yield from sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in (".json", ".toml")
                      and path.name != CRATE and not path.name.startswith("."))  # fmt: skip
    yield folder / _SNAKEFILE
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


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).isoformat()


def _ids(names: Iterable[str]) -> list[Entity]:
    return [{"@id": name} for name in names]


def _entity(id_: str, kind: str, **more: Any) -> Entity:
    return {"@id": id_, "@type": kind, **more}


def _graph(
    folder: Path,
    jobs: Sequence[Job],
    files: dict[str, Entity],
    date: str,
    name: str,
    agent: str,
    licence: str,
) -> list[Entity]:
    profiles = [f"{_PROFILES}/{kind}/{_VERSION}" for kind in ("process", "workflow")] + [_WORKFLOW_CRATE]
    who = agent if agent.startswith("https://") else "#agent"
    made = [path for job in jobs for path in job.makes if path in files]
    tables = sorted(path for path in files if path.startswith("analysis/"))
    commit = git_commit()
    files[_SNAKEFILE] |= {
        "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow"],
        "name": "The study's workflow",
        "description": "Shards, pretraining, fine-tunings, tables and figures; its jobs are in workflow.json.",
        "programmingLanguage": {"@id": _LANGUAGE},
        "version": commit,
        "license": "https://spdx.org/licenses/Apache-2.0",
        "input": _ids(["#jobs"]),
        "output": _ids(["#results"]),
        "hasPart": _ids(["#package"]),
    }
    files[WORKFLOW]["exampleOfWork"] = {"@id": "#jobs"}
    works = [(one, one.split("/")[-2], one.split("/")[-1]) for one in profiles]
    return [
        _entity(CRATE, "CreativeWork", about={"@id": "./"},
                conformsTo=_ids(["https://w3id.org/ro/crate/1.1", _WORKFLOW_CRATE])),
        _entity("./", "Dataset", name=name, datePublished=date, license={"@id": licence}, conformsTo=_ids(profiles),
                description=f"A study of masked and causal language modelling for encoders (arXiv 2507.00994): {name}.",
                mainEntity={"@id": _SNAKEFILE}, hasPart=_ids([*files, "results/"]), mentions=_ids(["#study"])),
        *(_entity(one, "CreativeWork", name=title, version=version) for one, title, version in works),
        _entity(licence, "CreativeWork", name=licence.rsplit("/", 1)[-1]),
        _entity(who, "Person", name=agent),
        _entity(_LANGUAGE, "ComputerLanguage", name="Snakemake", url="https://snakemake.readthedocs.io",
                identifier="https://doi.org/10.1093/bioinformatics/bts480"),
        _entity("#package", "SoftwareApplication", name="clm-or-mlm", version=commit,
                url="https://arxiv.org/abs/2507.00994"),
        _entity("#jobs", "FormalParameter", additionalType="File", name="jobs", workExample={"@id": WORKFLOW},
                description="What runs, in which order, on what."),
        _entity("#results", "FormalParameter", additionalType="Dataset", name="results",
                workExample={"@id": "results/"}, description="The run store."),
        _entity("#study", "CreateAction", name=f"Run of {name}", agent={"@id": who}, instrument={"@id": _SNAKEFILE},
                description=f"{len(jobs)} jobs, {len(made)} of their files, by {commit}",
                startTime=_date(min((folder / path).stat().st_mtime for path in made)), endTime=date,
                actionStatus="http://schema.org/CompletedActionStatus", object=_ids([WORKFLOW]),
                result=_ids(["results/", *tables])),
        _entity("results/", "Dataset", name="Runs", exampleOfWork={"@id": "#results"},
                description="Scores of every fine-tuning, with how each was made (run.json)."),
        *files.values(),
    ]  # fmt: skip
