"""What Slurm is asked for a job: the same words in the check before a study as in the submission."""

from pathlib import Path

import pytest

from tests.commands import program
from workflow.jobs import KINDS, Job, Workflow, by_marker
from workflow.slurm_request import check_requests

BIG = Job(kind=KINDS["model"], name="m", nodes=2, gpus=4, cpus=16, memory_gb=100.0)
CLUSTER = Workflow(target="all", jobs=by_marker([BIG]), queues={"gpus": {"partition": "gpu"}})


def _cluster(folder: Path, monkeypatch: pytest.MonkeyPatch, refused: str, down: str) -> None:
    """A Slurm that refuses what holds a pattern, and lists the nodes that are down."""
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:/usr/bin:/bin")
    said = "sbatch: error: Requested node configuration is not available"
    program(folder / "bin/sbatch", f'case "$*" in {refused}) echo "{said}" >&2; exit 1;; esac')
    program(folder / "bin/sinfo", f"case \"$*\" in *-N*) printf '{down}';; esac")


SETTINGS = [
    ("*--gres=gpu:4*", "", "fail", "gpus_per_node, or gres"),
    ("*--nodes=2*", "", "fail", "correct nodes in"),
    ("*--mem*100000*", "", "fail", "memory_gb"),
    ("*--cpus-per-task=16*", "", "fail", "cpus"),
    ('*"-p gpu"*', "", "fail", "partition of [jobs.gpus]"),
    ("*--cpus-per-task=16*|*--gres=gpu:4*", "", "fail", "correct gpus_per_node in"),
    ("*", "", "fail", "[jobs.gpus], nodes and cpus"),
    # Nodes that are down are a warning, unless another setting is wrong.
    ("*--nodes=2*", "n1", "warn", "while n1 are down"),
    ("*", "n1", "warn", "while n1 are down"),
    ("*--mem*", "n1", "fail", "memory_gb"),
    ("none", "", "ok", "-p gpu -t 30"),
]


@pytest.mark.parametrize(("refused", "down", "status", "said"), SETTINGS)
def test_the_setting_that_is_wrong_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str, down: str, status: str, said: str
) -> None:
    _cluster(tmp_path, monkeypatch, refused, down)
    (line,) = check_requests(CLUSTER)
    assert line.status == status and said in line.sentence and "\n" not in line.sentence
