"""Site profiles on a Slurm of one's own: what submitted jobs were asked for, by kind, and what is refused at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.errors import UserError
from common.provenance import ROOT
from container.site import Site
from tests.workflow.stand_ins.slurm import PrivateSlurm, private_slurm, why_not
from workflow.settings import load_settings
from workflow.slurm.site_check import refuse_what_slurm_refuses
from workflow.study import workflow_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.slurm,
    pytest.mark.timeout(600),
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

SITE = """
modules = []
[settings]
gpus_per_node = 2
cpus = 1
memory_gb = 1.0
limit_hours = 2.0
[environment]
OF_THE_SITE = "$SLURM_JOB_ID"
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

# Three jobs, one of each kind to a site, that write what they see.
STUDY = """
import sys
from pathlib import Path
from workflow.engine import run_workflow
from workflow.jobs import KINDS, Job, Workflow, by_marker
from workflow.settings import load_settings
from workflow.study import workflow_of

settings = load_settings(Path(sys.argv[1]))
site = workflow_of("610m-clm-42k", settings)
jobs = []
for kind, name, gpus in (("shards", "cpu", 0), ("model", "gpu", 1), ("stage", "gpus", 2)):
    command = ("analysis", "table", "2", "--out", name)
    needs = tuple(job.marker for job in jobs) if kind == "model" else ()
    jobs.append(Job(kind=KINDS[kind], name=name, commands=(command,), makes=(f"{name}/table02.md",), gpus=gpus,
                    memory_gb=1.0, needs=needs, lost=0))
jobs.sort(key=lambda job: job.kind.name == "model")
jobs[-1] = Job(kind=KINDS["model"], name="gpu", commands=jobs[-1].commands, makes=("gpu/table02.md",), gpus=1,
               needs=tuple(job.marker for job in jobs[:-1]), memory_gb=1.0)
workflow = Workflow(target="x", jobs=by_marker(jobs), queues=site.queues, gres=site.gres, environ=site.environ)
often = ("--slurm-init-seconds-before-status-checks", "3", "--seconds-between-status-checks", "3")
sys.exit(not run_workflow(workflow, Path(sys.argv[2]), profile="slurm", words=often))
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateSlurm]:
    with private_slurm(tmp_path_factory.mktemp("slurm") / "cluster") as made:
        yield made


def _settings(folder: Path, more: str = "") -> Path:
    (folder / "site.toml").write_text(SITE + more)
    (folder / "w.toml").write_text('site = "site.toml"\n')
    return folder / "w.toml"


def test_what_each_kind_of_jobs_asks_for_is_what_slurm_has(slurm: PrivateSlurm, tmp_path: Path) -> None:
    settings = _settings(tmp_path)
    command = [sys.executable, "-c", STUDY, str(settings), str(tmp_path / "study")]
    environ = slurm.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    jobs = {
        row["Comment"].split("_wildcards_")[1]: row for row in slurm.jobs() if "_wildcards_" in row["Comment"]
    }
    found = {
        name: tuple(row[key] for key in ("Partition", "Account", "QOS", "Features", "Nice"))
        for name, row in jobs.items()
    }
    assert found == {
        "cpu": ("cpu", "abc@cpu", "normal", "(null)", "7"),
        "gpu": ("gpu", "abc@h100", "short", "h100", "0"),
        "gpus": ("gpu", "abc@h100", "long", "h100", "9"),
    }
    assert [jobs[name].get("TresPerNode") for name in ("cpu", "gpu", "gpus")] == [
        None,
        "gres:gpu:1",
        "gres:gpu:2",
    ]
    assert {name: row["TimeLimit"] for name, row in jobs.items()} == dict.fromkeys(jobs, "00:30:00")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('[jobs.cpu]\npartition = "gppu"', "Invalid partition name specified"),
        ('[jobs.gpus]\nconstraint = "a100"', "Invalid feature specification"),
        ('[jobs.gpus]\nqos = "dev"', "Invalid qos specification"),
        ('[jobs.cpu]\naccount = "other"', "Invalid account or account/partition combination"),
        ('[jobs.cpu]\nslurm_extra = "--exclusiv3"', "unrecognized option '--exclusiv3'"),
        (
            '[jobs.cpu]\nslurm_extra = "--qos=long"',
            "slurm_extra '--qos=long': The --quality-of-service option",
        ),
        ('gres = "gpu:h200"', "Requested node configuration is not available"),
        ("[settings]\ngpus_per_node = 3", "Requested node configuration is not available"),
        ("[jobs.gpus]\nhours = 30.0", "the partition gpu takes no jobs longer than 10:00:00"),
    ],
)
def test_what_slurm_would_refuse_is_refused_at_once(
    slurm: PrivateSlurm, tmp_path: Path, more: str, message: str
) -> None:
    (tmp_path / "base.toml").write_text(SITE)
    (tmp_path / "site.toml").write_text(f'base = "base.toml"\n{more}\n')
    (tmp_path / "w.toml").write_text('site = "site.toml"\n')
    settings = load_settings(tmp_path / "w.toml")
    workflow = workflow_of("610m-clm-42k", settings)
    site = Site(environ=slurm.environ)
    with pytest.raises(UserError, match=message):
        refuse_what_slurm_refuses(workflow, site)


def test_a_profile_that_fits_is_taken(slurm: PrivateSlurm, tmp_path: Path) -> None:
    workflow = workflow_of("610m-clm-42k", load_settings(_settings(tmp_path)))
    refuse_what_slurm_refuses(workflow, Site(environ=slurm.environ))
