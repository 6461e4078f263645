import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from clm_or_mlm.__main__ import main
from common.processes import AGAIN
from pretraining.training import checkpoints
from pretraining.training.log import LOG, read_log
from pretraining.training.stage import StageTraining
from tests.commands import python, started
from tests.kills import tree
from tests.pretraining.small_study import MODEL, QUIET, STUDY, science

pytestmark = QUIET


@pytest.mark.slow
def test_two_processes_train_on_the_same_batches_and_masks(
    done: Path, data: Path, tmp_path: Path
) -> None:
    """Under torchrun with gloo; the losses agree to rounding, under the paper's weights; sums in bfloat16 come near."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    one, two, rounded = (
        _launched(
            [*torchrun, f"--nproc-per-node={ranks}"],
            data,
            tmp_path / f"{ranks}-{gradients}",
            gradients,
        )
        for ranks, gradients in ((1, "fp32"), (2, "fp32"), (2, "bf16"))
    )
    _agree(one, two, science(done / "models" / MODEL / "log.jsonl"))
    assert [row["loss"] for row in rounded] == pytest.approx(
        [row["loss"] for row in two], rel=1e-3
    )
    assert [row["loss"] for row in rounded] != [row["loss"] for row in two]
    saved = checkpoints.latest(tmp_path / "2-bf16/out/stages" / MODEL, 24)
    assert (
        saved is not None
        and checkpoints.load_state(saved)["science"]["gradients"] == "bf16"
    )


def _slurm_nodes() -> int:
    if not shutil.which("sinfo"):
        return 0
    found = subprocess.run(
        ["sinfo", "-h", "-N", "-t", "idle", "-o", "%N"], capture_output=True, text=True
    )
    return len(set(found.stdout.split()))


@pytest.mark.slow
@pytest.mark.slurm
@pytest.mark.skipif(
    _slurm_nodes() < 2, reason="no Slurm with two idle nodes answers here"
)
def test_two_nodes_train_on_the_same_batches_and_masks(
    done: Path, data: Path, tmp_path: Path
) -> None:
    """Under srun, without a launcher; the nodes must see one file system and each other's names."""
    nodes = ["srun", "--nodes=2", "--ntasks-per-node=1", "--time=10", sys.executable]
    logs = [
        _launched(words, data, tmp_path / str(len(words)))
        for words in ([sys.executable], nodes)
    ]
    _agree(logs[0], logs[1], science(done / "models" / MODEL / "log.jsonl"))


def _launched(
    launcher: list[str], data: Path, folder: Path, gradients: str = "fp32"
) -> list[dict[str, Any]]:
    """Train by a launcher of Python processes and return the log."""
    folder.mkdir()
    (folder / "s.toml").write_text(STUDY)
    command = [
        *launcher,
        "-m",
        "clm_or_mlm",
        "train",
        MODEL,
        "--data",
        str(data),
        "--out",
        str(folder / "out"),
    ]
    command += [
        "--study",
        str(folder / "s.toml"),
        "--set",
        "microbatch=2",
        "--set",
        f"gradients={gradients}",
    ]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert ended.returncode == 0, ended.stderr[-6000:]
    assert ended.stderr.count("mini-s-clm: step 0 to 9") == 1, (
        "the first process speaks for all"
    )
    return science(folder / "out" / "models" / MODEL / "log.jsonl")


def _agree(
    one: list[dict[str, Any]],
    two: list[dict[str, Any]],
    undisturbed: list[dict[str, Any]],
) -> None:
    for single, double, plain in zip(one, two, undisturbed, strict=True):
        assert single.get("batch") == double.get("batch") == plain.get("batch")
        assert (single["tokens"], single["predicted"]) == (
            double["tokens"],
            double["predicted"],
        )
        assert single["loss"] == pytest.approx(double["loss"], rel=1e-4)
        assert single["loss"] == pytest.approx(plain["loss"], rel=1e-4)


