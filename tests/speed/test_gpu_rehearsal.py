"""The GPU path without a GPU: skipped where no stand-in of the CUDA driver is named, or it cannot be built."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.speed.gpu_rehearsal import Case, make_data, per_step, run_case

DRIVER = os.environ.get("CUDA_DRIVER", "")


def has_driver() -> bool:
    words = shlex.split(DRIVER.format(memory=8, ranks=1))
    asked = [*words, sys.executable, "-c", "import torch; torch.cuda.get_device_properties(0)"]
    try:
        return bool(words) and subprocess.run(asked, capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.slow
def test_a_tiny_model_trains_on_a_stand_in_of_the_driver(tmp_path: Path) -> None:
    if not has_driver():
        pytest.skip("CUDA_DRIVER names no stand-in of the CUDA driver that works here")
    data = make_data(tmp_path, documents=60)
    case = Case(size="tiny", memory=8, ranks=1, steps=20, sequences=40)
    (record,) = run_case(case, DRIVER, os.environ.get("CUDA_DRIVER_COUNTER", ""), data)
    assert record.error == "" and len(record.counts) == 20
    assert record.breaks == 0
    # The first steps' passes have what graphs differ by: one number of tokens, and any.
    assert 0 < record.graphs[9] == record.graphs[-1], record.graphs
    # Five of ours, and three numbers that Composer's clock reads.
    assert per_step([counts["synchronisations"] for counts in record.counts]) <= 8


@pytest.mark.slow
def test_fine_tuning_waits_for_the_gpu_every_25_steps_and_once_a_batch_of_its_evaluation() -> None:
    if not has_driver():
        pytest.skip("CUDA_DRIVER names no stand-in of the CUDA driver that works here")
    given = ["--size", "tiny", "--device", "cuda", "--steps", "30", "--trainer", "--counter"]
    command = [
        *shlex.split(DRIVER.format(memory=8, ranks=1)),
        *(sys.executable, "-m", "tests.speed.finetuning"),
        *(*given, os.environ.get("CUDA_DRIVER_COUNTER", "")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"a (step|1,000 rows)(?:, (\d+) batches)? .*synchronisations ([\d.]+)", done)
    assert len(rows) == 4, done
    for unit, batches, waits in rows:
        # The clock of the script waits, too, before and after.
        assert float(waits) <= (0.3 if unit == "step" else int(batches) + 4), done
