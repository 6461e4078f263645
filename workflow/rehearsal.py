"""Before the first job: is the image what it should be, does it start, and do the commands understand their words?

The image is started once, here, and its own `clm_or_mlm.rehearse` answers for it: which image and commit it holds, and
what is wrong with any command of the study. Without an image this Python answers, which is what jobs would run by.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

from common.errors import UserError
from common.files import sha256_file
from common.provenance import ROOT, git_commit
from container.machine import Machine
from container.runtime import answer, runtime_of, stream
from workflow.jobs import Workflow

__all__ = ["places_of", "rehearsed"]

log = logging.getLogger(__name__)

_HEADS = {".sif": (32, b"SIF_MAGIC"), ".tar": (257, b"ustar")}
"""Where in an image file stands what its kind is known by."""


def rehearsed(workflow: Workflow, folder: Path, *, key: str = "", machine: Machine | None = None) -> Workflow:
    """Return the workflow with what its image is, after its commands have been tried.

    Args:
        workflow: the jobs.
        folder: where they will work.
        key: public key that the image must be signed with; empty: any image will do.
        machine: this one.

    Raises:
        UserError: the image cannot be used, or a job would refuse its own command; one sentence for each mistake.
    """
    here = machine or Machine()
    commands = json.dumps([words for job in workflow.jobs.values() for words in job.commands])
    if not workflow.image:
        said = _by_this_python(commands)
    else:
        image = Path(workflow.image)
        sha256 = _read(image, key)
        if here.which(*runtime_of(image).programs) is None:
            name = runtime_of(image).name
            log.warning("%s is not on PATH here, so %s was not tried; the first job will try it", name, image)
            return replace(workflow, image_sha256=sha256)
        # A job works in the study's folder and so sees it; this call is made from elsewhere.
        own = [str(folder.resolve())] if folder.is_dir() else []
        binds = [*own, *places_of(workflow, folder, here)]
        said = json.loads(answer(image, ["clm_or_mlm.rehearse"], commands, binds, here).splitlines()[-1])
        if said["image"] != "full":
            raise UserError(
                f"{image} is the {said['image'] or '?'} image; jobs need the full one: make image-full"
            )
        if said["commit"] != git_commit():
            log.warning(
                "jobs run the image's commit %s, not this checkout's %s", said["commit"], git_commit()
            )
        workflow = replace(workflow, image_sha256=sha256, image_commit=said["commit"])
    if found := said["mistakes"]:
        rest = "".join(f"\nerror: {sentence}" for sentence in found[1:])
        raise UserError(f"{found[0]}{rest}")
    return workflow


def _by_this_python(commands: str) -> Any:
    words = [sys.executable, "-m", "clm_or_mlm.rehearse"]
    done = subprocess.run(words, input=commands, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise UserError(f"the study's commands cannot be tried here: {last.removeprefix('error: ')}")
    return json.loads(done.stdout.splitlines()[-1])


def _read(image: Path, key: str) -> str:
    """Return the SHA-256 of an image file that is one by its first bytes and, with a key, by its signature."""
    at, head = _HEADS[runtime_of(image).suffix]
    with image.open("rb") as file:
        if file.read(at + len(head))[at:] != head:
            raise UserError(
                f"{image} is not a valid image file; copy it here again, or build it: make image-full"
            )
    if key:
        try:
            list(stream(["verify", "--key", key, str(image)]))
        except UserError:
            raise UserError(
                f"{image} is not signed with the key {key}; use the signed image or remove image_key"
            ) from None
    return sha256_file(image)


def places_of(workflow: Workflow, folder: Path, machine: Machine) -> list[str]:
    """Return the folders outside a study's that an image shows, of those that exist here."""
    places = (Template(place).safe_substitute(machine.environ) for place in workflow.binds)
    there = [place for place in places if Path(place.split(":")[0]).exists()]
    return [place for place in there if not Path(place).is_relative_to(folder)]
