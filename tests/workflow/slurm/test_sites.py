"""On a Slurm of one's own: every site's file, and what Slurm would refuse is refused at once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from container.check_lines import CheckLine
from container.machine import Machine
from tests.commands import program
from tests.workflow.stand_ins.slurm import (
    NEEDS_ACCOUNTING,
    NEEDS_SLURM,
    PrivateSlurm,
    private_slurm,
)
from tests.workflow.stand_ins.study import ONCE, Study
from tests.workflow.test_study_settings import example_site
from workflow.slurm_checks import slurm as slurm_check
from workflow.start import Start
from workflow.study import workflow_of
from workflow.study_settings import load_settings

pytestmark = [*NEEDS_SLURM, NEEDS_ACCOUNTING]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateSlurm]:
    with private_slurm(tmp_path_factory.mktemp("slurm") / "cluster") as made:
        yield made


SITES = {
    "": {"cpu": "main", "gpu": "main", "gpus": "main"},
    'gres = "gpu:h100"\n[jobs]\nslurm_extra = "--exclusive"\n': {
        "cpu": "main exclusive",
        "gpu": "main exclusive",
        "gpus": "main exclusive",
    },
    example_site(): {
        "cpu": "cpu_p1 abc@cpu",
        "gpu": "main abc@h100",
        "gpus": "main abc@h100 h100 long",
    },
}
"""What a site's file asks for, by kind of job: partition, then account, feature, quality and whole nodes."""


@pytest.mark.parametrize("site", SITES, ids=["plain", "whole-node", "page"])
def test_the_study_at_each_site(slurm: PrivateSlurm, tmp_path: Path, site: str) -> None:
    """What differs from the site: jobs are small, folders are here, and `module` only writes down what is loaded."""
    account = "abc" if "abc" in site else "abc@h100"
    (tmp_path / "site.toml").write_text(site)
    settings = tmp_path / "w.toml"
    settings.write_text(
        f'site = "site.toml"\naccount = "{account}"\ngpus_per_node = 2\ntuning_gpus = 2\ncpus = 1\n'
        'memory_gb = 0.5\n[environment]\nCLM_OR_MLM_SCRATCH = "$STAND_IN_SCRATCH"\nTMPDIR = "/tmp"\n'
    )
    study = Study(slurm, tmp_path / "study", settings=str(settings))
    program(study.folder / "bin" / "module", f'echo "$@" >> {tmp_path}/modules')
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    study.environ |= dict.fromkeys(
        ("STAND_IN_SCRATCH", "SCRATCH", "WORK", "JOBSCRATCH"), str(scratch)
    )
    study.submit()
    study.finish()
    assert study.submitted() == ONCE
    assert study.repeated() == (0, 0)
    rows = {row["Comment"]: row for row in slurm.jobs()[study.before :]}
    for marker, kind in (
        ("done/shards/shards.json", "cpu"),
        ("done/stage/s.json", "gpu"),
        ("done/cell/a.json", "gpus"),
    ):
        row = rows[marker]
        found = [row["Partition"], row["Account"], row["Features"], row["QOS"]]
        found += ["exclusive"] if row["OverSubscribe"] == "NO" else []
        partition, *more = SITES[site][kind].split()
        assert row["Partition"] == partition
        assert set(more) - {"exclusive"} <= set(found) and ("exclusive" in more) == (
            "exclusive" in found
        ), row
        gpus = {"cpu": "", "gpu": "1", "gpus": "2"}[kind]
        gres = "gres:gpu:h100" if "gpu:h100" in site else "gres:gpu"
        assert row.get("TresPerNode", "") == (f"{gres}:{gpus}" if gpus else "")
    modules = tmp_path / "modules"
    loaded = set(modules.read_text().splitlines()) if modules.is_file() else set()
    expected = {"load arch/h100 singularity"} if "modules" in site else set()
    assert loaded == expected


SITE = """
modules = []
gpus_per_node = 2
cpus = 1
memory_gb = 1.0
limit_hours = 2.0
[environment]
OMP_PLACES = "$SLURM_JOB_ID"
[jobs.cpu]
partition = "cpu"
account = "abc@cpu"
slurm_extra = "--nice=7"
[jobs.gpu]
partition = "gpu"
account = "abc@h100"
qos = "short"
constraint = "h100"
hours = 1.0
[jobs.gpus]
partition = "gpu"
account = "abc@h100"
qos = "long"
constraint = "h100"
slurm_extra = "--exclusive --nice=9"
"""


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("", ""),
        ('[jobs.cpu]\npartition = "gppu"', "Invalid partition name specified"),
        ('[jobs.gpus]\nconstraint = "a100"', "Invalid feature specification"),
        ('[jobs.gpus]\nqos = "dev"', "Invalid qos specification"),
        (
            '[jobs.cpu]\naccount = "other"',
            "Invalid account or account/partition combination",
        ),
        ('gres = "gpu:h200"', "Requested node configuration is not available"),
        ("gpus_per_node = 3", "Requested node configuration is not available"),
        (
            "[jobs.gpus]\nhours = 30.0",
            "partition gpu allows no jobs longer than 10:00:00",
        ),
    ],
)
def test_what_slurm_would_refuse_is_refused_at_once(
    slurm: PrivateSlurm, tmp_path: Path, more: str, message: str
) -> None:
    lines = _checked(slurm, tmp_path, more)
    assert lines.keys() == {"cpu jobs", "gpu jobs", "gpus jobs"}
    failed = [line.sentence for line in lines.values() if line.status != "ok"]
    assert (not message and not failed) or any(
        message in sentence for sentence in failed
    ), failed


@pytest.mark.parametrize(
    ("limit", "most", "said"),
    [
        ("MaxTRESPerJob", "node=1,cpu=1", "2 is more than MaxTRES cpu=1"),
        ("MaxTRESMinsPerJob", "cpu=7", "is more than MaxTRESMins cpu=7"),
        ("GrpTRESMins", "cpu=9", "is more than GrpTRESMins cpu=9"),
        ("MaxWall", "5", "is more than MaxWall 00:05:00"),
    ],
)
def test_limits_of_a_quality_of_service_are_read(
    slurm: PrivateSlurm, tmp_path: Path, limit: str, most: str, said: str
) -> None:
    words = ("sacctmgr", "-i", "modify", "qos", "long", "set")
    slurm.output(*words, f"{limit}={most}")
    try:
        lines = _checked(slurm, tmp_path, "")
    finally:
        nothing = ",".join(f"{one.partition('=')[0]}=-1" for one in most.split(","))
        slurm.output(*words, f"{limit}={nothing if '=' in most else -1}")
    found = {what: line for what, line in lines.items() if line.status != "ok"}
    assert found.keys() == {"gpus jobs"} and said in found["gpus jobs"].sentence


def _checked(slurm: PrivateSlurm, folder: Path, more: str) -> dict[str, CheckLine]:
    """Return what Slurm says of a study at the site with some lines more."""
    (folder / "site.toml").write_text(SITE)
    (folder / "w.toml").write_text(f'site = "site.toml"\n{more}\n')
    settings = load_settings(folder / "w.toml")
    start = Start(
        folder=folder,
        workflow=workflow_of("610m-clm-42k", settings),
        profile="slurm",
        machine=Machine(environ=slurm.environ),
    )
    return {line.what: line for line in slurm_check(start)}
