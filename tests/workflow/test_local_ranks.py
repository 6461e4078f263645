"""Processes of one machine that find each other, and end together."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from common.errors import UserError
from workflow.local_ranks import main, run_ranks


def test_local_processes_meet_and_one_failure_ends_all(tmp_path: Path) -> None:
    meet = (
        "import os, torch.distributed as d, torch; d.init_process_group('gloo'); t = torch.ones(1);"
        "d.all_reduce(t); open(os.path.join('{0}', os.environ['RANK']), 'w').write(str(int(t)))"
    )
    assert run_ranks(2, [sys.executable, "-c", meet.format(tmp_path)]) == 0
    assert [(tmp_path / name).read_text() for name in ("0", "1")] == ["2", "2"]
    lost = "import os, time; os.environ['RANK'] == '1' and os._exit(9); time.sleep(60)"
    start = time.monotonic()
    assert run_ranks(2, [sys.executable, "-c", lost]) == 9
    assert time.monotonic() - start < 30


def test_the_number_of_processes_comes_first() -> None:
    with pytest.raises(UserError, match="takes a number of processes and the command to run"):
        main(["python", "2"])
