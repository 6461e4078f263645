"""A study that is about to start, and where: what every check before a start looks at (`workflow.doctor`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from common.files import nearest_existing, sha256_file, written
from container.check_lines import CheckLine, fail, warn
from container.machine import Machine
from container.runtime import identity_of, program_of
from pretraining.plan.study_plan import Study
from workflow.engine import Profile
from workflow.jobs import Workflow
from workflow.study import models_of, study_of
from workflow.study_settings import StudySettings


@dataclass(frozen=True, kw_only=True)
class Start:
    """A study's start. Without jobs no study is planned, and only the machine is checked."""

    folder: Path
    """The study's folder."""
    settings: StudySettings = field(default_factory=StudySettings)
    """The study's settings."""
    workflow: Workflow = field(default_factory=lambda: Workflow(target="", jobs={}))
    """The study's jobs."""
    profile: Profile = "local"
    """Where the jobs run."""
    machine: Machine = field(default_factory=Machine)
    """The machine that the command is called on."""
    images: tuple[Path, ...] = ()
    """Image files to try on this machine, beside the image of the jobs."""

    @property
    def is_planned(self) -> bool:
        """Whether a study is planned; else only the machine is checked."""
        return bool(self.workflow.jobs)

    @cached_property
    def study(self) -> Study:
        """The study that the settings name, with their `pretraining_settings`."""
        return study_of(self.settings)

    @property
    def sizes(self) -> list[str]:
        """The sizes of the models that the jobs make, each once."""
        models = models_of(self.workflow.target, self.study)
        return list(dict.fromkeys(model.size for model in models))

    @property
    def place(self) -> Path:
        """The study's folder; before it is made, the nearest folder above it that exists."""
        return nearest_existing(self.folder.resolve())

    def fault(self, what: str, sentence: str) -> CheckLine:
        """Return a line on what is wrong with this machine: a failure where jobs run here, else a warning.

        Args:
            what: the thing that was looked at.
            sentence: what was seen and, after a semicolon, what to do.
        """
        return (fail if self.profile == "local" else warn)(what, sentence)

    @cached_property
    def identity(self) -> tuple[str, str]:
        """The name of the jobs' image and the commit of its code, as the image answers when it is started.

        It is started as jobs start it, with the same folders shown.

        Raises:
            UserError: the image cannot be started here.
        """
        places = self.workflow.places(self.folder, self.machine.environ)
        if self.folder.is_dir():
            # A job sees the study's folder because it works there; this call works elsewhere, so the folder is added.
            places = [str(self.folder.resolve()), *places]
        return identity_of(Path(self.workflow.image), places, self.machine)

    def workflow_with_image(self) -> Workflow:
        """Return the workflow with what is known of its image: hash, size and time of the file, and commit of the code.

        By these, jobs see later whether the image file has changed. Without an image the workflow stays as it is.
        """
        image = Path(self.workflow.image)
        if not self.workflow.image:
            return self.workflow
        # Without Apptainer here, as on some login nodes, the image cannot be asked for its commit, the second value of
        # `identity`.
        return replace(
            self.workflow,
            image_sha256=sha256_file(image),
            image_written=written(image),
            image_commit=self.identity[1] if program_of(self.machine) else "",
        )


Check = Callable[[Start], Iterator[CheckLine]]
"""A check looks at one thing of a start, and yields a line where something is wrong or worth knowing."""
