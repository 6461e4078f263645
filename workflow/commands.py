"""Run a study as jobs: shards, pretraining, fine-tuning, tables and figures; check a site."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from common.errors import UserError
from common.settings import describe_settings
from container.check_lines import CheckLine, refuse, report_lines
from container.image import IMAGES, Image
from workflow import engine
from workflow.doctor import examine
from workflow.engine import Profile, run_workflow
from workflow.jobs import Job
from workflow.slurm_queue import ENDS, Queue, allocation_seconds
from workflow.slurm_submit import Submission
from workflow.start import Start
from workflow.study import place_stand_ins, study_of, workflow_of
from workflow.study_checks import sample_of
from workflow.study_progress import StudyProgress, progress_of, shortages
from workflow.study_settings import StudySettings, load_settings

_NOT_ALL_DONE = 3
"""Exit code of a study in which some jobs are not done."""
_SOON_MINUTES = 15
"""Minutes to the end of the user's own Slurm job in which a study cannot go on: more than a job leaves for saving."""
_SHOWN = 5
"""Most failures that are printed before a command's last line; `status` prints all."""


def study(
    target: str,
    /,
    *,
    profile: Profile = "local",
    dir_: Annotated[Path, Parameter(name="--dir")] = Path("build/study"),
    settings: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    site: Annotated[str, Parameter(metavar="FILE", show_default=False)] = "",
    image: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    dry_run: bool = False,
    retry_failed: bool = False,
) -> int:
    """Run a study as jobs: shards, pretraining, fine-tuning, tables and figures.

    Rerun the same command to resume a study; finished jobs are not repeated. With --profile slurm the jobs are
    submitted, each to start after those that it needs, and the command ends.

    examples:
      clm-or-mlm workflow figure3 --dry-run
      clm-or-mlm workflow figure3 --profile slurm --dir /scratch/me/study --settings mine.toml
      clm-or-mlm workflow all --settings miniature/smallest/settings.toml        a made-up study that takes minutes
      clm-or-mlm workflow settings                    every setting, its default and its meaning
      clm-or-mlm workflow status --dir /scratch/me/study

    exit code: 0 all jobs are done, or submitted; 3 some jobs are not done

    Args:
        target: what to make: figureN, tableN, all or a model; `settings` lists the settings instead
        profile: where jobs run
        dir_: the study's folder
        settings: settings file (TOML; default: the paper's settings)
        site: your cluster's file (TOML), in place of the one that the settings name
        image: image for the jobs (default: this environment, or build/full.sif if the site limits the number of files)
        dry_run: print jobs, GPU hours and disk space, ask Slurm if it would accept the jobs, and stop
        retry_failed: repeat runs that are recorded as failed
    """
    if target == "settings":
        sys.stdout.write(describe_settings(StudySettings()))
        return 0

    folder = dir_.resolve()
    values = load_settings(settings, site)
    workflow = workflow_of(target, values, _image(values, image))

    # A dry run lists all checks; a start is refused at the first that fails. `announce` prints `lines`.
    start = Start(folder=folder, settings=values, workflow=workflow, profile=profile)
    lines = list(examine(start)) if dry_run else refuse(examine(start))
    if not dry_run:
        # Jobs compare their image with what is recorded of it here; a dry run starts no jobs.
        workflow = start.workflow_with_image()

    # `run_workflow` calls this with the jobs to do and Slurm's queue, before any job starts.
    def announce(todo: list[Job], queue: Queue) -> None:
        progress = StudyProgress(
            workflow=workflow, folder=folder, todo=tuple(todo), live=queue.live
        )
        sys.stdout.write(progress.text())
        sys.stdout.writelines(_about_the_site(values, progress))
        sys.stdout.writelines(_warnings(lines))
        sys.stdout.flush()
        if not dry_run:
            # A study's list of the models that stand in for the paper's: tables read it beside the runs table.
            place_stand_ins(values, folder, target)

    result = run_workflow(
        workflow,
        folder,
        profile=profile,
        announce=announce,
        dry_run=dry_run,
        retry_failed=retry_failed,
    )
    if isinstance(result, Submission):  # jobs were submitted to Slurm
        more = ""
        # `left` has the jobs that wait for a place in the queue; one more job on Slurm submits these later.
        if result.left:
            more = f", {len(result.left)} wait for a place in Slurm's queue"
        sys.stdout.write(
            f"{len(result.numbers)} jobs submitted{more}; clm-or-mlm workflow status --dir {folder} shows them, "
            f"clm-or-mlm cancel --dir {folder} ends them\n"
        )
        return 0

    if not result:  # run here, and some jobs are not done
        _report_left(folder)
        return _NOT_ALL_DONE

    if not dry_run:
        sys.stdout.write(f"all done; tables and figures are in {folder / 'analysis'}\n")
    return 0


def _warnings(lines: list[CheckLine]) -> Iterator[str]:
    """Yield a sentence for each check that failed, then for each that warns."""
    for line in lines:
        if line.status == "fail":
            yield f"warning: {line.sentence} (the start refuses this)\n"
    for line in lines:
        if line.status == "warn":
            yield f"warning: {line.sentence}\n"


