"""The commands of `python -m container`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from common.errors import UserError
from container import build as images
from container import doctor as machine
from container import verify as verification
from container.apptainer import launch, stream
from container.build import IMAGES
from workflow.settings import load_settings
from workflow.slurm.site_check import check_site
from workflow.study import workflow_of

__all__ = ["build", "doctor", "pass_on", "run", "test", "verify"]

WORD = "--inside-word"
"""The hidden option of `run` that carries the words of the command inside the image, options included."""


def pass_on(argv: Sequence[str]) -> list[str]:
    """Return the words with those after the image of `run` as values of the hidden option."""
    words = list(argv)
    if words[:1] != ["run"]:
        return words
    image = 1
    while image < len(words) and words[image].startswith("-"):
        image += 2 if words[image] == "--bind" else 1
    inside = words[image + 1 :]
    inside = inside[1:] if inside[:1] == ["--"] else inside
    return [*words[: image + 1], *(f"{WORD}={word}" for word in inside)]


def build(
    image: str,
    /,
    *,
    mirror: Annotated[str | None, Parameter(metavar="URL")] = None,
    relock: bool = False,
) -> None:
    """Build an image into build/; the old one stays until the new one is whole.

    Args:
        image: analysis or full
        mirror: Debian mirror ({snapshot} is replaced by the date)
        relock: record the Debian packages the mirror has today
    """
    path = images.build(IMAGES[image], mirror=mirror, relock=relock)
    sys.stdout.write(f"{path}  {path.stat().st_size / 1e6:.0f} MB\n")


def run(
    image: str,
    /,
    *,
    bind: Annotated[tuple[str, ...], Parameter(metavar="DIR")] = (),
    words: Annotated[tuple[str, ...], Parameter(name=WORD, show=False)] = (),
) -> None:
    """Run a room in an image with nothing of the user's leaking in.

    example: python -m container run analysis reproduce-figure3 --source published

    Args:
        image: analysis, full, or an image file; its command follows
        bind: another folder to show inside (may be repeated)
    """
    file = Path(image)
    path = file if file.suffix == ".sif" else IMAGES[image].path
    launch(path.resolve(), words, bind)


def test(image: str, /) -> None:
    """Run an image's own test: imports, a figure, training.

    Args:
        image: analysis or full
    """
    path = IMAGES[image].path
    if not path.is_file():
        raise UserError(f"{path} does not exist; build it: python -m container build {image}")
    for line in stream(["test", "--no-home", "--cleanenv", str(path)]):
        sys.stdout.write(line)


def verify(image: str, /, *, file: Annotated[Path | None, Parameter(metavar="FILE")] = None) -> int:
    """Compare an image with its record, the locks and the commit; exit code 1 when it is another one.

    Args:
        image: analysis or full
        file: the image file (build/IMAGE.sif)
    """
    findings = verification.verify(IMAGES[image], file)
    sys.stdout.write(verification.report(findings))
    return int(any(finding.problems and finding.fatal for finding in findings))


def doctor(
    *,
    study: Annotated[Path, Parameter(metavar="DIR")] = Path(),
    site: Annotated[str, Parameter(metavar="NAME|FILE")] = "",
    settings: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    target: str = "figure3",
) -> int:
    """Find wrong site settings before a job is submitted; exit code 1 when jobs would fail.

    Args:
        study: folder the study will be in
        site: check this site's profile too, by what Slurm answers on this login node
        settings: the study's settings (TOML), which may name the site
        target: what will be run, for --site and --settings
    """
    answers = machine.examine(study)
    if site or settings is not None:
        values = load_settings(settings, site)
        answers += check_site(values, workflow_of(target, values))
    sys.stdout.write(machine.report(answers))
    return int(any(answer.status == "fail" for answer in answers))
