"""The image that jobs run in, before the first of them: is it what it should be, and does it start?"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from string import Template

from common.errors import UserError
from common.files import sha256_file
from common.provenance import git_commit
from container.machine import Machine
from container.runtime import check_name, identity_of, program_of, stream
from workflow.jobs import Workflow

__all__ = ["check_image", "places_of"]

log = logging.getLogger(__name__)


def check_image(
    workflow: Workflow, folder: Path, *, key: str = "", machine: Machine | None = None
) -> Workflow:
    """Return the workflow with its image's hash and commit, after the image has been started; as it is without one.

    Args:
        workflow: the jobs.
        folder: where they will work.
        key: public key that the image must be signed with; empty: any image will do.
        machine: this one.

    Raises:
        UserError: the image cannot be used.
    """
    if not workflow.image:
        return workflow
    here, image = machine or Machine(), Path(workflow.image)
    if not image.is_file():
        raise UserError(f"{image} does not exist; build it (make image-full) or leave --image out")
    sha256 = _read(image, key)
    if program_of(here) is None:
        log.warning("apptainer is not on PATH here, so %s was not tried; the first job will try it", image)
        return replace(workflow, image_sha256=sha256)
    # A job works in the study's folder and so sees it; this call is made from elsewhere.
    own = [str(folder.resolve())] if folder.is_dir() else []
    name, commit = identity_of(image, [*own, *places_of(workflow, folder, here)], here)
    if name != "full":
        raise UserError(f"{image} is the {name} image; jobs need the full one: make image-full")
    if commit != git_commit():
        log.warning("jobs run the image's commit %s, not this checkout's %s", commit, git_commit())
    return replace(workflow, image_sha256=sha256, image_commit=commit)


def _read(image: Path, key: str) -> str:
    """Return the SHA-256 of an image file that is one by its first bytes and, with a key, by its signature."""
    check_name(image)
    with image.open("rb") as file:
        if file.read(41)[32:] != b"SIF_MAGIC":
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