def _report_left(folder: Path) -> None:
    """Print what failed, where its logs are, and how to resume the study."""
    remedy = "rerun the command to finish"
    # Under a scheduler, an allocation that ends soon leaves no time to rerun the command in it.
    # Where no allocation or no end of it is known, infinitely many seconds are left, and nothing is said of it.
    # The second value, the allocation's whole length, does not matter here.
    seconds_left, _ = allocation_seconds(os.environ)
    minutes = seconds_left / 60
    if minutes < _SOON_MINUTES:
        number = os.environ.get("SLURM_JOB_ID")
        # Outside Slurm, the user's own script has set the variable `ENDS`.
        what, again = f"this job (${ENDS})", ""
        if number:
            what, again = f"Slurm job {number}", " (sbatch)"
        remedy += f"; {what} ends in {minutes:.0f} min, so submit it again{again}"

    # The last line below is printed even where the progress cannot be read.
    with contextlib.suppress(UserError):
        for line in progress_of(folder).failures()[:_SHOWN]:
            sys.stderr.write(f"{line}\n")

    sys.stderr.write(
        f"error: some jobs are not done; logs are in {folder / 'logs'}; {remedy}\n"
    )


def _about_the_site(values: StudySettings, progress: StudyProgress) -> Iterator[str]:
    """Yield lines on what a study's jobs cost at its site, and how much text they take."""
    if values.gpus_per_node:
        left_out = ""
        # Hours on an MI250X follow from the paper's hours on many nodes, which include the time in which nodes sum
        # gradients (docs/hpc.md). For other devices this time is added only where `network_gb` says how fast they do.
        includes_network = values.device == "MI250X" or bool(values.network_gb)
        if values.nodes > 1 and not includes_network:
            left_out = " without the time in which nodes sum gradients (network_gb)"
        yield (
            f"hours are estimates for stages on {values.nodes} x {values.gpus_per_node} {values.device}{left_out}; "
            "describe your own site in --settings FILE\n"
        )

    # The `gpu_hours` of a job without GPUs are hours of the job, which are left out here.
    if values.billed != 1:
        hours = values.billed * sum(job.gpu_hours for job in progress.todo if job.gpus)
        yield f"the site bills {hours:,.0f} hours for these, {values.billed:g} per GPU hour\n"

    # `job.tokens` is 0 where any number of tokens will do. FineWeb-Edu is the paper's text, so its samples are
    # named only for the paper's study, for which the setting `study` is empty.
    for job in progress.workflow.of_kind("shards"):
        if job.tokens and not values.study:
            yield f"text: {job.tokens / 1e9:.1f} B tokens, of FineWeb-Edu {sample_of(job.tokens)}\n"


def _image(values: StudySettings, given: Path | None) -> str:
    """Return the image file that jobs run in; empty: they run in this environment.

    It is the one that the command line gives; without one, `build/full.sif` if the site limits the number of files.
    """
    # Path turns docker://x into docker:/x: undo that to recognise an address.
    word = str(given or "").replace(":/", "://", 1)
    if "://" in word:
        raise UserError(
            f"--image {word} is an address; give an image file (.sif), such as make image-full builds"
        )
    if given is None and values.counts_files:
        given = Image(name="full").path
    return "" if given is None else str(given.resolve())


def status(
    *, dir_: Annotated[Path, Parameter(name="--dir")] = Path("build/study")
) -> int:
    """Show a study's progress: jobs done, running, queued and failed, hours used, and hours left.

    exit code: 0 all jobs are done; 3 some jobs failed and no process is running the study; 4 otherwise

    example: clm-or-mlm workflow status --dir /scratch/me/study

    Args:
        dir_: the study's folder
    """
    progress = progress_of(dir_.resolve())
    sys.stdout.write(progress.text())
    for line in shortages(progress):
        sys.stdout.write(f"warning: {line}\n")
    is_left = progress.code != 0
    if progress.caller:
        sys.stdout.write(f"{progress.caller} is running it\n")
    # Jobs may run on Slurm: in its queue (`live`), or unknown since the queue cannot be read (`unseen`).
    elif is_left and not progress.live and not progress.unseen:
        sys.stdout.write("nothing is running it; rerun the command to resume\n")
    return progress.code


def cancel(
    *, dir_: Annotated[Path, Parameter(name="--dir")] = Path("build/study")
) -> None:
    """Stop a study: end its Slurm jobs and the process that runs it; saved files are kept.

    example: clm-or-mlm cancel --dir /scratch/me/study

    Args:
        dir_: the study's folder
    """
    numbers = engine.cancel(dir_.resolve())  # of Slurm's jobs
    ended = f": {' '.join(numbers)}" if numbers else ""
    sys.stdout.write(f"{len(numbers)} jobs ended{ended}\n")


def doctor(
    *,
    study: Annotated[Path, Parameter(metavar="DIR")] = Path(),
    settings: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    profile: Profile = "local",
    image_file: Annotated[
        Path | None, Parameter(name="--image", metavar="FILE")
    ] = None,
) -> int:
    """Find problems with a machine or site before you submit jobs; exit code 1 if jobs would fail.

    examples:
      clm-or-mlm doctor --study /scratch/me/study
      clm-or-mlm doctor --study /scratch/me/study --settings mine.toml --profile slurm --image build/full.sif

    Args:
        study: folder of the planned study
        settings: the study's settings (TOML): what its start would refuse is listed too
        profile: with --settings, where jobs run
        image_file: with --settings, the image that jobs run in (default: this environment)
    """
    # Images that were built in this checkout are tried as well.
    images = tuple(image.path for image in IMAGES if image.path.is_file())
    start = Start(folder=study.resolve(), images=images)
    values = load_settings(settings)

    # Without settings only the machine is checked; a study that lists no models has no target `all`.
    has_models = settings is not None and bool(study_of(values).models)
    if has_models:
        # The doctor does not check how much text there is: that depends on the target, which only the dry run knows.
        # With `repeat_text` any number of tokens will do, so that check finds nothing.
        planned = replace(values, repeat_text=True)
        jobs = workflow_of("all", planned, _image(values, image_file))
        start = replace(start, settings=planned, workflow=jobs, profile=profile)

    text, code = report_lines(list(examine(start)))
    sys.stdout.write(text)
    return code
