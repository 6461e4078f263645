"""What `status` says of any store: counts and exit code against a plain recount, for any grid, rates and dataset."""

import itertools
import json
import random
from pathlib import Path

import pytest

from benchmarks.own_datasets.definition_file import read_definitions
from benchmarks.own_datasets.definitions import known_datasets
from benchmarks.protocol import LEARNING_RATES, SEEDS
from benchmarks.runs import RunKey
from benchmarks.sweep.run_store import RunStore
from benchmarks.sweep.status import cell_status
from common.errors import UserError
from tests.benchmarks.sweep.stores import RUN_OF_UNER, run, status
from tests.commands import python
from tests.results import write_results
from tests.sealed import seal

STATES = ("done", "failed", "damaged", "missing")
"""What a run can be; a damaged one is missing."""
RATES = {"the paper's": LEARNING_RATES[2:4], "others": (3e-3, 7.5e-4, 1.1e-4)}
GRIDS = {
    "default": [],
    "one run": ["--lr", "1e-4", "--seed", "0"],
    "other rates": ["--lr", "3e-3", "7.5e-4"],
    "other seeds": ["--seed", "7", "8"],
    "spelled": ["--lr", "0.0001", "1e-4", "--seed", "0", "0"],
}


def put(store: Path, key: RunKey, state: str) -> None:
    folder = RunStore(store).folder(key)
    folder.mkdir(parents=True, exist_ok=True)
    if state in ("done", "damaged"):
        path = write_results(store, key, {"validation": [1.0, 0.0], "test": [1.0]})
        if state == "damaged":
            path.write_text(path.read_text()[:-9])
    elif state == "failed":
        seal(folder, {"status": "failed", "reason": "the loss is nan at step 2"}, {})


def define(folder: Path) -> Path:
    (folder / "my.toml").write_text(
        '[mine]\nkind = "text"\nlabels = ["a", "b"]\n[found]\nkind = "retrieval"\ntrained_on = "msmarco"\n'
    )
    return folder / "my.toml"


def asked_of(grid: list[str]) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Rates and seeds that words ask for."""
    parts: dict[str, list[str]] = {}
    for word in grid:
        if word.startswith("--"):
            last = parts.setdefault(word, [])
        else:
            last.append(word)
    lrs = dict.fromkeys(float(word) for word in parts.get("--lr", [])) or LEARNING_RATES
    return tuple(lrs), tuple(
        dict.fromkeys(int(word) for word in parts.get("--seed", []))
    ) or SEEDS


@pytest.mark.parametrize("dataset", ["sst2", "mine", "found"])
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("rates", RATES)
def test_counts_and_exit_code_are_a_plain_recount(
    dataset: str,
    grid: str,
    rates: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Stores with runs of every state at random, and with one state throughout."""
    file = define(tmp_path)
    known = known_datasets(read_definitions(file))[dataset]
    words = [
        "--out",
        str(tmp_path),
        "--datasets",
        str(file),
        "--dataset",
        dataset,
        *GRIDS[grid],
        "--json",
    ]
    draw = random.Random(f"{dataset} {grid} {rates}")
    lrs, seeds = asked_of(GRIDS[grid])
    asked = set(itertools.product(lrs, seeds))
    for kinds in (("done",), ("failed", "done"), STATES):
        store: dict[tuple[float, int], str] = {}
        for pair in sorted(
            {
                *itertools.product(RATES[rates], (0, 1, 7)),
                *(asked if kinds == STATES[:1] else ()),
            }
        ):
            if draw.random() < 0.8 or pair in asked:
                store[pair] = draw.choice(kinds)
        model = f"m{len(kinds)}"
        for (lr, seed), state in store.items():
            put(
                tmp_path,
                RunKey(model=model, dataset=dataset, lr=lr, seed=seed, task=known.task),
                state,
            )
        capsys.readouterr()
        code = status([*words, "--model", model])
        (cell,) = json.loads(capsys.readouterr().out)
        # An empty folder of a run that never wrote anything belongs to the cell when no grid is named.
        there = asked | (set(store) if not GRIDS[grid] else set())
        counted = {
            state: sum(store.get(pair) == state for pair in there) for state in STATES
        }
        assert (cell["runs"], cell["done"]) == (len(there), counted["done"]), kinds
        assert len(cell["failed"]) == counted["failed"]
        missing = len(there) - counted["done"] - counted["failed"]
        assert cell["missing"] == missing
        assert code == (4 if missing else 3 if counted["failed"] else 0)


def test_status_counts_what_was_asked_for_and_what_is_asked_now(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run([*arguments, *RUN_OF_UNER])
    for more, code, counts in (
        (
            [],
            0,
            (1, 1, 0),
        ),  # what was asked for: neither the paper's grid nor its other datasets
        (["--dataset", "uner_en", "--lr", "1e-4", "--seed", "0"], 4, (1, 0, 1)),
        (
            ["--dataset", "uner_en", "--lr", "1e-3", "--seed", "0", "1", "2"],
            4,
            (3, 1, 2),
        ),
    ):
        capsys.readouterr()
        assert status(["--out", str(tmp_path), *more, "--json"]) == code
        cell = json.loads(capsys.readouterr().out)[0]
        assert (cell["runs"], cell["done"], cell["missing"]) == counts
    with pytest.raises(UserError, match="did you mean 'tiny'"):
        status(["--out", str(tmp_path), "--model", "tini"])
    with pytest.raises(UserError, match="contains no runs"):
        status(["--out", str(tmp_path / "nowhere")])


@pytest.mark.parametrize(
    "note",
    [
        b"[[0.001, 1e400]]",
        b"[[1e400, 0]]",
        b"[" * 100_000,
        b"{}",
        b"[1]",
        b"[[[], 0]]",
        b"\xff",
    ],
)
def test_a_damaged_note_of_what_was_asked_for_asks_for_nothing(
    tmp_path: Path, note: bytes
) -> None:
    (tmp_path / "asked/m").mkdir(parents=True)
    (tmp_path / "asked/m/sst2.json").write_bytes(note)
    assert (
        cell_status(RunStore(tmp_path), "m", "sst2", [1e-3], [0], others=True).runs == 1
    )


def test_the_state_of_a_store_is_read_without_torch() -> None:
    code = "import sys, benchmarks.sweep.status; sys.exit(any(m in sys.modules for m in ('torch', 'transformers')))"
    python("-c", code, code=0)