@pytest.mark.slow
def test_a_run_resumes_on_another_number_of_processes(
    done: Path, data: Path, tmp_path: Path
) -> None:
    """One process trains the trunk, three with other passes the rest: the same losses to rounding."""
    (tmp_path / "s.toml").write_text(STUDY)
    words = [
        "-m",
        "clm_or_mlm",
        "train",
        "--data",
        str(data),
        "--out",
        str(tmp_path / "out"),
        "--study",
        str(tmp_path / "s.toml"),
    ]
    python(*words, "mini-s-clm", code=0, OMP_NUM_THREADS="1")
    three = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3"]
    words += [MODEL, "--set", "microbatch=1"]
    python(*three, *words, code=0, OMP_NUM_THREADS="1")
    ours = science(tmp_path / "out" / "models" / MODEL / "log.jsonl")
    theirs = science(done / "models" / MODEL / "log.jsonl")
    for row, plain in zip(ours, theirs, strict=True):
        assert row.get("batch") == plain.get("batch")
        assert row["loss"] == pytest.approx(plain["loss"], rel=1e-4)


SHORT = "mini-s-clm-6-mlm40-12"


def _rank(
    rank: int, port: int, words: list[str], step: int, moment: str, sent: bool
) -> None:
    """Be one of two ranks, to which SIGTERM comes at a moment of a step; end with the command's exit code."""
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "NODE_RANK": "0",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    torch.set_num_threads(1)
    called = getattr(StageTraining, moment)

    def acting(self: StageTraining, *given: Any) -> Any:
        if sent and self.progress.step == step:
            signal.raise_signal(signal.SIGTERM)
        return called(self, *given)

    setattr(StageTraining, moment, acting)
    sys.exit(main(words))


def _two_ranks(
    out: Path,
    data: Path,
    step: int = -1,
    moment: str = "batch_end",
    sent: tuple[int, ...] = (),
) -> set[int]:
    """Train the short model on two ranks and return their exit codes."""
    out.mkdir(exist_ok=True)
    (out / "s.toml").write_text(STUDY)
    words = [
        "train",
        SHORT,
        "--data",
        str(data),
        "--study",
        str(out / "s.toml"),
        "--out",
        str(out),
    ]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [
        started(_rank, rank, port, words, step, moment, rank in sent) for rank in (0, 1)
    ]
    for process in ranks:
        process.join(300)
        process.kill()
    return {process.exitcode or 0 for process in ranks}


@pytest.fixture(scope="module")
def by_two(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("two")
    assert _two_ranks(out, data) == {0}
    return out


@pytest.mark.slow
@pytest.mark.parametrize("last", [6, 12])
@pytest.mark.parametrize(
    ("before", "moment", "sent"),
    [
        (1, "batch_start", (0,)),
        (1, "batch_start", (1,)),
        (1, "batch_start", (0, 1)),
        (0, "batch_checkpoint", (0,)),
        (0, "batch_checkpoint", (1,)),
    ],
)
def test_a_signal_to_either_rank_in_a_stages_last_step_ends_both(
    by_two: Path,
    data: Path,
    tmp_path: Path,
    last: int,
    before: int,
    moment: str,
    sent: tuple[int, ...],
) -> None:
    """Before the ranks' last sum of requests and after it: no stage begins, nothing is exported, and it resumes."""
    assert _two_ranks(tmp_path, data, last - before, moment, sent) == {AGAIN}
    assert not (tmp_path / "models").exists() and (
        tmp_path / f"stages/{SHORT}"
    ).exists() == (last == 12)
    assert _two_ranks(tmp_path, data) == {0}
    ours, theirs = (tree(folder / "models") for folder in (tmp_path, by_two))
    assert ours == theirs


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("step", [0, 6, 12])
def test_a_signal_in_a_validation_ends_both_ranks_after_a_pass(
    step: int, rank: int, by_two: Path, data: Path, tmp_path: Path
) -> None:
    """Before the first update and in a stage's last step: the row is missing, and made when it resumes."""
    assert _two_ranks(tmp_path, data, step, "_validate", (rank,)) == {AGAIN}
    stage = SHORT if step == 12 else "mini-s-clm"
    rows = read_log(tmp_path / "stages" / stage / LOG)
    assert not any(row["step"] == step and row["split"] == "validation" for row in rows)
    assert _two_ranks(tmp_path, data) == {0}
    assert tree(tmp_path / "models") == tree(by_two / "models")
