"""Two processes of a job meet with an accident; the same command then gives the bytes of an undisturbed run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pretraining.training import checkpoints
from tests.pretraining.small_study import MODEL, QUIET, STUDY, same_run

pytestmark = [QUIET, pytest.mark.slow]

SAVED = ("model.safetensors", "optimizer.safetensors", "state.json")

ACCIDENT = """
import os
from pathlib import Path
from composer.core import Callback

class Accident(Callback):
    '''Signals a rank at an update, once; 0 and 1 are the ranks, 2 is everybody, the launcher included.'''
    def after_train_batch(self, state, logger):
        who, number, marker = os.environ["ACCIDENT"].split(",")
        rank = int(os.environ["RANK"])
        if int(state.timestamp.batch) == 12 and who in (str(rank), "2") and not Path(marker + str(rank)).exists():
            Path(marker + str(rank)).touch()
            if who == "2" and rank == 0:
                os.kill(os.getppid(), int(number))
            os.kill(os.getpid(), int(number))
"""


def job(
    data: Path, out: Path, *settings: str, ranks: int = 2, accident: str = "3,9,"
) -> subprocess.CompletedProcess[str]:
    """Train the model by torchrun to its end; `out` may hold an earlier call's work."""
    out.mkdir(exist_ok=True)
    (out / "s.toml").write_text(STUDY)
    (out / "accident.py").write_text(ACCIDENT)
    words = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={ranks}",
    ]
    words += [
        "-m",
        "clm_or_mlm",
        "train",
        MODEL,
        "--data",
        str(data),
        "--out",
        str(out),
    ]
    words += [
        "--study",
        str(out / "s.toml"),
        *(word for item in settings for word in ("--set", item)),
    ]
    environ = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "ACCIDENT": accident + str(out / "happened"),
    }
    environ["PYTHONPATH"] = f"{out}:{environ.get('PYTHONPATH', Path.cwd())}"
    return subprocess.run(
        words, capture_output=True, text=True, env=environ, timeout=240
    )


@pytest.fixture(scope="module")
def undisturbed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of two processes, which saved where stages end alone."""
    out = tmp_path_factory.mktemp("undisturbed")
    ended = job(data, out, "save_every=1000", "save_minutes=0")
    assert ended.returncode == 0, ended.stderr[-3000:]
    return out


@pytest.mark.parametrize(
    ("accident", "settings", "said"),
    [
        (
            "1,9,",
            (),
            ["another process of this job has ended", "the same command resumes"],
        ),
        ("0,9,", (), []),
        ("2,15,", (), ["stopped and saved at step 1"]),
        (
            "1,19,",
            ("timeout_minutes=0.1",),
            ["rank 1 of 2 has stopped there", "step 12", "exit code 75"],
        ),
    ],
    ids=[
        "one rank killed",
        "the first rank killed",
        "all asked to stop",
        "one rank hangs",
    ],
)
def test_the_bytes_are_those_of_an_undisturbed_run(
    accident: str,
    settings: tuple[str, ...],
    said: list[str],
    undisturbed: Path,
    data: Path,
    tmp_path: Path,
) -> None:
    """Checkpoints are due after every step by the clock; so one step, and the one being written, are repeated."""
    often = (
        "save_every=1000",
        "save_minutes=0.00001",
        "callbacks=accident:Accident",
        *settings,
    )
    ended = job(data, tmp_path, *often, accident=accident)
    assert ended.returncode != 0
    assert all(words in ended.stderr for words in said), ended.stderr[-5000:]
    assert ended.stderr.count("has stopped there") <= 1
    saved = checkpoints.latest(tmp_path / "stages/mini-s-clm-9-mlm40", 24)
    assert saved is not None and saved.step >= 11
    again = job(data, tmp_path, *often, accident=accident)
    assert again.returncode == 0, again.stderr[-3000:]
    same_run(tmp_path, undisturbed, files=SAVED)


def test_sharded_optimizer_gives_the_same_bytes(
    undisturbed: Path, data: Path, tmp_path: Path
) -> None:
    """Without interruption and after a kill; one process can resume what two have saved, to float32's rounding."""
    assert job(data, tmp_path / "a", "shard_optimizer=true").returncode == 0
    same_run(tmp_path / "a", undisturbed, files=SAVED)
    often = (
        "save_minutes=0.00001",
        "shard_optimizer=true",
        "callbacks=accident:Accident",
    )
    assert job(data, tmp_path / "b", *often, accident="1,9,").returncode
    assert job(data, tmp_path / "b", *often).returncode == 0
    same_run(tmp_path / "b", undisturbed, files=SAVED)
    assert job(data, tmp_path / "c", *often, accident="1,9,").returncode
    assert job(data, tmp_path / "c", *often, ranks=1).returncode == 0
    last = Path("stages", MODEL, "step-00000024")
    for file in ("model.safetensors", "optimizer.safetensors"):
        ours, theirs = (
            load_file(folder / last / file) for folder in (tmp_path / "c", undisturbed)
        )
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)
