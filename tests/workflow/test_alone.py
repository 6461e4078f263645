"""The Snakefile started by Snakemake itself, as workflow catalogues do."""

from __future__ import annotations

from pathlib import Path

import yaml

from common.provenance import ROOT
from tests.commands import python
from workflow.jobs import load

SNAKEMAKE = ("-m", "snakemake", "--snakefile", ROOT / "workflow/Snakefile")


def test_plain_snakemake_plans_the_tiny_study_and_runs_its_first_job(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    words = ("--cores", "1", "--config", f"dir={folder}", "--", "done/data/datasets.json")
    python(*SNAKEMAKE, *words, cwd=tmp_path, code=0)
    assert (folder / "data/sst2/manifest.json").is_file()
    assert {job.name for job in load(folder).of_kind("analysis")} == {"all"}


def test_a_mistake_is_named_and_nothing_is_planned(tmp_path: Path) -> None:
    words = ("-n", "--config", "target=figur3", f"dir={tmp_path / 'study'}")
    done = python(*SNAKEMAKE, *words, cwd=tmp_path)
    assert done.returncode != 0 and "did you mean 'figure3'" in done.stdout + done.stderr
    assert not (tmp_path / "study").exists()


def test_the_catalogue_is_shown_flags_that_the_snakefile_takes() -> None:
    found = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text("utf-8"))["usage"]
    words = found["mandatory-flags"]["flags"].removeprefix("--config ").split()
    assert {word.partition("=")[0] for word in words} == {"target", "settings", "dir"}
