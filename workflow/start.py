"""What is about to start and where: the one thing that all checks before a start look at (`workflow.doctor`)."""

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
    """A study's start; without jobs, whatever may be started on a machine."""

    folder: Path
    """The study's."""
    settings: StudySettings = field(default_factory=StudySettings)
    """The study's."""
    workflow: Workflow = field(default_factory=lambda: Workflow(target="", jobs={}))
    """Its jobs."""
    profile: Profile = "local"
    """Where they run."""
    machine: Machine = field(default_factory=Machine)
    """The machine that it is called on."""
    images: tuple[Path, ...] = ()
    """Images that are to start here, beside that of the jobs."""

    @property
    def is_planned(self) -> bool:
        """Whether there is a study, and not only a machine."""
        return bool(self.workflow.jobs)

    @cached_property
    def study(self) -> Study:
        """What its settings name, trained as they say."""
        return study_of(self.settings)

    @property
    def sizes(self) -> list[str]:
        """The sizes of the models that its jobs make, each once."""
        models = models_of(self.workflow.target, self.study)
        return list(dict.fromkeys(model.size for model in models))

    @property
    def place(self) -> Path:
        """The study's folder, or on the first day the nearest above it that is there."""
        return nearest_existing(self.folder.resolve())

    def fault(self, what: str, sentence: str) -> CheckLine:
        """Return a line on what is wrong with this machine: a failure only where jobs run here."""
        return (fail if self.profile == "local" else warn)(what, sentence)

    @cached_property
    def identity(self) -> tuple[str, str]:
        """The name and the commit that the jobs' image says of itself, started as jobs start it.

        Raises:
            UserError: it cannot be started here.
        """
        places = self.workflow.places(self.folder, self.machine.environ)
        if self.folder.is_dir():
            # A job sees the study's folder because it works there; this call works elsewhere, so the folder is added.
            places = [str(self.folder.resolve()), *places]
        return identity_of(Path(self.workflow.image), places, self.machine)

    def workflow_with_image(self) -> Workflow:
        """Return the workflow with its image's hash, and the commit of its code where it can be started here."""
        image = Path(self.workflow.image)
        if not self.workflow.image:
            return self.workflow
        return replace(
            self.workflow,
            image_sha256=sha256_file(image),
            image_written=written(image),
            image_commit=self.identity[1] if program_of(self.machine) else "",
        )


Check = Callable[[Start], Iterator[CheckLine]]
"""Looks at one thing; yields a line where something is wrong or worth knowing, with what to do."""
