"""The image of a study's jobs before the first one, by a made-up Apptainer."""

import hashlib
import os
from pathlib import Path

import pytest

from common.provenance import git_commit
from container.check_lines import CheckLine
from container.machine import Machine
from tests.commands import program
from workflow.jobs import Workflow
from workflow.study_checks import check_image

CONTENT = bytes(32) + b"SIF_MAGIC"


@pytest.fixture
def study(tmp_path: Path) -> Workflow:
    """A workflow whose image answers what the file `said` holds; it is signed with the key `good.pem` alone."""
    (tmp_path / "full.sif").write_bytes(CONTENT)
    answers = f'case "$*" in verify*good.pem*) ;; verify*) exit 1;; run*) cat {tmp_path}/said;; esac'
    program(tmp_path / "apptainer", answers)
    (tmp_path / "said").write_text(f"full {git_commit()}\n")
    return Workflow(target="all", jobs={}, image=str(tmp_path / "full.sif"))


def _checked(study: Workflow, key: str = "") -> tuple[Workflow, CheckLine]:
    folder = Path(study.image).parent
    path = f"{folder}:/usr/bin:/bin"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path)
        machine = Machine(environ=os.environ | {"CLM_OR_MLM_SCRATCH": str(folder), "PATH": path})
        found, (line,) = check_image(study, folder / "study", key=key, machine=machine)
    return found, line


def test_its_hash_and_commit_are_noted_and_another_commit_is_a_warning(
    study: Workflow, tmp_path: Path
) -> None:
    found, line = _checked(study, key="good.pem")
    assert (found.image_sha256, found.image_commit) == (hashlib.sha256(CONTENT).hexdigest(), git_commit())
    assert line.status == "ok"
    (tmp_path / "said").write_text("full abc\n")
    found, line = _checked(study)
    assert found.image_commit == "abc"
    said = f"jobs run the image's commit abc, not this checkout's {git_commit()}"
    assert (line.status, line.sentence) == ("warn", said)


@pytest.mark.parametrize(
    ("said", "key", "sentence"),
    [
        ("analysis abc", "", "is the analysis image; jobs need the full one: make image-full"),
        ("hello", "", "cannot be started here"),
        ("full abc", "other.pem", "is not signed with the key other.pem"),
    ],
)
def test_another_image_is_refused(
    study: Workflow, tmp_path: Path, said: str, key: str, sentence: str
) -> None:
    (tmp_path / "said").write_text(f"{said}\n")
    line = _checked(study, key=key)[1]
    assert line.status == "fail" and "full.sif " in line.sentence and sentence in line.sentence


def test_without_an_image_nothing_is_started(tmp_path: Path) -> None:
    workflow = Workflow(target="all", jobs={})
    assert check_image(workflow, tmp_path) == (workflow, [])
