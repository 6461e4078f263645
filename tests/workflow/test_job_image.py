"""The image of a study's jobs before the first one, by a made-up Apptainer."""

import hashlib
import logging
import os
from pathlib import Path

import pytest

from common.errors import UserError
from common.provenance import git_commit
from container.machine import Machine
from tests.commands import program
from workflow.job_image import check_image
from workflow.jobs import Workflow

CONTENT = bytes(32) + b"SIF_MAGIC"


@pytest.fixture
def study(tmp_path: Path) -> Workflow:
    """A workflow whose image answers what the file `said` holds; it is signed with the key `good.pem` alone."""
    (tmp_path / "full.sif").write_bytes(CONTENT)
    answers = f'case "$*" in verify*good.pem*) ;; verify*) exit 1;; run*) cat {tmp_path}/said;; esac'
    program(tmp_path / "apptainer", answers)
    (tmp_path / "said").write_text(f"full {git_commit()}\n")
    return Workflow(target="all", jobs={}, image=str(tmp_path / "full.sif"))


def _checked(study: Workflow, key: str = "") -> Workflow:
    folder = Path(study.image).parent
    path = f"{folder}:/usr/bin:/bin"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path)
        machine = Machine(environ=os.environ | {"CLM_OR_MLM_SCRATCH": str(folder), "PATH": path})
        return check_image(study, folder / "study", key=key, machine=machine)


def test_its_hash_and_commit_are_noted_and_another_commit_is_a_warning(
    study: Workflow, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found = _checked(study, key="good.pem")
    assert (found.image_sha256, found.image_commit) == (hashlib.sha256(CONTENT).hexdigest(), git_commit())
    assert not caplog.messages
    (tmp_path / "said").write_text("full abc\n")
    assert _checked(study).image_commit == "abc"
    assert caplog.messages == [f"jobs run the image's commit abc, not this checkout's {git_commit()}"]


@pytest.mark.parametrize(
    ("said", "key", "sentence"),
    [
        ("analysis abc", "", r"is the analysis image; .*make image-full"),
        ("hello", "", "cannot be started here"),
        ("full abc", "other.pem", "is not signed with the key other.pem"),
    ],
)
def test_another_image_is_refused(
    study: Workflow, tmp_path: Path, said: str, key: str, sentence: str
) -> None:
    (tmp_path / "said").write_text(f"{said}\n")
    with pytest.raises(UserError, match=rf"full\.sif .*{sentence}"):
        _checked(study, key=key)


def test_without_an_image_nothing_is_started(tmp_path: Path) -> None:
    workflow = Workflow(target="all", jobs={})
    assert check_image(workflow, tmp_path) is workflow
